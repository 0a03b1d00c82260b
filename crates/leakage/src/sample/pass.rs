//! Passes: one evaluation of a split at one step, streamed by all ranks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::bottom_k::BottomK;
use super::seen_batches::{Applied, Ranks, Source};
use crate::step::{Epoch, PassKey, Rank};

/// An open pass: ranks are still sending its rows.
#[derive(Clone, Debug)]
pub(super) struct OpenPass {
    /// Distinguishes samplers of the same pass.
    pub serial: u64,
    pub key: PassKey,
    pub epoch: Option<Epoch>,
    pub sampler: BottomK,
    pub applied: Applied,
    /// Rows of batches sent more than once.
    pub repeated: u64,
    /// Rows of applied batches, including those left out and dropped.
    pub taken: u64,
    /// Rows that ranks reported as sent. If more than were applied, some were lost, as when the server was restarted
    /// during the pass.
    pub stated: u64,
    pub ended: Ranks,
    /// As in [`EndOfPass`](super::window::EndOfPass).
    pub backlog: bool,
    pub held_back: u64,
    pub first_end: Option<Duration>,
    pub last_heard: Duration,
}

impl OpenPass {
    pub fn new(serial: u64, key: PassKey, sampler: BottomK, now: Duration) -> Self {
        Self {
            serial,
            key,
            epoch: None,
            sampler,
            applied: Applied::default(),
            repeated: 0,
            taken: 0,
            stated: 0,
            ended: Ranks::default(),
            backlog: false,
            held_back: 0,
            first_end: None,
            last_heard: now,
        }
    }

    pub fn heard(&mut self, epoch: Option<Epoch>, now: Duration) {
        self.epoch = Epoch::later(self.epoch, epoch);
        self.last_heard = self.last_heard.max(now);
    }

    /// Time at which the pass is closed even if ranks are missing. Nothing is counted before `from`.
    pub fn deadline(&self, after_first_end: Duration, when_idle: Duration, from: Duration) -> Duration {
        let (since, patience) = match self.first_end {
            Some(first_end) => (first_end, after_first_end),
            None => (self.last_heard, when_idle),
        };
        from.max(since).saturating_add(patience)
    }

    pub fn bytes(&self) -> usize {
        self.sampler.bytes() + self.applied.bytes() + self.ended.bytes()
    }
}

/// The batches and ranks of a closed pass, which distinguish a retry from a late batch.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    pub applied: Applied,
    pub ended: Ranks,
    /// A rank has left the pass without ending it.
    pub abandoned: bool,
}

/// Maximum number of passes remembered as closed; a batch for an older one opens its pass again.
const MAX_CLOSED: usize = 4096;
/// Maximum number of closed passes, the newest ones, for which retries are distinguished from late batches.
const MAX_REMEMBERED: usize = 8;

/// Passes that are closed, in the order in which they were closed.
#[derive(Clone, Debug, Default)]
pub(super) struct ClosedPasses {
    keys: VecDeque<PassKey>,
    remembered: BTreeMap<PassKey, Remembered>,
}

impl ClosedPasses {
    pub fn contains(&self, key: PassKey) -> bool {
        // The pass looked up is nearly always among the newest.
        self.keys.iter().rev().any(|&closed| closed == key)
    }

    pub fn has_batch(&self, key: PassKey, source: Source) -> bool {
        self.remembered.get(&key).is_some_and(|pass| pass.applied.contains(source))
    }

    pub fn has_end(&self, key: PassKey, rank: Rank) -> bool {
        self.remembered.get(&key).is_some_and(|pass| pass.ended.contains(rank))
    }

    /// Whether a rank has left the pass without ending it.
    pub fn is_abandoned(&self, key: PassKey) -> bool {
        self.remembered.get(&key).is_some_and(|pass| pass.abandoned)
    }

    pub fn insert(&mut self, key: PassKey, pass: Remembered) {
        self.keys.push_back(key);
        self.remembered.insert(key, pass);
        if self.keys.len() > MAX_CLOSED {
            self.keys.pop_front();
        }
        if self.keys.len() > MAX_REMEMBERED {
            self.remembered.remove(&self.keys[self.keys.len() - 1 - MAX_REMEMBERED]);
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn bytes(&self) -> usize {
        let passes = self.remembered.values();
        passes.map(|pass| pass.applied.bytes() + pass.ended.bytes() + size_of::<(PassKey, Remembered)>()).sum::<usize>()
            + self.keys.capacity() * size_of::<PassKey>()
    }
}
