//! The steps and sums that the ways to sum up an expectation share.

use std::ops::Range;

/// P(κ | p + 1) is P(κ | p) times (p + 1 + κ) and this, for each p.
pub(super) fn steps(p: Range<usize>, behind: usize, beyond: usize) -> impl Iterator<Item = f64> {
    p.map(move |p| {
        let distances = p + behind + 2;
        distances as f64 / ((p + 1) * (distances + beyond)) as f64
    })
}

/// Numbers in one step. The order of additions follows from it, and so do the bits of a sum: unlike those of the searches,
/// which happen to be as many, these lanes are part of what a score is.
pub const LANES: usize = 16;

/// Probabilities this small, relative to the sum so far, end a tail that falls from there on.
pub(super) const NEGLIGIBLE: f64 = 1e-20;

/// A sum in [`LANES`] parts.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Sum(pub(super) [f64; LANES]);

impl Sum {
    pub(super) fn of(value: f64) -> Self {
        let mut sum = Self([0.0; LANES]);
        sum.0[0] = value;
        sum
    }

    /// In pairs, so that no addition waits for all others.
    pub(super) fn total(&self) -> f64 {
        let mut sums = self.0;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0]
    }
}
