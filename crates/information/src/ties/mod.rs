//! The expectation of a KSG term over random orders of equal distances.
//!
//! Only distances equal to the radius r leave anything open. In a random order of those in x and in y, n_x counts what is
//! before the boundary in x; the expectation of ψ(n_x + 1) is a finite sum, Σ P(p, e) P(κ | p) ψ(n_x + 1), which follows
//! from how many points are at r, by kind ([`Shape`]). Nothing is drawn. README.md has the derivation.
//!
//! There are four ways to sum it up, by what there is much of: the mean of consecutive ψ, which is what points without
//! ties take, [`closed_form`], [`tabulated`] and [`direct`]. [`thresholds`] has the limits of each, and each file its
//! cost. P(p, e) depends on four small numbers, and is remembered per thread ([`probabilities`]).

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

mod closed_form;
mod direct;
mod probabilities;
mod shape;
mod sums;
mod tabulated;

use std::cell::RefCell;

use super::digamma::Digamma;
use super::thresholds::{self, LONG_MEAN, Shortcut, Size, Summation};
use super::width::every_width;
use probabilities::{Memory, Probabilities};
use sums::{LANES, Sum};
use tabulated::{Binomials, Shares};

pub use shape::{Boundary, Shape};

/// ψ as far as tied distances of a sample need it: the position of a boundary counts those of two variables, and several are
/// read at once.
pub fn digamma(rows: usize) -> Digamma {
    Digamma::up_to(2 * rows + 2 + 2 * LANES)
}

impl Boundary {
    /// E ψ(n + 1), n the points before the boundary in this variable. `digamma` is that of [`digamma`].
    pub fn expected_digamma(self, digamma: &Digamma) -> f64 {
        let mut expected = Vec::new();
        expected_digammas(&[self], digamma, &mut expected);
        expected[0]
    }
}

/// [`Boundary::expected_digamma`] of each of the `boundaries`.
pub fn expected_digammas(boundaries: &[Boundary], digamma: &Digamma, expected: &mut Vec<f64>) {
    expected.clear();
    WORK.with_borrow_mut(|work| {
        work.sums.clear();
        sum_up(boundaries, digamma.from(0), thresholds::left_out(), work);
        expected.extend(work.sums.iter().map(Sum::total));
    });
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// The memory and buffers that are used again from call to call.
#[derive(Default)]
struct Work {
    memory: Memory,
    shares: Shares,
    sums: Vec<Sum>,
}

every_width! {
/// `psi` is ψ(0), ψ(1), … The lanes of each sum are added up by the caller: else the compiler takes those of all steps
/// before apart.
fn sum_up(boundaries: &[Boundary], psi: &[f64], left_out: Option<Shortcut>, work: &mut Work) {
    let Work { memory, shares, sums } = work;
    let binomials = Binomials::get();
    for &Boundary { closer, shape } in boundaries {
        let Shape { missing, only_here, only_there, both, beyond } = shape;
        if thresholds::takes_mean([only_here, only_there, both, beyond], left_out) {
            sums.push(mean(psi, closer, beyond + 1));
            continue;
        }
        let of = match thresholds::takes_memory(left_out) {
            true => memory.probabilities(shape),
            false => memory.compute(shape),
        };
        let behind = only_here + only_there + both - missing;
        sums.push(match thresholds::summation(size(closer, only_here, of, behind, beyond), left_out) {
            Summation::ClosedForm => closed_form::expectation(of, behind, beyond, psi),
            Summation::Few => tabulated::expectation(of, behind, beyond, &psi[closer..], binomials, shares),
            Summation::Many => Sum::of(direct::expectation(of, behind, beyond, &psi[closer..])),
        });
    }
}
}

/// The numbers that choose the sum.
#[inline(always)]
fn size(closer: usize, only_here: usize, of: Probabilities<&[f64]>, behind: usize, beyond: usize) -> Size {
    Size { closer, only_here, before: of.first + of.count, behind, beyond, probabilities: of.values.len() }
}

/// The mean of ψ(after + 1) … ψ(after + count). From Σ_{i ≤ n} ψ(i) = n(ψ(n + 1) − 1), where `count` is [`LONG_MEAN`] or
/// more.
#[inline(always)]
fn mean(psi: &[f64], after: usize, count: usize) -> Sum {
    if count >= LONG_MEAN {
        let up_to = |n: usize| if n == 0 { 0.0 } else { n as f64 * (psi[n + 1] - 1.0) };
        return Sum::of((up_to(after + count) - up_to(after)) / count as f64);
    }
    let mut sums = [0.0; LANES];
    for first in (0..count).step_by(LANES) {
        let values = &psi[after + 1 + first..][..LANES];
        let left = (count - first) as u32;
        for lane in 0..LANES {
            let value = values[lane];
            sums[lane] += if (lane as u32) < left { value } else { 0.0 };
        }
    }
    let share = 1.0 / count as f64;
    for lane in 0..LANES {
        sums[lane] *= share;
    }
    Sum(sums)
}

#[cfg(test)]
mod tests;
