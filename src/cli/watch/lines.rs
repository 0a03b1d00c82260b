//! A line for each evaluation, change of a verdict and alert, where the output is not a terminal.

use std::collections::HashMap;
use std::pin::pin;

use tokio_stream::{Stream, StreamExt};

use crate::server::client::{Client, ClientError};
use crate::server::proto;
use crate::server::proto::watch_response::Event;
use leakage::diagnosis::Verdict;

use super::super::terminal::{has_gone, written};
use super::wanted::Wanted;

/// Prints lines until the sidecar stops or nobody reads.
pub async fn follow(wanted: &Wanted, reader: &mut Client, heard: impl Stream<Item = Event>) -> Result<(), ClientError> {
    let mut heard = pin!(heard);
    let mut verdicts = HashMap::new();
    for (run, ..) in wanted.known(reader).await? {
        if let Ok(Some(verdict)) = reader.verdict(&run, &wanted.split).await {
            verdicts.insert(run, verdict_text(&verdict));
        }
    }
    while let Some(heard) = heard.next().await {
        let mut text = line_of(wanted, &heard).map_or_else(String::new, |line| format!("{line}\n"));
        let run = match &heard {
            Event::Point(point) => Some(&point.run),
            Event::Alert(change) => Some(&change.run),
            Event::Lost(_) => None,
        };
        // The run may have been removed meanwhile.
        if let Some(run) = run
            && let Ok(Some(verdict)) = reader.verdict(run, &wanted.split).await
        {
            let verdict = verdict_text(&verdict);
            if verdicts.get(run) != Some(&verdict) {
                text += &format!("{run}  {verdict}\n");
                verdicts.insert(run.to_owned(), verdict);
            }
        }
        if written(&text).is_err_and(|error| has_gone(&error)) {
            break;
        }
    }
    Ok(())
}

/// Returns the line that an event is printed as; `None` for evaluations of other splits and unfinished ones.
fn line_of(wanted: &Wanted, heard: &Event) -> Option<String> {
    match heard {
        Event::Point(point) if point.split != wanted.split || point.provisional => None,
        Event::Point(point) => {
            let mut line = format!("{}  step {}", point.run, point.step);
            for score in point.scores.iter().filter(|score| wanted.scores.contains(&score.id)) {
                let value = score.value.map_or("undefined".to_owned(), |value| format!("{value:.4}"));
                let age = score.age.map_or_else(String::new, |age| format!(" (pairs up to {age:.0} s old)"));
                line += &format!("  {} {value}{age}", score.id);
            }
            Some(line)
        }
        Event::Alert(change) => Some(alert_text(change)),
        Event::Lost(count) => Some(format!("{count} events were missed")),
    }
}

/// Returns an alert change in a line.
pub fn alert_text(change: &proto::AlertChange) -> String {
    let state = match change.state() {
        proto::AlertState::Firing => "FIRING",
        proto::AlertState::Pending => "pending",
        _ => "resolved",
    };
    format!("{state}  {}: {}: {}", change.run, change.rule, change.evidence)
}

/// Returns a verdict in a line.
pub fn verdict_text(verdict: &Verdict) -> String {
    verdict.to_string().replace("\n  ", "; ")
}
