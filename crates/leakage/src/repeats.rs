//! Rows that are copies of others: a data set written twice, an oversampled class, augmented images, several passes of
//! dropout. Neighbour estimators take rows to be independent. The neighbours of a copied row are its copies, so its
//! activations seem to determine each other, and every score of information is too high. One row of each group of copies is
//! scored.
//!
//! **Evidence** is a jump in the distances from a row to its nearest rows over the whole activation vector: copies are at
//! most 1 % of a standard deviation apart in each column, the row after them is several times as far away, and copies
//! that are not equal agree in every label ([`evidence`]). Probabilities are compared as logits, where rows of a
//! saturated class differ as much as others. Ties are no evidence, as rounding and saturation make them too: a value that
//! many rows share is left out of the distance, unless these rows are all equal, and equal values count as far apart as
//! the next distinct one is. Without copies a jump is as rare as the dimension of the data makes it, which is estimated
//! from neighbours farther away; along a curve, as with a single latent behind all concepts, it happens to a third of the
//! rows.
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

/// The rows that are scored of a sample with copies.
pub struct Distinct {
    /// One row of each group of copies, ascending.
    pub rows: Vec<usize>,
    /// The number of the other rows.
    pub repeated: u64,
    /// The number of these whose labels differ from those of the row that is scored with the same activations.
    pub relabelled: u64,
}

/// The evaluation with one row of each group of copies; `None` where it has no copies.
pub fn without_repeats(evaluation: &Evaluation) -> Option<Evaluation> {
    let Distinct { rows, repeated, relabelled } = distinct_rows(&evaluation.sample, &evaluation.run)?;
    let sample = evaluation.sample.gather(&rows);
    Some(Evaluation { repeated_rows: repeated, relabelled_rows: relabelled, sample, ..evaluation.clone() })
}

/// Returns the remark for readers of the scores about `repeated` rows beside the `distinct` ones that are scored.
/// `relabelled` as of [`Distinct`].
pub fn remark(repeated: u64, relabelled: u64, distinct: u64) -> Option<String> {
    let labels = match relabelled {
        0 => "the same labels; one row of each group was scored".to_owned(),
        _ => format!(
            "{relabelled} of them have other labels than the row that was scored, one of each group, chosen by chance"
        ),
    };
    (repeated > 0).then(|| {
        let rows = repeated + distinct;
        format!(
            "{repeated} of {rows} rows are copies of others, with nearly equal activations and {labels}, which leaves \
             {distinct}"
        )
    })
}

/// `None` where the sample has no copies.
pub fn distinct_rows(sample: &Sample, run: &Run) -> Option<Distinct> {
    if !evidence::is_possible(&Points::new(sample, run, FEW)?) {
        return None;
    }
    let points = Points::new(sample, run, usize::MAX)?;
    let found = evidence::look(&points)?;
    let rows = groups::distinct(&points, &found);
    let mut labels = vec![None; points.first().len()];
    rows.iter().for_each(|&row| labels[points.vector(row)] = Some(points.labels()[row]));
    let is_other = |row: &usize| labels[points.vector(*row)].is_some_and(|scored| scored != points.labels()[*row]);
    let relabelled = (0..points.rows()).filter(is_other).count() as u64;
    let repeated = (points.rows() - rows.len()) as u64;
    (repeated > 0).then_some(Distinct { rows, repeated, relabelled })
}
