//! Mutual information of two continuous variables from nearest neighbours, estimator 1 of Kraskov, Stögbauer and
//! Grassberger 2004, DOI 10.1103/PhysRevE.69.066138, equation 8:
//!
//! ```text
//! I(X;Y) = ψ(N) + ψ(k) − ⟨ψ(n_x + 1) + ψ(n_y + 1)⟩
//! ```
//!
//! Nats. Distance is the maximum of the distances in x and in y, and within a vector the maximum over its coordinates;
//! r_i is the distance to the k-th other point, n_x the number of other points with |x_j − x_i| < r_i, strictly.
//! N is the number of rows, in any dimension. [`tie_aware`] brings x and y to a common spread first ([`units`]);
//! [`published`] takes them as they come.
//!
//! Where it fails: strong dependence needs many rows (Gao, Ver Steeg and Galstyan 2015, arXiv 1411.2003), and the value
//! cannot exceed about ψ(N). Larger k lowers the variance and raises the bias towards 0. Ties on the boundary of the ball
//! leave n_x and n_y open: see [`ties`](super::ties).

mod balls;
mod cells;
mod duplicates;
mod neighbourhood;
mod rounded;
mod terms;
mod units;

use std::borrow::Cow;

use super::digamma::Digamma;
use super::levels::Levels;
use super::neighbours::lanes::larger;
use super::neighbours::rows::{self, Block};
use super::neighbours::sorted::Sorted;
use super::settings::Settings;
use super::thresholds;
use super::ties;
use super::value::Estimate;
use super::variable::{Continuous, Scalar};
use balls::Balls;
use neighbourhood::Neighbourhood;
use terms::tie_aware_terms;
use units::{Scaled, in_common_units};

/// Noise makes equal distances a rarity. Those left, where the mean is 0 or the noise is rounded away, are counted as
/// the authors' code does: strictly, but for a radius of 0 all identical values.
pub fn published(x: Continuous, y: Continuous, settings: &Settings) -> Estimate {
    let (x, y) = in_order(x, y);
    let (n, k, seed) = (x.rows(), settings.neighbours, settings.seed);
    let digamma = Digamma::up_to(n);
    let psis = |near_x: usize, near_y: usize| -(digamma.at(near_x + 1) + digamma.at(near_y + 1));
    let repeats = (0..settings.repeats.max(1)).map(|repeat| {
        let terms = match (x, y) {
            (Continuous::Scalar(a), Continuous::Scalar(b)) => {
                let xs = Sorted::new(&a.with_noise(seed, 0, repeat, Some(b.key())));
                let ys = Sorted::new(&b.with_noise(seed, 1, repeat, Some(a.key())));
                let balls = Balls::new(&xs, &ys, k);
                balls.terms(|at| {
                    let [near_x, near_y] = balls.strictly_inside(at);
                    psis(near_x, near_y)
                })
            }
            _ => {
                let (xs, ys) = (noisy(x, y, seed, 0, repeat), noisy(y, x, seed, 1, repeat));
                of_blocks(&xs, &ys, k, |dx, dy, _, radius| {
                    let near = |distances: &[f64]| {
                        let counts = rows::counts(distances, radius);
                        if radius == 0.0 { counts.at_radius } else { counts.closer }
                    };
                    psis(near(dx), near(dy))
                })
            }
        };
        Estimate::from_terms(digamma.at(n) + digamma.at(k), terms, &[])
    });
    Estimate::over_repeats(&repeats.collect::<Vec<_>>())
}

fn noisy(this: Continuous, other: Continuous, seed: u64, side: usize, repeat: usize) -> Block {
    match this {
        Continuous::Scalar(v) => Block::new(v.with_noise(seed, side, repeat, Some(other.key())), v.values().len()),
        Continuous::Vector(v) => v.with_noise(seed, side, repeat, Some(other.key())),
    }
}

/// The expectation over random orders of equal distances, in common units; without ties the estimator itself.
pub fn tie_aware(x: Continuous, y: Continuous, settings: &Settings) -> Estimate {
    let (n, k) = (x.rows(), settings.neighbours);
    let digamma = ties::digamma(n);
    let [x, y] = in_common_units(x, y);
    let terms = match x.scalar().zip(y.scalar()) {
        Some((a, b)) => match (levels_of_few_cells(a, b, n), float32(a, b)) {
            (Some([a, b]), _) => cells::tie_aware_terms(&a, &b, k, &digamma),
            (_, Some([a, b])) => tie_aware_terms(&Balls::new(&a, &b, k), &digamma),
            _ => tie_aware_terms(&Balls::new(&a.sorted(), &b.sorted(), k), &digamma),
        },
        None => of_blocks(&x.block(), &y.block(), k, |dx, dy, row, radius| {
            let mut neighbourhood = Neighbourhood::default();
            let others = dx.iter().zip(dy).enumerate().filter(|(other, _)| *other != row);
            others.for_each(|(_, (&dx, &dy))| neighbourhood.add(dx, dy, radius));
            neighbourhood.complete(k).term(&digamma)
        }),
    };
    Estimate::from_terms(digamma.at(n) + digamma.at(k), terms, &[])
}

/// The levels of two columns where a table of their cells pays.
fn levels_of_few_cells<'a>(x: Scaled<&'a Scalar>, y: Scaled<&'a Scalar>, rows: usize) -> Option<[Cow<'a, Levels>; 2]> {
    let levels = [x.levels()?, y.levels()?];
    thresholds::takes_cells(rows, [levels[0].count(), levels[1].count()]).then_some(levels)
}

/// Two columns in float32 where both lose nothing by it.
fn float32<'a>(x: Scaled<&'a Scalar>, y: Scaled<&'a Scalar>) -> Option<[Cow<'a, Sorted<f32>>; 2]> {
    thresholds::takes_float32().then_some([x.compact()?, y.compact()?])
}

/// The tie-aware estimate of a variable with itself when no two of its values are equal: in a random order of what is
/// tied, k − 1 points are inside on the side that defines r_i and k on the other, whatever the values are.
pub fn self_information_without_ties(rows: usize, neighbours: usize) -> Estimate {
    let digamma = Digamma::up_to(rows);
    let value = digamma.at(rows) - digamma.at(neighbours) - 1.0 / neighbours as f64;
    Estimate { value, repeats: vec![value], unclipped: value, influence: vec![0.0; rows], draw_variance: 0.0 }
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

/// `term` of every row, from its distances to all rows in x and in y, itself and its radius.
fn of_blocks(x: &Block, y: &Block, k: usize, term: impl Fn(&[f64], &[f64], usize, f64) -> f64) -> Vec<f64> {
    let n = x.rows();
    let mut scratch = Vec::with_capacity(n);
    let (mut dx, mut dy, mut joint) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let of_row = |row: usize| {
        dx.fill(0.0);
        dy.fill(0.0);
        x.join_chebyshev(row, &mut dx);
        y.join_chebyshev(row, &mut dy);
        for ((joint, &x), &y) in joint.iter_mut().zip(&dx).zip(&dy) {
            *joint = larger(x, y);
        }
        let radius = rows::kth_distance(&joint, row, k, &mut scratch);
        term(&dx, &dy, row, radius)
    };
    (0..n).map(of_row).collect()
}
