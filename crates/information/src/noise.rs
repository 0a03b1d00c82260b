//! Noise that is a function of what it disturbs: a hash of the seed, the row's identity, the coordinate, the side of
//! the pair and the repeat. It is the same at every computation, so curves do not shimmer, and it does not depend on the
//! order of the rows or on threads.

use std::f64::consts::TAU;

use siphasher::sip::SipHasher13;

use super::key::Key;

/// Separates these sequences from others of the same seed.
const STREAM: u64 = 3;

/// One source of noise: a value for every row.
#[derive(Clone, Copy)]
pub struct Source(u64);

impl Source {
    /// `side` is 0 or 1, the position of the variable in its pair; `other` the variable it is paired with, where the noise
    /// is to differ between pairs.
    pub fn new(seed: u64, key: Key, side: usize, repeat: usize, other: Option<Key>) -> Self {
        let other = other.map_or([0; 3], |key| [1, key.tensor, key.coordinate]);
        let words = [STREAM, key.tensor, key.coordinate, side as u64, repeat as u64, other[0], other[1], other[2]];
        Self(hash(seed, &words))
    }

    /// Gaussian with mean 0 and variance 1 (Box and Muller 1958, DOI 10.1214/aoms/1177706645).
    pub fn gaussian(self, row: u64) -> f64 {
        // 1 − u lies in (0, 1], where the logarithm is finite.
        let radius = (-2.0 * (1.0 - unit(hash(self.0, &[row, 0]))).ln()).sqrt();
        radius * (TAU * unit(hash(self.0, &[row, 1]))).cos()
    }
}

fn hash<const N: usize>(seed: u64, words: &[u64; N]) -> u64 {
    let mut bytes = [[0; 8]; N];
    for (bytes, word) in bytes.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    SipHasher13::new_with_keys(seed, 0).hash(bytes.as_flattened())
}

/// The upper 53 bits as a number in [0, 1).
fn unit(hash: u64) -> f64 {
    (hash >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { tensor: 3, coordinate: 1 };

    #[test]
    fn moments_are_those_of_the_distribution() {
        let source = Source::new(7, KEY, 0, 0, None);
        let n = 100_000;
        let gaussian: Vec<f64> = (0..n).map(|row| source.gaussian(row)).collect();
        let moment = |values: &[f64], power| values.iter().map(|v| v.powi(power)).sum::<f64>() / n as f64;
        assert!(moment(&gaussian, 1).abs() < 0.015);
        assert!((moment(&gaussian, 2) - 1.0).abs() < 0.02);
        assert!((moment(&gaussian, 4) - 3.0).abs() < 0.15);
    }

    #[test]
    fn sides_repeats_partners_and_coordinates_are_independent() {
        let base = Source::new(7, KEY, 0, 0, None);
        let others = [
            Source::new(8, KEY, 0, 0, None),
            Source::new(7, Key { coordinate: 2, ..KEY }, 0, 0, None),
            Source::new(7, KEY, 1, 0, None),
            Source::new(7, KEY, 0, 1, None),
            Source::new(7, KEY, 0, 0, Some(KEY)),
        ];
        for other in others {
            let covariance: f64 =
                (0..20_000).map(|row| base.gaussian(row) * other.gaussian(row)).sum::<f64>() / 20_000.0;
            assert!(covariance.abs() < 0.03, "{covariance}");
        }
    }
}
