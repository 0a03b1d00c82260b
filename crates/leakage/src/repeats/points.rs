//! The rows of a sample as points: standardised activations, the resolution of each column, and the labels.

use std::hash::Hasher;

use information::spread;
use siphasher::sip::SipHasher13;

use crate::run::{ActivationKind, Run};
use crate::sample::Sample;
use crate::tensor::TensorName;

/// The most copies of a row that are recognised as such. A value that more rows share is an *atom* of its column: where
/// activations saturate or are rounded.
pub const MOST_COPIES: usize = 15;

/// Columns needed to distinguish copies from rows that saturation makes alike.
const ENOUGH_COLUMNS: usize = 3;

/// Standardised activations, and the labels.
pub struct Points {
    rows: usize,
    columns: usize,
    /// [n, columns], in standard deviations of each column.
    values: Vec<f32>,
    /// [n, columns]: the distance to the nearest distinct value of the column; infinite for an atom.
    gaps: Vec<f32>,
    /// A hash for each row. Rows with equal hashes agree in every label.
    labels: Vec<u64>,
}

/// The distance between two points: means over the columns in which they do not share an atom.
#[derive(Clone, Copy)]
pub struct Distance {
    /// In standard deviations; infinite where they share all atoms.
    pub plain: f32,
    /// As `plain`, but in no column less than the distance to the nearest distinct value.
    pub resolved: f32,
    /// The number of columns.
    pub columns: f32,
}

impl Distance {
    /// Whether two rows that differ by 1 % of a standard deviation in each column are this close: the mean of that many
    /// absolute normal differences, and two standard errors of it.
    pub fn is_of_copies(self) -> bool {
        self.plain <= 0.012 + 0.017 / self.columns.sqrt()
    }
}

impl Points {
    /// Reads at most `most` columns of the activations, spread evenly. `None` where copies cannot be recognised:
    /// without activations, or where fewer than two of these columns vary and are not hard.
    pub fn new(sample: &Sample, run: &Run, most: usize) -> Option<Self> {
        let activations = sample.column(TensorName::ConceptActivations)?;
        let kinds = run.column_kinds(activations.width());
        let column = |at: usize| {
            if kinds[at] == ActivationKind::Hard {
                return None;
            }
            let mut values = activations.floats(at);
            if kinds[at] == ActivationKind::Probability {
                values.iter_mut().for_each(|value| *value = logit(*value));
            }
            standardised(&values)
        };
        let chosen = (0..activations.width()).step_by(activations.width().div_ceil(most));
        let columns: Vec<[Vec<f32>; 2]> = chosen.filter_map(column).collect();
        if columns.len() < 2 {
            return None;
        }
        let rows = sample.rows();
        let row_major = |which: usize| {
            let row = |row: usize| columns.iter().map(move |column| column[which][row]);
            (0..rows).flat_map(row).collect()
        };
        let (values, gaps) = (row_major(0), row_major(1));
        Some(Self { rows, columns: columns.len(), values, gaps, labels: labels(sample) })
    }

    /// N.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns that vary.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// A hash for each row. Rows with equal hashes agree in every label.
    pub fn labels(&self) -> &[u64] {
        &self.labels
    }

    /// Standardised activations of a row.
    pub fn of(&self, row: usize) -> &[f32] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    /// Whether enough of a row's values are not atoms.
    pub fn is_distinctive(&self, row: usize) -> bool {
        let own = self.gaps(row).iter().filter(|gap| gap.is_finite()).count();
        own >= ENOUGH_COLUMNS.min(self.columns)
    }

    pub fn distance(&self, from: usize, to: usize) -> Distance {
        let (mut plain, mut resolved, mut columns) = (0.0, 0.0, 0.0);
        for ((a, b), &gap) in self.of(from).iter().zip(self.of(to)).zip(self.gaps(from)) {
            let difference = (a - b).abs();
            let compared = if difference == 0.0 && gap == f32::INFINITY { 0.0 } else { 1.0 };
            let gap = if gap == f32::INFINITY { 0.0 } else { gap };
            plain += difference;
            resolved += if difference > gap { difference } else { gap };
            columns += compared;
        }
        match columns {
            0.0 => Distance { plain: f32::INFINITY, resolved: f32::INFINITY, columns },
            _ => Distance { plain: plain / columns, resolved: resolved / columns, columns },
        }
    }

    fn gaps(&self, row: usize) -> &[f32] {
        &self.gaps[row * self.columns..(row + 1) * self.columns]
    }
}

/// Returns the logit of a probability. Probabilities that are 0 or 1 in f64 are clamped to values that are not.
fn logit(probability: f64) -> f64 {
    let p = probability.clamp(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);
    (p / (1.0 - p)).ln()
}

/// A column in standard deviations, and its gaps; `None` where it is constant.
fn standardised(values: &[f64]) -> Option<[Vec<f32>; 2]> {
    let mut pairs: Vec<(f64, u32)> = values.iter().copied().zip(0..).collect();
    pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let (ascending, order): (Vec<f64>, Vec<u32>) = pairs.into_iter().unzip();
    let unit = spread(&ascending);
    if unit.is_nan() || unit <= 0.0 || unit.is_infinite() {
        return None;
    }
    let mut gaps = vec![0.0; values.len()];
    let mut start = 0;
    for equal in ascending.chunk_by(|a, b| a == b) {
        let end = start + equal.len();
        let before = start.checked_sub(1).map_or(f64::INFINITY, |before| equal[0] - ascending[before]);
        let behind = ascending.get(end).map_or(f64::INFINITY, |behind| behind - equal[0]);
        let gap = if equal.len() > MOST_COPIES + 1 { f64::INFINITY } else { before.min(behind) / unit };
        order[start..end].iter().for_each(|&row| gaps[row as usize] = gap as f32);
        start = end;
    }
    Some([values.iter().map(|value| (value / unit) as f32).collect(), gaps])
}

/// Hashes the labels of each row.
fn labels(sample: &Sample) -> Vec<u64> {
    let mut hashes = vec![SipHasher13::new(); sample.rows()];
    for name in [TensorName::ConceptLabels, TensorName::TaskLabels] {
        let Some(column) = sample.column(name) else { continue };
        let width = column.width();
        let values = column.block(0..width);
        for (hash, row) in hashes.iter_mut().zip(values.chunks(width)) {
            row.iter().for_each(|value| hash.write_u64(value.to_bits()));
        }
    }
    hashes.iter().map(Hasher::finish).collect()
}
