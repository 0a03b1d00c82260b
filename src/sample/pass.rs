//! Passes: one evaluation of a split at one step, streamed by all ranks.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::applied::{Applied, Ranks, Source};
use super::{BottomK, Sample};

/// A pass that has ended.
#[derive(Clone, Debug)]
pub struct ClosedPass {
    /// Optimiser steps so far.
    pub step: u64,
    /// Epochs so far: the largest that any rank stated.
    pub epoch: Option<f64>,
    /// `None` when no rank sent a row that could be taken.
    pub sample: Option<Sample>,
    /// Distinct rows the sample was drawn from: [`BottomK::distinct_rows`].
    pub rows_seen: u64,
    /// Arrivals recognised as repeats: retries, and padding of a distributed sampler where rows have `sample_ids`.
    pub duplicates: u64,
    /// Ranks that had not ended the pass when it was closed, by a deadline or because too many passes were open.
    pub ranks_missing: u32,
    /// Rows that ranks said they sent and that did not come, as when the server was restarted within the pass.
    pub rows_missing: u64,
}

impl ClosedPass {
    /// Not every rank ended it, or rows are missing.
    pub fn incomplete(&self) -> bool {
        self.ranks_missing > 0 || self.rows_missing > 0
    }
}

/// A pass that ranks are still sending.
#[derive(Clone, Debug)]
pub(super) struct OpenPass {
    /// Tells passes of one step apart.
    pub serial: u64,
    pub step: u64,
    pub epoch: Option<f64>,
    pub sampler: BottomK,
    pub applied: Applied,
    /// Rows of batches that were sent again.
    pub repeated: u64,
    /// Rows of applied batches, those left out and dropped included.
    pub taken: u64,
    /// Rows that ranks said they sent. More than were taken: some were lost, as when the server was restarted meanwhile.
    pub stated: u64,
    /// It was open when a process not seen before joined the run: perhaps nobody is left to end it.
    pub carried_over: bool,
    pub ended: Ranks,
    pub first_end: Option<Duration>,
    pub last_heard: Duration,
}

impl OpenPass {
    pub fn new(serial: u64, step: u64, sampler: BottomK, now: Duration) -> Self {
        Self {
            serial,
            step,
            epoch: None,
            sampler,
            applied: Applied::default(),
            repeated: 0,
            taken: 0,
            stated: 0,
            carried_over: false,
            ended: Ranks::default(),
            first_end: None,
            last_heard: now,
        }
    }

    pub fn heard(&mut self, epoch: Option<f64>, now: Duration) {
        self.epoch = later_epoch(self.epoch, epoch);
        self.last_heard = self.last_heard.max(now);
    }

    /// When it is closed even if ranks are missing.
    pub fn deadline(&self, after_first_end: Duration, when_idle: Duration) -> Duration {
        match self.first_end {
            Some(first_end) => first_end.saturating_add(after_first_end),
            None => self.last_heard.saturating_add(when_idle),
        }
    }

    pub fn close(self, world_size: u32) -> (ClosedPass, Remembered) {
        let closed = ClosedPass {
            step: self.step,
            epoch: self.epoch,
            rows_seen: self.sampler.distinct_rows(),
            duplicates: self.sampler.duplicates() + self.repeated,
            sample: (self.sampler.rows() > 0).then(|| self.sampler.into_sample()),
            ranks_missing: world_size - self.ended.count(),
            rows_missing: self.stated.saturating_sub(self.taken),
        };
        (closed, Remembered { applied: self.applied, ended: self.ended })
    }

    pub fn bytes(&self) -> usize {
        self.sampler.bytes() + self.applied.bytes() + self.ended.bytes()
    }
}

/// The larger of two epochs, if any is stated: ranks may end in any order.
pub(super) fn later_epoch(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    }
}

/// What a closed pass took in, to tell a retry from a late batch.
#[derive(Clone, Debug)]
pub(super) struct Remembered {
    applied: Applied,
    ended: Ranks,
}

/// Steps remembered as closed; a batch for an older one opens its pass anew.
const MAX_STEPS: usize = 4096;
/// The newest of them, for which retries are told from late batches.
const MAX_REMEMBERED: usize = 8;

/// Steps whose pass is closed, in the order they were closed.
#[derive(Clone, Debug, Default)]
pub(super) struct ClosedSteps {
    steps: VecDeque<u64>,
    remembered: BTreeMap<u64, Remembered>,
}

impl ClosedSteps {
    pub fn contains(&self, step: u64) -> bool {
        // The one asked for is nearly always among the newest.
        self.steps.iter().rev().any(|&closed| closed == step)
    }

    pub fn has_batch(&self, step: u64, source: Source) -> bool {
        self.remembered.get(&step).is_some_and(|pass| pass.applied.contains(source))
    }

    pub fn has_end(&self, step: u64, rank: u32) -> bool {
        self.remembered.get(&step).is_some_and(|pass| pass.ended.contains(rank))
    }

    pub fn insert(&mut self, step: u64, pass: Remembered) {
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
        passes.map(|pass| pass.applied.bytes() + pass.ended.bytes() + size_of::<(u64, Remembered)>()).sum::<usize>()
            + self.steps.capacity() * size_of::<u64>()
    }
}
