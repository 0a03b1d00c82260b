//! The distinct values of a column that has few of them: its *levels*.

use super::neighbours::lanes::Real;
use super::neighbours::sorted::Sorted;
use super::thresholds::MOST_LEVELS;

/// The distinct values of a column, ascending, by number.
#[derive(Clone, Debug)]
pub struct Levels {
    /// With −∞ before the first and +∞ behind the last.
    values: Vec<f64>,
    /// Rows below each, and all.
    below: Vec<u32>,
    /// The level of each row.
    of_rows: Vec<u32>,
}

impl Levels {
    /// `None` above [`MOST_LEVELS`].
    pub fn new<T: Real>(column: &Sorted<T>) -> Option<Self> {
        let (mut values, mut below) = (vec![f64::NEG_INFINITY], vec![0]);
        let mut start = 0;
        for equal in column.values().chunk_by(|a, b| a == b) {
            if values.len() > MOST_LEVELS {
                return None;
            }
            values.push(equal[0].widen());
            start += equal.len() as u32;
            below.push(start);
        }
        values.push(f64::INFINITY);
        let mut of_rows = vec![0; column.rows().len()];
        for (level, bounds) in below.windows(2).enumerate() {
            for &row in &column.rows()[bounds[0] as usize..bounds[1] as usize] {
                of_rows[row as usize] = level as u32;
            }
        }
        Some(Self { values, below, of_rows })
    }

    /// The values times a positive factor.
    pub fn scaled(&self, factor: f64) -> Self {
        Self { values: self.values.iter().map(|value| value * factor).collect(), ..self.clone() }
    }

    pub fn count(&self) -> usize {
        self.below.len() - 1
    }

    /// The level of each row.
    pub fn of_rows(&self) -> &[u32] {
        &self.of_rows
    }

    /// The values, ascending, with −∞ before the first and +∞ behind the last.
    pub fn padded(&self) -> &[f64] {
        &self.values
    }

    /// Rows of the levels from the first up to but without the second.
    #[inline(always)]
    pub fn rows(&self, [from, to]: [usize; 2]) -> usize {
        (self.below[to] - self.below[from]) as usize
    }
}
