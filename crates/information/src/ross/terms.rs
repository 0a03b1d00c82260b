//! The terms of Ross's estimator from the boundaries of balls, and its estimate from the terms.

use crate::digamma::Digamma;
use crate::neighbours::dot_products;
use crate::neighbours::rows::{self, Block};
use crate::settings::Kind;
use crate::value::Estimate;

use super::boundary::{Boundary, expected_digamma};
use super::classes::Classes;

/// Makes boundaries into terms, and terms into an estimate.
#[derive(Clone, Copy)]
pub(super) struct Terms<'a> {
    pub(super) digamma: &'a Digamma,
    pub(super) kind: Kind,
}

impl Terms<'_> {
    pub(super) fn estimate(self, classes: &Classes, terms: Vec<f64>) -> Estimate {
        Estimate::from_terms(self.digamma.at(classes.included), terms, &classes.left_out)
    }

    pub(super) fn term(self, classes: &Classes, class: usize, boundary: Boundary) -> f64 {
        let inside = match self.kind {
            // Strictly, but for a radius of 0 all duplicates, as the authors' code counts.
            Kind::Published if boundary.is_zero => self.digamma.at(boundary.at_radius + 1),
            Kind::Published => self.digamma.at(boundary.closer + 1),
            Kind::TieAware => expected_digamma(self.digamma, boundary),
        };
        self.of_class(classes, class) - inside
    }

    /// The terms of each label as the authors' code computes them for wide vectors: r_i and m_i from distances that
    /// round differently.
    pub(super) fn by_dot_products(self, x: &Block, labels: &[&Classes]) -> Vec<Vec<f64>> {
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
                // Points on the boundary do not enter the published estimator.
                terms[row] = self.term(classes, classes.of(row), Boundary { closer, ..Boundary::default() });
            }
        }
        terms
    }

    /// ψ(k_i) − ψ(n_i).
    pub(super) fn of_class(self, classes: &Classes, class: usize) -> f64 {
        self.digamma.at(classes.neighbours[class]) - self.digamma.at(classes.label.sizes()[class] as usize)
    }
}
