//! A sum that does not depend on the order of its terms.
//!
//! Terms are added in fixed point with 2⁻⁴⁴ as the unit. Integer addition is associative, so any order of rows, and any
//! split of them over threads, gives the same bits. A term is rounded by at most 2⁻⁴⁵, far below the error of any
//! estimator.

use super::thresholds;
use super::width::every_width;

/// The sum of finite `terms`, each below 2⁸⁰ in size.
pub fn total(terms: &[f64]) -> f64 {
    let sum: i128 = terms.chunks(CHUNK).map(of_chunk).sum();
    sum as f64 / UNIT
}

const UNIT: f64 = (1_u64 << 44) as f64;
/// Numbers of this size have 2⁻⁴⁴ as their last digit: adding one rounds a smaller number to it, and leaves the number
/// of units in the lower bits.
const ROUNDER: f64 = 384.0;
/// The size up to which that works.
const SMALL: f64 = 128.0;
/// The sum of as many small terms fits 64 bits.
const CHUNK: usize = 1024;

fn of_chunk(terms: &[f64]) -> i128 {
    match thresholds::takes_small_terms().then(|| of_small(terms)).flatten() {
        Some(sum) => i128::from(sum),
        None => terms.iter().map(|term| (term * UNIT).round_ties_even() as i128).sum(),
    }
}

every_width! {
/// In units; `None` unless all terms are small. Gain: row `SmallTerms` of README.md (`cargo bench --bench
/// shapes`).
fn of_small(terms: &[f64]) -> Option<i64> {
    let (mut sum, mut large) = (0_i64, false);
    for &term in terms {
        sum += (term + ROUNDER).to_bits().wrapping_sub(ROUNDER.to_bits()) as i64;
        large |= term.abs() >= SMALL;
    }
    (!large).then_some(sum)
}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_does_not_matter_and_cancellation_is_exact() {
        let mut terms = vec![0.1, 1e6, -0.3, 1.0 / 3.0, -1e6, 7.25e-9];
        let forward = total(&terms);
        terms.reverse();
        assert_eq!(forward.to_bits(), total(&terms).to_bits());
        assert!((forward - (0.1 - 0.3 + 1.0 / 3.0 + 7.25e-9)).abs() < 1e-12);
    }

    #[test]
    fn small_and_large_terms_are_rounded_alike() {
        let small: Vec<f64> = (0..5000).map(|i| f64::from(i * 7919 % 5003) / 41.0 - 60.0).collect();
        let mut with_large = small.clone();
        with_large.extend([1e9, -1e9]);
        assert_eq!(total(&small).to_bits(), total(&with_large).to_bits());
        let plain: f64 = small.iter().sum();
        assert!((total(&small) - plain).abs() < 1e-9);
        with_large.rotate_left(1234);
        assert_eq!(total(&small).to_bits(), total(&with_large).to_bits());
    }
}
