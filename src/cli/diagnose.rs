//! `conceptwatch diagnose`: finds problems of a run from its scores.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Args;

use crate::diagnosis::{Diagnosis, State};
use crate::question::diagnosis_of;

use super::failure::{Failure, conclude};
use super::source::Source;

/// Find out what is wrong with a run
///
/// Prints each finding with its numbers, their limits and the section of the paper, then what was checked without a finding
/// and how large an effect would have been seen.
/// Reads the newest finished evaluation from a running sidecar, or from the curves that a stopped one has kept.
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
    #[command(flatten)]
    source: Source,
}

pub fn run(options: &Options) -> ExitCode {
    conclude("diagnose", diagnose(options))
}

fn diagnose(options: &Options) -> Result<String, Failure> {
    let asked = [("run", options.run.clone()), ("split", options.split.clone())];
    let local = |history: &_| diagnosis_of(history, &options.run, &options.split, |_| true);
    let diagnosis: Diagnosis = options.source.answer("/api/v1/diagnosis", &asked, local)?;
    Ok(if options.json { format!("{}\n", serde_json::json!(diagnosis)) } else { table(&diagnosis) })
}

fn table(diagnosis: &Diagnosis) -> String {
    // Writing to a string does not fail.
    let Diagnosis { run, split, step, rows, .. } = diagnosis;
    let mut text = format!("{run}, {split}, step {step}, {rows} rows\n");
    let with = |state: State| diagnosis.lines.iter().filter(move |line| line.state == state);
    for line in with(State::Found) {
        let _ = writeln!(text, "\n{}  ({})\n  {}", line.title, line.source, line.text);
        for evidence in &line.evidence {
            let _ = writeln!(text, "  {evidence}");
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
