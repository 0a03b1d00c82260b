//! Passes: one evaluation of a split at one step, streamed by all ranks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::applied::{Applied, Ranks, Source};
use super::bottom_k::BottomK;
use crate::step::{Epoch, Rank, Step};

/// An open pass: ranks are still sending its rows.
#[derive(Clone, Debug)]
pub(super) struct OpenPass {
    /// Distinguishes passes of the same step.
    pub serial: u64,
    pub step: Step,
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
    pub fn new(serial: u64, step: Step, sampler: BottomK, now: Duration) -> Self {
        Self {
            serial,
            step,
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
}

/// Maximum number of steps remembered as closed; a batch for an older one opens its pass again.
const MAX_STEPS: usize = 4096;
/// Maximum number of closed passes, the newest ones, for which retries are distinguished from late batches.
const MAX_REMEMBERED: usize = 8;

/// Steps whose pass is closed, in the order they were closed.
#[derive(Clone, Debug, Default)]
pub(super) struct ClosedSteps {
    steps: VecDeque<Step>,
    remembered: BTreeMap<Step, Remembered>,
}

impl ClosedSteps {
    pub fn contains(&self, step: Step) -> bool {
        // The step looked up is nearly always among the newest.
        self.steps.iter().rev().any(|&closed| closed == step)
    }

    pub fn has_batch(&self, step: Step, source: Source) -> bool {
        self.remembered.get(&step).is_some_and(|pass| pass.applied.contains(source))
    }

    pub fn has_end(&self, step: Step, rank: Rank) -> bool {
        self.remembered.get(&step).is_some_and(|pass| pass.ended.contains(rank))
    }

    pub fn insert(&mut self, step: Step, pass: Remembered) {
        self.steps.push_back(step);
        self.remembered.insert(step, pass);
        if self.steps.len() > MAX_STEPS {
            self.steps.pop_front();
        }
        if self.steps.len() > MAX_REMEMBERED {
            self.remembered.remove(&self.steps[self.steps.len() - 1 - MAX_REMEMBERED]);
        }
    }

    pub fn clear(&mut self) {
        *self = Self::default();
    }

    pub fn bytes(&self) -> usize {
        let passes = self.remembered.values();
        passes.map(|pass| pass.applied.bytes() + pass.ended.bytes() + size_of::<(Step, Remembered)>()).sum::<usize>()
            + self.steps.capacity() * size_of::<Step>()
    }
}
