//! `conceptwatch ls`: lists runs.

use std::fmt::Write;

use clap::Args;
use prost_types::Timestamp;
use serde_json::{Value, json};

use leakage::field_error::printable;

use super::failure::Failure;
use super::source::Source;
use super::terminal::tell;

/// List runs
///
/// The newest first: those of the sidecar at 127.0.0.1:7801, and all whose curves are kept below the user's data directory.
#[derive(Args)]
pub struct Options {
    /// Words of names, titles and labels, and conditions on labels such as 'lambda<1' or seed=0; a run must match all of them.
    search: Vec<String>,
    /// Maximum number of runs to list.
    #[arg(long, short = 'n', default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Print one JSON object, with the number of all runs that match.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: Source,
}

pub fn run(options: &Options) -> Result<String, Failure> {
    let asked = [("search", options.search.join(" ")), ("limit", options.limit.to_string())];
    let (mut runs, mut total, mut targets) = (Vec::new(), 0, 0);
    let unread = options.source.each_target(|target| {
        let mut answer = target.ask("/api/v1/runs", &asked)?.expect_ok()?;
        total += answer["total"].as_u64().unwrap_or_default();
        targets += 1;
        for mut run in answer["runs"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            run["source"] = target.name().into();
            runs.push(run);
        }
        Ok(())
    })?;
    if let (true, Some(why)) = (targets == 0, unread.first()) {
        return Err(Failure::running(why));
    }
    for why in unread {
        tell(&format!("conceptwatch ls: {why}"));
    }
    let started = |run: &Value| run["started"].as_f64().unwrap_or_default();
    runs.sort_by(|a, b| started(b).total_cmp(&started(a)));
    runs.truncate(options.limit as usize);
    match options.json {
        true => Ok(format!("{}\n", json!({"runs": runs, "total": total}))),
        false => Ok(table(&runs, total, targets > 1)),
    }
}

/// Columns are at most this wide; a longer cell moves those behind it in its own row alone.
const WIDEST: usize = 48;

const HEAD: [&str; 6] = ["RUN", "STARTED (UTC)", "STATE", "EVALUATIONS", "STEP", "LABELS"];

fn table(runs: &[Value], total: u64, several: bool) -> String {
    if runs.is_empty() {
        return "no runs\n".to_owned();
    }
    let mut rows = vec![HEAD.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().map(row));
    if several {
        rows[0].push("SOURCE".to_owned());
        for (row, run) in rows[1..].iter_mut().zip(runs) {
            row.push(text(&run["source"]));
        }
    }
    let width =
        |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().min(WIDEST);
    let widths: Vec<usize> = (0..rows[0].len()).map(width).collect();
    let mut lines = String::new();
    for (at, row) in rows.iter().enumerate() {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            // Writing to a string does not fail.
            let _ = write!(line, "{cell:width$}  ");
        }
        let _ = writeln!(lines, "{}", line.trim_end());
        if at > 0 {
            lines += &remark(&runs[at - 1]);
        }
    }
    if total > runs.len() as u64 {
        let _ = writeln!(lines, "{} of {total} runs; --limit lists more", runs.len());
    }
    lines
}

fn row(run: &Value) -> Vec<String> {
    let splits = run["splits"].as_array().map(Vec::as_slice).unwrap_or_default();
    let points: u64 = splits.iter().filter_map(|split| split["points"].as_u64()).sum();
    let step = splits.iter().filter_map(|split| split["last_step"].as_u64()).max();
    let labels = run["labels"].as_object().into_iter().flatten();
    let labels: Vec<String> = labels.map(|(key, value)| format!("{}={}", printable(key), text(value))).collect();
    vec![
        text(&run["name"]),
        minute(run["started"].as_f64().unwrap_or_default()),
        text(&run["state"]).replace('_', " "),
        points.to_string(),
        step.map(|step| step.to_string()).unwrap_or_default(),
        labels.join(", "),
    ]
}

/// Lines with the reason of its state, the title and the note of a run.
fn remark(run: &Value) -> String {
    let line = |field: &str| Some(format!("  {field}: {}\n", printable(run[field].as_str()?)));
    ["reason", "title", "note"].into_iter().filter_map(line).collect()
}

fn text(value: &Value) -> String {
    printable(value.as_str().unwrap_or_default())
}

/// A time in seconds since 1970-01-01 UTC, to the minute.
fn minute(seconds: f64) -> String {
    let second = Timestamp { seconds: seconds.floor() as i64, nanos: 0 }.to_string();
    // 2026-11-23T11:39:59Z
    second.replacen('T', " ", 1).chars().take(16).collect()
}
