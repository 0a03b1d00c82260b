//! The other points about a point, by their distances: what its term follows from where ties leave the counts open.

use crate::digamma::Digamma;
use crate::ties::{Boundary, Shape};

/// Neighbourhoods whose boundaries are summed up together: few enough to stay in the cache. Each sum is its own, so no bit
/// depends on it.
pub(super) const AT_ONCE: usize = 128;

/// The other points about a point, by their distances.
#[derive(Default)]
pub(super) struct Neighbourhood {
    /// In x and in y.
    pub(super) closer: [usize; 2],
    pub(super) closer_in_both: usize,
    /// Points at the radius: see [`Shape`].
    pub(super) only: [usize; 2],
    pub(super) both: usize,
    pub(super) beyond: [usize; 2],
    pub(super) missing: usize,
}

impl Neighbourhood {
    pub(super) fn add(&mut self, dx: f64, dy: f64, radius: f64) {
        let (near_x, near_y, at_x, at_y) = (dx < radius, dy < radius, dx == radius, dy == radius);
        self.closer[0] += usize::from(near_x);
        self.closer[1] += usize::from(near_y);
        self.closer_in_both += usize::from(near_x && near_y);
        self.only[0] += usize::from(at_x && near_y);
        self.only[1] += usize::from(near_x && at_y);
        self.both += usize::from(at_x && at_y);
        self.beyond[0] += usize::from(at_x && dy > radius);
        self.beyond[1] += usize::from(at_y && dx > radius);
    }

    /// With all points added, of which the `k` nearest are inside or on the boundary.
    pub(super) fn complete(self, k: usize) -> Self {
        Self { missing: k - self.closer_in_both, ..self }
    }

    /// Seen from x and from y.
    pub(super) fn boundaries(&self) -> [Boundary; 2] {
        [(0, 1), (1, 0)].map(|(here, there)| {
            let shape = Shape {
                missing: self.missing,
                only_here: self.only[here],
                only_there: self.only[there],
                both: self.both,
                beyond: self.beyond[here],
            };
            Boundary { closer: self.closer[here], shape }
        })
    }

    /// −E(ψ(n_x + 1) + ψ(n_y + 1)).
    pub(super) fn term(&self, digamma: &Digamma) -> f64 {
        let [psi_x, psi_y] = self.boundaries().map(|boundary| boundary.expected_digamma(digamma));
        -(psi_x + psi_y)
    }
}
