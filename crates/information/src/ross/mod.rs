//! Mutual information of a continuous and a discrete variable from nearest neighbours, Ross 2014,
//! DOI 10.1371/journal.pone.0087357, equation 2 averaged over rows:
//!
//! ```text
//! I(X;C) = ψ(N) + ⟨ψ(k_i)⟩ − ⟨ψ(n_i)⟩ − ⟨ψ(m_i)⟩
//! ```
//!
//! Nats. n_i is the size of the row's class, k_i = min(k, n_i − 1), r_i the distance to the k_i-th other point of that
//! class, m_i the number of points of any class with a distance below r_i, the point itself included. Rows alone in their
//! class are left out everywhere. Distance is |x_j − x_i| for scalars and Euclidean for vectors, compared as its square in
//! f64: a square root would merge distinct distances.
//!
//! Where it fails: classes smaller than about 4k rows are estimated from few neighbours; above a few hundred dimensions all
//! distances are alike. Ties: [`expected_digamma`](boundary::expected_digamma), an exact expectation. Published estimates of
//! vectors wider than 15 coordinates repeat the rounding of the authors' code: [`dot_products`](super::neighbours).

mod boundary;
mod classes;
mod scalars;
mod terms;
mod vectors;

#[doc(hidden)]
pub use vectors::{Search, information_by};

use super::digamma::Digamma;
use super::neighbours::dot_products::WIDEST_WITHOUT;
use super::neighbours::sorted::Sorted;
use super::settings::{Kind, Settings};
use super::undefined::Undefined;
use super::value::Estimate;
use super::variable::{Continuous, Discrete};
use classes::Classes;
use terms::Terms;

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
