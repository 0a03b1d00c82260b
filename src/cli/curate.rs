//! `conceptwatch rename`, `note` and `rm`: what people say about runs, and removing them. Through the sidecar that holds the
//! history, where one runs.

use std::io::{BufRead, IsTerminal};

use axum::http::Method;
use clap::Args;
use serde_json::{Value, json};

use crate::history::HistoryError;
use leakage::field_error::printable;

use super::failure::Failure;
use super::source::Source;
use super::terminal::{print, tell, tell_part};

const PATH: &str = "/api/v1/run";

/// Give a run another title
///
/// The title is shown in place of the run's name, which commands, jobs and metrics still use.
#[derive(Args)]
pub struct RenameOptions {
    /// The run's name.
    run: String,
    /// The title, 1 to 200 characters; an empty text restores the name.
    title: String,
    #[command(flatten)]
    source: Source,
}

/// Write a note to a run, or print it
#[derive(Args)]
pub struct NoteOptions {
    /// The run's name.
    run: String,
    /// The note, at most 10,000 characters; an empty text removes it. Without TEXT, the note is printed.
    text: Option<String>,
    #[command(flatten)]
    source: Source,
}

/// Remove runs with their curves
///
/// Asks first, and exits with status 1 if a run was kept. An open run, whose job has not finished, is refused. If one run
/// cannot be removed, none is.
#[derive(Args)]
pub struct RemoveOptions {
    /// The runs' names.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<String>,
    /// Remove without asking for confirmation.
    #[arg(long, short)]
    yes: bool,
    #[command(flatten)]
    source: Source,
}

pub fn rename(options: &RenameOptions) -> Result<String, Failure> {
    let (run, title) = (printable(&options.run), options.title.trim());
    let said =
        if title.is_empty() { format!("{run} has its name as title") } else { format!("{run}: {}", printable(title)) };
    change(&options.source, &options.run, &json!({"title": title}), said)
}

pub fn note(options: &NoteOptions) -> Result<String, Failure> {
    match &options.text {
        Some(text) => {
            let said = if text.trim().is_empty() { "removed the note of" } else { "noted to" };
            let said = format!("{said} {}", printable(&options.run));
            change(&options.source, &options.run, &json!({"note": text}), said)
        }
        None => options.source.with_run(&options.run, |_, run| {
            let note = run["note"].as_str().unwrap_or_default();
            // Lines stay lines; what could move a cursor does not.
            Ok(note.lines().map(|line| format!("{}\n", printable(line))).collect())
        }),
    }
}

/// Makes a change, and says so.
fn change(source: &Source, run: &str, change: &Value, said: String) -> Result<String, Failure> {
    source.with_run(run, |target, _| {
        target.request(Method::PATCH, PATH, &[("run", run.to_owned())], Some(change))?.expect_ok()?;
        Ok(format!("{said}\n"))
    })
}

/// Whether all runs were removed. Runs that cannot be are reported, one per line, before any is removed.
pub fn remove(options: &RemoveOptions) -> Result<bool, Failure> {
    let mut questions: Vec<(&str, String)> = Vec::new();
    let mut refused: Option<Failure> = None;
    for run in &options.runs {
        match question(options, run) {
            // A run that is named twice is removed once.
            Ok(_) if questions.iter().any(|(known, _)| known == run) => {}
            Ok(question) => questions.push((run, question)),
            Err(failure) => match refused.as_mut() {
                None => refused = Some(failure),
                Some(refused) => refused.add("rm", &failure),
            },
        }
    }
    if let Some(refused) = refused {
        return Err(refused);
    }
    let mut left = questions.into_iter();
    let mut all = true;
    while let Some((run, question)) = left.next() {
        match if options.yes { Answer::Yes } else { asked(&question)? } {
            Answer::Yes => remove_one(options, run)?,
            Answer::No => {
                tell(&format!("kept {}", printable(run)));
                all = false;
            }
            Answer::NoMore => {
                tell("");
                for run in std::iter::once(run).chain(left.map(|(run, _)| run)) {
                    tell(&format!("kept {}", printable(run)));
                }
                return Ok(false);
            }
        }
    }
    Ok(all)
}

/// Returns the question to ask before a run is removed. Errors when it cannot be.
fn question(options: &RemoveOptions, run: &str) -> Result<String, Failure> {
    // Nothing is held open while a person thinks.
    options.source.with_run(run, |target, found| {
        if found["open"] == true {
            return Err(Failure::bad_input(HistoryError::Open { run: run.to_owned() }));
        }
        let splits = found["splits"].as_array().map(Vec::as_slice).unwrap_or_default();
        let points: u64 = splits.iter().filter_map(|split| split["points"].as_u64()).sum();
        let evaluations = if points == 1 { "1 evaluation".to_owned() } else { format!("{points} evaluations") };
        Ok(format!("remove run '{}' with {evaluations} from {}?", printable(run), target.name()))
    })
}

fn remove_one(options: &RemoveOptions, run: &str) -> Result<(), Failure> {
    options.source.with_run(run, |target, _| {
        target.request(Method::DELETE, PATH, &[("run", run.to_owned())], None)?.expect_ok()?;
        print(&format!("removed {}\n", printable(run)));
        Ok(())
    })
}

enum Answer {
    Yes,
    No,
    /// The input has ended.
    NoMore,
}

fn asked(question: &str) -> Result<Answer, Failure> {
    let input = std::io::stdin();
    if !input.is_terminal() {
        return Err(Failure::bad_input("there is no terminal to ask on: add --yes"));
    }
    tell_part(&format!("{question} [y/N] "));
    let mut line = Vec::new();
    // Bytes: input that is not UTF-8 counts as no.
    if input.lock().read_until(b'\n', &mut line)? == 0 {
        return Ok(Answer::NoMore);
    }
    let answer = String::from_utf8_lossy(&line).trim().to_lowercase();
    Ok(if matches!(answer.as_str(), "y" | "yes") { Answer::Yes } else { Answer::No })
}
