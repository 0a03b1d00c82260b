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

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::digamma::Digamma;
use super::neighbours::by_class;
use super::neighbours::dot_products::{self, WIDEST_WITHOUT};
use super::neighbours::lanes::Real;
use super::neighbours::rows::{Block, Nearest};
use super::neighbours::sorted::{MARGIN, Sorted, border, inside, with_margin};
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
                let borders = match kind {
                    Kind::Published if block.width() > WIDEST_WITHOUT => borders_by_dot_products(block, &classes),
                    _ => borders_of_vector(block, &classes),
                };
                classes.iter().zip(&borders).map(|(classes, borders)| terms.of_borders(classes, borders)).collect()
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
                Ok(Self {
                    label,
                    neighbours: label.sizes().iter().map(|&size| neighbours.min(size as usize - 1)).collect(),
                    kept: paired().map(|&size| size as usize).sum(),
                    left_out: rows.filter(|&(&class, _)| alone(class)).map(|(_, row)| row).collect(),
                })
            }
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

/// Makes borders into terms, and terms into an estimate.
#[derive(Clone, Copy)]
struct Terms<'a> {
    digamma: &'a Digamma,
    kind: Kind,
}

impl Terms<'_> {
    fn of_borders(self, classes: &Classes, borders: &[Border]) -> Estimate {
        let term = |(row, border): (usize, &Border)| match classes.neighbours_of(row) {
            Some(_) => self.term(classes, classes.of(row), *border),
            None => 0.0,
        };
        self.estimate(classes, &borders.iter().enumerate().map(term).collect::<Vec<_>>())
    }

    fn estimate(self, classes: &Classes, terms: &[f64]) -> Estimate {
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

    /// ψ(k_i) − ψ(n_i).
    fn of_class(self, classes: &Classes, class: usize) -> f64 {
        self.digamma.at(classes.neighbours[class]) - self.digamma.at(classes.label.sizes()[class] as usize)
    }

    /// Scalars: the k_i-th neighbour of the class is among the k_i before and the k_i behind in the order of the class,
    /// and the others are counted in the order of all.
    fn of_column<T: Real>(self, x: &Sorted<T>, classes: &Classes) -> Estimate {
        let kept;
        let column = match classes.left_out.is_empty() {
            true => Kept { padded: x.padded(), rows: x.rows() },
            false => {
                let in_order = x.rows().iter().zip(x.places());
                let pairs = in_order.filter(|&(&row, _)| classes.neighbours_of(row as usize).is_some());
                let (rows, places): (Vec<u32>, Vec<T>) = pairs.map(|(&row, &place)| (row, place)).unzip();
                kept = (rows, with_margin(places.into_iter()));
                Kept { padded: &kept.1, rows: &kept.0 }
            }
        };
        let of: Vec<u32> = column.rows.iter().map(|&row| classes.label.classes()[row as usize]).collect();
        let radii = by_class::radii(column.places(), &of, classes.label.sizes(), &classes.neighbours);
        let inside = inside(column.padded, &radii);
        let of_class: Vec<f64> = (0..classes.neighbours.len()).map(|class| self.of_class(classes, class)).collect();
        let mut terms = vec![0.0; x.rows().len()];
        let mut of_points: FxHashMap<(u64, u32), f64> = FxHashMap::default();
        for (at, (&row, &class)) in column.rows.iter().zip(&of).enumerate() {
            let border = || {
                let k = classes.neighbours[class as usize];
                column.border(at, radii[at], inside.range(at), &of, k)
            };
            let point = radii[at].widen() == 0.0;
            terms[row as usize] = if inside.edges(at) == 1 && !point {
                of_class[class as usize] - self.digamma.at(inside.closer(at) + 1)
            } else if point {
                // Identical points of a class have identical terms.
                let point = (column.places()[at].widen().to_bits(), class);
                *of_points.entry(point).or_insert_with(|| self.term(classes, class as usize, border()))
            } else {
                self.term(classes, class as usize, border())
            };
        }
        self.estimate(classes, &terms)
    }
}

/// A sorted column without the rows that are left out.
struct Kept<'a, T> {
    padded: &'a [T],
    rows: &'a [u32],
}

impl<T: Real> Kept<'_, T> {
    fn places(&self) -> &[T] {
        &self.padded[MARGIN..MARGIN + self.rows.len()]
    }

    /// What lies about position `at`, whose class is `of[at]`, out to the `k`-th of that class. `closer` are the
    /// positions closer than `radius`.
    fn border(&self, at: usize, radius: T, closer: Range<usize>, of: &[u32], k: usize) -> Border {
        let places = self.places();
        let (before, behind) = border(places, at, radius, closer.clone());
        let own = |other: &usize| of[*other] == of[at];
        let wide = |other: usize| (places[other].widen() - places[at].widen()).abs();
        let missing = k + 1 - closer.clone().filter(own).count();
        // Rounded to f32, distances may seem equal that are not: the radius is the one in f64 that has its place.
        let mut same: Vec<f64> = before.clone().chain(behind.clone()).filter(own).map(wide).collect();
        let exact = *same.select_nth_unstable_by(missing - 1, f64::total_cmp).1;
        let level = |distance: f64| usize::from(distance == exact);
        let near = |distance: f64| usize::from(distance < exact);
        let others = || before.clone().chain(behind.clone()).map(wide);
        Border {
            closer: closer.len() - 1 + others().map(near).sum::<usize>(),
            level: others().map(level).sum(),
            same: same.iter().map(|&distance| level(distance)).sum(),
            missing: missing - same.iter().map(|&distance| near(distance)).sum::<usize>(),
            point: exact == 0.0,
        }
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

/// The borders of every row, for each of `labels`; rows left out have an empty one.
fn borders_of_vector(x: &Block, labels: &[&Classes]) -> Vec<Vec<Border>> {
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
fn borders_by_dot_products(x: &Block, labels: &[&Classes]) -> Vec<Vec<Border>> {
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
