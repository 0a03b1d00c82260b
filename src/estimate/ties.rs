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
//! Cost: one step of sixteen lanes for every p, e and sixteen κ. There is one p where c = 0, and about √(k'c) count
//! where c is large. The closed form takes one step for every sixteen p, whatever d is.
//!
//! Measured with AVX-512, k = 3, N = 2,048, a side of a point: 25 ns for bfloat16 sigmoids, 55 for columns of 100
//! levels, 390 for some 25 levels, where a dozen points are at the radius and 150 beyond it. Remembering whole
//! distributions of n_x instead took eight to ten times as long for the last two, since d makes nearly every shape a
//! new one. Not taken: recurrences of E ψ and E 1/n in p and n_x are O(1) a step, but unstable in one direction or the
//! other depending on the shape; sums of ψ against polynomials of κ from prefix sums cancel.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use std::cell::RefCell;
use std::sync::LazyLock;

use super::digamma::Digamma;
use super::width::every_width;

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
        let Self { closer, shape } = self;
        if shape.only_here + shape.both + shape.beyond == 0 {
            return digamma.at(closer + 1);
        }
        if shape.both == 0 && shape.only_here + shape.only_there == 1 {
            // One point is the border, at a uniform place.
            return mean(digamma, closer, shape.beyond + 1);
        }
        MEMORY.with_borrow_mut(|memory| memory.expected_digamma(self, digamma))
    }
}

/// The mean of ψ(after + 1) … ψ(after + count). From Σ_{i ≤ n} ψ(i) = n(ψ(n + 1) − 1), where that loses nothing.
fn mean(digamma: &Digamma, after: usize, count: usize) -> f64 {
    let up_to = |n: usize| if n == 0 { 0.0 } else { n as f64 * (digamma.at(n + 1) - 1.0) };
    let sum = match count {
        ..64 => digamma.from(after + 1)[..count].iter().sum(),
        _ => up_to(after + count) - up_to(after),
    };
    sum / count as f64
}

/// Numbers that are worked on at once.
pub const LANES: usize = 16;

/// Chances this small, relative to the sum so far, end a tail that falls from there on.
const NEGLIGIBLE: f64 = 1e-20;

/// P(p, e) of a shape, d aside.
#[derive(Default)]
struct Chances {
    /// The least p and the least e that there are.
    first: usize,
    lowest: usize,
    /// How many e there are.
    width: usize,
    /// P(first, lowest), P(first, lowest + 1), …, then those of the next p.
    of: Vec<f64>,
}

impl Chances {
    fn new(shape: Shape) -> Self {
        let Shape { missing, only_here, only_there, both, .. } = shape;
        let level = only_here + only_there + both;
        let behind = level - missing;
        // C(n, 0) … C(n, k'), in a unit that keeps the products of three, k' chosen in all, in the range of numbers.
        let unit = missing as f64 / (std::f64::consts::E * level as f64);
        let size = missing + 1;
        let mut choices = vec![1.0; 3 * size];
        for (choices, n) in choices.chunks_exact_mut(size).zip([only_here, only_there, both]) {
            for chosen in 0..missing {
                choices[chosen + 1] = choices[chosen] * (n.saturating_sub(chosen) as f64 / (chosen + 1) as f64 * unit);
            }
        }
        // The ways by g, the points of kind c up to the border, and by e. Then p = k' − 1 + g + δ, and the δ are of c
        // − g.
        let mut ways = vec![0.0; size * size];
        // The least g, and the least and the highest e, that there are ways for.
        let (mut least, mut lowest, mut highest) = (missing, missing, 0);
        for g in 0..=missing.min(both) {
            for beta in 0..=missing - g {
                // The border is any of the k' points, one of which is the last.
                let alpha = missing - g - beta;
                let all = choices[alpha] * choices[size + beta] * choices[2 * size + g];
                if all == 0.0 {
                    continue;
                }
                ways[g * size + beta + g] += (alpha + g) as f64 * all;
                least = least.min(g);
                if alpha + g > 0 {
                    (lowest, highest) = (lowest.min(beta + g), highest.max(beta + g));
                }
                if beta + g > 0 {
                    // One of kind c stands at its distance in this variable or, after that one, in the other.
                    ways[g * size + beta + g - 1] += (beta + g) as f64 * all;
                    (lowest, highest) = (lowest.min(beta + g - 1), highest.max(beta + g - 1));
                }
            }
        }
        let (first, width) = (missing - 1 + least, highest - lowest + 1);
        let mut of: Vec<f64> = Vec::with_capacity((both - least + 1).min(NUMBERS) * width);
        // ∫ tᵖ(1 − t)^q dt in a unit of its own, p = k' − 1 + g.
        let mut integral = 1.0;
        for (g, ways) in ways.chunks_exact(size).enumerate().take(missing.min(both) + 1).skip(least) {
            let (mut chance, mut sum) = (integral, 0.0);
            for delta in 0..=both - g {
                let p = missing - 1 + g + delta;
                let start = (p - first) * width;
                if of.len() == start {
                    of.resize(start + width, 0.0);
                }
                for (of, ways) in of[start..].iter_mut().zip(&ways[lowest..]) {
                    *of += chance * ways;
                }
                sum += chance;
                let ratio = (both - g - delta) as f64 / (delta + 1) as f64 * ((p + 1) as f64 / (p + behind + 2) as f64);
                chance *= ratio;
                if ratio < 1.0 && chance < NEGLIGIBLE * sum {
                    break;
                }
                if chance > LARGE {
                    of.iter_mut().for_each(|of| *of /= LARGE);
                    (chance, sum, integral) = (chance / LARGE, sum / LARGE, integral / LARGE);
                }
            }
            integral *= (missing + g) as f64 / (missing + g + behind + 1) as f64;
        }
        let total: f64 = of.iter().sum();
        of.iter_mut().for_each(|of| *of /= total);
        Self { first, lowest, width, of }
    }

    /// How many p there are.
    fn count(&self) -> usize {
        self.of.len() / self.width
    }
}

/// Chances of this size are made smaller before they grow out of the range of numbers.
const LARGE: f64 = 1e200;

/// What is remembered of shapes met before. What is found does not depend on it.
#[derive(Default)]
struct Memory {
    known: Vec<Option<(Shape, Chances)>>,
    scratch: Scratch,
}

/// Shapes, d aside, that are remembered at most, and the most numbers of one of them.
const SHAPES: usize = 1 << 12;
const NUMBERS: usize = 1 << 7;

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

impl Memory {
    /// E ψ(n + 1) where some points are at r.
    fn expected_digamma(&mut self, Border { closer, shape }: Border, digamma: &Digamma) -> f64 {
        let Shape { missing, only_here, only_there, both, beyond } = shape;
        let behind = only_here + only_there + both - missing;
        let of = |chances: &Chances, scratch: &mut Scratch| match closer {
            0 => {
                let mut sums = [0.0; LANES];
                at_the_point(chances, behind, beyond, digamma.from(0), &mut sums);
                total(sums)
            }
            _ => expectation(chances, behind, beyond, digamma.from(closer), scratch),
        };
        let shape = Shape { beyond: 0, ..shape };
        if self.known.is_empty() {
            self.known.resize_with(SHAPES, || None);
        }
        let slot = &mut self.known[slot(shape)];
        if let Some((_, chances)) = slot.as_ref().filter(|known| known.0 == shape) {
            return of(chances, &mut self.scratch);
        }
        let chances = Chances::new(shape);
        let expected = of(&chances, &mut self.scratch);
        if chances.of.len() <= NUMBERS {
            *slot = Some((shape, chances));
        }
        expected
    }
}

/// Where a shape is remembered.
fn slot(Shape { missing, only_here, only_there, both, .. }: Shape) -> usize {
    let mix = |sum: u64, part: usize| (sum.rotate_left(5) ^ part as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = [missing, only_here, only_there, both].into_iter().fold(0, mix);
    (mixed >> (u64::BITS - SHAPES.ilog2())) as usize
}

/// Values of p that are worked on at once: over more, what is negligible for the first may be what counts for the last.
const PART: usize = 64;

/// The expectation of `values[1 + p − e + κ]`: `values[0]` is no part of it. There are [`LANES`] more than needed.
fn expectation(chances: &Chances, behind: usize, beyond: usize, values: &[f64], scratch: &mut Scratch) -> f64 {
    let (count, width, highest) = (chances.count(), chances.width, chances.lowest + chances.width - 1);
    let mut expectation = 0.0;
    for from in (0..count).step_by(PART) {
        let part = PART.min(count - from);
        let of = &chances.of[from * width..(from + part) * width];
        let p = chances.first + from;
        scratch.steps.clear();
        scratch.steps.extend((p..p + part).map(|p| {
            let distances = p + behind + 2;
            distances as f64 / ((p + 1) * (distances + beyond)) as f64
        }));
        let terms = |start: usize, before, behind| Terms {
            of,
            width,
            steps: &scratch.steps,
            first: p + 1 + start,
            before,
            behind,
            values: &values[1 + p + start - highest..],
        };
        if p < FEW && behind < FEW && beyond < LONGEST {
            let choices = &*CHOICES;
            let all = p + 1 + behind;
            let (before, behind) = (choices.of(p), choices.turned(behind, beyond));
            let blocks = beyond / LANES + 1;
            expectation += sum_of(terms(0, &before[..blocks * LANES], behind)) / choices.of(all)[beyond];
        } else if of.iter().sum::<f64>() > NEGLIGIBLE {
            let negligible = if part > 1 { NEGLIGIBLE.powi(4) } else { NEGLIGIBLE };
            let start = beta_binomial(p, behind, beyond, negligible, &mut scratch.weights);
            scratch.ones.resize(scratch.ones.len().max(scratch.weights.len()), 1.0);
            expectation += sum_of(terms(start, &scratch.weights, &scratch.ones)) / scratch.weights.iter().sum::<f64>();
        }
    }
    expectation
}

/// What is used anew for each expectation.
#[derive(Default)]
struct Scratch {
    weights: Vec<f64>,
    ones: Vec<f64>,
    steps: Vec<f64>,
}

/// What [`sum`] goes over.
struct Terms<'a> {
    /// P(p, e), as in [`Chances`].
    of: &'a [f64],
    width: usize,
    /// P(κ | p + 1) is (p + 1 + κ) times that many P(κ | p).
    steps: &'a [f64],
    /// p + 1 + κ of the first p and κ.
    first: usize,
    /// Their products are in proportion to P(κ | p) for the first p. The length of the former is a multiple of
    /// [`LANES`].
    before: &'a [f64],
    behind: &'a [f64],
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
    total(sums)
}

every_width! {
/// Σ P(p, e) P(κ | p) value(p − e + κ), with what is given in proportion to P(κ | p). `WIDTH` is how many e there are,
/// or 0 for what the terms say.
fn sum<const WIDTH: usize>(Terms { of, width, steps, first, before, behind, values }: Terms, sums: &mut [f64; LANES]) {
    let width = if WIDTH == 0 { width } else { WIDTH };
    let mut place = NUMBERS_FROM_0;
    for lane in 0..LANES {
        place[lane] += first as f64;
    }
    for (block, before) in before.chunks_exact(LANES).enumerate() {
        let behind = &behind[block * LANES..][..LANES];
        let mut weight = [0.0; LANES];
        for lane in 0..LANES {
            weight[lane] = before[lane] * behind[lane];
        }
        let (mut factor, mut of_block) = (place, *sums);
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
            place[lane] += LANES as f64;
        }
    }
}
}

const NUMBERS_FROM_0: [f64; LANES] =
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0];

/// In pairs, so that no addition waits for all others.
fn total(mut sums: [f64; LANES]) -> f64 {
    for half in [8, 4, 2, 1] {
        for lane in 0..half {
            sums[lane] += sums[lane + half];
        }
    }
    sums[0]
}

/// Makes `weights` proportional to P(κ | p), for a multiple of [`LANES`] of κ from the one on that is returned. Left
/// out are those less than `negligible` times the largest.
fn beta_binomial(p: usize, behind: usize, beyond: usize, negligible: f64, weights: &mut Vec<f64>) -> usize {
    weights.clear();
    // What P(κ + 1 | p) over P(κ | p) is in proportion to, above and below.
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
    first
}

/// Up to so many distances on either side, and so many others, the binomials of P(κ | p) are looked up. They are below
/// 10¹²².
const FEW: usize = 32;
const LONGEST: usize = 1 << 11;

/// C(n + i, i).
struct Choices {
    /// From i = 0 on for n below 2 [`FEW`], and [`LANES`] more than [`LONGEST`].
    up: Vec<f64>,
    /// Down to i = 0 for n below [`FEW`], and [`LANES`] zeros.
    down: Vec<f64>,
}

const STRIDE: usize = LONGEST + LANES;

static CHOICES: LazyLock<Choices> = LazyLock::new(|| {
    let mut up = vec![1.0; 2 * FEW * STRIDE];
    for at in STRIDE..up.len() {
        // From one n to the next, so that few roundings add up.
        let (n, i) = (at / STRIDE, at % STRIDE);
        up[at] = up[at - STRIDE] * ((n + i) as f64 / n as f64);
    }
    let mut down = vec![0.0; FEW * STRIDE];
    for (down, up) in down.chunks_exact_mut(STRIDE).zip(up.chunks_exact(STRIDE)) {
        down.iter_mut().zip(up[..LONGEST].iter().rev()).for_each(|(down, up)| *down = *up);
    }
    Choices { up, down }
});

impl Choices {
    fn of(&self, n: usize) -> &[f64] {
        &self.up[n * STRIDE..][..STRIDE]
    }

    /// From i = `last` down to 0, and [`LANES`] zeros.
    fn turned(&self, n: usize, last: usize) -> &[f64] {
        &self.down[n * STRIDE..][LONGEST - 1 - last..STRIDE]
    }
}

every_width! {
/// E ψ(p + 1 + κ − e), from `psi[n]` = ψ(n): the closed form of the module.
fn at_the_point(chances: &Chances, behind: usize, beyond: usize, psi: &[f64], sums: &mut [f64; LANES]) {
    let (width, lowest, count) = (chances.width, chances.lowest, chances.count());
    let highest = lowest + width - 1;
    for from in (0..count).step_by(LANES) {
        let first = chances.first + from;
        let near = [first + 1, first + behind + beyond + 2, first + behind + 2].map(|at| &psi[at..at + LANES]);
        let mut place = [0.0; LANES];
        let mut all = [0.0; LANES];
        for lane in 0..LANES {
            place[lane] = (first + lane) as f64;
        }
        for lane in 0..LANES.min(count - from) {
            all[lane] = chances.of[(from + lane) * width..][..width].iter().sum();
        }
        for lane in 0..LANES {
            sums[lane] += all[lane] * (near[0][lane] + near[1][lane] - near[2][lane]);
        }
        let mut product = [1.0; LANES];
        for l in 1..=highest {
            let mut share = [0.0; LANES];
            for e in l.max(lowest)..=highest {
                // e(e − 1)…(e − l + 1)/l, over what the product has for the highest e.
                let ways = (0..l).map(|i| (e - i) as f64 / (highest - i) as f64).product::<f64>() / l as f64;
                for lane in 0..LANES.min(count - from) {
                    share[lane] += ways * chances.of[(from + lane) * width + e - lowest];
                }
            }
            for lane in 0..LANES {
                let left = place[lane] + (behind + 2) as f64 - l as f64;
                // Below 1 only where no e is so large.
                let before = place[lane] + 1.0 - l as f64;
                let before = if before < 1.0 { 1.0 } else { before };
                product[lane] *= (highest + 1 - l) as f64 * left / ((left + beyond as f64) * before);
                sums[lane] -= share[lane] * product[lane];
            }
        }
    }
}
}

#[cfg(test)]
mod tests {
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

    /// P(n) by [`expectation`], n the points at r before the border in this variable.
    fn distribution(shape: Shape) -> Vec<f64> {
        let behind = shape.only_here + shape.only_there + shape.both - shape.missing;
        let chances = Chances::new(shape);
        let last = shape.only_here + shape.both + shape.beyond;
        let chance = |n: usize| {
            let mut is_n = vec![0.0; last + 2 * LANES];
            let mut scratch = Scratch::default();
            is_n[1 + n] = 1.0;
            expectation(&chances, behind, shape.beyond, &is_n, &mut scratch)
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
