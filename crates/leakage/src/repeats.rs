//! Rows that are copies of others: a data set written twice, an oversampled class, augmented images, several passes of
//! dropout. Neighbour estimators take rows to be independent. The neighbours of a copied row are its copies, so its
//! activations seem to determine each other, and every score of information is too high. One row of each group of copies is
//! scored.
//!
//! **Evidence** is a jump in the distances from a row to its nearest rows over the whole activation vector: copies are at
//! most 1 % of a standard deviation apart in each column, the row after them is several times as far away, and copies agree
//! in every label ([`evidence`]). Probabilities are compared as logits, where rows of a saturated class differ as much as
//! others. Ties are no evidence, as rounding and saturation make them too: a value that many rows share is left out of the
//! distance, and equal values count as far apart as the next distinct one is. Without copies a jump is as rare as the
//! dimension of the data makes it, which is estimated from neighbours farther away; along a curve, as with a single latent
//! behind all concepts, it happens to a third of the rows.
//!
//! **Groups** are formed only where the sample has copies ([`groups`]).
//!
//! Known limits: activations of a single column, hard activations, and copies that differ by more than 1 %, such as those of
//! strong augmentations, are not recognised; give such rows the same `sample_ids`.
//!
//! Cost: 64 rows against all in a few columns, which rules copies out in most samples of many concepts; otherwise 64 to 256 rows
//! against all in every column.

mod evidence;
mod groups;
mod points;

use crate::run::Run;
use crate::sample::{Evaluation, Sample};

use points::Points;

/// Columns in which copies are looked for first.
const FEW: usize = 16;

/// The evaluation with one row of each group of copies; `None` where it has no copies.
pub fn without_repeats(evaluation: &Evaluation) -> Option<Evaluation> {
    let rows = distinct_rows(&evaluation.sample, &evaluation.run)?;
    let repeated_rows = (evaluation.sample.rows() - rows.len()) as u64;
    Some(Evaluation { repeated_rows, sample: evaluation.sample.gather(&rows), ..evaluation.clone() })
}

/// Returns the remark for readers of the scores about `repeated` rows beside the `distinct` ones that are scored.
pub fn remark(repeated: u64, distinct: u64) -> Option<String> {
    (repeated > 0).then(|| {
        format!(
            "{repeated} of {} rows are copies of others, with nearly equal activations and the same labels; one row of \
             each group was scored, which leaves {distinct}",
            repeated + distinct
        )
    })
}

/// One row of each group of copies, ascending; `None` where the sample has no copies.
pub fn distinct_rows(sample: &Sample, run: &Run) -> Option<Vec<usize>> {
    if !evidence::is_possible(&Points::new(sample, run, FEW)?) {
        return None;
    }
    let points = Points::new(sample, run, usize::MAX)?;
    let found = evidence::look(&points)?;
    let rows = groups::distinct(&points, &found);
    (rows.len() < points.rows()).then_some(rows)
}
