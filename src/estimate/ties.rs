//! The expectation of a KSG term when equal distances stand in random order.
//!
//! Let r be the distance from a point to its k-th nearest. Only distances equal to r leave anything open. Every distance
//! in x that equals r, and every one in y, gets a place in one random order; what is smaller than r stays before them.
//! Then a point's joint distance, the larger of its two, has a place too, and the k'-th of those at r is the ball's
//! border, where k' neighbours are missing inside. n_x counts what stands before the border in x. With
//!
//! ```text
//! a  points at r in x and closer in y        d  points at r in x and farther in y
//! b  points at r in y and closer in x        c  points at r in both
//! ```
//!
//! and t the border's place as a number in [0, 1], the k' − 1 others before it are α, β and γ of the first three kinds;
//! δ more of kind c stand before it in x only, and κ of kind d. Every such case has a probability proportional to
//! binomials times ∫ tᵖ(1 − t)^q dt, with p the distances before the border and q those behind it: all sums are finite
//! and nothing is drawn. κ given the rest is beta-binomial. n_y is the same with a and b exchanged.
//!
//! Without ties one point of kind a or b is on the border and n_x and n_y are as they are. A variable with itself has
//! one of kind c: it is before the border in one of the two, which gives ψ(N) − ψ(k) − 1/k.
//!
//! Cost: where c = 0 and a and b are few, as mostly, one sum over d. Else O(c·d) for one shape (k', a, b, c, d) at worst
//! and far less where the sums are cut off, remembered per thread; then one product-sum. Identical points (r = 0, so n_x
//! starts at 0 and a = b = 0) have a sum over κ in closed form and cost about √(k·c).

use std::cell::RefCell;
use std::rc::Rc;

use rustc_hash::FxHashMap;

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
    /// E ψ(n + 1), n the points that stand before the border in this variable.
    pub fn expected_digamma(self, digamma: &Digamma) -> f64 {
        let Self { closer, shape } = self;
        let Shape { only_here, only_there, both, beyond, .. } = shape;
        let values = digamma.from(closer + 1);
        match (only_here + only_there + both, both) {
            _ if only_here + both + beyond == 0 => values[0],
            // One point is the border, at a uniform place.
            (1, 0) => mean(digamma, closer, beyond + 1),
            // Of kind c it is so in one of the two variables; the later of two places is likelier to be late.
            (1, 1) => {
                let weight = |kappa: usize| (kappa + 1) as f64 * (values[kappa] + values[kappa + 1]);
                (0..=beyond).map(weight).sum::<f64>() / ((beyond + 1) * (beyond + 2)) as f64
            }
            _ if closer + only_here + only_there == 0 => of_identical_points(digamma, shape),
            (..=FEW_POINTS, 0) => of_few_points(values, shape),
            _ => with_chances(shape, |chances| sum_of_products(chances, values)),
        }
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

/// In eight partial sums, which do not wait for each other.
fn sum_of_products(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [0.0; 8];
    let (a_blocks, b_blocks) = (a.chunks_exact(8), b[..a.len()].chunks_exact(8));
    let rest: f64 = a_blocks.remainder().iter().zip(b_blocks.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a_blocks.zip(b_blocks) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// Points at r, each in one variable, up to which the sum is taken as it stands. Of the points with ties in bfloat16
/// columns of 2,048 rows nearly all have one to three; remembering their chances took longer than summing.
const FEW_POINTS: usize = 6;

/// c = 0: the border is the k'-th of s = a + b points in random order. Which of the k' − 1 before it are of kind a is a draw
/// without replacement. Whatever that gives, κ of the d others stand before the border with
/// P(κ) ∝ (κ + 1)…(κ + k' − 1) · (d − κ + 1)…(d − κ + s − k').
fn of_few_points(values: &[f64], Shape { missing, only_here, only_there, beyond, .. }: Shape) -> f64 {
    let before = missing - 1;
    let behind = only_here + only_there - missing;
    let choose = |n: usize, k: usize| (0..k).map(|i| (n - i) as f64 / (i + 1) as f64).product::<f64>();
    let (mut sum, mut ways) = (0.0, 0.0);
    for alpha in before.saturating_sub(only_there)..=only_here.min(before) {
        let weight = choose(only_here, alpha) * choose(only_there, before - alpha);
        sum += weight * mean_between(&values[alpha..=alpha + beyond], before, behind);
        ways += weight;
    }
    sum / ways
}

every_width! {
/// The mean of `values`, the i-th weighted with (i + 1)…(i + before) · (l − i + 1)…(l − i + behind), l the last i.
fn mean_between(values: &[f64], before: usize, behind: usize) -> f64 {
    let (mut sums, mut weights) = ([0.0; 8], [0.0; 8]);
    let mut position = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0];
    let last = (values.len() - 1) as f64;
    for block in values.chunks(8) {
        let mut weight = [1.0; 8];
        for factor in 1..=before {
            for lane in 0..8 {
                weight[lane] *= position[lane] + factor as f64;
            }
        }
        for factor in 1..=behind {
            for lane in 0..8 {
                weight[lane] *= last - position[lane] + factor as f64;
            }
        }
        if let Ok(block) = <&[f64; 8]>::try_from(block) {
            for lane in 0..8 {
                sums[lane] += weight[lane] * block[lane];
                weights[lane] += weight[lane];
            }
        } else {
            for (lane, value) in block.iter().enumerate() {
                sums[lane] += weight[lane] * value;
                weights[lane] += weight[lane];
            }
        }
        position = position.map(|position| position + 8.0);
    }
    sums.iter().sum::<f64>() / weights.iter().sum::<f64>()
}
}

/// Weights this small, relative to the sum so far, end a tail that falls from there on.
const NEGLIGIBLE: f64 = 1e-20;

/// r = 0: c points identical with this one, d more that equal it in this variable.
///
/// The border is the k'-th of the c, and n + 1 = M − k' or M − k' + 1, whichever of its two distances stands there. Given
/// δ, M is the position of the special number 2k' + δ among S = k' + c + δ special and d other ones in random order:
/// E ψ(M) = ψ(2k' + δ) + ψ(S + d + 1) − ψ(S + 1), and ψ(M − s) = ψ(M) − Σ_{l ≤ s} (l − 1)! C(s, l) T_l, where
/// T_l = 1/((M − 1)…(M − l)) has the expectation Π_{i<l} (S − i) / ((S + d − i)(2k' + δ − 1 − i)).
fn of_identical_points(digamma: &Digamma, Shape { missing, both, beyond, .. }: Shape) -> f64 {
    let spare = both - missing;
    let (mut weight, mut weights, mut sum) = (1.0, 0.0, 0.0);
    for delta in 0..=spare {
        let special = 2 * missing + delta;
        let specials = missing + both + delta;
        let position = digamma.at(special) + digamma.at(specials + beyond + 1) - digamma.at(specials + 1);
        let lower = |shift: usize| {
            let (mut lower, mut product, mut count) = (0.0, 1.0, 1.0);
            for l in 0..shift {
                product *= (specials - l) as f64 / ((specials + beyond - l) as f64 * (special - 1 - l) as f64);
                // (l − 1)!·C(s, l) = s(s − 1)…(s − l + 1)/l, with l counted from 1.
                count *= (shift - l) as f64;
                lower += count / (l + 1) as f64 * product;
            }
            lower
        };
        weights += weight;
        sum += weight * (position - 0.5 * (lower(missing) + lower(missing - 1)));
        let ratio = next_delta(delta, spare, special, specials);
        weight *= ratio;
        if ratio < 1.0 && weight < NEGLIGIBLE * weights {
            break;
        }
    }
    sum / weights
}

/// The probability of δ + 1 over that of δ, when `spare` points of kind c are not before the border and it is the special
/// distance number `special` of `specials`, kind d aside.
fn next_delta(delta: usize, spare: usize, special: usize, specials: usize) -> f64 {
    (spare - delta) as f64 / (delta + 1) as f64 * (special as f64 / (specials + 1) as f64)
}

/// Most probabilities kept for shapes met before.
const KEPT: usize = 1 << 18;

#[derive(Default)]
struct Memory {
    shapes: FxHashMap<Shape, Rc<[f64]>>,
    kept: usize,
}

thread_local! {
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// What `of` makes of [`chances`].
fn with_chances(shape: Shape, of: impl Fn(&[f64]) -> f64) -> f64 {
    let known = MEMORY.with_borrow(|memory| memory.shapes.get(&shape).cloned());
    let chances = known.unwrap_or_else(|| {
        let chances: Rc<[f64]> = chances(shape).into();
        MEMORY.with_borrow_mut(|memory| {
            if memory.kept > KEPT {
                *memory = Memory::default();
            }
            memory.kept += chances.len();
            memory.shapes.insert(shape, Rc::clone(&chances));
        });
        chances
    });
    of(&chances)
}

/// One way for the border to come about, δ and κ aside.
struct Case {
    /// Logarithm of its weight at δ = 0.
    weight: f64,
    /// Distances before the border at δ = κ = 0, and the points they make for n.
    before: usize,
    points: usize,
    /// Distances behind the border, kind d aside.
    behind: usize,
    /// Points of kind c that may be before the border in this variable only.
    spare: usize,
    /// The border is of kind c.
    paired: bool,
}

/// The probability of each number of points at distance r to stand before the border, from 0 to a + c + d.
fn chances(shape: Shape) -> Vec<f64> {
    let cases = cases(shape);
    let largest = cases.iter().map(|case| case.weight).fold(f64::NEG_INFINITY, f64::max);
    let mut chances = vec![0.0; shape.only_here + shape.both + shape.beyond + 1];
    for case in &cases {
        let mut of_case = vec![0.0; case.spare + shape.beyond + 1];
        let mut weights = of_beyond(case.before + 1, case.before + 1 + case.behind, shape.beyond);
        let scale = (case.weight - largest).exp() / weights.iter().sum::<f64>();
        weights.iter_mut().for_each(|weight| *weight *= scale);
        let mut total = 0.0;
        for delta in 0..=case.spare {
            let specials = case.before + delta + 1 + case.behind;
            let odds = (case.spare - delta) as f64 / (delta + 1) as f64 / (specials + 1 + shape.beyond) as f64;
            let first = (case.before + delta + 1) as f64;
            let added = add_and_step(&mut of_case[delta..], &mut weights, first, odds);
            total += added;
            if added < NEGLIGIBLE * total {
                break;
            }
        }
        // A border of kind c stands at its distance in this variable or, after that one, in the other.
        for earlier in 0..=usize::from(case.paired) {
            for (chance, of_case) in chances[case.points + earlier..].iter_mut().zip(&of_case) {
                *chance += of_case;
            }
        }
    }
    let total: f64 = chances.iter().sum();
    chances.iter_mut().for_each(|chance| *chance /= total);
    chances
}

every_width! {
/// Adds the `weights` of each κ at one δ to `chances`, and turns them into those at δ + 1, which are
/// (first + κ) · `odds` times as large. Returns what was added.
fn add_and_step(chances: &mut [f64], weights: &mut [f64], first: f64, odds: f64) -> f64 {
    let mut sums = [0.0; 8];
    let mut kappa = first;
    for (chances, weights) in chances.chunks_mut(8).zip(weights.chunks_mut(8)) {
        for (at, ((chance, weight), sum)) in chances.iter_mut().zip(weights).zip(&mut sums).enumerate() {
            *chance += *weight;
            *sum += *weight;
            *weight *= (kappa + at as f64) * odds;
        }
        kappa += 8.0;
    }
    sums.iter().sum()
}
}

fn cases(shape: Shape) -> Vec<Case> {
    let ln_factorial = |n: usize| libm::lgamma(n as f64 + 1.0);
    let ln_choose = |n: usize, k: usize| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let Shape { missing, only_here, only_there, both, .. } = shape;
    // The border's kind: how many there are, what is left of a, b and c without it, and whether it is of kind c.
    let borders = [
        (only_here, [only_here.wrapping_sub(1), only_there, both], 0),
        (only_there, [only_here, only_there.wrapping_sub(1), both], 0),
        (both, [only_here, only_there, both.wrapping_sub(1)], 1),
    ];
    let mut cases = Vec::new();
    for (count, [a, b, c], paired) in borders.into_iter().filter(|border| border.0 > 0) {
        for alpha in 0..=a.min(missing - 1) {
            for gamma in 0..=c.min(missing - 1 - alpha) {
                let beta = missing - 1 - alpha - gamma;
                if beta > b {
                    continue;
                }
                let before = alpha + beta + 2 * gamma + paired;
                let behind = (a - alpha) + (b - beta) + (c - gamma);
                let ways = (count as f64).ln() + ln_choose(a, alpha) + ln_choose(b, beta) + ln_choose(c, gamma);
                let integral = ln_factorial(before) + ln_factorial(behind) - ln_factorial(before + behind + 1);
                let weight = ways + integral;
                let (points, spare, paired) = (alpha + gamma, c - gamma, paired == 1);
                cases.push(Case { weight, before, points, behind, spare, paired });
            }
        }
    }
    cases
}

/// Weights of the number κ of `others` that stand before the special distance number `special` of `specials`:
/// P(κ) ∝ C(κ + s − 1, κ) · C(d − κ + S − s, d − κ).
fn of_beyond(special: usize, specials: usize, others: usize) -> Vec<f64> {
    let behind = specials - special;
    if special <= FEW && behind < FEW {
        return with_choices(special - 1, others, |before| {
            with_choices(behind, others, |behind| before.iter().zip(behind.iter().rev()).map(|(a, b)| a * b).collect())
        });
    }
    let ratio = |kappa: usize| {
        let up = ((others - kappa) * (special + kappa)) as f64;
        up / ((kappa + 1) * (behind + others - kappa)) as f64
    };
    // From about the mean outward, so that no weight leaves the range of numbers.
    let start = (others * special / (specials + 1)).min(others);
    let mut weights = vec![0.0; others + 1];
    weights[start] = 1.0;
    for kappa in start..others {
        weights[kappa + 1] = weights[kappa] * ratio(kappa);
    }
    for kappa in (0..start).rev() {
        weights[kappa] = weights[kappa + 1] / ratio(kappa);
    }
    weights
}

/// Up to so many distances on either side the binomials of [`of_beyond`] are remembered; with two million rows their
/// products stay below 10³⁰⁰.
const FEW: usize = 24;

/// What `of` makes of C(n + i, i) for i from 0 to `last`.
fn with_choices<R>(n: usize, last: usize, of: impl FnOnce(&[f64]) -> R) -> R {
    let choices = CHOICES.with_borrow_mut(|choices| {
        let known = &mut choices[n];
        if known.len() <= last {
            let mut longer = known.to_vec();
            longer.reserve(last + 1 - longer.len());
            if longer.is_empty() {
                longer.push(1.0);
            }
            for i in longer.len()..=last {
                longer.push(longer[i - 1] * ((n + i) as f64 / i as f64));
            }
            *known = longer.into();
        }
        Rc::clone(known)
    });
    of(&choices[..=last])
}

thread_local! {
    static CHOICES: RefCell<[Rc<[f64]>; FEW]> = RefCell::new(std::array::from_fn(|_| Rc::default()));
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

    #[test]
    fn chances_are_those_of_all_orders() {
        let mut tried = 0;
        for (a, b, c, d) in (0..4 * 4 * 4 * 4).map(|i| (i % 4, i / 4 % 4, i / 16 % 4, i / 64)) {
            if a + b + 2 * c + d > 7 {
                continue;
            }
            for missing in 1..=(a + b + c).min(4) {
                let shape = Shape { missing, only_here: a, only_there: b, both: c, beyond: d };
                for (got, expected) in chances(shape).iter().zip(by_counting(shape)) {
                    assert!((got - expected).abs() < 1e-13, "{shape:?}: {got}, {expected}");
                }
                tried += 1;
            }
        }
        assert!(tried > 100, "{tried}");
    }

    #[test]
    fn the_closed_form_is_the_sum() {
        let digamma = Digamma::up_to(6_000);
        for (missing, both, beyond) in
            [(1, 1, 1), (1, 2, 0), (3, 3, 0), (3, 5, 2), (2, 40, 300), (3, 300, 40), (10, 900, 1)]
        {
            let shape = Shape { missing, both, beyond, ..Shape::default() };
            let closed = of_identical_points(&digamma, shape);
            let summed: f64 = chances(shape).iter().zip(1..).map(|(chance, n)| chance * digamma.at(n)).sum();
            assert!((closed - summed).abs() < 1e-12, "{shape:?}: {closed}, {summed}");
        }
    }

    #[test]
    fn few_points_have_the_sum_of_their_chances() {
        let digamma = Digamma::up_to(6_000);
        let mut tried = 0;
        for (only_here, only_there) in (0..=FEW_POINTS).flat_map(|a| (0..=FEW_POINTS - a).map(move |b| (a, b))) {
            for missing in 1..=only_here + only_there {
                for beyond in [0, 1, 7, 8, 30, 2_000] {
                    let shape = Shape { missing, only_here, only_there, beyond, both: 0 };
                    for closer in [0, 1, 40] {
                        let values = digamma.from(closer + 1);
                        let (summed, few) = (sum_of_products(&chances(shape), values), of_few_points(values, shape));
                        assert!((few - summed).abs() < 1e-12, "{closer}, {shape:?}: {few}, {summed}");
                        tried += 1;
                    }
                }
            }
        }
        assert!(tried > 1_000, "{tried}");
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
