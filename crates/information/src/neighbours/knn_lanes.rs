//! Pairs of scalars: the distance to the k-th nearest point, where points are in the order of one coordinate.
//!
//! A search compares the neighbours in that order, to the left and to the right, until their distance along the coordinate
//! alone exceeds the k-th best. Points next to each other search together, one in each lane: they have the same candidates,
//! and keeping the k best is a few minima and maxima.
//!
//! Cost: the points whose distance along the coordinate is below the radius, about √(kN) where the coordinates are
//! independent and all points are in that order. [`search`](super::search) chooses the order, and
//! [`strips`](super::strips) which points.

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

use crate::thresholds;
use crate::width::every_width;

use super::lanes::{LANES, Real, any, contiguous, insert, larger, smaller};
use super::padded::MARGIN;

/// The result of a search, for each position.
pub struct Found<T> {
    /// The distance to the k-th nearest. Longer than there are positions, by [`LANES`].
    pub radii: Vec<T>,
    /// How many of the k nearest are at that distance.
    pub at_radius: Vec<u32>,
}

impl<T: Real> Found<T> {
    pub fn new(rows: usize) -> Self {
        Self { radii: vec![T::default(); rows + LANES], at_radius: vec![0; rows] }
    }
}

/// Candidates between two checks of whether to go on.
const BLOCK: usize = 8;
/// Positions that the points of one group may span. Each compares all of them and those in reach on either side: where
/// queries are few it is faster to fill the lanes.
const SPAN: u32 = 16 * LANES as u32;

/// The nearest of each lane, in ascending order.
trait Nearest<T>: Clone {
    /// Takes a block of candidates among them.
    fn take<const OWN: bool>(&mut self, points: &Group<T>, block: &Candidates<T>);

    fn all(&self) -> &[[T; LANES]];

    #[inline(always)]
    fn last(&self) -> &[T; LANES] {
        let all = self.all();
        &all[all.len() - 1]
    }
}

/// Few enough for registers while candidates pass.
#[derive(Clone)]
#[repr(align(64))]
struct Few<T, const K: usize>([[T; LANES]; K]);

impl<T: Real, const K: usize> Few<T, K> {
    /// Candidates of a block that are taken at once. Many more steps than that no longer become vectors.
    const AT_ONCE: usize = if K <= 8 { BLOCK / 2 } else { BLOCK / 4 };

    fn new() -> Self {
        Self([[T::INFINITY; LANES]; K])
    }
}

impl<T: Real, const K: usize> Nearest<T> for Few<T, K> {
    #[inline(always)]
    fn take<const OWN: bool>(&mut self, points: &Group<T>, block: &Candidates<T>) {
        for first in (0..BLOCK).step_by(Self::AT_ONCE) {
            for lane in 0..LANES {
                let mut nearest = [T::INFINITY; K];
                for k in 0..K {
                    nearest[k] = self.0[k][lane];
                }
                for candidate in first..first + Self::AT_ONCE {
                    let mut distance = points.distance::<OWN>(lane, block, candidate);
                    for k in 0..K {
                        let near = smaller(distance, nearest[k]);
                        distance = distance.farther(nearest[k]);
                        nearest[k] = near;
                    }
                }
                for k in 0..K {
                    self.0[k][lane] = nearest[k];
                }
            }
        }
    }

    #[inline(always)]
    fn all(&self) -> &[[T; LANES]] {
        &self.0
    }
}

/// The first k of them.
#[derive(Clone)]
struct UpTo<T, const K: usize> {
    nearest: Few<T, K>,
    k: usize,
}

impl<T: Real, const K: usize> Nearest<T> for UpTo<T, K> {
    #[inline(always)]
    fn take<const OWN: bool>(&mut self, points: &Group<T>, block: &Candidates<T>) {
        self.nearest.take::<OWN>(points, block);
    }

    #[inline(always)]
    fn all(&self) -> &[[T; LANES]] {
        &self.nearest.0[..self.k]
    }
}

impl<T: Real> Nearest<T> for Vec<[T; LANES]> {
    #[inline(always)]
    fn take<const OWN: bool>(&mut self, points: &Group<T>, block: &Candidates<T>) {
        for candidate in 0..BLOCK {
            let mut distance = [T::default(); LANES];
            for lane in 0..LANES {
                distance[lane] = points.distance::<OWN>(lane, block, candidate);
            }
            insert(self, distance);
        }
    }

    #[inline(always)]
    fn all(&self) -> &[[T; LANES]] {
        self
    }
}

/// Points that follow each other.
struct Candidates<'a, T> {
    /// Among the padded points.
    first: usize,
    along: &'a [T],
    across: &'a [T],
}

/// Points in the order of one coordinate, and which of them to search for.
#[derive(Clone, Copy)]
pub struct Search<'a, T> {
    /// That coordinate, with a [`MARGIN`] at either end: of one stretch of points, or of several, one after the other, of
    /// which the queries are in one.
    pub along: &'a [T],
    /// The other one of each point, likewise.
    pub across: &'a [T],
    /// Positions, ascending.
    pub queries: &'a [u32],
    /// Where to write what is found of each; the positions themselves if nothing is given.
    pub to: Option<&'a [u32]>,
    /// A search that would compare more candidates is given up.
    pub most: usize,
}

impl<T: Real> Search<'_, T> {
    /// Searches for the `k` nearest other points. Distance is the larger of those along and across; there are more than k
    /// points. Returns what was given up, as it would have been written.
    pub fn nearest(self, k: usize, found: &mut Found<T>) -> Vec<u32> {
        // In registers, as far as there are enough. Gain: row `Registers` of README.md (`cargo bench --bench
        // shapes`).
        match k {
            _ if !thresholds::takes_registers() => search(self, vec![[T::INFINITY; LANES]; k], found),
            1 => search(self, Few::<T, 1>::new(), found),
            2 => search(self, Few::<T, 2>::new(), found),
            3 => search(self, Few::<T, 3>::new(), found),
            4 => search(self, Few::<T, 4>::new(), found),
            5 => search(self, Few::<T, 5>::new(), found),
            6..=10 => search(self, UpTo { nearest: Few::<T, 10>::new(), k }, found),
            _ => search(self, vec![[T::INFINITY; LANES]; k], found),
        }
    }
}

/// The points of a group.
#[repr(align(64))]
struct Group<T> {
    along: [T; LANES],
    across: [T; LANES],
    /// Where each is among the padded points.
    at: [u32; LANES],
}

impl<T: Real> Group<T> {
    /// Not inlined, so that the arrays come back as a whole and not as the parts of each lane.
    #[inline(never)]
    fn new(points: &Search<T>, positions: &[u32]) -> Self {
        let mut group = Self { along: [T::default(); LANES], across: [T::default(); LANES], at: [0; LANES] };
        for lane in 0..LANES {
            // Lanes to spare repeat the last point.
            let at = MARGIN + positions[lane.min(positions.len() - 1)] as usize;
            group.along[lane] = points.along[at];
            group.across[lane] = points.across[at];
            group.at[lane] = at as u32;
        }
        group
    }

    /// Returns the group of consecutive positions from the first on.
    #[inline(always)]
    fn in_a_row(points: &Search<T>, first: u32) -> Self {
        let first = MARGIN + first as usize;
        let mut at = [0; LANES];
        for lane in 0..LANES {
            at[lane] = (first + lane) as u32;
        }
        Self { along: contiguous(&points.along[first..]), across: contiguous(&points.across[first..]), at }
    }

    /// From a lane's point to a candidate. With `OWN` that may be the point itself, which is not its own neighbour.
    #[inline(always)]
    fn distance<const OWN: bool>(&self, lane: usize, block: &Candidates<T>, candidate: usize) -> T {
        let (along, across) = (block.along[candidate], block.across[candidate]);
        let distance = larger((along - self.along[lane]).abs(), (across - self.across[lane]).abs());
        if OWN && self.at[lane] == (block.first + candidate) as u32 { T::INFINITY } else { distance }
    }
}

every_width! {
fn search<T: Real, N: Nearest<T>>(of: Search<T>, empty: N, found: &mut Found<T>) -> Vec<u32> {
    let Search { along, across, mut queries, to, most } = of;
    let mut to = to.unwrap_or(queries);
    let mut left_over = Vec::new();
    while let Some(&first) = queries.first() {
        let near = queries.iter().take(LANES).take_while(|&&at| at - first < SPAN).count();
        let (positions, rest) = queries.split_at(near);
        queries = rest;
        let (written, rest) = to.split_at(near);
        to = rest;
        let last = positions[near - 1];
        let in_a_row = near == LANES && last - first == LANES as u32 - 1;
        let points = if in_a_row { Group::in_a_row(&of, first) } else { Group::new(&of, positions) };
        let block = |first: usize| {
            Candidates { first, along: &along[first..first + BLOCK], across: &across[first..first + BLOCK] }
        };
        let mut nearest = empty.clone();
        let (mut left, mut right) = (MARGIN + first as usize, MARGIN + first as usize);
        while right <= MARGIN + last as usize {
            nearest.take::<true>(&points, &block(right));
            right += BLOCK;
        }
        let (mut to_left, mut to_right) = (true, true);
        // Beyond the group itself.
        let most = most.saturating_add(right - left);
        while (to_left || to_right) && right - left < most {
            if to_right {
                nearest.take::<false>(&points, &block(right));
                right += BLOCK;
                let next = along[right];
                to_right = any::<LANES>(|lane| next - points.along[lane] < nearest.last()[lane]);
            }
            if to_left {
                left -= BLOCK;
                nearest.take::<false>(&points, &block(left));
                let next = along[left - 1];
                to_left = any::<LANES>(|lane| points.along[lane] - next < nearest.last()[lane]);
            }
        }
        let radius = nearest.last();
        let mut at_radius = [0_u32; LANES];
        for nearest in nearest.all() {
            for lane in 0..LANES {
                at_radius[lane] += u32::from(nearest[lane] == radius[lane]);
            }
        }
        if in_a_row && of.to.is_none() {
            let at = first as usize;
            found.radii[at..at + LANES].copy_from_slice(radius);
            found.at_radius[at..at + LANES].copy_from_slice(&at_radius);
        } else {
            for (lane, &at) in written.iter().enumerate() {
                found.radii[at as usize] = radius[lane];
                found.at_radius[at as usize] = at_radius[lane];
            }
        }
        // The search was given up.
        if to_left || to_right {
            let goes_on = |lane: usize| {
                along[right] - points.along[lane] < radius[lane] || points.along[lane] - along[left - 1] < radius[lane]
            };
            left_over.extend(written.iter().enumerate().filter(|&(lane, _)| goes_on(lane)).map(|(_, &at)| at));
        }
    }
    left_over
}
}
