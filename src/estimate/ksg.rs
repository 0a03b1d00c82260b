//! Mutual information of two continuous variables from nearest neighbours, estimator 1 of Kraskov, Stögbauer and
//! Grassberger 2004, DOI 10.1103/PhysRevE.69.066138, equation 8:
//!
//! ```text
//! I(X;Y) = ψ(N) + ψ(k) − ⟨ψ(n_x + 1) + ψ(n_y + 1)⟩
//! ```
//!
//! Nats. Distance is the maximum of the distances in x and in y, and within a vector the maximum over its coordinates;
//! r_i is the distance to the k-th other point, n_x the number of other points with |x_j − x_i| < r_i, strictly.
//! N is the number of rows, in any dimension.
//!
//! Where it fails: strong dependence needs many rows (Gao, Ver Steeg and Galstyan 2015, arXiv 1411.2003): the value
//! cannot exceed about ψ(N). Larger k lowers the variance and raises the bias towards 0. It may be negative by chance.
//! A variable with itself has no finite I; its estimate measures N: for k neighbours, ψ(N) − ψ(k) − 1/k.
//!
//! Ties: points on the border of the ball leave n_x and n_y open. The tie-aware estimate keeps every row whose border
//! holds the one point that defines it, in one variable only, as it is; the other rows' terms are averaged over draws
//! in which equal values were put in random order.

use std::borrow::Cow;

use super::digamma::Digamma;
use super::neighbours::rows::{self, Block};
use super::neighbours::sorted::{self, Sorted};
use super::neighbours::strips::Strips;
use super::neighbours::{Closest, Counts, Place};
use super::sum::Sum;
use super::variable::Continuous;
use super::{Estimate, Settings, variance_of_mean};

/// The ball that reaches the k-th neighbour of a row.
#[derive(Clone, Copy, Default)]
struct Ball {
    radius: f64,
    x: Counts,
    y: Counts,
}

/// Noise makes equal distances a rarity. Those left, where the mean is 0 or the noise is rounded away, are counted as
/// the authors' code does: strictly, but for a radius of 0 all identical values.
pub fn published(x: Continuous, y: Continuous, settings: &Settings) -> Estimate {
    let (x, y) = in_order(x, y);
    let (n, k, seed) = (x.rows(), settings.neighbours, settings.seed);
    let digamma = Digamma::up_to(n);
    let repeats = (0..settings.repeats.max(1)).map(|repeat| {
        let counts = match (x, y) {
            (Continuous::Scalar(a), Continuous::Scalar(b)) => {
                let xs = a.with_noise(seed, 0, repeat, Some(b.key()));
                let ys = b.with_noise(seed, 1, repeat, Some(a.key()));
                count_scalars(&Sorted::new(&xs), &Sorted::new(&ys), k)
            }
            _ => count_blocks(&noisy(x, y, seed, 0, repeat), &noisy(y, x, seed, 1, repeat), k),
        };
        let identical = |counts: Counts, radius| if radius == 0.0 { counts.border } else { 0 };
        let inside = |ball: &Ball| -> f64 {
            [ball.x, ball.y].map(|counts| digamma.at(counts.closer + identical(counts, ball.radius) + 1)).iter().sum()
        };
        let terms = counts.iter().map(|ball| Some(-inside(ball))).collect();
        Estimate::from_terms(digamma.at(n) + digamma.at(k), terms)
    });
    Estimate::over_repeats(&repeats.collect::<Vec<_>>())
}

fn plain(variable: Continuous) -> Cow<Block<f64>> {
    match variable {
        Continuous::Scalar(v) => Cow::Owned(Block::new(v.values().to_vec(), v.values().len())),
        Continuous::Vector(v) => Cow::Borrowed(v.block()),
    }
}

fn noisy(this: Continuous, other: Continuous, seed: u64, side: usize, repeat: usize) -> Block<f64> {
    match this {
        Continuous::Scalar(v) => Block::new(v.with_noise(seed, side, repeat, Some(other.key())), v.values().len()),
        Continuous::Vector(v) => v.with_noise(seed, side, repeat, Some(other.key())),
    }
}

/// Without ties the estimator itself; otherwise the mean over `settings.draws` random orders of what is tied.
pub fn tie_aware(x: Continuous, y: Continuous, settings: &Settings) -> Estimate {
    let (x, y) = in_order(x, y);
    let (n, k) = (x.rows(), settings.neighbours);
    let digamma = Digamma::up_to(n);
    let undisturbed = match (x, y) {
        (Continuous::Scalar(a), Continuous::Scalar(b)) => count_scalars(a.sorted(), b.sorted(), k),
        _ => count_blocks(&plain(x), &plain(y), k),
    };
    let mut terms: Vec<Option<f64>> = undisturbed.iter().map(|row| Some(term(&digamma, row))).collect();
    let normaliser = digamma.at(n) + digamma.at(k);
    let open: Vec<u32> = (0..n as u32).filter(|&row| is_open(&undisturbed[row as usize])).collect();
    if open.is_empty() {
        return Estimate::from_terms(normaliser, terms);
    }
    let draws = settings.draws.max(1);
    let mut sums = vec![0.0; open.len()];
    let mut values = Vec::with_capacity(draws);
    for balls in draw(x, y, &open, settings.seed, draws, k) {
        let mut total = Sum::default();
        for (sum, ball) in sums.iter_mut().zip(&balls) {
            let term = term(&digamma, ball);
            *sum += term;
            total.add(term);
        }
        values.push(total.total() / n as f64);
    }
    for (sum, &row) in sums.iter().zip(&open) {
        terms[row as usize] = Some(sum / draws as f64);
    }
    Estimate { draw_variance: variance_of_mean(&values), ..Estimate::from_terms(normaliser, terms) }
}

/// The balls of the `open` rows in each draw.
fn draw(x: Continuous, y: Continuous, open: &[u32], seed: u64, draws: usize, k: usize) -> Vec<Vec<Ball>> {
    // Columns of different keys differ in their noise already; only a column with itself needs a second version.
    let other = usize::from(x.key() == y.key());
    match (x, y) {
        (Continuous::Scalar(a), Continuous::Scalar(b)) => {
            let (xs, ys) = (a.draws(0, seed, draws), b.draws(other, seed, draws));
            xs.iter().zip(ys.iter()).map(|(x, y)| balls_of(x, y, open, k)).collect()
        }
        _ => (0..draws)
            .map(|draw| {
                let block = |variable: Continuous, side| match variable {
                    Continuous::Scalar(v) => {
                        Block::new(v.draws(side, seed, draws)[draw].in_row_order(), v.values().len())
                    }
                    Continuous::Vector(v) => v.draws(side, seed, draws)[draw].clone(),
                };
                block_balls_of(&block(x, 0), &block(y, other), open, k)
            })
            .collect(),
    }
}

/// The tie-aware estimate of a variable with itself when no two of its values are equal: in a random order of what is
/// tied, k − 1 points are inside on the side that defines r_i and k on the other, whatever the values are.
pub fn self_information_without_ties(rows: usize, neighbours: usize) -> Estimate {
    let digamma = Digamma::up_to(rows);
    let value = digamma.at(rows) - digamma.at(neighbours) - 1.0 / neighbours as f64;
    Estimate { value, repeats: vec![value], unclipped: value, influence: vec![0.0; rows], draw_variance: 0.0 }
}

fn term(digamma: &Digamma, ball: &Ball) -> f64 {
    -(digamma.at(ball.x.closer + 1) + digamma.at(ball.y.closer + 1))
}

/// Whether equal distances leave the row's counts open: more lies on the border than the one point that defines it, or
/// that point lies there in both variables.
fn is_open(ball: &Ball) -> bool {
    ball.x.border + ball.y.border > 1
}

/// The pair in an order of its own, so that I(X;Y) and I(Y;X) draw the same noise: by key, then by values.
fn in_order<'a>(x: Continuous<'a>, y: Continuous<'a>) -> (Continuous<'a>, Continuous<'a>) {
    let by_value = || {
        let values = x.coordinates().flatten().zip(y.coordinates().flatten());
        values.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne())
    };
    let order = x.key().cmp(&y.key()).then_with(|| by_value().unwrap_or(std::cmp::Ordering::Equal));
    if order.is_gt() { (y, x) } else { (x, y) }
}

/// The balls of `rows`, in their order, of two sorted columns.
fn balls_of<P: Place>(x: &Sorted<P>, y: &Sorted<P>, rows: &[u32], k: usize) -> Vec<Ball> {
    let strips = Strips::new(x, y, k);
    let mut nearest = Closest::new(k);
    let ball = |&row: &u32| {
        let (in_x, in_y) = (x.rank(row as usize), y.rank(row as usize));
        let radius = strips.kth_distance(row, in_x, x.places()[in_x], y.places()[in_y], &mut nearest);
        Ball { radius, x: sorted::counts(x.places(), in_x, radius), y: sorted::counts(y.places(), in_y, radius) }
    };
    rows.iter().map(ball).collect()
}

/// The balls of all rows, in row order.
fn count_scalars<P: Place>(x: &Sorted<P>, y: &Sorted<P>, k: usize) -> Vec<Ball> {
    let mut balls = vec![Ball::default(); x.rows().len()];
    // Searched in the order of x, so that one row's neighbours are still in the cache for the next.
    for (&row, ball) in x.rows().iter().zip(balls_of(x, y, x.rows(), k)) {
        balls[row as usize] = ball;
    }
    balls
}

/// The balls of `rows`, in their order, of two blocks.
fn block_balls_of<P: Place>(x: &Block<P>, y: &Block<P>, rows: &[u32], k: usize) -> Vec<Ball> {
    let n = x.rows();
    let mut scratch = Vec::with_capacity(n);
    let (mut dx, mut dy, mut joint) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut of_row = |&row: &u32| {
        let row = row as usize;
        dx.fill(0.0);
        dy.fill(0.0);
        x.join_chebyshev(row, &mut dx);
        y.join_chebyshev(row, &mut dy);
        for ((joint, &x), &y) in joint.iter_mut().zip(&dx).zip(&dy) {
            *joint = if x > y { x } else { y };
        }
        let radius = rows::kth_distance(&joint, row, k, &mut scratch);
        Ball { radius, x: rows::counts(&dx, radius), y: rows::counts(&dy, radius) }
    };
    rows.iter().map(&mut of_row).collect()
}

fn count_blocks<P: Place>(x: &Block<P>, y: &Block<P>, k: usize) -> Vec<Ball> {
    block_balls_of(x, y, &(0..x.rows() as u32).collect::<Vec<_>>(), k)
}
