//! The sum over κ where there are many of them: P(κ | p) is a polynomial of κ and ψ is smooth, so the sum over a block of κ
//! that follow each other is a sum over few of them, Σ f(b + t) over t < m = Σ_j g_j f(b + t_j), with [`NODES`] whole t_j,
//! denser towards both ends as Chebyshev's are, and g_j such that it holds for all polynomials of a lower degree than there
//! are nodes. For other f the error is about ρ^−32 times what f grows to on the ellipse about the block whose half-axes sum
//! up to ρ half-lengths of it (of Chebyshev's points: Trefethen 2008, DOI 10.1137/060659831). Blocks are short enough that
//! with ρ = 4 this is less than rounding: no longer than the pole of ψ is away, three times the width of the bell that
//! P(κ | p) is there, and where it is largest at an end, so long that it changes by exp(13).
//!
//! Cost: a few blocks for each time that κ doubles; in each p + q multiplications for 32 nodes, and a step for every p, e.
//! Gain: row `Long` of README.md (`cargo bench --bench shapes`). Below 4,096 rows
//! [`tabulated`](super::tabulated) serves the same columns.

#![expect(clippy::needless_range_loop, reason = "with indices, loops over nodes become vectors")]

use std::sync::LazyLock;

use crate::width::every_width;

use super::probabilities::Probabilities;
use super::sums::{NEGLIGIBLE, steps};

/// Nodes of a block.
const NODES: usize = 32;
/// The length of the shortest block that is not summed up term by term.
const SHORTEST: usize = 4 * NODES;
/// Lengths: that, and twice as much each time.
const LENGTHS: usize = 10;
/// Values of p at a time.
const PART: usize = 16;
/// E ψ(`closer` + 1 + p − e + κ), from `psi[n]` = ψ(n); `closer` is at least 1. `reciprocals` are overwritten.
#[cold]
#[inline(never)]
pub fn expectation(
    probabilities: Probabilities<&[f64]>,
    behind: usize,
    beyond: usize,
    closer: usize,
    psi: &[f64],
    reciprocals: &mut Vec<f64>,
) -> f64 {
    let (count, width, highest) =
        (probabilities.count, probabilities.width, probabilities.lowest + probabilities.width - 1);
    let mut expectation = 0.0;
    for from in (0..count).step_by(PART) {
        let part = PART.min(count - from);
        let of = &probabilities.values[from * width..(from + part) * width];
        if of.iter().sum::<f64>() <= NEGLIGIBLE {
            continue;
        }
        let first = probabilities.first + from;
        // The first p and the last determine what a block must be accurate for.
        let both = [first, first + part - 1].map(|p| Weight::new(p, behind, beyond));
        let weights = if part == 1 { &both[..1] } else { &both[..] };
        let mode = weights[0].mode;
        // The least argument of ψ.
        let least = closer + 1 + first - highest;
        reciprocals.clear();
        reciprocals.extend((1..=first).map(|i| 1.0 / (mode + i) as f64));
        reciprocals.extend((1..=behind).map(|i| 1.0 / (beyond - mode + i) as f64));
        let (before, after) = reciprocals.split_at(first);
        let mut of_steps = [0.0; PART];
        of_steps.iter_mut().zip(steps(first..first + part, behind, beyond)).for_each(|(of, step)| *of = step);
        let terms = Terms {
            of,
            width,
            steps: &of_steps[..part],
            before,
            behind: after,
            beyond,
            next: (first + 1) as f64,
            psi: &psi[least..],
        };
        let mut sums = Sums { weighted: [0.0; NODES], weights: [0.0; NODES] };
        let mut start = 0;
        while start <= beyond {
            let left = (beyond + 1 - start).min(least + start) as f64;
            let longest = weights.iter().map(|weight| weight.longest(start)).fold(left, f64::min) as usize;
            let rule = RULES.iter().rev().find(|rule| rule.length <= longest).unwrap_or(&EVERY);
            let end = start + rule.length;
            if weights.iter().any(|weight| weight.counts(start, end - 1)) {
                add(&terms, start, rule, &mut sums);
            } else if weights.iter().all(|weight| weight.mode < start) {
                break;
            }
            start = end;
        }
        expectation += sums.weighted.iter().sum::<f64>() / sums.weights.iter().sum::<f64>();
    }
    expectation
}

/// P(κ | p) of one p.
struct Weight {
    p: usize,
    behind: usize,
    beyond: usize,
    /// About where it is largest.
    mode: usize,
}

/// Widths of the bell that a block may be long, and the exponent that it may grow by.
const WIDTHS: f64 = 3.0;
const GROWTH: f64 = 13.0;
/// Half the length of a block times that is how far the ellipse reaches beyond it: half of ρ + 1/ρ, less 1.
const REACH: f64 = 1.125;

impl Weight {
    fn new(p: usize, behind: usize, beyond: usize) -> Self {
        let mode = (beyond as f64 * (p as f64 / (p + behind).max(1) as f64)) as usize;
        Self { p, behind, beyond, mode: mode.min(beyond) }
    }

    /// How long a block from `start` on may be.
    fn longest(&self, start: usize) -> f64 {
        let (start, last) = (start as f64, self.beyond as f64);
        // The logarithm of P(κ | p) as integrals in place of sums. Its curvature is 1/σ² of a bell of width σ.
        let bell = |kappa: f64| {
            let of = |left: f64, factors: usize| factors as f64 / ((left + 0.5) * (left + 0.5 + factors as f64));
            WIDTHS / (of(kappa, self.p) + of(last - kappa, self.behind)).sqrt()
        };
        // At the block's end it may be narrower.
        let here = bell(start);
        let there = bell((start + here).min(last)).max(0.5 * here.min(bell((start + 0.5 * here).min(last))));
        // Where it is largest at an end it is larger still beyond: a block is short there or keeps away.
        let grows = |factors: usize| GROWTH / ((last + 0.5 + factors as f64) / (last + 0.5)).ln();
        let half = 0.5 * REACH;
        let from_first = if self.p == 0 { grows(self.behind).max(start / half) } else { f64::INFINITY };
        let to_last = if self.behind == 0 { grows(self.p).max((last - start) / (1.0 + half)) } else { f64::INFINITY };
        here.min(there).min(from_first).min(to_last)
    }

    /// Whether any of the κ counts.
    fn counts(&self, from: usize, to: usize) -> bool {
        let kappa = self.mode.clamp(from, to.min(self.beyond));
        let ratio = |i: usize, at: usize, mode: usize| (at + i) as f64 / (mode + i) as f64;
        let before: f64 = (1..=self.p).map(|i| ratio(i, kappa, self.mode)).product();
        let behind: f64 = (1..=self.behind).map(|i| ratio(i, self.beyond - kappa, self.beyond - self.mode)).product();
        before * behind >= NEGLIGIBLE
    }
}

/// The terms that are added up.
struct Terms<'a> {
    /// P(p, e), as in [`Probabilities`].
    of: &'a [f64],
    width: usize,
    /// P(κ | p + 1) is P(κ | p) times (p + 1 + κ) and this.
    steps: &'a [f64],
    /// 1/(mode + i) and 1/(d − mode + i), i = 1, 2, …, so that P(κ | p) is in proportion to a product that is 1 at the mode.
    before: &'a [f64],
    behind: &'a [f64],
    beyond: usize,
    /// p + 1 of the first p.
    next: f64,
    /// From that of the first p, the highest e and κ = 0 on.
    psi: &'a [f64],
}

#[repr(align(64))]
struct Sums {
    weighted: [f64; NODES],
    weights: [f64; NODES],
}

every_width! {
/// Adds a block that starts at some κ.
fn add(terms: &Terms, start: usize, rule: &Rule, sums: &mut Sums) {
    let beyond = terms.beyond;
    let mut kappa = [0; NODES];
    let (mut left, mut right, mut weight) = ([0.0; NODES], [0.0; NODES], rule.weights);
    for node in 0..NODES {
        let at = start + rule.nodes[node] as usize;
        // Behind the last there is nothing.
        weight[node] = if at <= beyond { weight[node] } else { 0.0 };
        kappa[node] = at.min(beyond);
        (left[node], right[node]) = (kappa[node] as f64, (beyond - kappa[node]) as f64);
    }
    let mut next = left;
    for node in 0..NODES {
        next[node] += terms.next;
    }
    for share in terms.before {
        for node in 0..NODES {
            left[node] += 1.0;
            weight[node] *= left[node] * share;
        }
    }
    for share in terms.behind {
        for node in 0..NODES {
            right[node] += 1.0;
            weight[node] *= right[node] * share;
        }
    }
    for node in 0..NODES {
        sums.weights[node] += weight[node];
    }
    for (p, (of, step)) in terms.of.chunks_exact(terms.width).zip(terms.steps).enumerate() {
        for (e, of) in of.iter().enumerate() {
            let psi = &terms.psi[p + terms.width - 1 - e..];
            for node in 0..NODES {
                sums.weighted[node] += of * weight[node] * psi[kappa[node]];
            }
        }
        for node in 0..NODES {
            weight[node] *= next[node] * step;
            next[node] += 1.0;
        }
    }
}
}

/// Σ f(κ) over κ = 0 … length − 1 as Σ weight · f(node).
struct Rule {
    length: usize,
    nodes: [u32; NODES],
    weights: [f64; NODES],
}

/// Every κ.
static EVERY: Rule = {
    let mut nodes = [0; NODES];
    let mut at = 0;
    while at < NODES {
        nodes[at] = at as u32;
        at += 1;
    }
    Rule { length: NODES, nodes, weights: [1.0; NODES] }
};

/// Rules of lengths that double, from [`SHORTEST`] on.
static RULES: LazyLock<[Rule; LENGTHS]> = LazyLock::new(|| {
    let mut last: Option<(usize, Vec<(u32, f64)>)> = None;
    std::array::from_fn(|_| {
        // A rule that is exact for polynomials: every κ, and then two blocks of half the length.
        let (length, all) = match last.take() {
            None => (SHORTEST, (0..SHORTEST as u32).map(|kappa| (kappa, 1.0)).collect::<Vec<_>>()),
            Some((half, rule)) => {
                (2 * half, rule.iter().copied().chain(rule.iter().map(|&(at, of)| (at + half as u32, of))).collect())
            }
        };
        let rule = Rule::new(length, &all);
        last = Some((length, rule.nodes.into_iter().zip(rule.weights).collect()));
        rule
    })
});

impl Rule {
    /// `all` is a rule of that length already, of more nodes.
    fn new(length: usize, all: &[(u32, f64)]) -> Self {
        let mut nodes = [0_u32; NODES];
        for (at, node) in nodes.iter_mut().enumerate() {
            let angle = std::f64::consts::PI * (at as f64 + 0.5) / NODES as f64;
            *node = (0.5 * (length - 1) as f64 * (1.0 - angle.cos())).round() as u32;
        }
        // Lagrange's polynomials in their barycentric form: Berrut and Trefethen 2004, DOI 10.1137/S0036144502417715.
        let scale = 4.0 / length as f64;
        let difference = |a: u32, b: u32| (f64::from(a) - f64::from(b)) * scale;
        let barycentric: Vec<f64> = nodes
            .iter()
            .map(|&node| {
                1.0 / nodes
                    .iter()
                    .filter(|&&other| other != node)
                    .map(|&other| difference(node, other))
                    .product::<f64>()
            })
            .collect();
        let mut weights = [0.0; NODES];
        for &(kappa, of) in all {
            if let Some(node) = nodes.iter().position(|&node| node == kappa) {
                weights[node] += of;
                continue;
            }
            let shares: Vec<f64> =
                nodes.iter().zip(&barycentric).map(|(&node, weight)| weight / difference(kappa, node)).collect();
            let sum: f64 = shares.iter().sum();
            weights.iter_mut().zip(shares).for_each(|(weight, share)| *weight += of * share / sum);
        }
        Self { length, nodes, weights }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::Shape;
    use super::*;
    use crate::digamma::Digamma;
    use crate::thresholds;

    #[test]
    fn rules_sum_up_polynomials() {
        for rule in RULES.iter() {
            assert!(rule.nodes.is_sorted_by(|a, b| a < b));
            assert!(rule.weights.iter().all(|&weight| weight > 0.0), "{:?}", rule.weights);
            for degree in [0, 1, 2, 7, 20, 31] {
                let of = |at: u32| (2.0 * f64::from(at) / (rule.length - 1) as f64 - 1.0).powi(degree);
                let expected: f64 = (0..rule.length as u32).map(of).sum();
                let got: f64 = rule.nodes.iter().zip(rule.weights).map(|(&node, weight)| weight * of(node)).sum();
                assert!(
                    (got - expected).abs() < 1e-14 * rule.length as f64,
                    "{} {degree}: {got}, {expected}",
                    rule.length
                );
            }
        }
    }

    /// The sum over every κ, each weight computed on its own.
    fn every_term(
        probabilities: Probabilities<&[f64]>,
        behind: usize,
        beyond: usize,
        closer: usize,
        psi: &[f64],
    ) -> f64 {
        let of_p = |(at, of): (usize, &[f64])| {
            let p = probabilities.first + at;
            let mode = Weight::new(p, behind, beyond).mode;
            let weight = |kappa: usize| {
                let before: f64 = (1..=p).map(|i| (kappa + i) as f64 / (mode + i) as f64).product();
                let ratio = |i: usize| (beyond - kappa + i) as f64 / (beyond - mode + i) as f64;
                before * (1..=behind).map(ratio).product::<f64>()
            };
            let value = |kappa: usize| -> f64 {
                let values = of.iter().enumerate();
                values.map(|(e, of)| of * psi[closer + 1 + p + kappa - probabilities.lowest - e]).sum()
            };
            let weights: Vec<f64> = (0..=beyond).map(weight).collect();
            let weighted: Vec<f64> = weights.iter().enumerate().map(|(kappa, weight)| weight * value(kappa)).collect();
            // In parts, so that few roundings add up.
            let sum = |of: &[f64]| of.chunks(128).map(|part| part.iter().sum::<f64>()).sum::<f64>();
            sum(&weighted) / sum(&weights)
        };
        let parts = probabilities.values.chunks_exact(probabilities.width).enumerate();
        parts.filter(|(_, of)| of.iter().sum::<f64>() > NEGLIGIBLE).map(of_p).sum()
    }

    #[test]
    fn expectations_are_those_of_every_term() {
        let digamma = Digamma::up_to(50_000);
        let psi = digamma.from(0);
        let mut tried = 0;
        for (only_here, only_there, both) in [
            (1, 1, 0),
            (3, 0, 0),
            (0, 4, 0),
            (5, 7, 0),
            (30, 2, 0),
            (2, 40, 0),
            (60, 60, 0),
            (300, 100, 0),
            (0, 400, 0),
            (0, 0, 3),
            (3, 1, 12),
            (1, 0, 70),
        ] {
            for missing in [1, 2, 3, 10, 200] {
                for (beyond, closer) in
                    [(1024, 1), (1024, 5), (1024, 700), (1500, 60), (8192, 700), (8192, 5), (20_000, 9000)]
                {
                    let shape = Shape { missing, only_here, only_there, both, beyond };
                    let all = only_here + only_there + both;
                    if all < missing || closer < only_there {
                        continue;
                    }
                    let probabilities = Probabilities::new(shape);
                    let (probabilities, behind) = (probabilities.view(), all - missing);
                    assert!(thresholds::is_long(probabilities.first + probabilities.count, behind, beyond));
                    let got = expectation(probabilities, behind, beyond, closer, psi, &mut Vec::new());
                    let expected = every_term(probabilities, behind, beyond, closer, psi);
                    assert!((got - expected).abs() < 1e-13, "{closer}, {shape:?}: {got}, {expected}");
                    tried += 1;
                }
            }
        }
        assert!(tried > 100, "{tried}");
    }
}
