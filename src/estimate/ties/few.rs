//! The sum over κ and p where they are few: P(κ | p) is a product of binomials that are looked up,
//!
//! ```text
//! P(κ | p) = C(p + κ, κ) C(q + d − κ, q) / C(S + d, d)
//! ```
//!
//! so that a step has no division, and the second factor is taken once for all p. The tables take 5 MB.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use std::sync::LazyLock;

use super::chances::{Chances, NUMBERS};
use super::{LANES, Sum};

/// Below so many distances before the border and behind it, and so many others, the binomials are looked up. Their
/// products are below 10²⁰⁰.
const FEW: usize = 32;
const FEW_BEHIND: usize = 64;
const LONGEST: usize = 1 << 12;

pub fn is_few(chances: Chances<&[f64]>, behind: usize, beyond: usize) -> bool {
    (chances.first + chances.count <= FEW) & (chances.of.len() <= NUMBERS) & (behind < FEW_BEHIND) & (beyond < LONGEST)
}

/// The expectation of `values[1 + p − e + κ]` where [`is_few`] holds: `values[0]` is no part of it. There are [`LANES`]
/// more than needed.
#[inline(always)]
pub fn expectation(
    chances: Chances<&[f64]>,
    behind: usize,
    beyond: usize,
    values: &[f64],
    choices: &Choices,
    shares: &mut Shares,
) -> Sum {
    let width = chances.width;
    for at in 0..chances.count {
        let unit = 1.0 / choices.of(chances.first + at + 1 + behind)[beyond];
        for e in at * width..(at + 1) * width {
            shares.0[e] = chances.of[e] * unit;
        }
    }
    let terms = Terms { chances, shares: &shares.0, behind: choices.turned(behind, beyond), beyond, values, choices };
    match chances.width {
        1 => sum::<1>(terms),
        2 => sum::<2>(terms),
        3 => sum::<3>(terms),
        4 => sum::<4>(terms),
        _ => sum::<0>(terms),
    }
}

/// P(p, e)/C(S + d, d), in the order of the chances. Overwritten each time.
pub struct Shares([f64; NUMBERS]);

impl Default for Shares {
    fn default() -> Self {
        Self([0.0; NUMBERS])
    }
}

struct Terms<'a> {
    chances: Chances<&'a [f64]>,
    /// C(q + d − κ, q), κ = 0, 1, …
    behind: &'a [f64],
    beyond: usize,
    shares: &'a [f64; NUMBERS],
    values: &'a [f64],
    choices: &'a Choices,
}

/// `WIDTH` is how many e there are, or 0 for what the chances say.
#[inline(always)]
fn sum<const WIDTH: usize>(Terms { chances, shares, behind, beyond, values, choices }: Terms) -> Sum {
    let width = if WIDTH == 0 { chances.width } else { WIDTH };
    let values = &values[1 + chances.first - (chances.lowest + width - 1)..];
    let mut sums = [0.0; LANES];
    for first in (0..=beyond).step_by(LANES) {
        let mut of_block = [0.0; LANES];
        for at in 0..chances.count {
            let of = &shares[at * width..][..width];
            let near = &values[first + at..][..width - 1 + LANES];
            let before = &choices.of(chances.first + at)[first..][..LANES];
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
pub struct Choices {
    /// From i = 0 on for n below [`FEW`] + [`FEW_BEHIND`], and [`LANES`] more than [`LONGEST`].
    up: Vec<f64>,
    /// Down to i = 0 for n below [`FEW_BEHIND`], and [`LANES`] zeros.
    down: Vec<f64>,
}

const STRIDE: usize = LONGEST + LANES;

static CHOICES: LazyLock<Choices> = LazyLock::new(|| {
    let mut up = vec![1.0; (FEW + FEW_BEHIND) * STRIDE];
    for at in STRIDE..up.len() {
        // From one n to the next, so that few roundings add up.
        let (n, i) = (at / STRIDE, at % STRIDE);
        up[at] = up[at - STRIDE] * ((n + i) as f64 / n as f64);
    }
    let mut down = vec![0.0; FEW_BEHIND * STRIDE];
    for (down, up) in down.chunks_exact_mut(STRIDE).zip(up.chunks_exact(STRIDE)) {
        down.iter_mut().zip(up[..LONGEST].iter().rev()).for_each(|(down, up)| *down = *up);
    }
    Choices { up, down }
});

impl Choices {
    pub fn get() -> &'static Self {
        &CHOICES
    }

    #[inline(always)]
    fn of(&self, n: usize) -> &[f64] {
        &self.up[n * STRIDE..][..STRIDE]
    }

    /// From i = `last` down to 0, and [`LANES`] zeros.
    #[inline(always)]
    fn turned(&self, n: usize, last: usize) -> &[f64] {
        &self.down[n * STRIDE..][LONGEST - 1 - last..STRIDE]
    }
}
