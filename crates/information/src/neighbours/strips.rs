//! Searches within strips of x, each in the order of y.
//!
//! Points next to each other in x are anywhere in y: sixteen that search together share the candidates in reach of them in x,
//! some √(kN) points, most of them far away in y. Here the points of a strip of x are in the order of y. Sixteen neighbours
//! in that order are near each other in both coordinates, and so are their candidates: some 60, whatever N is.
//!
//! The column is cut into units of about √(kN) points, which is how far a ball reaches. A strip searches for the points of
//! two units and has one more unit on either side as candidates, so each point is in two strips. Points are dealt out to
//! their strips in the order of y, which puts them in order. A ball that reaches beyond its strip is left over.
//!
//! Cost: one step a point for the dealing, and about 60 candidates for sixteen points.
//! Gain: row `Strips` of README.md (`cargo bench --bench shapes`).

use std::ops::Range;

use super::knn_lanes::{Found, Search};
use super::lanes::{LANES, Real};
use super::padded::MARGIN;
use super::sorted_pair::Plane;

/// Searches for the `k` nearest other points of each point; there are more than k. Returns the positions in x's order,
/// ascending, of those that it leaves over: what is found for them is incomplete. A search of more than `most`
/// candidates is given up.
pub fn search<T: Real>(plane: &Plane<T>, k: usize, most: usize, found: &mut Found<T>) -> Vec<u32> {
    let strips = Strips::new(plane, k);
    for strip in 0..strips.count {
        for at in strips.of(strip, most).nearest(k, found) {
            found.radii[at as usize] = T::INFINITY;
        }
    }
    strips.left_over(plane.x(), &found.radii)
}

/// The points of a plane by strip.
struct Strips<T> {
    rows: usize,
    /// Points of a unit, a power of two.
    unit: usize,
    count: usize,
    /// All strips one after the other, and one more on either side for points beyond the first and the last.
    points: Points<T>,
    /// The points that are searched for, strip by strip: where they are among all points, behind the first margin.
    queries: Vec<u32>,
    /// The positions of those in x's order.
    positions: Vec<u32>,
}

/// Points in the order of y, with a [`MARGIN`] at either end of each strip.
struct Points<T> {
    y: Vec<T>,
    x: Vec<T>,
    /// Where the next point of each strip goes.
    ends: Vec<u32>,
}

impl<T: Real> Points<T> {
    fn new(strips: usize, most: usize) -> Self {
        let stride = most + 2 * MARGIN;
        let (mut y, x) = (vec![T::INFINITY; strips * stride], vec![T::INFINITY; strips * stride]);
        y.chunks_exact_mut(stride).for_each(|strip| strip[..MARGIN].fill(T::LOWEST));
        let ends = (0..strips).map(|strip| (strip * stride + MARGIN) as u32).collect();
        Self { y, x, ends }
    }

    /// Adds a point to a strip. Returns its position.
    #[inline(always)]
    fn deal(&mut self, strip: usize, x: T, y: T) -> u32 {
        let end = &mut self.ends[strip];
        let at = *end;
        *end += 1;
        (self.y[at as usize], self.x[at as usize]) = (y, x);
        at
    }
}

impl<T: Real> Strips<T> {
    fn new(plane: &Plane<T>, k: usize) -> Self {
        let transposed = plane.transposed();
        let rows = transposed.rank_y().len();
        let unit = (((k * rows) as f64).sqrt() as usize).max(LANES).next_power_of_two();
        let count = rows.div_ceil(2 * unit);
        let mut points = Points::new(count + 2, 4 * unit);
        let (mut queries, mut positions) = (vec![0; 2 * unit * count], vec![0; 2 * unit * count]);
        let mut next: Vec<usize> = (0..count).map(|strip| strip * 2 * unit).collect();
        let shift = unit.ilog2();
        for ((&at, &x), &y) in transposed.rank_y().iter().zip(transposed.across()).zip(transposed.x()) {
            let of_unit = at as usize >> shift;
            let (own, is_second) = (of_unit / 2, of_unit % 2);
            let dealt = points.deal(own + 1, x, y);
            let query = next[own];
            next[own] += 1;
            (queries[query], positions[query]) = (dealt - MARGIN as u32, at);
            // The strip before the first unit of its own, the one behind the second.
            points.deal(own + 2 * is_second, x, y);
        }
        Self { rows, unit, count, points, queries, positions }
    }

    /// Returns the search of a strip, among all points: between strips there is a margin.
    fn of(&self, strip: usize, most: usize) -> Search<'_, T> {
        let queries = self.queries(strip);
        let (along, across) = (&self.points.y, &self.points.x);
        Search { along, across, queries: &self.queries[queries.clone()], to: Some(&self.positions[queries]), most }
    }

    /// The positions in x's order of the points that a strip searches for.
    fn queries(&self, strip: usize) -> Range<usize> {
        let first = strip * 2 * self.unit;
        first..(first + 2 * self.unit).min(self.rows)
    }

    /// The points whose radius reaches beyond their strip.
    fn left_over(&self, x: &[T], radii: &[T]) -> Vec<u32> {
        let mut left_over = Vec::new();
        for queries in (0..self.count).map(|strip| self.queries(strip)) {
            // The nearest that the strip does not have.
            let before = queries.start.checked_sub(self.unit + 1).map_or(T::LOWEST, |at| x[at]);
            let behind = x.get(queries.end + self.unit).map_or(T::INFINITY, |&x| x);
            left_over.extend(
                queries
                    .filter(|&at| {
                        (x[at] - before < radii[at]) | (behind - x[at] < radii[at]) | (radii[at] == T::INFINITY)
                    })
                    .map(|at| at as u32),
            );
        }
        left_over
    }
}
