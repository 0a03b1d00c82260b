//! The evaluation of a pass from its parts.

use std::sync::Arc;

use super::{Part, PassOf};
use crate::fault::Fault;
use crate::sample::bottom_k::distinct_rows;
use crate::sample::evaluation::Evaluation;
use crate::sample::frozen::Sample;
use crate::step::Ordinal;
use crate::tensor::TensorName;

/// Result of the parts of a pass.
#[derive(Clone, Debug)]
pub enum Union {
    /// The evaluation that one process would have made of all arrivals.
    Exact {
        evaluation: Box<Evaluation>,
        /// Where the parts of the next pass may be cut; `None` while all rows fit the sample.
        next_cutoff: Option<u64>,
    },
    /// Rows that were cut off would be in the sample: the data have changed since the pass that the cut-off is from.
    NeedsWhole {
        /// Rows of the union up to the smallest cut-off.
        rows: usize,
        cutoff: u64,
    },
}

/// Standard deviations of the N-th priority by which a cut-off is raised where the rows of the next pass are others.
const DEVIATIONS: f64 = 8.0;

/// The evaluation of a pass from all its parts, one after the other, so that few need be in memory at a time. Where ranks
/// sent to two processes, those of most ranks must come first, so that each arrival counts once. Errors, naming the field,
/// when there is no part, when they contradict each other, or when they do not fit the run; its `world_size` may have
/// changed since with a restart.
pub fn union(parts: impl IntoIterator<Item = Part>, pass: PassOf) -> Result<Union, Fault> {
    let mut parts = parts.into_iter();
    let first = parts.next().ok_or_else(|| Fault::new("parts", "got none, expected at least one"))?;
    let joined = parts.try_fold(first, Part::join)?;
    joined.check_fits(&pass.run)?;
    if let Some(cutoff) = joined.cutoff {
        return Ok(Union::NeedsWhole { rows: joined.rows(), cutoff });
    }
    let next_cutoff = joined.next_cutoff();
    let rows = joined.rows;
    let evaluation = Evaluation {
        key: pass.key,
        run: Arc::clone(&pass.run),
        attempt: pass.attempt,
        step: joined.step,
        ordinal: Ordinal::default(),
        epoch: joined.epoch,
        time: pass.time,
        rows_seen: distinct_rows(joined.offered, rows.len(), rows.arrivals.iter().copied()),
        duplicates: rows.repeats().saturating_add(joined.repeated),
        repeated_ids: rows.repeats(),
        sample: if rows.ids.is_empty() { Sample::default() } else { Sample::new(rows.ids, rows.columns) },
        repeated_rows: 0,
        provisional: false,
        ranks_missing: joined.world_size - joined.ended.len() as u32,
        rows_missing: joined.stated.saturating_sub(joined.taken),
        backlog: joined.backlog,
        held_back: joined.held_back,
    };
    Ok(Union::Exact { evaluation: Box::new(evaluation), next_cutoff })
}

impl Part {
    /// Where the parts of the next pass may be cut. With `sample_ids` its rows have the same priorities. Otherwise its
    /// N-th priority is another draw of a mean that varies by its N-th root, and the cut-off allows for that.
    fn next_cutoff(&self) -> Option<u64> {
        let last = self.rows.last(self.sampling.seed).filter(|_| self.rows() == self.sampling.rows)?;
        if self.schema.as_ref().is_some_and(|schema| schema.contains(TensorName::SampleIds)) {
            return Some(last);
        }
        // A float beyond the largest integer becomes that integer.
        Some(last.saturating_add((last as f64 * (DEVIATIONS / (self.rows() as f64).sqrt())) as u64))
    }
}
