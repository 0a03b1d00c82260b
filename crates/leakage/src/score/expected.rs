//! The CPU time that scores of a sample are expected to take, from its shape alone. Estimates order jobs and decide what is
//! computed at once; no value depends on them, and a schedule corrects them by what it measures.

use std::time::Duration;

use crate::run::Run;
use crate::sample::Sample;
use crate::tensor::TensorName;

use super::catalogue::Cost;

/// Nanoseconds for each row, column of activations and task, and of embeddings for each coordinate.
const COLUMN: f64 = 150.0;
const COORDINATE: f64 = 600.0;
/// For each row and pair of a concept and an activation column: neighbours, and the networks of OIS and NIS.
const PAIR: f64 = 45.0;
const NETWORK: f64 = 1_100.0;
/// For each row and task: the other networks.
const TRAINING: f64 = 75_000.0;

/// Up to this much the scores of [`Cost::Fast`] are computed at once with the cheap ones: it pays for the second
/// publication of the point, and is within the time of the cheap scores of a wide sample.
const AT_ONCE: Duration = Duration::from_millis(10);

/// CPU time of the scores of this cost, as measured on a server of 2026.
pub fn expected(sample: &Sample, run: &Run, cost: Cost) -> Duration {
    let (rows, concepts, tasks) = (sample.rows() as f64, run.concept_count() as f64, run.task_count() as f64);
    let width = |name| sample.column(name).map_or(0.0, |column| column.width() as f64);
    let columns = width(TensorName::ConceptActivations).max(concepts);
    let embeddings =
        [TensorName::ConceptEmbeddings, TensorName::PositiveEmbeddings, TensorName::NegativeEmbeddings].map(width);
    let of_row = match cost {
        Cost::Cheap => COLUMN * columns * tasks,
        Cost::Fast => PAIR * concepts * columns + COORDINATE * embeddings.iter().sum::<f64>(),
        Cost::Slow => NETWORK * concepts * columns + TRAINING * tasks,
    };
    Duration::from_secs_f64(1e-9 * rows * of_row)
}

/// Whether a point is computed at once. Of a wider sample the scores of [`Cost::Fast`] join it.
pub fn is_at_once(sample: &Sample, run: &Run) -> bool {
    expected(sample, run, Cost::Fast) <= AT_ONCE
}
