//! The expectation of a KSG term when equal distances stand in random order.
//!
//! Let r be the distance from a point to its k-th nearest. Only distances equal to r leave anything open. Every
//! distance in x that equals r, and every one in y, gets a place in one random order; what is smaller than r stays
//! before them. Then a point's joint distance, the larger of its two, has a place too, and the k'-th of those at r is
//! the ball's border, where k' neighbours are missing inside. n_x counts what stands before the border in x. With
//!
//! ```text
//! a  points at r in x and closer in y        d  points at r in x and farther in y
//! b  points at r in y and closer in x        c  points at r in both
//! ```
//!
//! the k' − 1 others before the border are α, β and γ of the first three kinds; δ more of kind c stand before it in x
//! only, and κ of kind d. d aside, p = α + β + 2γ + δ distances stand before the border, and one more where it is of
//! kind c; q = a + b + c − k' are behind it whatever the case, because a point of kind c that is before the border in
//! x only has its other distance behind. So the expectation is a sum in two steps:
//!
//! 1. P(p, e), where p − e of the p count for n_x, is proportional to binomials times ∫ tᵖ(1 − t)^q dt, t the border's
//!    place as a number in [0, 1]. It depends on k', a, b and c alone, e takes k' + 1 values at most, and what was
//!    worked out is remembered per thread in a table of bounded size.
//! 2. κ given p is beta-binomial: P(κ | p) ∝ (κ + 1)…(κ + p) · (d − κ + 1)…(d − κ + q), and P(κ | p + 1) is P(κ | p)
//!    times (p + 1 + κ) and a constant. Σ P(p, e) P(κ | p) ψ(n_x + 1) over p, e and κ is taken for sixteen κ at a
//!    time.
//!
//! All sums are finite and nothing is drawn. n_y is the same with a and b exchanged.
//!
//! Without ties one point of kind a or b is on the border and n_x and n_y are as they are. A variable with itself has
//! one of kind c: it is before the border in one of the two, which gives ψ(N) − ψ(k) − 1/k.
//!
//! Where nothing is closer in x, as for identical points (r = 0), n_x + 1 is p + 1 + κ − e, and the sum over κ has a
//! closed form. With M = p + 1 + κ the place of the border among the S + d distances, S = p + q + 1,
//!
//! ```text
//! E ψ(M) = ψ(p + 1) + ψ(S + d + 1) − ψ(S + 1)       ψ(M − e) = ψ(M) − Σ_{l ≤ e} e(e − 1)…(e − l + 1)/l · T_l
//! T_l = 1/((M − 1)…(M − l))                         E T_l = Π_{i < l} (S − i) / ((S + d − i)(p − i))
//! ```
//!
//! Cost: [`few`], which is what most borders take, has one step of sixteen lanes for every p, e and sixteen κ. There is
//! one p where c = 0, and about √(k'c) count where c is large. The closed form ([`point`]) takes one step for every sixteen
//! p, whatever d is. Where d is large, [`long`] takes few κ for all, so that columns of which half are one value do not take
//! longer with the square of the rows. Where there is more of anything else than binomials are looked up for, [`many`]
//! works the weights out.
//!
//! Measured with AVX-512, k = 3, N = 1,024, a side of an open point: about 15 ns for bfloat16 sigmoids, 28 for columns of
//! 100 levels and 140 for some 25 levels, where half a dozen points are at the radius and 75 beyond it; borders one at a
//! time, each kind by a function of its own, took nearly twice as long for the first two. What did not help: working on
//! borders of like shapes together, steps of 32 lanes, fused multiplications, and values and binomials that stay in registers
//! from one p to the next. Remembering whole distributions of n_x took eight to ten times as long, since d makes nearly
//! every shape a new one. Not taken: recurrences of E ψ and E 1/n in p and n_x are O(1) a step, but unstable in one
//! direction or the other depending on the shape; sums of ψ against polynomials of κ from prefix sums cancel; and the
//! series of positive terms that follows from
//!
//! ```text
//! ψ(x) − ψ(x − y) = Σ_{l ≥ 1} y(y + 1)…(y + l − 1) / (l · x(x + 1)…(x + l − 1))
//! ```
//!
//! with y what is behind the border, whose terms fall so slowly where d is large that it has more of them than κ.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

mod chances;
mod few;
mod long;
mod many;
mod point;

use std::cell::RefCell;
use std::ops::Range;

use super::digamma::Digamma;
use super::width::every_width;
use chances::Memory;
use few::{Choices, Shares};

/// What lies about a point, seen from one of the two variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Border {
    /// Other points closer than r in this variable.
    pub closer: usize,
    pub shape: Shape,
}

/// The points at distance r, by kind: see the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// k' ≥ 1.
    pub missing: usize,
    /// a.
    pub only_here: usize,
    /// b.
    pub only_there: usize,
    /// c. a + b + c ≥ k'.
    pub both: usize,
    /// d.
    pub beyond: usize,
}

impl Border {
    /// E ψ(n + 1), n the points that stand before the border in this variable. `digamma` reaches [`LANES`] beyond the
    /// number of rows.
    pub fn expected_digamma(self, digamma: &Digamma) -> f64 {
        let mut expected = Vec::new();
        expected_digammas(&[self], digamma, &mut expected);
        expected[0]
    }

    /// Whether one point is the border, at a uniform place, or nothing is at r in this variable.
    #[inline(always)]
    fn is_simple(&self) -> bool {
        let Shape { only_here, only_there, both, beyond, .. } = self.shape;
        (both == 0) & ((only_here + only_there == 1) | (only_here + beyond == 0))
    }
}

/// [`Border::expected_digamma`] of each of the `borders`.
pub fn expected_digammas(borders: &[Border], digamma: &Digamma, expected: &mut Vec<f64>) {
    expected.clear();
    WORK.with_borrow_mut(|work| {
        work.sums.clear();
        work_out(borders, digamma.from(0), work);
        expected.extend(work.sums.iter().map(Sum::total));
    });
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// What is used again from call to call.
#[derive(Default)]
struct Work {
    memory: Memory,
    shares: Shares,
    /// What [`long`] works out for a border.
    reciprocals: Vec<f64>,
    sums: Vec<Sum>,
}

every_width! {
/// `psi` is ψ(0), ψ(1), … What is to be added up is kept and added up by who asks: else the compiler takes the lanes of
/// all steps before apart.
fn work_out(borders: &[Border], psi: &[f64], work: &mut Work) {
    let Work { memory, shares, reciprocals, sums } = work;
    let choices = Choices::get();
    for border in borders {
        let Border { closer, shape } = *border;
        let Shape { missing, only_here, only_there, both, beyond } = shape;
        if border.is_simple() {
            sums.push(mean(psi, closer, beyond + 1));
            continue;
        }
        let chances = memory.chances(shape);
        let behind = only_here + only_there + both - missing;
        sums.push(if closer == 0 {
            point::expectation(chances, behind, beyond, psi)
        } else if few::is_few(chances, behind, beyond) {
            few::expectation(chances, behind, beyond, &psi[closer..], choices, shares)
        } else if long::is_long(chances, behind, beyond) {
            Sum::of(long::expectation(chances, behind, beyond, closer, psi, reciprocals))
        } else {
            Sum::of(many::expectation(chances, behind, beyond, &psi[closer..]))
        });
    }
}
}

/// A sum in [`LANES`] parts.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Sum([f64; LANES]);

impl Sum {
    fn of(value: f64) -> Self {
        let mut sum = Self([0.0; LANES]);
        sum.0[0] = value;
        sum
    }

    /// In pairs, so that no addition waits for all others.
    fn total(&self) -> f64 {
        let mut sums = self.0;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0]
    }
}

/// The mean of ψ(after + 1) … ψ(after + count). From Σ_{i ≤ n} ψ(i) = n(ψ(n + 1) − 1), where that loses nothing.
#[inline(always)]
fn mean(psi: &[f64], after: usize, count: usize) -> Sum {
    if count >= 64 {
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

/// P(κ | p + 1) is (p + 1 + κ) times that many P(κ | p), for each p.
fn steps(p: Range<usize>, behind: usize, beyond: usize) -> impl Iterator<Item = f64> {
    p.map(move |p| {
        let distances = p + behind + 2;
        distances as f64 / ((p + 1) * (distances + beyond)) as f64
    })
}

/// Numbers that are worked on at once.
pub const LANES: usize = 16;

/// Chances this small, relative to the sum so far, end a tail that falls from there on.
const NEGLIGIBLE: f64 = 1e-20;

#[cfg(test)]
mod tests {
    use super::chances::Chances;
    use super::*;

    /// All orders of the distances at r, one by one: [a in x], [b in y], [c in x], [c in y], [d in x].
    fn by_counting(shape: Shape) -> Vec<f64> {
        let Shape { missing, only_here: a, only_there: b, both: c, beyond: d } = shape;
        let distances = a + b + 2 * c + d;
        let mut counts = vec![0.0; a + c + d + 1];
        let mut order: Vec<usize> = (0..distances).collect();
        each_permutation(&mut order, 0, &mut |place| {
            let joint = (0..a + b).map(|i| place[i]);
            let pairs = (0..c).map(|i| place[a + b + i].max(place[a + b + c + i]));
            let mut joint: Vec<usize> = joint.chain(pairs).collect();
            joint.sort_unstable();
            let border = joint[missing - 1];
            let here = (0..a).chain(a + b..a + b + c).chain(a + b + 2 * c..distances);
            counts[here.filter(|&i| place[i] < border).count()] += 1.0;
        });
        let total: f64 = counts.iter().sum();
        counts.iter().map(|count| count / total).collect()
    }

    fn each_permutation(order: &mut [usize], from: usize, visit: &mut impl FnMut(&[usize])) {
        if from == order.len() {
            return visit(order);
        }
        for at in from..order.len() {
            order.swap(from, at);
            each_permutation(order, from + 1, visit);
            order.swap(from, at);
        }
    }

    /// P(n), n the points at r before the border in this variable.
    fn distribution(shape: Shape) -> Vec<f64> {
        let behind = shape.only_here + shape.only_there + shape.both - shape.missing;
        let chances = Chances::new(shape);
        let chances = chances.view();
        let last = shape.only_here + shape.both + shape.beyond;
        let chance = |n: usize| {
            let mut is_n = vec![0.0; last + 2 * LANES];
            is_n[1 + n] = 1.0;
            assert!(few::is_few(chances, behind, shape.beyond));
            let few =
                few::expectation(chances, behind, shape.beyond, &is_n, Choices::get(), &mut Shares::default()).total();
            let many = many::expectation(chances, behind, shape.beyond, &is_n);
            assert!((few - many).abs() < 1e-14, "{shape:?}: {few}, {many}");
            few
        };
        (0..=last).map(chance).collect()
    }

    #[test]
    fn chances_are_those_of_all_orders() {
        let digamma = Digamma::up_to(100);
        let mut tried = 0;
        for (a, b, c, d) in (0..4 * 4 * 4 * 4).map(|i| (i % 4, i / 4 % 4, i / 16 % 4, i / 64)) {
            if a + b + 2 * c + d > 7 {
                continue;
            }
            for missing in 1..=(a + b + c).min(4) {
                let shape = Shape { missing, only_here: a, only_there: b, both: c, beyond: d };
                let expected = by_counting(shape);
                for (got, expected) in distribution(shape).iter().zip(&expected) {
                    assert!((got - expected).abs() < 1e-13, "{shape:?}: {got}, {expected}");
                }
                for closer in [0, 1, 5] {
                    if closer < b {
                        // Points of kind b are closer in this variable.
                        continue;
                    }
                    let got = Border { closer, shape }.expected_digamma(&digamma);
                    let expected: f64 = expected.iter().zip(digamma.from(closer + 1)).map(|(p, psi)| p * psi).sum();
                    assert!((got - expected).abs() < 1e-13, "{closer}, {shape:?}: {got}, {expected}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 300, "{tried}");
    }

    /// P(n) from the formulas as they stand, each case by its own logarithm.
    fn by_cases(shape: Shape) -> Vec<f64> {
        let Shape { missing, only_here, only_there, both, beyond } = shape;
        let ln_factorial = |n: usize| (2..=n).map(|i| (i as f64).ln()).sum::<f64>();
        let ln_choose = |n: usize, k: usize| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
        let mut logs = vec![Vec::new(); only_here + both + beyond + 1];
        // The border's kind, and whether it stands at its distance in this variable.
        for (kind, near) in [(0, 1), (1, 0), (2, 0), (2, 1)] {
            let mut left = [only_here, only_there, both];
            if left[kind] == 0 {
                continue;
            }
            let count = (left[kind] as f64).ln();
            left[kind] -= 1;
            let [a, b, c] = left;
            for (alpha, gamma) in (0..=a).flat_map(|alpha| (0..=c).map(move |gamma| (alpha, gamma))) {
                let Some(beta) = (missing - 1).checked_sub(alpha + gamma).filter(|&beta| beta <= b) else { continue };
                for (delta, kappa) in (0..=c - gamma).flat_map(|d| (0..=beyond).map(move |kappa| (d, kappa))) {
                    let before = alpha + beta + 2 * gamma + delta + kappa + usize::from(kind == 2);
                    let behind = a - alpha + b - beta + c - gamma + beyond - kappa;
                    let ways = ln_choose(a, alpha) + ln_choose(b, beta) + ln_choose(c, gamma);
                    let ways = ways + ln_choose(c - gamma, delta) + ln_choose(beyond, kappa);
                    let integral = ln_factorial(before) + ln_factorial(behind) - ln_factorial(before + behind + 1);
                    let counted = usize::from(kind == 2) * near;
                    logs[alpha + gamma + delta + kappa + counted].push(count + ways + integral);
                }
            }
        }
        let largest = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
        let chances: Vec<f64> = logs.iter().map(|logs| logs.iter().map(|log| (log - largest).exp()).sum()).collect();
        let total: f64 = chances.iter().sum();
        chances.iter().map(|chance| chance / total).collect()
    }

    #[test]
    fn expectations_are_the_sums_of_all_cases() {
        let digamma = Digamma::up_to(6_000);
        for (missing, only_here, only_there, both, beyond) in [
            (1, 0, 0, 1, 1),
            (1, 1, 0, 0, 200),
            (1, 3, 2, 0, 30),
            (3, 3, 3, 0, 40),
            (2, 30, 10, 0, 50),
            (3, 0, 40, 0, 90),
            (1, 0, 0, 2, 0),
            (3, 0, 0, 5, 2),
            (2, 0, 0, 40, 60),
            (3, 2, 0, 4, 17),
            (3, 8, 9, 12, 33),
            (1, 1, 1, 90, 30),
            (10, 12, 3, 20, 9),
            (30, 10, 20, 9, 12),
            (2, 30, 20, 0, 300),
            (3, 25, 20, 2, 90),
            (3, 40, 40, 0, 60),
            (2, 1, 3, 0, 1500),
            (3, 8, 9, 2, 2000),
        ] {
            let shape = Shape { missing, only_here, only_there, both, beyond };
            let chances = by_cases(shape);
            for closer in [0, 1, 40].into_iter().filter(|&closer| closer >= only_there) {
                let got = Border { closer, shape }.expected_digamma(&digamma);
                let expected: f64 =
                    chances.iter().zip(digamma.from(closer + 1)).map(|(chance, psi)| chance * psi).sum();
                assert!((got - expected).abs() < 1e-12, "{closer}, {shape:?}: {got}, {expected}");
            }
        }
    }

    #[test]
    fn large_shapes_agree_with_draws() {
        use rand::{RngExt, SeedableRng};
        let digamma = Digamma::up_to(10_000);
        let mut random = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        for (closer, missing, only_here, only_there, both, beyond) in
            [(0, 3, 0, 0, 200, 500), (40, 2, 10, 5, 60, 300), (7, 3, 0, 30, 4, 900), (3, 1, 20, 0, 0, 50)]
        {
            let shape = Shape { missing, only_here, only_there, both, beyond };
            let draws: Vec<f64> = (0..4000)
                .map(|_| {
                    let mut place = || random.random::<f64>();
                    let here: Vec<f64> = (0..only_here + both + beyond).map(|_| place()).collect();
                    let pairs = here[only_here..only_here + both].iter().map(|&x| place().max(x)).collect::<Vec<_>>();
                    let mut joint: Vec<f64> = here[..only_here].to_vec();
                    joint.extend(pairs);
                    joint.extend((0..only_there).map(|_| place()));
                    joint.sort_by(f64::total_cmp);
                    let before = here.iter().filter(|&&x| x < joint[missing - 1]).count();
                    digamma.at(closer + before + 1)
                })
                .collect();
            let mean = draws.iter().sum::<f64>() / draws.len() as f64;
            let error = crate::estimate::variance_of_mean(&draws).sqrt();
            let exact = Border { closer, shape }.expected_digamma(&digamma);
            assert!((exact - mean).abs() < 4.0 * error, "{shape:?}: {exact}, {mean} ± {error}");
        }
    }
}
