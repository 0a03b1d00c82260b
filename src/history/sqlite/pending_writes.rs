//! The changes kept while the history cannot be written, in their order and within a bound, and when to try again.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::write_op::Entry;
use crate::history::settled::Written;

/// Bytes of points and records that are kept.
pub const MOST_WAITING: usize = 64 << 20;
/// Bytes beyond that for declarations, so that runs can start when no point has room any more.
const FOR_RUNS: usize = 16 << 20;

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// A time during which the history cannot be written.
pub(super) struct Gap {
    /// In words.
    pub why: String,
    entries: VecDeque<Entry>,
    bytes: usize,
    next: Instant,
    pause: Duration,
    /// The file was never opened: the connection is one in memory.
    pub unopened: bool,
}

impl Gap {
    pub fn new(why: String, unopened: bool) -> Self {
        let next = Instant::now() + FIRST_RETRY;
        Self { why, entries: VecDeque::new(), bytes: 0, next, pause: FIRST_RETRY, unopened }
    }

    pub fn has_room_for(&self, entry: &Entry) -> bool {
        let most = if entry.is_bulk() { MOST_WAITING } else { MOST_WAITING + FOR_RUNS };
        self.bytes + entry.bytes() <= most
    }

    pub fn keep(&mut self, entry: Entry) {
        self.bytes += entry.bytes();
        self.entries.push_back(entry);
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn is_due(&self, now: Instant) -> bool {
        now >= self.next
    }

    /// Another attempt failed.
    pub fn put_off(&mut self, why: String) {
        self.why = why;
        self.pause = (2 * self.pause).min(LONGEST_RETRY);
        self.next = Instant::now() + self.pause;
    }

    pub fn written(self) -> Vec<Written> {
        let mut reports = Vec::new();
        self.entries.into_iter().for_each(|entry| entry.written(&mut reports));
        reports
    }
}
