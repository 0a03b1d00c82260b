//! The boundary of a row's ball, and the expectation of ψ over random orders of what is on it.

use crate::digamma::Digamma;

/// The points inside and on the ball about a row that reaches its k_i-th neighbour of the same class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Boundary {
    /// Other points of any class closer than r_i: m_0.
    pub(super) closer: usize,
    /// Other points of any class at distance r_i: b ≥ B.
    pub(super) at_radius: usize,
    /// Other points of the row's own class at distance r_i: B ≥ k'.
    pub(super) own: usize,
    /// How many of the k_i neighbours are among them: k' ≥ 1.
    pub(super) missing: usize,
    /// r_i is 0: the k_i neighbours are duplicates of the row.
    pub(super) is_zero: bool,
}

/// E ψ(m) over random orders of the points at distance r_i: m = m_0 + M', where M' is the position of the k'-th point
/// of the row's class among the b at that distance, B of them of the class, in random order. M' is negative
/// hypergeometric: P(M' = p) ∝ C(p − 1, k' − 1) · C(b − p, B − k') for k' ≤ p ≤ b − B + k'. For m_0 = 0 the sum
/// closes: E ψ(M') = ψ(k') + ψ(b + 1) − ψ(B + 1).
///
/// Without ties b = B = k' = 1 and this is ψ(m_0 + 1), the estimator itself, the point counting for itself.
pub(super) fn expected_digamma(digamma: &Digamma, Boundary { closer, at_radius, own, missing, .. }: Boundary) -> f64 {
    if at_radius == own {
        return digamma.at(closer + missing);
    }
    if closer == 0 {
        return digamma.at(missing) + digamma.at(at_radius + 1) - digamma.at(own + 1);
    }
    let others = at_radius - own;
    // P(M' = p + 1) / P(M' = p), for p from k' to b − B + k' − 1.
    let ratio = |p: usize| {
        let up = p as f64 / (p + 1 - missing) as f64;
        up * ((others + missing - p) as f64 / (at_radius - p) as f64)
    };
    // Starting near the mean with weight 1 keeps every weight in range, and what is left out is below rounding.
    let start = (missing * (at_radius + 1) / (own + 1)).clamp(missing, others + missing);
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
