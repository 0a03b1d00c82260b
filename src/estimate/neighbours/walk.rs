//! Pairs of scalars: the distance to the k-th nearest point of the plane.
//!
//! The points are in the order of one coordinate. A search looks at the neighbours in that order, to the left and to
//! the right, until their distance along the coordinate alone exceeds the k-th best. Points next to each other search
//! together, one in each lane: they look at the same candidates, and keeping the k best is a few minima and maxima.
//!
//! Cost: a search looks at the points whose distance along the coordinate is below the radius, about √(kN) where the
//! coordinates are independent. Where values crowd in one coordinate that can be most of the column, but then not in
//! the other: for a search to be long in both, its ball must be empty while the strips above and beside it are full,
//! and there is no room for many such points (N_w points with w others in both strips need N_w ≤ k(N/w)²). So a search
//! that exceeds its share is left to a second round in the order of the other coordinate, and the sum stays at about
//! √(kN) a point.
//!
//! Measured, independent uniform columns, float32, ns a point: 8 at N = 1,024, 14 at 4,096 and 21 at 10,000 with AVX-512;
//! 15, 27 and 50 with AVX2; 33, 59 and 89 with SSE2. Normal ones took 12 and 21 at the first two, AVX-512. Cutting the
//! plane into strips, so that a search sees about as many candidates at any N, was not tried with lanes; one point at a
//! time it took 150 ns at N = 2,048.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use crate::estimate::width::every_width;

use super::lanes::{LANES, Real, any, contiguous, insert, larger};
use super::sorted::{MARGIN, Sorted};

/// Points of the plane in the order of x.
pub struct Plane<'a, T> {
    x: &'a Sorted<T>,
    /// The position in y's order of the point at each position in x's.
    rank_y: Vec<u32>,
    /// y of each point, with a margin as x has it.
    along: Vec<T>,
}

impl<'a, T: Real> Plane<'a, T> {
    /// `x` and `y` are columns of the same rows.
    pub fn new(x: &'a Sorted<T>, y: &Sorted<T>) -> Self {
        let rank_y: Vec<u32> = x.rows().iter().map(|&row| y.ranks()[row as usize]).collect();
        let places = y.places();
        let mut along = Vec::with_capacity(x.padded().len());
        along.resize(MARGIN, T::default());
        along.extend(rank_y.iter().map(|&rank| places[rank as usize]));
        along.resize(x.padded().len(), T::default());
        Self { x, rank_y, along }
    }

    /// The position in y's order of each point.
    pub fn rank_y(&self) -> &[u32] {
        &self.rank_y
    }

    /// y of each point, with a margin at either end.
    pub fn padded(&self) -> &[T] {
        &self.along
    }

    /// The radii that belong to the positions in x's order, in y's; as long as what is given.
    pub fn radii_in_y(&self, radii: &[T]) -> Vec<T> {
        let mut turned = vec![T::default(); radii.len()];
        for (&rank, &radius) in self.rank_y.iter().zip(radii) {
            turned[rank as usize] = radius;
        }
        turned
    }

    /// y of each point.
    pub fn along(&self) -> &[T] {
        &self.along[MARGIN..MARGIN + self.rank_y.len()]
    }

    /// The same with a margin behind the last.
    pub fn along_and_margin(&self) -> &[T] {
        &self.along[MARGIN..]
    }

    /// Searches for the `k` nearest other points of each of the `queries`, positions in ascending order. Distance is the
    /// larger of those in x and in y; there are more than k points. Returns the positions whose search was given up
    /// because it would have looked at more than `share` candidates.
    pub fn search(&self, queries: &[u32], k: usize, share: usize, found: &mut Found<T>) -> Vec<u32> {
        let plane = Search { xs: self.x.padded(), ys: &self.along, queries, share };
        // One more than is asked for: see there. The usual k is kept in registers.
        match k {
            3 => search(plane, Four([[T::INFINITY; LANES]; 4]), found),
            _ => search(plane, vec![[T::INFINITY; LANES]; k + 1], found),
        }
    }
}

/// What was found for each position.
pub struct Found<T> {
    /// The distance to the k-th nearest. Longer than there are positions, by [`LANES`].
    pub radii: Vec<T>,
    /// How many of the k nearest are at that distance.
    pub levels: Vec<u32>,
}

impl<T: Real> Found<T> {
    pub fn new(rows: usize) -> Self {
        Self { radii: vec![T::default(); rows + LANES], levels: vec![0; rows] }
    }
}

/// Candidates looked at between two looks at whether to go on.
const BLOCK: usize = 8;
/// Positions that the points of one group may span. All of them are looked at by each, as are those in reach
/// on either side: where queries are few it is faster to fill the lanes. For 140 of 2,048 points a span of 64 takes half as
/// long again.
const SPAN: u32 = 16 * LANES as u32;

/// The four nearest of each lane.
#[derive(Clone)]
#[repr(align(64))]
struct Four<T>([[T; LANES]; 4]);

impl<T> AsMut<[[T; LANES]]> for Four<T> {
    fn as_mut(&mut self) -> &mut [[T; LANES]] {
        &mut self.0
    }
}

#[derive(Clone, Copy)]
struct Search<'a, T> {
    xs: &'a [T],
    ys: &'a [T],
    queries: &'a [u32],
    share: usize,
}

/// The points of a group.
#[repr(align(64))]
struct Group<T> {
    x: [T; LANES],
    y: [T; LANES],
}

impl<T: Real> Group<T> {
    /// Not inlined, so that the arrays come back as a whole and not as what each lane was made of.
    #[inline(never)]
    fn new(plane: &Search<T>, positions: &[u32]) -> Self {
        let mut group = Self { x: [T::default(); LANES], y: [T::default(); LANES] };
        for lane in 0..LANES {
            // Lanes to spare repeat the last point.
            let at = positions[lane.min(positions.len() - 1)];
            group.x[lane] = plane.xs[MARGIN + at as usize];
            group.y[lane] = plane.ys[MARGIN + at as usize];
        }
        group
    }

    /// Of all positions from the first on.
    #[inline(always)]
    fn in_a_row(plane: &Search<T>, first: u32) -> Self {
        let at = MARGIN + first as usize;
        Self { x: contiguous(&plane.xs[at..]), y: contiguous(&plane.ys[at..]) }
    }

    #[inline(always)]
    fn distance(&self, x: T, y: T) -> [T; LANES] {
        let mut distance = [T::default(); LANES];
        for lane in 0..LANES {
            distance[lane] = larger((x - self.x[lane]).abs(), (y - self.y[lane]).abs());
        }
        distance
    }
}

every_width! {
fn search<T: Real, B: AsMut<[[T; LANES]]> + Clone>(plane: Search<T>, empty: B, found: &mut Found<T>) -> Vec<u32> {
    let Search { xs, ys, mut queries, share } = plane;
    let mut left_over = Vec::new();
    while let Some(&first) = queries.first() {
        let near = queries.iter().take(LANES).take_while(|&&at| at - first < SPAN).count();
        let (positions, rest) = queries.split_at(near);
        queries = rest;
        let last = positions[near - 1];
        let in_a_row = near == LANES && last - first == LANES as u32 - 1;
        let points = if in_a_row { Group::in_a_row(&plane, first) } else { Group::new(&plane, positions) };
        let mut nearest = empty.clone();
        let nearest = nearest.as_mut();
        // Among them is the point itself, at a distance of 0: the least is one too many.
        for at in MARGIN + first as usize..=MARGIN + last as usize {
            insert(nearest, points.distance(xs[at], ys[at]));
        }
        let nearest = &mut nearest[1..];
        let (mut left, mut right) = (MARGIN + first as usize, MARGIN + last as usize + 1);
        let (mut to_left, mut to_right) = (true, true);
        while (to_left || to_right) && right - left < share {
            if to_right {
                let (block_x, block_y) = (&xs[right..=right + BLOCK], &ys[right..=right + BLOCK]);
                for candidate in 0..BLOCK {
                    insert(nearest, points.distance(block_x[candidate], block_y[candidate]));
                }
                right += BLOCK;
                to_right = any::<LANES>(|lane| block_x[BLOCK] - points.x[lane] < last_of(nearest)[lane]);
            }
            if to_left {
                let (block_x, block_y) = (&xs[left - BLOCK - 1..left], &ys[left - BLOCK - 1..left]);
                for candidate in 1..=BLOCK {
                    insert(nearest, points.distance(block_x[candidate], block_y[candidate]));
                }
                left -= BLOCK;
                to_left = any::<LANES>(|lane| points.x[lane] - block_x[0] < last_of(nearest)[lane]);
            }
        }
        let radius = last_of(nearest);
        let mut level = [0_u32; LANES];
        for kept in nearest.iter() {
            for lane in 0..LANES {
                level[lane] += u32::from(kept[lane] == radius[lane]);
            }
        }
        if in_a_row {
            let at = first as usize;
            found.radii[at..at + LANES].copy_from_slice(radius);
            found.levels[at..at + LANES].copy_from_slice(&level);
        } else {
            for (lane, &at) in positions.iter().enumerate() {
                found.radii[at as usize] = radius[lane];
                found.levels[at as usize] = level[lane];
            }
        }
        // The search was given up.
        if to_left || to_right {
            let goes_on = |lane: usize| {
                xs[right] - points.x[lane] < radius[lane] || points.x[lane] - xs[left - 1] < radius[lane]
            };
            left_over.extend(positions.iter().enumerate().filter(|&(lane, _)| goes_on(lane)).map(|(_, &at)| at));
        }
    }
    left_over
}
}

#[inline(always)]
fn last_of<T: Real>(nearest: &[[T; LANES]]) -> &[T; LANES] {
    &nearest[nearest.len() - 1]
}
