//! The values of a column between margins that no ball reaches: the type that unchecked reads of columns trust.

use super::lanes::Real;

/// Infinite values at either end, so that a group of lanes may read beyond the column.
pub const MARGIN: usize = 64;

/// Positions, and three bits beside them, fit 32 bits.
const MOST: usize = 1 << 29;

/// Values with [`MARGIN`] times −∞ before them and [`MARGIN`] times +∞ behind. No difference from a value to a margin is
/// below any radius, infinite ones included: it is +∞, or NaN where the value itself is infinite.
#[derive(Clone, Debug)]
pub struct Padded<T> {
    padded: Vec<T>,
}

impl<T: Real> Padded<T> {
    /// Panics above 2²⁹ values.
    pub fn new(values: impl Iterator<Item = T>) -> Self {
        let mut padded = Vec::with_capacity(values.size_hint().0 + 2 * MARGIN);
        padded.resize(MARGIN, T::LOWEST);
        padded.extend(values);
        assert!(padded.len() < MOST, "got a column of {} values, expected fewer than 2²⁹", padded.len() - MARGIN);
        padded.resize(padded.len() + MARGIN, T::INFINITY);
        Self { padded }
    }

    /// The number of values, margins aside.
    pub fn len(&self) -> usize {
        self.padded.len() - 2 * MARGIN
    }

    /// The values without the margins.
    pub fn values(&self) -> &[T] {
        &self.padded[MARGIN..self.padded.len() - MARGIN]
    }

    /// The values and both margins: value i is at `MARGIN + i`.
    pub fn with_margins(&self) -> &[T] {
        &self.padded
    }
}
