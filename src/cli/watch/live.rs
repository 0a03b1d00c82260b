//! Keeps the screen up to date with what the sidecar says.

use std::pin::pin;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_stream::{Stream, StreamExt};

use crate::server::client::{Client, ClientError};
use crate::server::proto::watch_response::Event;

use super::lines::alert_text;
use super::screen::{Screen, quit};
use super::wanted::Wanted;
use super::watched::Watched;

/// Time between looks at the states of runs, of which no event tells.
const STATES: Duration = Duration::from_secs(5);

/// Shows frames until the sidecar stops, a key asks for the end, or the terminal has gone.
pub async fn follow(
    wanted: &Wanted,
    reader: &mut Client,
    heard: impl Stream<Item = Event>,
    mut screen: Screen,
) -> Result<(), ClientError> {
    let resized = Notify::new();
    tokio::select! {
        ended = update(wanted, reader, heard, &mut screen, &resized) => ended,
        () = quit(&resized) => Ok(()),
    }
}

async fn update(
    wanted: &Wanted,
    reader: &mut Client,
    heard: impl Stream<Item = Event>,
    screen: &mut Screen,
    resized: &Notify,
) -> Result<(), ClientError> {
    let mut heard = pin!(heard);
    let mut states = tokio::time::interval(STATES);
    for (name, state, reason) in wanted.known(reader).await? {
        let run = screen.watched.run(&name);
        (run.state, run.reason) = (state, reason);
        read_run(reader, &mut screen.watched, &name, 0).await;
    }
    // An error means that the terminal has gone.
    while screen.draw().is_ok() {
        let watched = &mut screen.watched;
        tokio::select! {
            heard = heard.next() => match heard {
                Some(heard) => take(reader, watched, heard).await,
                None => break,
            },
            _ = states.tick() => {
                for (name, state, reason) in reader.runs().await.unwrap_or_default() {
                    if let Some(run) = watched.runs.get_mut(&name) {
                        (run.state, run.reason) = (state, reason);
                    }
                }
            }
            () = resized.notified() => {}
        }
    }
    Ok(())
}

async fn take(reader: &mut Client, watched: &mut Watched, heard: Event) {
    match heard {
        Event::Point(point) if point.split != watched.split || point.provisional => {}
        Event::Point(point) => {
            // Whether the run has returned to an earlier step or a late score completes a point, the history tells.
            let first = if watched.runs.contains_key(&point.run) { point.step } else { 0 };
            watched.run(&point.run).age = point.scores.iter().filter_map(|score| score.age).reduce(f64::max);
            read_run(reader, watched, &point.run, first).await;
        }
        Event::Alert(change) => {
            watched.add_alert(alert_text(&change));
            read_verdict(reader, watched, &change.run).await;
        }
        Event::Lost(_) => {
            let names: Vec<String> = watched.runs.keys().cloned().collect();
            for name in names {
                read_run(reader, watched, &name, 0).await;
            }
        }
    }
}

/// Reads the verdict on a run, and its curves from the step on.
async fn read_run(reader: &mut Client, watched: &mut Watched, name: &str, first_step: u64) {
    for at in 0..watched.scores.len() {
        // A split is unknown until its first point, and the run may have been removed meanwhile.
        let points = reader.series(name, &watched.split, &watched.scores[at], first_step).await.unwrap_or_default();
        let finished = points.into_iter().filter(|point| !point.provisional);
        watched.run(name).curves[at].replace_from(first_step, finished);
    }
    read_verdict(reader, watched, name).await;
}

async fn read_verdict(reader: &mut Client, watched: &mut Watched, name: &str) {
    if let Ok(Some(verdict)) = reader.verdict(name, &watched.split).await {
        watched.run(name).verdict = Some(verdict);
    }
}
