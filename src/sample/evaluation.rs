//! A frozen sample on its way to be scored.

use std::sync::Arc;

use super::attempt::Attempt;
use super::frozen::Sample;
use crate::run::{Run, SplitKey};
use crate::step::{Epoch, Step};

/// A moment, as the clocks of the shell tell it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Since the process started; never goes back.
    pub elapsed: std::time::Duration,
    /// Seconds since 1970-01-01 UTC.
    pub unix: f64,
}

/// The rows of one model to be scored: those of a pass that was closed, or of a rolling sample as it was at one moment.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub key: SplitKey,
    pub run: Arc<Run>,
    pub attempt: Attempt,
    /// Of the pass, or the newest that was committed to the rolling sample.
    pub step: Step,
    /// The largest that any rank stated.
    pub epoch: Option<Epoch>,
    /// Seconds since 1970-01-01 UTC at which the sample was frozen.
    pub time: f64,
    /// Without rows where no rank sent any that could be taken.
    pub sample: Sample,
    /// Distinct rows the sample was drawn from: [`BottomK::distinct_rows`](super::BottomK::distinct_rows).
    pub rows_seen: u64,
    /// Arrivals recognised as repeats: retries, and padding of a distributed sampler where rows have `sample_ids`.
    pub duplicates: u64,
    /// The rolling sample was still growing: it has fewer than N rows, and more than when it was last frozen.
    pub provisional: bool,
    /// Ranks that had not ended the pass when it was closed, by a deadline or because too many passes were open.
    pub ranks_missing: u32,
    /// Rows that ranks said they sent and that did not arrive, as when the sidecar was restarted within the pass.
    pub rows_missing: u64,
}

impl Evaluation {
    /// Not every rank ended the pass, or rows are missing.
    pub fn incomplete(&self) -> bool {
        self.ranks_missing > 0 || self.rows_missing > 0
    }
}
