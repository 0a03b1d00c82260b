//! The sum over κ and p where they are few: P(κ | p) is a product of binomials from tables,
//!
//! ```text
//! P(κ | p) = C(p + κ, κ) C(q + d − κ, q) / C(S + d, d)
//! ```
//!
//! so a step has no division, and the second factor is taken once for all p. Most open points take this way.
//!
//! Cost: one step of sixteen lanes for every p, e and sixteen κ; the tables take 5 MB.
//! Gain: row `Few` of README.md (`cargo bench --bench shapes`).

use std::sync::LazyLock;

use crate::thresholds::{FEW_BEFORE, FEW_BEHIND, FEW_BEYOND, FEW_PROBABILITIES};

use super::probabilities::Probabilities;
use super::sums::{LANES, Sum};

/// The expectation of `values[1 + p − e + κ]` where there are few of all: `values[0]` is no part of it. There are
/// [`LANES`] more than needed.
#[inline(always)]
pub fn expectation(
    probabilities: Probabilities<&[f64]>,
    behind: usize,
    beyond: usize,
    values: &[f64],
    binomials: &Binomials,
    shares: &mut Shares,
) -> Sum {
    let width = probabilities.width;
    for at in 0..probabilities.count {
        let unit = 1.0 / binomials.of(probabilities.first + at + 1 + behind)[beyond];
        for e in at * width..(at + 1) * width {
            shares.0[e] = probabilities.values[e] * unit;
        }
    }
    let terms = Terms {
        probabilities,
        shares: &shares.0,
        behind: binomials.reversed(behind, beyond),
        beyond,
        values,
        binomials,
    };
    match probabilities.width {
        1 => sum::<1>(terms),
        2 => sum::<2>(terms),
        3 => sum::<3>(terms),
        4 => sum::<4>(terms),
        _ => sum::<0>(terms),
    }
}

/// P(p, e)/C(S + d, d), in the order of [`Probabilities`]. Overwritten each time.
pub struct Shares([f64; FEW_PROBABILITIES]);

impl Default for Shares {
    fn default() -> Self {
        Self([0.0; FEW_PROBABILITIES])
    }
}

struct Terms<'a> {
    probabilities: Probabilities<&'a [f64]>,
    /// C(q + d − κ, q), κ = 0, 1, …
    behind: &'a [f64],
    beyond: usize,
    shares: &'a [f64; FEW_PROBABILITIES],
    values: &'a [f64],
    binomials: &'a Binomials,
}

/// `WIDTH` is how many e there are, or 0 for what the probabilities say.
#[inline(always)]
fn sum<const WIDTH: usize>(Terms { probabilities, shares, behind, beyond, values, binomials }: Terms) -> Sum {
    let width = if WIDTH == 0 { probabilities.width } else { WIDTH };
    let values = &values[1 + probabilities.first - (probabilities.lowest + width - 1)..];
    let mut sums = [0.0; LANES];
    for first in (0..=beyond).step_by(LANES) {
        let mut of_block = [0.0; LANES];
        for at in 0..probabilities.count {
            let of = &shares[at * width..][..width];
            let near = &values[first + at..][..width - 1 + LANES];
            let before = &binomials.of(probabilities.first + at)[first..][..LANES];
            let mut value = [0.0; LANES];
            for e in 0..width {
                let (of, near) = (of[e], &near[width - 1 - e..][..LANES]);
                for lane in 0..LANES {
                    value[lane] += of * near[lane];
                }
            }
            for lane in 0..LANES {
                of_block[lane] += before[lane] * value[lane];
            }
        }
        let behind = &behind[first..][..LANES];
        for lane in 0..LANES {
            sums[lane] += of_block[lane] * behind[lane];
        }
    }
    Sum(sums)
}

/// C(n + i, i).
pub struct Binomials {
    /// From i = 0 on for n below [`FEW_BEFORE`] + [`FEW_BEHIND`], and [`LANES`] more than [`FEW_BEYOND`].
    up: Vec<f64>,
    /// Down to i = 0 for n below [`FEW_BEHIND`], and [`LANES`] zeros.
    down: Vec<f64>,
}

const STRIDE: usize = FEW_BEYOND + LANES;

static BINOMIALS: LazyLock<Binomials> = LazyLock::new(|| {
    let mut up = vec![1.0; (FEW_BEFORE + FEW_BEHIND) * STRIDE];
    for at in STRIDE..up.len() {
        // From one n to the next, so that few roundings add up.
        let (n, i) = (at / STRIDE, at % STRIDE);
        up[at] = up[at - STRIDE] * ((n + i) as f64 / n as f64);
    }
    let mut down = vec![0.0; FEW_BEHIND * STRIDE];
    for (down, up) in down.chunks_exact_mut(STRIDE).zip(up.chunks_exact(STRIDE)) {
        down.iter_mut().zip(up[..FEW_BEYOND].iter().rev()).for_each(|(down, up)| *down = *up);
    }
    Binomials { up, down }
});

impl Binomials {
    pub fn get() -> &'static Self {
        &BINOMIALS
    }

    #[inline(always)]
    fn of(&self, n: usize) -> &[f64] {
        &self.up[n * STRIDE..][..STRIDE]
    }

    /// From i = `last` down to 0, and [`LANES`] zeros.
    #[inline(always)]
    fn reversed(&self, n: usize, last: usize) -> &[f64] {
        &self.down[n * STRIDE..][FEW_BEYOND - 1 - last..STRIDE]
    }
}
