//! The terms of the tie-aware estimate: from the counts where no more than one distance equals the radius, as mostly, and from
//! all that lies about a point where ties leave it open.

use crate::estimate::digamma::Digamma;
use crate::estimate::neighbours::inside::Count;
use crate::estimate::neighbours::lanes::Real;
use crate::estimate::neighbours::level::{self, Level, Side};
use crate::estimate::ties::{self, Border, Shape};

use super::balls::{Balls, Same};
use super::rounded::Near;

/// Open points that are worked on at once, so that what is known of them stays at hand.
const SOME: usize = 128;

/// The terms by row.
pub(super) fn tie_aware_terms<T: Real>(balls: &Balls<T>, digamma: &Digamma) -> Vec<f64> {
    let (x, y) = (balls.x, balls.y);
    let mut terms = vec![0.0; x.rows().len()];
    let sides = [(x.ranks(), balls.in_x.counts()), (y.ranks(), balls.in_y.counts())];
    let mut open = Vec::new();
    if closed_terms(sides, digamma.from(1), &mut terms) {
        open = balls.open();
    }
    if open.is_empty() {
        return terms;
    }
    let turned = balls.plane.turned();
    let Same { firsts, like } = Same::of_open(x, y, balls.plane.rank_y(), &open);
    let firsts: Vec<u32> = firsts.into_iter().map(|(first, _)| first).collect();
    let side_x = Side { column: x, plane: &balls.plane, inside: &balls.in_x };
    let side_y = Side { column: y, plane: turned, inside: &balls.in_y };
    let mut of_firsts = Vec::with_capacity(firsts.len());
    let (mut borders, mut expected, mut near) = (Vec::new(), Vec::new(), Near::default());
    for some in firsts.chunks(SOME) {
        borders.clear();
        for (&at, levels) in some.iter().zip(level::levels(side_x, side_y, &balls.found.radii, some)) {
            let at = at as usize;
            let around = match levels {
                Some(levels) => balls.around_of(at, levels),
                None => balls.around_in_f64(at, turned, &mut near),
            };
            borders.extend(around.closed(balls.k).borders());
        }
        ties::expected_digammas(&borders, digamma, &mut expected);
        of_firsts.extend(expected.chunks_exact(2).map(|psi| -(psi[0] + psi[1])));
    }
    for (&at, like) in open.iter().zip(like) {
        terms[x.rows()[at as usize] as usize] = of_firsts[like as usize];
    }
    terms
}

/// −(ψ(n_x + 1) + ψ(n_y + 1)) of each row, and whether ties leave that open for any. A side is the position of each row in
/// its order, and the counts at each position; `digamma` is ψ(1), ψ(2), …
fn closed_terms([x, y]: [(&[u32], &[Count]); 2], digamma: &[f64], terms: &mut [f64]) -> bool {
    let ((ranks_x, counts_x), (ranks_y, counts_y)) = (x, y);
    let rows = terms.len();
    assert!(ranks_x.len() == rows && ranks_y.len() == rows);
    assert!(counts_x.len() >= rows && counts_y.len() >= rows && digamma.len() >= rows);
    let mut open = false;
    for row in 0..rows {
        // SAFETY: a rank is below the number of rows, and so is the number of others that are closer.
        let (near_x, near_y, psi_x, psi_y) = unsafe {
            let near_x = *counts_x.get_unchecked(ranks_x[row] as usize);
            let near_y = *counts_y.get_unchecked(ranks_y[row] as usize);
            let psi = |near: Count| *digamma.get_unchecked(near.closer() as usize);
            (near_x, near_y, psi(near_x), psi(near_y))
        };
        open |= near_x.is_open(near_y);
        terms[row] = -(psi_x + psi_y);
    }
    open
}

impl<T: Real> Balls<'_, T> {
    /// What lies about the point at position `at`, of which `levels` is what is at its radius in x and in y.
    fn around_of(&self, at: usize, levels: [Level; 2]) -> Around {
        Around {
            closer: [self.in_x.closer(at), self.in_y.closer(self.rank_y(at))],
            closer_in_both: self.k - self.found.levels[at] as usize,
            only: levels.map(|level| level.closer as usize),
            both: levels[0].border as usize,
            beyond: levels.map(|level| level.beyond as usize),
            missing: 0,
        }
    }
}

/// The other points about a point, by their distances.
#[derive(Default)]
pub(super) struct Around {
    /// In x and in y.
    pub(super) closer: [usize; 2],
    pub(super) closer_in_both: usize,
    /// Points at the radius: see [`Shape`].
    pub(super) only: [usize; 2],
    pub(super) both: usize,
    pub(super) beyond: [usize; 2],
    pub(super) missing: usize,
}

impl Around {
    pub(super) fn add(&mut self, dx: f64, dy: f64, radius: f64) {
        let (near_x, near_y, level_x, level_y) = (dx < radius, dy < radius, dx == radius, dy == radius);
        self.closer[0] += usize::from(near_x);
        self.closer[1] += usize::from(near_y);
        self.closer_in_both += usize::from(near_x && near_y);
        self.only[0] += usize::from(level_x && near_y);
        self.only[1] += usize::from(near_x && level_y);
        self.both += usize::from(level_x && level_y);
        self.beyond[0] += usize::from(level_x && dy > radius);
        self.beyond[1] += usize::from(level_y && dx > radius);
    }

    /// With all points added, of which the `k` nearest are inside or on the border.
    pub(super) fn closed(self, k: usize) -> Self {
        Self { missing: k - self.closer_in_both, ..self }
    }

    /// Seen from x and from y.
    pub(super) fn borders(&self) -> [Border; 2] {
        [(0, 1), (1, 0)].map(|(here, there)| {
            let shape = Shape {
                missing: self.missing,
                only_here: self.only[here],
                only_there: self.only[there],
                both: self.both,
                beyond: self.beyond[here],
            };
            Border { closer: self.closer[here], shape }
        })
    }

    /// −E(ψ(n_x + 1) + ψ(n_y + 1)).
    pub(super) fn term(&self, digamma: &Digamma) -> f64 {
        let [psi_x, psi_y] = self.borders().map(|border| border.expected_digamma(digamma));
        -(psi_x + psi_y)
    }
}
