//! `conceptwatch diagnose`: finds problems of a run from its scores.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;

use leakage::diagnosis::{Assessment, State};

use super::failure::Failure;
use super::report::{Page, Report};
use super::source::Source;

/// Find out what is wrong with a run
///
/// Prints the verdict, what to do and each finding with its numbers and limits, then what was checked without a finding
/// and how large an effect would have been seen.
#[derive(Args)]
pub struct Options {
    /// The run.
    run: String,
    /// Split whose evaluations to read.
    #[arg(long, default_value = "val")]
    split: String,
    /// Print one JSON object, which also has the numbers behind checks without a finding.
    #[arg(long)]
    json: bool,
    /// Also write a report with curves to this file: one HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
}

pub fn run(options: &Options) -> Result<String, Failure> {
    // Before the work, so that a place that cannot be written is known at once.
    let page = options.html.as_deref().map(Page::create).transpose().map_err(Failure::bad_input)?;
    let asked = [("run", options.run.clone()), ("split", options.split.clone())];
    let found: Assessment = options.source.answer("/api/v1/verdict", &asked)?;
    if let Some(page) = page {
        let source = &options.source;
        let report = source.with_run(&options.run, |target, run| Report::of_run(target, run, &options.split))?;
        page.write(&report.html(&table(&found))).map_err(Failure::running)?;
    }
    Ok(if options.json { format!("{}\n", serde_json::json!(found)) } else { table(&found) })
}

fn table(found: &Assessment) -> String {
    // Writing to a string does not fail.
    let Assessment { run, split, step, rows, incomplete, verdict, actions, .. } = found;
    let mut text = format!(
        "{run}, {split}, step {step}, {rows} rows{}, ± 95 %\n{verdict}\n",
        if *incomplete { ", incomplete" } else { "" }
    );
    if !actions.is_empty() {
        text.push_str("\nwhat to do:\n");
    }
    for action in actions {
        let _ = writeln!(text, "  {action}");
    }
    let with = |state: State| found.coverage.iter().filter(move |line| line.state == state);
    for line in with(State::Found) {
        let _ = writeln!(text, "\n{}  ({})\n  {}", line.title, line.source, line.text);
        for evidence in &line.evidence {
            let of = if evidence.step == *step { String::new() } else { format!(", of step {}", evidence.step) };
            let _ = writeln!(text, "  {evidence}{of}");
        }
    }
    if with(State::Found).next().is_none() {
        let _ = writeln!(text, "\nno finding; what was checked, and what would have been seen:");
    }
    text.push('\n');
    for line in with(State::Absent) {
        let _ = writeln!(text, "checked: {}: {}", line.subject, line.text);
    }
    for line in with(State::Unknown) {
        let _ = writeln!(text, "unknown: {}: {}", line.subject, line.text);
    }
    text
}
