//! The sum over κ and p whatever their number: the plain way, which the others shorten.
//!
//! P(κ | p) of the first p is computed from about its largest outward, so that it stays in the range of numbers, and becomes
//! P(κ | p + 1) by a multiplication; what is negligible is left out.
//!
//! Cost: a division for every κ, and one step of sixteen lanes for every p, e and sixteen κ that are left.

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

use crate::width::every_width;

use super::probabilities::Probabilities;
use super::sums::{LANES, NEGLIGIBLE, Sum, steps};

/// Values of p at a time: over more, what is negligible for the first may be what counts for the last.
const PART: usize = 64;

/// The expectation of `values[1 + p − e + κ]`: `values[0]` is no part of it. There are [`LANES`] more than needed.
#[cold]
#[inline(never)]
pub fn expectation(probabilities: Probabilities<&[f64]>, behind: usize, beyond: usize, values: &[f64]) -> f64 {
    let (count, width, highest) =
        (probabilities.count, probabilities.width, probabilities.lowest + probabilities.width - 1);
    let mut expectation = 0.0;
    for from in (0..count).step_by(PART) {
        let part = PART.min(count - from);
        let of = &probabilities.values[from * width..(from + part) * width];
        let p = probabilities.first + from;
        if of.iter().sum::<f64>() <= NEGLIGIBLE {
            continue;
        }
        let steps: Vec<f64> = steps(p..p + part, behind, beyond).collect();
        let negligible = if part > 1 { NEGLIGIBLE.powi(4) } else { NEGLIGIBLE };
        let (start, weights) = beta_binomial(p, behind, beyond, negligible);
        let values = &values[1 + p + start - highest..];
        let terms = Terms { of, width, steps: &steps, first: p + 1 + start, weights: &weights, values };
        expectation += sum_of(terms) / weights.iter().sum::<f64>();
    }
    expectation
}

/// The terms that [`sum`] adds up.
struct Terms<'a> {
    /// P(p, e), as in [`Probabilities`].
    of: &'a [f64],
    width: usize,
    /// P(κ | p + 1) is P(κ | p) times (p + 1 + κ) and this.
    steps: &'a [f64],
    /// p + 1 + κ of the first p and κ.
    first: usize,
    /// In proportion to P(κ | p) for the first p, a multiple of [`LANES`].
    weights: &'a [f64],
    /// From that of the first p, the highest e and the first κ on.
    values: &'a [f64],
}

fn sum_of(terms: Terms) -> f64 {
    let mut sums = [0.0; LANES];
    match terms.width {
        1 => sum::<1>(terms, &mut sums),
        2 => sum::<2>(terms, &mut sums),
        3 => sum::<3>(terms, &mut sums),
        4 => sum::<4>(terms, &mut sums),
        _ => sum::<0>(terms, &mut sums),
    }
    Sum(sums).total()
}

every_width! {
/// Σ P(p, e) P(κ | p) value(p − e + κ), with weights in proportion to P(κ | p). `WIDTH` is how many e there are,
/// or 0 for what the terms say.
fn sum<const WIDTH: usize>(Terms { of, width, steps, first, weights, values }: Terms, sums: &mut [f64; LANES]) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let mut p_plus = NUMBERS_FROM_0;
    for lane in 0..LANES {
        p_plus[lane] += first as f64;
    }
    for (block, weights) in weights.chunks_exact(LANES).enumerate() {
        let mut weight = [0.0; LANES];
        weight.copy_from_slice(weights);
        let (mut factor, mut of_block) = (p_plus, *sums);
        for (at, (of, step)) in of.chunks_exact(width).zip(steps).enumerate() {
            let near = &values[block * LANES + at..][..width - 1 + LANES];
            let mut value = [0.0; LANES];
            for e in 0..width {
                let (of, near) = (of[e], &near[width - 1 - e..][..LANES]);
                for lane in 0..LANES {
                    value[lane] += of * near[lane];
                }
            }
            for lane in 0..LANES {
                of_block[lane] += weight[lane] * value[lane];
                weight[lane] *= factor[lane] * step;
                factor[lane] += 1.0;
            }
        }
        *sums = of_block;
        for lane in 0..LANES {
            p_plus[lane] += LANES as f64;
        }
    }
}
}

const NUMBERS_FROM_0: [f64; LANES] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// The first κ and, for it and those that follow, weights in proportion to P(κ | p), a multiple of [`LANES`]. Left out
/// are those less than `negligible` times the largest.
fn beta_binomial(p: usize, behind: usize, beyond: usize, negligible: f64) -> (usize, Vec<f64>) {
    let mut weights = Vec::with_capacity(beyond + LANES);
    // P(κ + 1 | p) / P(κ | p) is in proportion to up(κ) / down(κ).
    let up = |kappa: usize| (beyond - kappa) as f64 * (p + 1 + kappa) as f64;
    let down = |kappa: usize| (kappa + 1) as f64 * (behind + beyond - kappa) as f64;
    // From about the largest outward, so that no weight leaves the range of numbers.
    let start = ((beyond as f64 * ((p + 1) as f64 / (p + behind + 2) as f64)) as usize).min(beyond);
    let mut weight = 1.0;
    for kappa in (0..start).rev() {
        weight *= down(kappa) / up(kappa);
        if weight < negligible {
            break;
        }
        weights.push(weight);
    }
    let first = start - weights.len();
    weights.reverse();
    weights.push(1.0);
    weight = 1.0;
    for kappa in start..beyond {
        weight *= up(kappa) / down(kappa);
        if weight < negligible {
            break;
        }
        weights.push(weight);
    }
    weights.resize(weights.len().next_multiple_of(LANES), 0.0);
    (first, weights)
}
