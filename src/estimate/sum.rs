//! A sum that does not depend on the order of its terms.

/// Adds in fixed point with 2⁻⁵² as the unit. Integer addition is associative, so any order of rows, and any split of
/// them over threads, gives the same bits. A term is rounded by at most 2⁻⁵³, far below what an estimator can tell.
#[derive(Clone, Copy, Default)]
pub struct Sum(i128);

const UNIT: f64 = (1_u64 << 52) as f64;

impl Sum {
    /// `term` is finite and below 2⁷⁰ in size; larger ones would saturate.
    pub fn add(&mut self, term: f64) {
        self.0 += (term * UNIT).round_ties_even() as i128;
    }

    pub fn total(self) -> f64 {
        self.0 as f64 / UNIT
    }
}

impl FromIterator<f64> for Sum {
    fn from_iter<I: IntoIterator<Item = f64>>(terms: I) -> Self {
        let mut sum = Self::default();
        terms.into_iter().for_each(|term| sum.add(term));
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_cancellation_is_exact() {
        let terms = [0.1, 1e6, -0.3, 1.0 / 3.0, -1e6, 7.25e-9];
        let forward: Sum = terms.into_iter().collect();
        let backward: Sum = terms.into_iter().rev().collect();
        assert_eq!(forward.total().to_bits(), backward.total().to_bits());
        assert!((forward.total() - (0.1 - 0.3 + 1.0 / 3.0 + 7.25e-9)).abs() < 1e-14);
    }
}
