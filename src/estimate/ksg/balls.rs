//! Pairs of scalars: the balls that reach the k-th neighbour of every point.

use crate::estimate::neighbours::inside::{Inside, border, inside};
use crate::estimate::neighbours::lanes::Real;
use crate::estimate::neighbours::plane::Plane;
use crate::estimate::neighbours::sorted::Sorted;
use crate::estimate::neighbours::walk::Found;

/// Which points of a plane are identical. Identical points have identical balls and terms.
pub(super) struct Same {
    /// The position of the first of each point, and how many there are.
    pub(super) firsts: Vec<(u32, u32)>,
    /// Which of those each position is like.
    pub(super) like: Vec<u32>,
}

impl Same {
    /// Of the points at `positions`, which ascend in the order of x. Those of one value of x follow each other, so a
    /// note for each value of y is enough.
    pub(super) fn new<T: Real>(x: &Sorted<T>, y: &Sorted<T>, rank_y: &[u32], positions: &[u32]) -> Self {
        let (runs_x, runs_y) = (&x.runs().bounds, &y.runs().bounds);
        let (mut firsts, mut like) = (vec![(0, 0); positions.len()], Vec::with_capacity(positions.len()));
        let mut count = 0;
        // By where a run in y starts: the last run in x that it was met in, and its point there.
        let mut met = vec![[u32::MAX; 2]; rank_y.len()];
        for &at in positions {
            let run_x = runs_x[at as usize][0];
            let met = &mut met[runs_y[rank_y[at as usize] as usize][0] as usize];
            // Whether an identical one was met is up to chance, so no branch depends on it.
            let is_first = met[0] != run_x;
            firsts[count].0 = at;
            *met = [run_x, if is_first { count as u32 } else { met[1] }];
            count += usize::from(is_first);
            firsts[met[1] as usize].1 += 1;
            like.push(met[1]);
        }
        firsts.truncate(count);
        Self { firsts, like }
    }

    /// If it is likely that for each point there are more than `share` others that are identical.
    fn of_crowded<T: Real>(
        x: &Sorted<T>,
        y: &Sorted<T>,
        rank_y: &[u32],
        positions: &[u32],
        share: f64,
    ) -> Option<Self> {
        // How many pairs of rows would be identical if the columns were independent, and how many there may be.
        let n = rank_y.len() as f64;
        (x.runs().equal_pairs * y.runs().equal_pairs > share * n.powi(3)).then(|| Self::new(x, y, rank_y, positions))
    }

    /// The same for open points, where it is worth while sooner: else all of them are taken as different.
    pub(super) fn of_open<T: Real>(x: &Sorted<T>, y: &Sorted<T>, rank_y: &[u32], open: &[u32]) -> Self {
        Self::of_crowded(x, y, rank_y, open, 0.1).unwrap_or_else(|| Self {
            firsts: open.iter().map(|&at| (at, 1)).collect(),
            like: (0..open.len() as u32).collect(),
        })
    }

    fn first_of_at_most(&self, copies: usize) -> Vec<u32> {
        self.firsts.iter().filter(|first| first.1 as usize <= copies).map(|first| first.0).collect()
    }
}

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
        let same = Same::of_crowded(x, y, plane.rank_y(), &all, 0.5);
        // Where k others are identical the radius is 0.
        let searched = same.as_ref().map(|same| same.first_of_at_most(k));
        plane.search(searched.as_ref().unwrap_or(&all), k, &mut found);
        if let Some(same) = same {
            for (at, like) in same.like.into_iter().enumerate() {
                let (first, copies) = same.firsts[like as usize];
                let first = first as usize;
                (found.radii[at], found.levels[at]) = match copies as usize {
                    copies if copies <= k => (found.radii[first], found.levels[first]),
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

    /// The positions whose counts ties leave open. Which those are is up to chance, so no branch depends on it.
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
                let (before, behind) = border(column.places(), at, self.found.radii[at], at..at + 1);
                before.len() + behind.len()
            };
            return [identical(self.x, at), identical(self.y, at_y)];
        }
        [self.in_x.closer(at), self.in_y.closer(at_y)]
    }
}
