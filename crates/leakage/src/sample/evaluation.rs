//! A frozen sample, ready to be scored.

use std::sync::Arc;

use super::attempt::Attempt;
use super::frozen::Sample;
use crate::run::{Run, SplitKey};
use crate::step::{Epoch, Ordinal, PassKey, Step};

/// A moment, on both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Now {
    /// Monotonic time since the process started.
    pub elapsed: std::time::Duration,
    /// Seconds since 1970-01-01 UTC.
    pub unix: f64,
}

/// The rows of one model: those of a closed pass, or of a rolling sample at one moment.
#[derive(Clone, Debug)]
pub struct Evaluation {
    pub key: SplitKey,
    pub run: Arc<Run>,
    pub attempt: Attempt,
    /// Step of the pass, or the newest step committed to the rolling sample.
    pub step: Step,
    /// The ordinal of the pass; the first for a rolling sample.
    pub ordinal: Ordinal,
    /// The largest epoch that any rank stated.
    pub epoch: Option<Epoch>,
    /// Seconds since 1970-01-01 UTC at which the sample was frozen.
    pub time: f64,
    /// Has no rows where no rank sent an acceptable one.
    pub sample: Sample,
    /// Number of distinct rows the sample was drawn from: [`BottomK::distinct_rows`](super::BottomK::distinct_rows).
    pub rows_seen: u64,
    /// Arrivals recognised as repeats: retries, and padding of a distributed sampler where rows have `sample_ids`.
    pub duplicates: u64,
    /// Duplicates that are rows of a pass with the `sample_ids` of another row that is held.
    pub repeated_ids: u64,
    /// Rows that the sample had besides: copies of others, which are not scored.
    pub repeated_rows: u64,
    /// The number of these whose labels differ from those of the row that is scored with the same activations.
    pub relabelled_rows: u64,
    /// Whether the rolling sample is still growing: it has fewer than N rows, and more than when it was last frozen.
    pub provisional: bool,
    /// Ranks that had not ended the pass when it was closed, by a deadline or because too many passes were open.
    pub ranks_missing: u32,
    /// Rows that ranks reported as sent but that did not arrive, as when the sidecar was restarted during the pass.
    pub rows_missing: u64,
    /// A rank stated that the pass waited while the sidecar could not be reached: it is not skipped for a newer one.
    pub backlog: bool,
    /// Earlier passes of the split that clients held back and did not send.
    pub held_back: u64,
}

impl Evaluation {
    pub fn pass(&self) -> PassKey {
        PassKey { step: self.step, ordinal: self.ordinal }
    }

    /// Whether a rank did not end the pass, or rows are missing.
    pub fn incomplete(&self) -> bool {
        self.ranks_missing > 0 || self.rows_missing > 0
    }

    /// The remark that `sample_ids` do not identify rows.
    pub fn ids_remark(&self) -> Option<String> {
        repeated_ids(self.repeated_ids, self.sample.rows() as u64)
    }

    /// Describes in words what an incomplete pass lacks; `None` for a complete one.
    pub fn lacks(&self) -> Option<String> {
        let ranks = (self.ranks_missing > 0).then(|| format!("{} ranks did not end the pass", self.ranks_missing));
        let rows = (self.rows_missing > 0).then(|| format!("{} rows did not arrive", self.rows_missing));
        match (ranks, rows) {
            (None, None) => None,
            (ranks, rows) => Some(ranks.into_iter().chain(rows).collect::<Vec<_>>().join(", ")),
        }
    }
}

/// Share of rows that repeat an id from which on ids are said to be wrong; padding of a distributed sampler repeats fewer.
const MANY: f64 = 0.05;

/// The remark that many rows have the id of another one, of which one is kept; `kept` rows have different ids.
pub fn repeated_ids(repeats: u64, kept: u64) -> Option<String> {
    let rows = repeats.saturating_add(kept);
    (repeats as f64 > MANY * rows as f64).then(|| {
        format!(
            "sample_ids: {repeats} of {rows} rows have the id of another row and are left out, so that {kept} are scored. An id \
             is the row's index in its data set, not in its batch"
        )
    })
}
