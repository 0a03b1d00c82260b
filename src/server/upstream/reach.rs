//! The known state of the hub, for the page, the metrics and the log.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::history::Sqlite;
use crate::server::live::UpstreamStatus;
use leakage::lock::lock;

/// Whether a hub answers, and what was sent to it since the start.
pub struct Reach {
    history: Arc<Sqlite>,
    known: Mutex<Known>,
}

struct Known {
    /// Without what the outbox holds.
    status: UpstreamStatus,
    /// When the hub answered last; at first the start.
    answered: Instant,
}

impl Reach {
    pub fn new(hub: String, history: Arc<Sqlite>) -> Self {
        let status = UpstreamStatus { hub, why: "not called yet".to_owned(), ..UpstreamStatus::default() };
        Self { history, known: Mutex::new(Known { status, answered: Instant::now() }) }
    }

    pub fn status(&self) -> UpstreamStatus {
        let outbox = self.history.outbox_usage().unwrap_or_default();
        let Known { status, answered } = &*lock(&self.known);
        UpstreamStatus {
            waiting: outbox.waiting,
            dropped: outbox.lost + status.dropped,
            seconds_since_answer: answered.elapsed().as_secs_f64(),
            ..status.clone()
        }
    }

    /// Notes that the hub has answered.
    pub fn answered(&self, hub: &str) {
        let Known { status, answered } = &mut *lock(&self.known);
        if !status.reached {
            tracing::info!(hub, "the hub is reached");
        }
        (status.hub, status.reached, status.why) = (hub.to_owned(), true, String::new());
        *answered = Instant::now();
    }

    /// Notes that there was no answer, and logs the reason if it differs from the one before.
    pub fn failed(&self, hub: &str, why: String) {
        let Known { status, .. } = &mut *lock(&self.known);
        if status.why != why || status.hub != hub {
            tracing::warn!(hub, why, "the hub cannot be told what is new; that waits here");
        }
        (status.hub, status.reached, status.why) = (hub.to_owned(), false, why);
    }

    pub fn sent(&self, entries: u64) {
        lock(&self.known).status.sent += entries;
    }

    pub fn refused(&self, number: u64, field: &str, message: &str) {
        tracing::error!(number, field, message, "the hub refuses a change of the history for ever");
        lock(&self.known).status.refused += 1;
    }

    /// Notes an entry that could not be read or that no hub takes.
    pub fn given_up(&self, number: u64, why: &str) {
        tracing::error!(number, why, "a change of the history is not sent to the hub");
        lock(&self.known).status.dropped += 1;
    }
}
