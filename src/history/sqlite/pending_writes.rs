//! The changes kept while the history cannot be written, in their order and within a bound, and when to try again.

use std::time::{Duration, Instant};

use crate::history::db::Db;
use crate::history::error::HistoryError;
use crate::history::settled::Written;

/// Bytes of points and records that are kept.
pub const MOST_WAITING: usize = 64 << 20;
/// Bytes beyond that for declarations, so that runs can start when no point has room any more.
const FOR_RUNS: usize = 16 << 20;

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LONGEST_RETRY: Duration = Duration::from_secs(15);

/// Bytes of a change besides what can be large.
const SMALL: usize = 256;

/// Makes a change, also more than once.
pub(super) type Apply = Box<dyn Fn(&mut Db<'_>) -> Result<(), HistoryError> + Send>;

/// A change that has yet to be written.
pub(super) struct PendingWrite {
    pub apply: Apply,
    /// Approximate bytes in memory.
    bytes: usize,
    /// There can be many, so that room is left for the others.
    is_bulk: bool,
}

impl PendingWrite {
    pub fn of(bytes: usize, apply: impl Fn(&mut Db<'_>) -> Result<(), HistoryError> + Send + 'static) -> Self {
        Self { apply: Box::new(apply), bytes: SMALL + bytes, is_bulk: false }
    }

    /// A point or record.
    pub fn bulk(bytes: usize, apply: impl Fn(&mut Db<'_>) -> Result<(), HistoryError> + Send + 'static) -> Self {
        Self { is_bulk: true, ..Self::of(bytes, apply) }
    }
}

/// A time during which the history cannot be written.
pub(super) struct Gap {
    /// In words.
    pub why: String,
    pub entries: Vec<PendingWrite>,
    pub bytes: usize,
    /// What to report once the entries are durable.
    pub reports: Vec<Written>,
    pub since: Instant,
    next: Instant,
    pause: Duration,
    /// The file was never opened: the connection is one in memory.
    pub unopened: bool,
}

impl Gap {
    pub fn new(why: String, unopened: bool) -> Self {
        let (since, pause) = (Instant::now(), FIRST_RETRY);
        let (entries, reports) = Default::default();
        Self { why, entries, bytes: 0, reports, since, next: since + pause, pause, unopened }
    }

    pub fn has_room_for(&self, entry: &PendingWrite) -> bool {
        let most = if entry.is_bulk { MOST_WAITING } else { MOST_WAITING + FOR_RUNS };
        self.bytes + entry.bytes <= most
    }

    pub fn keep(&mut self, entry: PendingWrite, reports: Vec<Written>) {
        self.bytes += entry.bytes;
        self.entries.push(entry);
        self.reports.extend(reports);
    }

    /// Whether a point of this step waits, other than by the newest change.
    pub fn has(&self, run: &str, split: &str, step: u64) -> bool {
        let earlier = self.reports.iter().rev().skip(1);
        let mut points = earlier.filter(|written| written.ending.is_none());
        points.any(|written| (written.run.as_str(), written.split.as_str(), written.step) == (run, split, step))
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
}
