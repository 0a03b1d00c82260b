//! The terms of the tie-aware estimate: from the counts where no more than one distance equals the radius, as mostly, and from
//! all that lies about a point where ties leave it open.

use crate::estimate::digamma::Digamma;
use crate::estimate::neighbours::lanes::{Real, larger};
use crate::estimate::neighbours::level::{self, Level, Side};
use crate::estimate::neighbours::sorted::{Count, border};
use crate::estimate::neighbours::walk::Plane;
use crate::estimate::ties::{Border, Shape};
use crate::estimate::width::every_width;

use super::balls::{Balls, Same};

/// The terms by row, and the positions in x's order of the points that ties leave open.
pub(super) fn tie_aware_terms<T: Real>(balls: &Balls<T>, digamma: &Digamma) -> (Vec<f64>, Vec<u32>) {
    let (x, y) = (balls.x, balls.y);
    let mut terms = vec![0.0; x.rows().len()];
    let sides = [(x.ranks(), balls.in_x.counts()), (y.ranks(), balls.in_y.counts())];
    let mut open = Vec::new();
    if closed_terms(sides, digamma.from(1), &mut terms) {
        open.extend((0..terms.len() as u32).filter(|&at| balls.is_open(at as usize)));
    }
    if open.is_empty() {
        return (terms, open);
    }
    let turned = Plane::new(y, x);
    let Same { firsts, like } = Same::new(x, y, balls.plane.rank_y(), &open);
    let firsts: Vec<u32> = firsts.into_iter().map(|(first, _)| first).collect();
    let side_x = Side { column: x, plane: &balls.plane, inside: &balls.in_x };
    let side_y = Side { column: y, plane: &turned, inside: &balls.in_y };
    let levels = level::levels(side_x, side_y, &balls.found.radii, &firsts);
    let mut scratch = Vec::new();
    let of_firsts: Vec<f64> = firsts
        .iter()
        .zip(levels)
        .map(|(&at, levels)| {
            let at = at as usize;
            let around = match levels {
                Some(levels) => balls.around_of(at, levels),
                None => balls.around(at, &turned, &mut scratch),
            };
            around.closed(balls.k).term(digamma)
        })
        .collect();
    for (&at, like) in open.iter().zip(like) {
        terms[x.rows()[at as usize] as usize] = of_firsts[like as usize];
    }
    (terms, open)
}

every_width! {
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

    /// The same in f64, because distances that equal the radius may do so by rounding alone. `turned` is the plane in
    /// y's order, `distances` is overwritten.
    fn around(&self, at: usize, turned: &Plane<T>, distances: &mut Vec<[f64; 2]>) -> Around {
        let at_y = self.rank_y(at);
        let (radius, x, y) = (self.found.radii[at], self.x.places()[at], self.y.places()[at_y]);
        let (near_x, near_y) = (self.in_x.range(at), self.in_y.range(at_y));
        let closer = |a: T, b: T| (a - b).abs() < radius;
        let mut around = Around {
            closer_in_both: self.k - self.found.levels[at] as usize,
            closer: [near_x.len() - 1, near_y.len() - 1],
            ..Around::default()
        };
        let in_x = border(self.x.places(), at, radius, near_x);
        let in_y = border(self.y.places(), at_y, radius, near_y);
        distances.clear();
        let wide = |a: T, b: T| (a.widen() - b.widen()).abs();
        for other in in_x.0.chain(in_x.1) {
            let (other_x, other_y) = (self.x.places()[other], self.plane.along()[other]);
            distances.push([wide(other_x, x), wide(other_y, y)]);
            // It is to be added with both its distances.
            around.closer[1] -= usize::from(closer(other_y, y));
        }
        for other in in_y.0.chain(in_y.1) {
            let (other_x, other_y) = (turned.along()[other], self.y.places()[other]);
            // Points at the radius in both are there already.
            if (other_x - x).abs() != radius {
                distances.push([wide(other_x, x), wide(other_y, y)]);
                around.closer[0] -= usize::from(closer(other_x, x));
            }
        }
        let exact = self.exact_radius(radius, self.k - around.closer_in_both, distances);
        distances.iter().for_each(|&[dx, dy]| around.add(dx, dy, exact));
        around
    }

    /// Rounded to f32, distances may seem equal that are not: the radius is the one in f64 that has its `place`.
    fn exact_radius(&self, radius: T, place: usize, distances: &[[f64; 2]]) -> f64 {
        let joint = || distances.iter().map(|distance| larger(distance[0], distance[1]));
        let rounded = radius.widen();
        // Differences of float32 values mostly are float32 values.
        if joint().filter(|&distance| distance <= rounded).count() >= place
            && joint().filter(|&distance| distance < rounded).count() < place
        {
            return rounded;
        }
        let mut joint: Vec<f64> = joint().collect();
        *joint.select_nth_unstable_by(place - 1, f64::total_cmp).1
    }
}

/// The other points about a point, by their distances.
#[derive(Default)]
pub(super) struct Around {
    /// In x and in y.
    closer: [usize; 2],
    closer_in_both: usize,
    /// Points at the radius: see [`Shape`].
    only: [usize; 2],
    both: usize,
    beyond: [usize; 2],
    missing: usize,
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

    /// −E(ψ(n_x + 1) + ψ(n_y + 1)).
    pub(super) fn term(&self, digamma: &Digamma) -> f64 {
        let from = |here: usize, there: usize| {
            let shape = Shape {
                missing: self.missing,
                only_here: self.only[here],
                only_there: self.only[there],
                both: self.both,
                beyond: self.beyond[here],
            };
            Border { closer: self.closer[here], shape }.expected_digamma(digamma)
        };
        -(from(0, 1) + from(1, 0))
    }
}
