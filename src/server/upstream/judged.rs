//! Notes in the outbox what the sidecar judges: the states of alert rules, and the verdict on each split that changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use futures::FutureExt;

use crate::history::{HistoryError, Judgement, Sqlite};
use crate::server::events::{Events, Received, Watcher};
use crate::server::live::{AlertChange, CurveVerdict, Event, Live};
use leakage::alert::State;
use leakage::diagnosis::Verdict;

/// Reads the verdicts on curves, each a run and a split. Blocks.
pub type Verdicts = Arc<dyn Fn(BTreeSet<Curve>) -> Vec<CurveVerdict> + Send + Sync>;

/// Run and split.
pub type Curve = (Arc<str>, Arc<str>);

/// The judgements that are not noted yet.
pub struct Judged {
    live: Arc<dyn Live>,
    verdicts: Verdicts,
    watcher: Watcher,
    alerts: Vec<Judgement>,
    /// Runs and splits whose verdict may have changed.
    curves: BTreeSet<Curve>,
}

impl Judged {
    pub fn new(live: Arc<dyn Live>, events: &Events, verdicts: Verdicts) -> Self {
        Self { live, verdicts, watcher: events.subscribe(), alerts: Vec::new(), curves: BTreeSet::new() }
    }

    /// Takes what happened since the last call, and notes what was judged of it.
    pub async fn note(&mut self, history: &Arc<Sqlite>) {
        while let Some(received) = self.watcher.next().now_or_never() {
            match received {
                Received::Event(Event::Alert(change)) => self.alerts.extend(state(&change)),
                Received::Event(Event::Point(point)) if point.provisional => {}
                Received::Event(Event::Point(point)) => {
                    self.curves.insert((Arc::clone(&point.run), Arc::clone(&point.split)));
                }
                // A sidecar that was restarted has judged again what is stored of a run that goes on.
                Received::Event(Event::Run(run)) => self.add_all(|of| of == &*run),
                Received::Lost(_) => self.add_all(|_| true),
            }
        }
        if self.alerts.is_empty() && self.curves.is_empty() {
            return;
        }
        let (read, history) = (Arc::clone(&self.verdicts), Arc::clone(history));
        let (alerts, curves) = (self.alerts.clone(), self.curves.clone());
        let note = move || {
            let verdicts = read(curves);
            let verdicts = verdicts.iter().filter_map(|(run, split, verdict)| of_verdict(run, split, verdict));
            history.note_judgements(&alerts.into_iter().chain(verdicts).collect::<Vec<_>>())
        };
        match tokio::task::spawn_blocking(note).await {
            Ok(Ok(())) => (self.alerts, self.curves) = Default::default(),
            // It is kept until the history can be written.
            Ok(Err(HistoryError::Unwritten { .. })) | Err(_) => {}
            Ok(Err(error)) => tracing::warn!(%error, "what was judged could not be noted for the hub"),
        }
    }

    /// Adds the states and curves of runs.
    fn add_all(&mut self, of: impl Fn(&str) -> bool) {
        let standings = self.live.alerts().standings;
        self.alerts.extend(standings.iter().filter(|alert| of(&alert.run)).filter_map(state));
        let latest = self.live.latest().into_iter().filter(|latest| of(&latest.run) && latest.point.is_some());
        self.curves.extend(latest.map(|latest| (latest.run, latest.split)));
    }
}

fn state(alert: &AlertChange) -> Option<Judgement> {
    let (run, split, rule) = (alert.run.clone(), alert.split.clone(), Some(alert.rule.clone()));
    let active = alert.state != State::Inactive;
    Some(Judgement { run, split, rule, active, since: alert.since, json: serde_json::to_string(alert).ok()? })
}

fn of_verdict(run: &str, split: &str, verdict: &Verdict) -> Option<Judgement> {
    let json = serde_json::to_string(verdict).ok()?;
    Some(Judgement { run: run.to_owned(), split: split.to_owned(), rule: None, active: false, since: 0.0, json })
}
