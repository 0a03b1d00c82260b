//! A column in ascending order, and what follows from it: ranks, runs of equal values, gaps between values.

use std::sync::OnceLock;

use super::lanes::Real;
use super::padded::Padded;

/// A column in ascending order. `rows` and `ranks` are permutations of 0 … N − 1, N the number of values, and inverse to
/// each other: reads that are not checked trust that.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    padded: Padded<T>,
    rows: Vec<u32>,
    ranks: Vec<u32>,
    runs: OnceLock<Box<Runs>>,
    gaps: OnceLock<Vec<u16>>,
}

/// Runs of equal values of a column.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Where the run of each position starts and ends.
    pub bounds: Vec<[u32; 2]>,
    /// How many ordered pairs of different rows are equal.
    pub equal_pairs: f64,
}

/// Values on either side that a gap is the mean of.
const AROUND: usize = 16;

impl<T: Real> Sorted<T> {
    /// Equal values keep the order of their rows.
    pub fn new(column: &[T]) -> Self {
        let rows = T::ascending(column);
        let mut ranks = vec![0; rows.len()];
        for (&row, rank) in rows.iter().zip(0..) {
            ranks[row as usize] = rank;
        }
        Self {
            padded: Padded::new(rows.iter().map(|&row| column[row as usize])),
            rows,
            ranks,
            runs: OnceLock::new(),
            gaps: OnceLock::new(),
        }
    }

    /// The rows of each class, renumbered from 0 in their order; `classes` has that of each row, `sizes` how many each has.
    pub fn parts(&self, classes: &[u32], sizes: &[u32]) -> Vec<Self> {
        let mut next = vec![0_u32; sizes.len()];
        let renumber = |&class: &u32| {
            let next = &mut next[class as usize];
            *next += 1;
            *next - 1
        };
        let numbers: Vec<u32> = classes.iter().map(renumber).collect();
        let room = |&size: &u32| (Vec::with_capacity(size as usize), Vec::with_capacity(size as usize));
        let mut parts: Vec<(Vec<T>, Vec<u32>)> = sizes.iter().map(room).collect();
        for (&value, &row) in self.values().iter().zip(&self.rows) {
            let (values, rows) = &mut parts[classes[row as usize] as usize];
            values.push(value);
            rows.push(numbers[row as usize]);
        }
        let part = |(values, rows): (Vec<T>, Vec<u32>)| {
            let mut ranks = vec![0; rows.len()];
            rows.iter().zip(0..).for_each(|(&row, rank)| ranks[row as usize] = rank);
            let padded = Padded::new(values.into_iter());
            Self { padded, rows, ranks, runs: OnceLock::new(), gaps: OnceLock::new() }
        };
        parts.into_iter().map(part).collect()
    }

    /// The column times a power of two, in the same order with the same ties; `None` where that would round a value.
    pub fn scaled(&self, factor: f64) -> Option<Self> {
        let scaled = |value: &T| T::narrow(value.widen() * factor);
        let exact = |value: &T| scaled(value).widen() / factor == value.widen();
        self.values().iter().all(exact).then(|| Self {
            padded: Padded::new(self.values().iter().map(scaled)),
            rows: self.rows.clone(),
            ranks: self.ranks.clone(),
            runs: self.runs.clone(),
            gaps: OnceLock::new(),
        })
    }

    /// Ascending.
    pub fn values(&self) -> &[T] {
        self.padded.values()
    }

    pub fn padded(&self) -> &Padded<T> {
        &self.padded
    }

    /// The row at each position of [`Self::values`].
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Runs of equal values, computed on first use.
    pub fn runs(&self) -> &Runs {
        self.runs.get_or_init(|| {
            let mut bounds = Vec::with_capacity(self.rows.len());
            let mut equal_pairs = 0.0;
            for equal in self.values().chunk_by(|a, b| a == b) {
                let (start, length) = (bounds.len() as u32, equal.len() as u32);
                bounds.resize(bounds.len() + equal.len(), [start, start + length]);
                equal_pairs += f64::from(length) * f64::from(length - 1);
            }
            Box::new(Runs { bounds, equal_pairs })
        })
    }

    /// The mean gap between the values about each position, in about half octaves: two more is twice as far.
    pub fn gaps(&self) -> &[u16] {
        self.gaps.get_or_init(|| {
            let (values, last) = (self.values(), self.rows.len().saturating_sub(1));
            let about = |at: usize| {
                let (from, to) = (at.saturating_sub(AROUND), (at + AROUND).min(last));
                let gap = (values[to].widen() - values[from].widen()) / (to - from).max(1) as f64;
                // The exponent and the first digit behind it.
                (gap.to_bits() >> (f64::MANTISSA_DIGITS - 2)) as u16
            };
            (0..values.len()).map(about).collect()
        })
    }

    /// The position of each row in [`Self::values`].
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }
}
