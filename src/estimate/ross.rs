//! Mutual information of a continuous and a discrete variable from nearest neighbours, Ross 2014,
//! DOI 10.1371/journal.pone.0087357, equation 2 averaged over rows:
//!
//! ```text
//! I(X;C) = ψ(N) + ⟨ψ(k_i)⟩ − ⟨ψ(n_i)⟩ − ⟨ψ(m_i)⟩
//! ```
//!
//! Nats. n_i is the size of the row's class, k_i = min(k, n_i − 1), r_i the distance to the k_i-th other point of that
//! class, m_i the number of points of any class with a distance below r_i, the point itself included. Rows alone in
//! their class are left out everywhere. Distance is |x_j − x_i| for scalars and Euclidean for vectors, compared as its
//! square in f64: a square root would merge distinct distances. (Squares of differences beyond 10^±154 leave the range
//! of f64; no float32 value comes near.)
//!
//! Where it fails: classes smaller than about 4k rows are estimated from few neighbours; more than a few hundred
//! dimensions make all distances alike. It may be negative by chance. Larger k lowers the variance and raises the bias
//! towards 0.
//!
//! The published estimator of vectors wider than 15 coordinates repeats what the authors' code computes there, which is
//! not the formula: see [`dot_products`].
//!
//! Ties: see `expected_digamma`, which makes the tie-aware estimate an exact expectation over random orders of equal
//! distances, without draws.

use super::digamma::Digamma;
use super::neighbours::dot_products::{self, WIDEST_WITHOUT};
use super::neighbours::rows::{Block, Nearest};
use super::neighbours::sorted::{self, Sorted};
use super::variable::{Continuous, Discrete};
use super::{Estimate, Kind, Settings, Undefined};

/// I(X; label) for each of `labels`, all with as many rows as x; x's neighbours are found once. In the published
/// estimator the labels share the noise of a repeat: that changes no estimate's distribution, only how two of them
/// vary together.
pub fn with_each(x: Continuous, labels: &[&Discrete], settings: &Settings) -> Vec<Result<Estimate, Undefined>> {
    let mut labels: Vec<Result<(Classes, Vec<Estimate>), Undefined>> = labels
        .iter()
        .map(|label| Classes::new(label, settings.neighbours).map(|classes| (classes, Vec::new())))
        .collect();
    let digamma = Digamma::up_to(x.rows());
    let repeats = match settings.kind {
        Kind::Published => settings.repeats.max(1),
        Kind::TieAware => 1,
    };
    for repeat in 0..repeats {
        let classes: Vec<&Classes> = labels.iter().flatten().map(|(classes, _)| classes).collect();
        let seed = settings.seed;
        let borders = match (x, settings.kind) {
            (Continuous::Scalar(x), Kind::TieAware) => borders_of_scalar(x.sorted(), &classes),
            (Continuous::Scalar(x), Kind::Published) => {
                borders_of_scalar(&Sorted::new(&x.with_noise(seed, 0, repeat, None)), &classes)
            }
            (Continuous::Vector(x), Kind::TieAware) => borders_of_vector(x.block(), &classes),
            (Continuous::Vector(x), Kind::Published) => {
                let noisy = x.with_noise(seed, 0, repeat, None);
                match noisy.width() {
                    ..=WIDEST_WITHOUT => borders_of_vector(&noisy, &classes),
                    _ => borders_by_dot_products(&noisy, &classes),
                }
            }
        };
        for ((classes, estimates), borders) in labels.iter_mut().flatten().zip(&borders) {
            estimates.push(estimate(&digamma, classes, borders, settings.kind));
        }
    }
    let combine = |mut estimates: Vec<Estimate>| match settings.kind {
        Kind::Published => Estimate::over_repeats(&estimates),
        Kind::TieAware => estimates.swap_remove(0),
    };
    labels.into_iter().map(|label| label.map(|(_, estimates)| combine(estimates))).collect()
}

/// The discrete side, with what each of its classes asks for.
struct Classes<'a> {
    label: &'a Discrete,
    /// k_i of each class; 0 for a class of one row, which is left out.
    neighbours: Vec<usize>,
    kept: usize,
}

impl<'a> Classes<'a> {
    fn new(label: &'a Discrete, neighbours: usize) -> Result<Self, Undefined> {
        if label.sizes().len() == 1 {
            return Err(Undefined::OneClass);
        }
        let paired = || label.sizes().iter().filter(|&&size| size > 1);
        match paired().count() {
            0 => Err(Undefined::NoClassOfTwo { classes: label.sizes().len() }),
            1 => Err(Undefined::OneClass),
            _ => Ok(Self {
                label,
                neighbours: label.sizes().iter().map(|&size| neighbours.min(size as usize - 1)).collect(),
                kept: paired().map(|&size| size as usize).sum(),
            }),
        }
    }

    fn of(&self, row: usize) -> usize {
        self.label.classes()[row] as usize
    }

    /// k_i of the row; `None` for a row alone in its class.
    fn neighbours_of(&self, row: usize) -> Option<usize> {
        Some(self.neighbours[self.of(row)]).filter(|&k| k > 0)
    }
}

/// What lies about a row inside and on the ball that reaches its k_i-th neighbour of the same class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Border {
    /// Other points of any class closer than r_i: m_0.
    closer: usize,
    /// Other points of any class at distance r_i: b ≥ B.
    level: usize,
    /// Those of the row's own class: B ≥ k'.
    same: usize,
    /// How many of the k_i neighbours are among them: k' ≥ 1.
    missing: usize,
    /// r_i is 0: the k_i neighbours are identical with the row.
    point: bool,
}

fn estimate(digamma: &Digamma, classes: &Classes, borders: &[Border], kind: Kind) -> Estimate {
    let term = |(row, border): (usize, &Border)| {
        let k = classes.neighbours_of(row)?;
        let inside = match kind {
            // Strictly, but for a radius of 0 all identical points, as the authors' code counts.
            Kind::Published if border.point => digamma.at(border.level + 1),
            Kind::Published => digamma.at(border.closer + 1),
            Kind::TieAware => expected_digamma(digamma, *border),
        };
        Some(digamma.at(k) - digamma.at(classes.label.sizes()[classes.of(row)] as usize) - inside)
    };
    Estimate::from_terms(digamma.at(classes.kept), borders.iter().enumerate().map(term).collect())
}

/// E ψ(m) over random orders of the points at distance r_i: m = m_0 + M', where M' is the position of the k'-th point
/// of the row's class among the b at that distance, B of them of the class, in random order. M' is negative
/// hypergeometric: P(M' = p) ∝ C(p − 1, k' − 1) · C(b − p, B − k') for k' ≤ p ≤ b − B + k'. For m_0 = 0 the sum
/// closes: E ψ(M') = ψ(k') + ψ(b + 1) − ψ(B + 1).
///
/// Without ties b = B = k' = 1 and this is ψ(m_0 + 1), the estimator itself, the point counting for itself.
fn expected_digamma(digamma: &Digamma, Border { closer, level, same, missing, .. }: Border) -> f64 {
    if level == same {
        return digamma.at(closer + missing);
    }
    if closer == 0 {
        return digamma.at(missing) + digamma.at(level + 1) - digamma.at(same + 1);
    }
    let others = level - same;
    // P(M' = p + 1) / P(M' = p), for p from k' to b − B + k' − 1.
    let ratio = |p: usize| {
        let up = p as f64 / (p + 1 - missing) as f64;
        up * ((others + missing - p) as f64 / (level - p) as f64)
    };
    // Starting near the mean with weight 1 keeps every weight in range, and what is left out is below rounding.
    let start = (missing * (level + 1) / (same + 1)).clamp(missing, others + missing);
    let (mut weights, mut sum) = (1.0, digamma.at(closer + start));
    let mut weight = 1.0;
    for p in start..others + missing {
        weight *= ratio(p);
        weights += weight;
        sum += weight * digamma.at(closer + p + 1);
        if weight < NEGLIGIBLE * weights {
            break;
        }
    }
    weight = 1.0;
    for p in (missing..start).rev() {
        weight /= ratio(p);
        weights += weight;
        sum += weight * digamma.at(closer + p);
        if weight < NEGLIGIBLE * weights {
            break;
        }
    }
    sum / weights
}

/// Weights this small, relative to the sum so far, end a tail: it falls geometrically from there on.
const NEGLIGIBLE: f64 = 1e-22;

/// The borders of every row, for each of `labels`; rows left out have an empty one.
fn borders_of_scalar(x: &Sorted<f64>, labels: &[&Classes]) -> Vec<Vec<Border>> {
    labels.iter().map(|classes| borders_in_column(x, classes)).collect()
}

fn borders_in_column(x: &Sorted<f64>, classes: &Classes) -> Vec<Border> {
    let in_order = x.rows().iter().zip(x.places());
    let kept: Vec<(usize, f64)> = in_order
        .map(|(&row, &place)| (row as usize, place))
        .filter(|&(row, _)| classes.neighbours_of(row).is_some())
        .collect();
    let places: Vec<f64> = kept.iter().map(|pair| pair.1).collect();
    let mut own: Vec<Vec<f64>> = vec![Vec::new(); classes.neighbours.len()];
    // The position of each kept row among the sorted places of its class.
    let in_class: Vec<usize> = kept
        .iter()
        .map(|&(row, place)| {
            own[classes.of(row)].push(place);
            own[classes.of(row)].len() - 1
        })
        .collect();
    let mut borders = vec![Border::default(); x.rows().len()];
    for (at, (&(row, _), &within)) in kept.iter().zip(&in_class).enumerate() {
        let own = &own[classes.of(row)];
        let k = classes.neighbours[classes.of(row)];
        let radius = sorted::kth_distance(own, within, k);
        let (all, same) = (sorted::counts(&places, at, radius), sorted::counts(own, within, radius));
        borders[row] = Border {
            closer: all.closer,
            level: all.border,
            same: same.border,
            missing: k - same.closer,
            point: radius == 0.0,
        };
    }
    borders
}

fn borders_of_vector(x: &Block<f64>, labels: &[&Classes]) -> Vec<Vec<Border>> {
    let n = x.rows();
    let mut borders = vec![vec![Border::default(); n]; labels.len()];
    let mut distances = vec![0.0; n];
    let mut nearest = Nearest::default();
    for row in 0..n {
        x.squared_euclidean(row, &mut distances);
        nearest.reset(row, &distances, expected_to_need(labels));
        for (classes, borders) in labels.iter().zip(&mut borders) {
            if let Some(k) = classes.neighbours_of(row) {
                borders[row] = border_in_list(&mut nearest, classes, row, k);
            }
        }
    }
    borders
}

/// As the authors' code counts for wide vectors: r_i and m_i from distances that round differently. The border itself
/// plays no part in the published estimator and stays empty.
fn borders_by_dot_products(x: &Block<f64>, labels: &[&Classes]) -> Vec<Vec<Border>> {
    let n = x.rows();
    let norms = dot_products::squared_norms(x);
    let mut borders = vec![vec![Border::default(); n]; labels.len()];
    let (mut distances, mut by_dot_products) = (vec![0.0; n], vec![0.0; n]);
    let mut nearest = Nearest::default();
    for row in 0..n {
        x.squared_euclidean(row, &mut distances);
        dot_products::squared_distances(x, &norms, row, &mut by_dot_products);
        nearest.reset(row, &by_dot_products, expected_to_need(labels));
        for (classes, borders) in labels.iter().zip(&mut borders) {
            let Some(k) = classes.neighbours_of(row) else { continue };
            let same =
                (0..).map_while(|at| nearest.get(at)).filter(|pair| classes.of(pair.1 as usize) == classes.of(row));
            let radius = same.take(k).last().map_or(0.0, |pair| dot_products::squared_radius(pair.0));
            let inside = |&(other, &distance): &(usize, &f64)| {
                distance <= radius && other != row && classes.neighbours_of(other).is_some()
            };
            borders[row].closer = distances.iter().enumerate().filter(inside).count();
        }
    }
    borders
}

/// Neighbours to sort at once. Classes of equal size would need k of each; twice that serves most rows at the first try.
fn expected_to_need(labels: &[&Classes]) -> usize {
    16 + 2 * labels.iter().map(|classes| classes.neighbours.iter().sum()).max().unwrap_or(0)
}

/// Goes through the neighbours of `row`, one distance after the other, up to its k-th of the same class.
fn border_in_list(nearest: &mut Nearest, classes: &Classes, row: usize, k: usize) -> Border {
    let mut border = Border { missing: k, ..Border::default() };
    let mut radius = f64::NEG_INFINITY;
    let mut at = 0;
    while let Some((distance, other)) = nearest.get(at) {
        at += 1;
        if distance > radius {
            if border.same >= border.missing {
                break;
            }
            border.closer += border.level;
            border.missing -= border.same;
            (border.level, border.same, radius) = (0, 0, distance);
        }
        let class = classes.of(other as usize);
        if classes.neighbours[class] > 0 {
            border.level += 1;
            border.same += usize::from(class == classes.of(row));
        }
    }
    border.point = radius == 0.0;
    border
}
