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
//! that exceeds its share is left to a second round in the order of the other coordinate, and the sum stays below about
//! √(kN) a point.
//!
//! Measured, independent columns, float32 with AVX-512 (AVX2, SSE2), ns a point: 9 (12, 27) at N = 1,024, 17 (23, 73) at
//! 4,096, 26 (47, 94) at 10,000. Cutting the plane into strips, so that a search sees about as many candidates at any N,
//! was not tried with lanes: without them it took 150 ns at N = 2,048.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use multiversion::multiversion;

use super::lanes::{LANES, Real, any, insert, larger};
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

    /// y of each point.
    pub fn along(&self) -> &[T] {
        &self.along[MARGIN..MARGIN + self.rank_y.len()]
    }

    /// The distance from each of the `queries`, positions in ascending order, to its `k`-th nearest other point, put into
    /// `radii` at that position. Distance is the larger of those in x and in y; there are more than k points. Positions
    /// whose search would look at more than `share` candidates are put into `left_over` instead.
    pub fn radii(&self, queries: &[u32], k: usize, share: usize, radii: &mut [T], left_over: &mut Vec<u32>) {
        let plane = Search { xs: self.x.padded(), ys: &self.along, queries, share };
        // The usual k is kept in registers.
        match k {
            3 => search::<T, [[T; LANES]; 3]>(plane, [[T::INFINITY; LANES]; 3], radii, left_over),
            _ => search(plane, vec![[T::INFINITY; LANES]; k], radii, left_over),
        }
    }
}

/// Candidates looked at between two looks at whether to go on.
const BLOCK: usize = 8;
/// Positions that the points of one group may span: all of them are looked at by each.
const SPAN: u32 = 4 * LANES as u32;

#[derive(Clone, Copy)]
struct Search<'a, T> {
    xs: &'a [T],
    ys: &'a [T],
    queries: &'a [u32],
    share: usize,
}

/// The points of a group.
struct Group<T> {
    at: [u32; LANES],
    x: [T; LANES],
    y: [T; LANES],
}

#[multiversion(targets("x86_64+avx512f+avx512vl+avx512dq+avx512bw", "x86_64+avx2+fma", "aarch64+neon"))]
fn search<T: Real, B: AsMut<[[T; LANES]]> + Clone>(
    plane: Search<T>,
    empty: B,
    radii: &mut [T],
    left_over: &mut Vec<u32>,
) {
    let Search { xs, ys, mut queries, share } = plane;
    while let Some(&first) = queries.first() {
        let near = queries.iter().take(LANES).take_while(|&&at| at - first < SPAN).count();
        let (group, rest) = queries.split_at(near);
        queries = rest;
        let mut points = Group { at: [0; LANES], x: [T::default(); LANES], y: [T::default(); LANES] };
        for lane in 0..LANES {
            // Lanes to spare repeat the last point.
            let at = group[lane.min(near - 1)];
            points.at[lane] = at;
            points.x[lane] = xs[MARGIN + at as usize];
            points.y[lane] = ys[MARGIN + at as usize];
        }
        let mut nearest = empty.clone();
        let nearest = nearest.as_mut();
        let last = group[near - 1];
        for candidate in first..=last {
            let at = MARGIN + candidate as usize;
            let mut distance = points.distance(xs[at], ys[at]);
            for lane in 0..LANES {
                distance[lane] = if points.at[lane] == candidate { T::INFINITY } else { distance[lane] };
            }
            insert(nearest, distance);
        }
        let (mut left, mut right) = (MARGIN + first as usize, MARGIN + last as usize + 1);
        let (mut to_left, mut to_right) = (true, true);
        while (to_left || to_right) && right - left < share {
            if to_right {
                let (block_x, block_y) = (&xs[right..=right + BLOCK], &ys[right..=right + BLOCK]);
                for (&x, &y) in block_x.iter().zip(block_y).take(BLOCK) {
                    insert(nearest, points.distance(x, y));
                }
                right += BLOCK;
                to_right = any::<LANES>(|lane| block_x[BLOCK] - points.x[lane] < last_of(nearest)[lane]);
            }
            if to_left {
                let (block_x, block_y) = (&xs[left - BLOCK - 1..left], &ys[left - BLOCK - 1..left]);
                for (&x, &y) in block_x.iter().zip(block_y).skip(1) {
                    insert(nearest, points.distance(x, y));
                }
                left -= BLOCK;
                to_left = any::<LANES>(|lane| points.x[lane] - block_x[0] < last_of(nearest)[lane]);
            }
        }
        let radius = last_of(nearest);
        for (lane, &at) in group.iter().enumerate() {
            let more = xs[right] - points.x[lane] < radius[lane] || points.x[lane] - xs[left - 1] < radius[lane];
            if more {
                left_over.push(at);
            } else {
                radii[at as usize] = radius[lane];
            }
        }
    }
}

#[inline(always)]
fn last_of<T: Real>(nearest: &[[T; LANES]]) -> &[T; LANES] {
    &nearest[nearest.len() - 1]
}

impl<T: Real> Group<T> {
    #[inline(always)]
    fn distance(&self, x: T, y: T) -> [T; LANES] {
        let mut distance = [T::default(); LANES];
        for lane in 0..LANES {
            distance[lane] = larger((x - self.x[lane]).abs(), (y - self.y[lane]).abs());
        }
        distance
    }
}
