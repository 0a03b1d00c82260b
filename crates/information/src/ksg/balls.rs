//! Pairs of scalars: the balls that reach the k-th neighbour of every point.

use crate::neighbours::count_within::{Inside, boundary, inside};
use crate::neighbours::knn_lanes::Found;
use crate::neighbours::lanes::Real;
use crate::neighbours::search::search;
use crate::neighbours::sorted::Sorted;
use crate::neighbours::sorted_pair::Plane;

use super::duplicates::Duplicates;

/// The balls that reach the k-th neighbour of every point of a plane. Positions are those in x's order.
pub(super) struct Balls<'a, T> {
    pub(super) x: &'a Sorted<T>,
    pub(super) y: &'a Sorted<T>,
    pub(super) k: usize,
    pub(super) plane: Plane<'a, T>,
    pub(super) found: Found<T>,
    pub(super) in_x: Inside,
    pub(super) in_y: Inside,
}

impl<'a, T: Real> Balls<'a, T> {
    pub(super) fn new(x: &'a Sorted<T>, y: &'a Sorted<T>, k: usize) -> Self {
        let n = x.rows().len();
        let plane = Plane::new(x, y);
        let mut found = Found::new(n);
        let all: Vec<u32> = (0..n as u32).collect();
        let duplicates = Duplicates::of_all(&plane, &all);
        // Where there are k duplicates of a point its radius is 0.
        let searched = duplicates.as_ref().map(|duplicates| duplicates.first_of_at_most(k));
        search(&plane, searched.as_ref().unwrap_or(&all), k, &mut found);
        if let Some(Duplicates { distinct, index }) = duplicates {
            for (at, index) in index.into_iter().enumerate() {
                let (first, copies) = distinct[index as usize];
                let first = first as usize;
                (found.radii[at], found.at_radius[at]) = match copies as usize {
                    copies if copies <= k => (found.radii[first], found.at_radius[first]),
                    _ => (T::default(), k as u32),
                };
            }
        }
        let in_x = inside(x.padded(), &found.radii);
        let in_y = inside(y.padded(), &plane.radii_in_y(&found.radii));
        Self { x, y, k, plane, found, in_x, in_y }
    }

    /// `term` of every position, by row.
    pub(super) fn terms(&self, mut term: impl FnMut(usize) -> f64) -> Vec<f64> {
        let mut terms = vec![0.0; self.x.rows().len()];
        for (at, &row) in self.x.rows().iter().enumerate() {
            terms[row as usize] = term(at);
        }
        terms
    }

    /// The positions whose counts ties leave open. Which those are is unpredictable, so no branch depends on it.
    pub(super) fn open(&self) -> Vec<u32> {
        let rank_y = self.plane.rank_y();
        let mut open = vec![0; rank_y.len()];
        let mut found = 0;
        for (at, (&rank, in_x)) in rank_y.iter().zip(self.in_x.counts()).enumerate() {
            open[found] = at as u32;
            found += usize::from(in_x.is_open(self.in_y.counts()[rank as usize]));
        }
        open.truncate(found);
        open
    }

    pub(super) fn rank_y(&self, at: usize) -> usize {
        self.plane.rank_y()[at] as usize
    }

    /// n_x and n_y as the authors' code counts them.
    pub(super) fn strictly_inside(&self, at: usize) -> [usize; 2] {
        let at_y = self.rank_y(at);
        if self.found.radii[at].widen() == 0.0 {
            let identical = |column: &Sorted<T>, at| {
                let (before, behind) = boundary(column.values(), at, self.found.radii[at], at..at + 1);
                before.len() + behind.len()
            };
            return [identical(self.x, at), identical(self.y, at_y)];
        }
        [self.in_x.closer(at), self.in_y.closer(at_y)]
    }
}
