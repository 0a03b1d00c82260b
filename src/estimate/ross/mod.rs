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

mod scalars;
mod vectors;

#[doc(hidden)]
pub use vectors::{Search, information_by};

use super::digamma::Digamma;
use super::neighbours::dot_products::{self, WIDEST_WITHOUT};
use super::neighbours::rows::{self, Block};
use super::neighbours::sorted::Sorted;
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
        let terms = Terms { digamma: &digamma, kind: settings.kind };
        let estimated: Vec<Estimate> = match (x, settings.kind) {
            (Continuous::Scalar(x), Kind::TieAware) => match x.compact() {
                Some(x) => classes.iter().map(|classes| terms.of_column(x, classes)).collect(),
                None => classes.iter().map(|classes| terms.of_column(x.sorted(), classes)).collect(),
            },
            (Continuous::Scalar(x), Kind::Published) => {
                let noisy = Sorted::new(&x.with_noise(seed, 0, repeat, None));
                classes.iter().map(|classes| terms.of_column(&noisy, classes)).collect()
            }
            (Continuous::Vector(x), kind) => {
                let noisy;
                let block = match kind {
                    Kind::TieAware => x.block(),
                    Kind::Published => {
                        noisy = x.with_noise(seed, 0, repeat, None);
                        &noisy
                    }
                };
                let terms_of_each = match kind {
                    Kind::Published if block.width() > WIDEST_WITHOUT => terms.by_dot_products(block, &classes),
                    _ => terms.of_vectors(block, &classes),
                };
                classes.iter().zip(terms_of_each).map(|(classes, each)| terms.estimate(classes, each)).collect()
            }
        };
        for ((_, estimates), estimate) in labels.iter_mut().flatten().zip(estimated) {
            estimates.push(estimate);
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
    /// Rows alone in their class.
    left_out: Vec<u32>,
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
            _ => {
                let alone = |class: u32| label.sizes()[class as usize] == 1;
                let rows = label.classes().iter().zip(0..);
                let left_out = rows.filter(|&(&class, _)| alone(class)).map(|(_, row)| row);
                Ok(Self {
                    label,
                    neighbours: label.sizes().iter().map(|&size| neighbours.min(size as usize - 1)).collect(),
                    kept: paired().map(|&size| size as usize).sum(),
                    // Mostly there are none, and then the rows need not be gone through.
                    left_out: if label.sizes().contains(&1) { left_out.collect() } else { Vec::new() },
                })
            }
        }
    }

    fn of(&self, row: usize) -> usize {
        self.label.classes()[row] as usize
    }

    /// The rows of the class of `row`.
    fn members_with(&self, row: usize) -> &[u32] {
        self.label.members(self.of(row))
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

/// Makes borders into terms, and terms into an estimate.
#[derive(Clone, Copy)]
struct Terms<'a> {
    digamma: &'a Digamma,
    kind: Kind,
}

impl Terms<'_> {
    fn estimate(self, classes: &Classes, terms: Vec<f64>) -> Estimate {
        Estimate::from_terms(self.digamma.at(classes.kept), terms, &classes.left_out)
    }

    fn term(self, classes: &Classes, class: usize, border: Border) -> f64 {
        let inside = match self.kind {
            // Strictly, but for a radius of 0 all identical points, as the authors' code counts.
            Kind::Published if border.point => self.digamma.at(border.level + 1),
            Kind::Published => self.digamma.at(border.closer + 1),
            Kind::TieAware => expected_digamma(self.digamma, border),
        };
        self.of_class(classes, class) - inside
    }

    /// The terms of each label as the authors' code computes them for wide vectors: r_i and m_i from distances that
    /// round differently.
    fn by_dot_products(self, x: &Block, labels: &[&Classes]) -> Vec<Vec<f64>> {
        let n = x.rows();
        let norms = dot_products::squared_norms(x);
        let mut terms = vec![vec![0.0; n]; labels.len()];
        let (mut together, mut by_dot_products) = (Default::default(), vec![0.0; n]);
        let mut own = Vec::new();
        for row in 0..n {
            if row % rows::TOGETHER == 0 {
                x.squared_euclidean(row, &mut together);
            }
            let distances = &together[row % rows::TOGETHER];
            dot_products::squared_distances(x, &norms, row, &mut by_dot_products);
            for (classes, terms) in labels.iter().zip(&mut terms) {
                let Some(k) = classes.neighbours_of(row) else { continue };
                own.clear();
                let members = classes.members_with(row).iter().map(|&other| other as usize);
                own.extend(members.filter(|&other| other != row).map(|other| by_dot_products[other]));
                let radius = dot_products::squared_radius(rows::kth_smallest(&mut own, k));
                let inside = |&(other, &distance): &(usize, &f64)| {
                    distance <= radius && other != row && classes.neighbours_of(other).is_some()
                };
                let closer = distances.iter().enumerate().filter(inside).count();
                // The border itself plays no part in the published estimator.
                terms[row] = self.term(classes, classes.of(row), Border { closer, ..Border::default() });
            }
        }
        terms
    }

    /// ψ(k_i) − ψ(n_i).
    fn of_class(self, classes: &Classes, class: usize) -> f64 {
        self.digamma.at(classes.neighbours[class]) - self.digamma.at(classes.label.sizes()[class] as usize)
    }
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
