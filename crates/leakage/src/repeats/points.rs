//! The rows of a sample as points: standardised activations, the resolution of each column, and the labels.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};

use information::spread;
use siphasher::sip::SipHasher13;

use crate::run::{ActivationKind, Run};
use crate::sample::Sample;
use crate::tensor::TensorName;

/// The most copies of a row whose labels few others have. A value that more rows share is an *atom* of its column, where
/// activations saturate or are rounded, unless these rows agree in every column and label.
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
    /// The number of each row's activations: equal for rows that agree in every column.
    vectors: Vec<u32>,
    /// The number of rows with each number.
    of_vector: Vec<u32>,
    /// The first row with each number.
    first: Vec<usize>,
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
            let mut values = activations.floats(at);
            if kinds[at] == ActivationKind::Probability {
                values.iter_mut().for_each(|value| *value = logit(*value));
            }
            Column::new(values)
        };
        let chosen = (0..activations.width()).step_by(activations.width().div_ceil(most));
        let columns: Vec<Column> = chosen.filter(|at| kinds[*at] != ActivationKind::Hard).filter_map(column).collect();
        if columns.len() < 2 {
            return None;
        }
        let rows = sample.rows();
        let values: Vec<f32> = (0..rows).flat_map(|row| columns.iter().map(move |column| column.values[row])).collect();
        let labels = labels(sample);
        let vectors = numbered(values.chunks(columns.len()).map(|row| row.iter().map(|value| value.to_bits())));
        let by_row = vectors.iter().zip(&labels).map(|(vector, labels)| [u64::from(*vector), *labels].into_iter());
        let distinct = numbered(by_row);
        let gaps: Vec<Vec<f32>> = columns.iter().map(|column| column.gaps(&distinct)).collect();
        let gaps = (0..rows).flat_map(|row| gaps.iter().map(move |gaps| gaps[row])).collect();
        let of_vector = counted(&vectors);
        let mut first: Vec<usize> = (0..rows).collect();
        first.sort_unstable_by_key(|row| (vectors[*row], *row));
        first.dedup_by_key(|row| vectors[*row]);
        Some(Self { rows, columns: columns.len(), values, gaps, labels, vectors, of_vector, first })
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

    /// The number of a row's activations, which rows share that agree in every column.
    pub fn vector(&self, row: usize) -> usize {
        self.vectors[row] as usize
    }

    /// Whether another row agrees with this one in every column.
    pub fn has_equal(&self, row: usize) -> bool {
        self.of_vector[self.vector(row)] > 1
    }

    /// The first row of each number of activations.
    pub fn first(&self) -> &[usize] {
        &self.first
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

/// A column that varies.
struct Column {
    /// In standard deviations.
    values: Vec<f32>,
    ascending: Vec<f64>,
    /// The row of each ascending value.
    order: Vec<u32>,
    unit: f64,
}

impl Column {
    /// `None` where it is constant.
    fn new(values: Vec<f64>) -> Option<Self> {
        let mut pairs: Vec<(f64, u32)> = values.iter().copied().zip(0..).collect();
        pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let (ascending, order): (Vec<f64>, Vec<u32>) = pairs.into_iter().unzip();
        let unit = spread(&ascending);
        if unit.is_nan() || unit <= 0.0 || unit.is_infinite() {
            return None;
        }
        // The sum makes −0 equal to 0 bit for bit.
        let values = values.iter().map(|value| (value / unit) as f32 + 0.0).collect();
        Some(Self { values, ascending, order, unit })
    }

    /// `distinct`: the number of each row, equal for rows that agree in every column and label.
    fn gaps(&self, distinct: &[u32]) -> Vec<f32> {
        let mut gaps = vec![0.0; self.values.len()];
        let mut start = 0;
        for equal in self.ascending.chunk_by(|a, b| a == b) {
            let end = start + equal.len();
            let rows = &self.order[start..end];
            let before = start.checked_sub(1).map_or(f64::INFINITY, |before| equal[0] - self.ascending[before]);
            let behind = self.ascending.get(end).map_or(f64::INFINITY, |behind| behind - equal[0]);
            let of_one = || rows.iter().all(|&row| distinct[row as usize] == distinct[rows[0] as usize]);
            let is_atom = rows.len() > MOST_COPIES + 1 && !of_one();
            let gap = if is_atom { f64::INFINITY } else { before.min(behind) / self.unit };
            rows.iter().for_each(|&row| gaps[row as usize] = gap as f32);
            start = end;
        }
        gaps
    }
}

/// Numbers rows such that equal ones have the same number, in the order of their first.
fn numbered<K: Hash>(rows: impl Iterator<Item = impl Iterator<Item = K>>) -> Vec<u32> {
    let mut known: HashMap<u64, u32> = HashMap::new();
    let mut number = |row: u64| {
        let next = known.len() as u32;
        *known.entry(row).or_insert(next)
    };
    rows.map(|row| {
        let mut hash = SipHasher13::new();
        row.for_each(|value| value.hash(&mut hash));
        number(hash.finish())
    })
    .collect()
}

/// How many rows have each number.
fn counted(numbers: &[u32]) -> Vec<u32> {
    let mut counts = vec![0; numbers.iter().max().map_or(0, |most| *most as usize + 1)];
    numbers.iter().for_each(|number| counts[*number as usize] += 1);
    counts
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
