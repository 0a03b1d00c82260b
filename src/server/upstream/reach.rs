//! The known state of the hub, for the page, the metrics and the log.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::history::Sqlite;
use crate::server::live::UpstreamStatus;
use leakage::lock::lock;

/// Whether a hub answers, and what was sent to it since the start.
pub struct Reach {
    history: Arc<Sqlite>,
    known: Mutex<Known>,
    sent: AtomicU64,
    refused: AtomicU64,
    /// Entries that could not be read or that no hub takes.
    given_up: AtomicU64,
    started: Instant,
}

struct Known {
    hub: String,
    /// Why there was no answer; `None` if the last call had one.
    why: Option<String>,
    answered: Option<Instant>,
}

impl Reach {
    pub fn new(hub: String, history: Arc<Sqlite>) -> Self {
        let known = Known { hub, why: Some("not called yet".to_owned()), answered: None };
        let [sent, refused, given_up] = Default::default();
        Self { history, known: Mutex::new(known), sent, refused, given_up, started: Instant::now() }
    }

    pub fn status(&self) -> UpstreamStatus {
        let outbox = self.history.outbox_usage().unwrap_or_default();
        let known = lock(&self.known);
        UpstreamStatus {
            hub: known.hub.clone(),
            reached: known.why.is_none(),
            why: known.why.clone().unwrap_or_default(),
            waiting: outbox.waiting,
            sent: self.sent.load(Relaxed),
            refused: self.refused.load(Relaxed),
            dropped: outbox.lost + self.given_up.load(Relaxed),
            seconds_since_answer: known.answered.unwrap_or(self.started).elapsed().as_secs_f64(),
        }
    }

    /// Notes that the hub has answered.
    pub fn answered(&self, hub: &str) {
        let mut known = lock(&self.known);
        if known.why.take().is_some() {
            tracing::info!(hub, "the hub is reached");
        }
        (known.hub, known.answered) = (hub.to_owned(), Some(Instant::now()));
    }

    /// Notes that there was no answer, and logs the reason if it differs from the one before.
    pub fn failed(&self, hub: &str, why: String) {
        let mut known = lock(&self.known);
        if known.why.as_ref() != Some(&why) || known.hub != hub {
            tracing::warn!(hub, why, "the hub cannot be told what is new; that waits here");
        }
        (known.hub, known.why) = (hub.to_owned(), Some(why));
    }

    pub fn sent(&self, entries: u64) {
        self.sent.fetch_add(entries, Relaxed);
    }

    pub fn refused(&self, number: u64, field: &str, message: &str) {
        tracing::error!(number, field, message, "the hub refuses a change of the history for ever");
        self.refused.fetch_add(1, Relaxed);
    }

    pub fn given_up(&self, number: u64, why: &str) {
        tracing::error!(number, why, "a change of the history is not sent to the hub");
        self.given_up.fetch_add(1, Relaxed);
    }
}
