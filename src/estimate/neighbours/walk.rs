//! Pairs of scalars: the distance to the k-th nearest point of the plane.
//!
//! The points are in the order of one coordinate. A search looks at the neighbours in that order, to the left and to
//! the right, until their distance along the coordinate alone exceeds the k-th best. Points next to each other search
//! together, one in each lane: they look at the same candidates, and keeping the k best is a few minima and maxima.
//!
//! Cost: a search looks at the points whose distance along the coordinate is below the radius, about √(kN) where the
//! coordinates are independent. Where values crowd in one coordinate that can be most of the column, but then not in
//! the other: for a search to be long in both, its ball must be empty while the strips above and beside it are full,
//! and there is no room for many such points (N_w points with w others in both strips need N_w ≤ k(N/w)²). So a point is
//! searched for in the order of the coordinate in which its neighbours stand clearly farther apart, and a search that
//! exceeds its share is left to a second round in the order of the other: the sum stays at about √(kN) a point.
//!
//! Measured, AVX-512, float32, ns a point at N = 1,024 and 4,096: 7 and 12 on independent uniform columns, 11 and 18 on
//! normal ones. Whole estimates of normal columns take 23 and 34 with AVX-512, 34 and 52 with AVX2, 133 and 183 with SSE2.
//! With the k nearest in memory from candidate to candidate, in place of registers for a block of them, AVX2 took a tenth
//! longer. What did not help: merging sorted pairs of candidates, blocks of 4 or 6, and both sides in one step; blocks of 12
//! no longer become vectors. Choosing the coordinate takes 9 to 14 % off the whole estimate of sigmoids and of columns of
//! different scales, N = 1,024 and 2,048, and nothing off that of normal columns, where a few points are left to the other
//! order anyway. Cutting the plane into strips, so that a search sees about as many candidates at any N, was not tried with
//! lanes; one point at a time it took 150 ns at N = 2,048.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use std::borrow::Cow;
use std::cell::OnceCell;

use crate::estimate::width::every_width;

use super::lanes::{LANES, Real, any, contiguous, insert, larger, smaller};
use super::sorted::{MARGIN, Sorted};

/// Points of the plane in the order of x.
pub struct Plane<'a, T> {
    x: &'a Sorted<T>,
    y: &'a Sorted<T>,
    /// The position in y's order of the point at each position in x's.
    rank_y: Vec<u32>,
    /// y of each point, with a margin as x has it.
    along: Vec<T>,
    turned: OnceCell<Box<Self>>,
}

impl<'a, T: Real> Plane<'a, T> {
    /// `x` and `y` are columns of the same rows.
    pub fn new(x: &'a Sorted<T>, y: &'a Sorted<T>) -> Self {
        let (rows, ranks, places) = (x.rows(), y.ranks(), y.places());
        assert_eq!(rows.len(), ranks.len(), "the columns are of the same rows");
        let mut rank_y = vec![0; rows.len()];
        let mut along = vec![T::default(); x.padded().len()];
        for ((&row, rank_y), along) in rows.iter().zip(&mut rank_y).zip(&mut along[MARGIN..]) {
            // SAFETY: rows and ranks are below the number of rows, which is that of the places.
            (*rank_y, *along) = unsafe {
                let rank = *ranks.get_unchecked(row as usize);
                (rank, *places.get_unchecked(rank as usize))
            };
        }
        Self { x, y, rank_y, along, turned: OnceCell::new() }
    }

    /// The same points in the order of y. Worked out when first asked for.
    pub fn turned(&self) -> &Self {
        self.turned.get_or_init(|| Box::new(Self::new(self.y, self.x)))
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
    /// larger of those in x and in y; there are more than k points.
    pub fn search(&self, queries: &[u32], k: usize, found: &mut Found<T>) {
        let n = self.rank_y.len();
        let share = share_of(n, k);
        let (in_x, in_y) = self.by_coordinate(queries);
        let late_in_x = self.search_along(&in_x, k, share, found);
        if in_y.is_empty() && late_in_x.is_empty() {
            return;
        }
        let turned = self.turned();
        let mut found_in_y = Found::new(n);
        let late_in_y = turned.search_along(&self.turn(&in_y), k, share, &mut found_in_y);
        turned.search_along(&self.turn(&late_in_x), k, usize::MAX, &mut found_in_y);
        for at in in_y.into_iter().chain(late_in_x).map(|at| at as usize) {
            let at_y = self.rank_y[at] as usize;
            (found.radii[at], found.levels[at]) = (found_in_y.radii[at_y], found_in_y.levels[at_y]);
        }
        self.search_along(&turned.turn(&late_in_y), k, usize::MAX, found);
    }

    /// The `queries` to be searched for in the order of x and those in the order of y.
    fn by_coordinate<'b>(&self, queries: &'b [u32]) -> (Cow<'b, [u32]>, Vec<u32>) {
        let (x, y) = (self.x.gaps(), self.y.gaps());
        let is_y = |at: u32| y.about[self.rank_y[at as usize] as usize] > x.about[at as usize] + CLEARLY;
        let in_sample = || queries.iter().step_by(SAMPLED).filter(|&&at| is_y(at)).count();
        if y.most <= x.least + CLEARLY || in_sample() * SAMPLED * FEW < self.rank_y.len() {
            return (Cow::Borrowed(queries), Vec::new());
        }
        let (mut in_x, mut in_y) = (vec![0; queries.len()], vec![0; queries.len()]);
        let (mut of_x, mut of_y) = (0, 0);
        for &at in queries {
            // Which it is is up to chance, so no branch depends on it.
            let is_y = is_y(at);
            (in_x[of_x], in_y[of_y]) = (at, at);
            of_x += usize::from(!is_y);
            of_y += usize::from(is_y);
        }
        in_x.truncate(of_x);
        in_y.truncate(of_y);
        (Cow::Owned(in_x), in_y)
    }

    /// Positions in y's order, ascending, of the points at those in x's order.
    fn turn(&self, positions: &[u32]) -> Vec<u32> {
        let mut turned: Vec<u32> = positions.iter().map(|&at| self.rank_y[at as usize]).collect();
        turned.sort_unstable();
        turned
    }

    /// [`Self::search`] in the order of x alone. Returns the positions whose search was given up because it would have
    /// looked at more than `share` candidates.
    fn search_along(&self, queries: &[u32], k: usize, share: usize, found: &mut Found<T>) -> Vec<u32> {
        let plane = Search { xs: self.x.padded(), ys: &self.along, queries, share };
        // In registers, as far as there are enough: with a list of any length estimates take three times as long.
        match k {
            1 => search(plane, Few::<T, 1>::new(), found),
            2 => search(plane, Few::<T, 2>::new(), found),
            3 => search(plane, Few::<T, 3>::new(), found),
            4 => search(plane, Few::<T, 4>::new(), found),
            5 => search(plane, Few::<T, 5>::new(), found),
            6..=10 => search(plane, UpTo { nearest: Few::<T, 10>::new(), k }, found),
            _ => search(plane, vec![[T::INFINITY; LANES]; k], found),
        }
    }
}

/// Half octaves by which gaps are to be larger in y for y's order to be taken.
const CLEARLY: u16 = 3;
/// A second order is worth while for one point in so many, and one query in so many is asked.
const FEW: usize = 12;
const SAMPLED: usize = 16;

/// The candidates that independent columns need for nearly all groups.
fn share_of(rows: usize, k: usize) -> usize {
    2 * ((k * rows) as f64).sqrt() as usize + 32
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

/// So many that a lane keeps them in registers while it goes through candidates.
#[derive(Clone)]
#[repr(align(64))]
struct Few<T, const K: usize>([[T; LANES]; K]);

impl<T: Real, const K: usize> Few<T, K> {
    /// Candidates of a block that are taken at once. What takes many more steps no longer becomes vectors: with eight of
    /// them at k = 5, AVX2 took ten times as long.
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
    /// In the padded columns.
    first: usize,
    xs: &'a [T],
    ys: &'a [T],
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
    /// Where each is in the padded columns.
    at: [u32; LANES],
}

impl<T: Real> Group<T> {
    /// Not inlined, so that the arrays come back as a whole and not as what each lane was made of.
    #[inline(never)]
    fn new(plane: &Search<T>, positions: &[u32]) -> Self {
        let mut group = Self { x: [T::default(); LANES], y: [T::default(); LANES], at: [0; LANES] };
        for lane in 0..LANES {
            // Lanes to spare repeat the last point.
            let at = MARGIN + positions[lane.min(positions.len() - 1)] as usize;
            group.x[lane] = plane.xs[at];
            group.y[lane] = plane.ys[at];
            group.at[lane] = at as u32;
        }
        group
    }

    /// Of all positions from the first on.
    #[inline(always)]
    fn in_a_row(plane: &Search<T>, first: u32) -> Self {
        let first = MARGIN + first as usize;
        let mut at = [0; LANES];
        for lane in 0..LANES {
            at[lane] = (first + lane) as u32;
        }
        Self { x: contiguous(&plane.xs[first..]), y: contiguous(&plane.ys[first..]), at }
    }

    /// From a lane's point to a candidate. With `OWN` that may be the point itself, which is not its own neighbour.
    #[inline(always)]
    fn distance<const OWN: bool>(&self, lane: usize, block: &Candidates<T>, candidate: usize) -> T {
        let (x, y) = (block.xs[candidate], block.ys[candidate]);
        let distance = larger((x - self.x[lane]).abs(), (y - self.y[lane]).abs());
        if OWN && self.at[lane] == (block.first + candidate) as u32 { T::INFINITY } else { distance }
    }
}

every_width! {
fn search<T: Real, N: Nearest<T>>(plane: Search<T>, empty: N, found: &mut Found<T>) -> Vec<u32> {
    let Search { xs, ys, mut queries, share } = plane;
    let mut left_over = Vec::new();
    while let Some(&first) = queries.first() {
        let near = queries.iter().take(LANES).take_while(|&&at| at - first < SPAN).count();
        let (positions, rest) = queries.split_at(near);
        queries = rest;
        let last = positions[near - 1];
        let in_a_row = near == LANES && last - first == LANES as u32 - 1;
        let points = if in_a_row { Group::in_a_row(&plane, first) } else { Group::new(&plane, positions) };
        let block = |first: usize| {
            Candidates { first, xs: &xs[first..first + BLOCK], ys: &ys[first..first + BLOCK] }
        };
        let mut nearest = empty.clone();
        let (mut left, mut right) = (MARGIN + first as usize, MARGIN + first as usize);
        while right <= MARGIN + last as usize {
            nearest.take::<true>(&points, &block(right));
            right += BLOCK;
        }
        let (mut to_left, mut to_right) = (true, true);
        // Beyond the group itself.
        let share = share.saturating_add(right - left);
        while (to_left || to_right) && right - left < share {
            if to_right {
                nearest.take::<false>(&points, &block(right));
                right += BLOCK;
                let next = xs[right];
                to_right = any::<LANES>(|lane| next - points.x[lane] < nearest.last()[lane]);
            }
            if to_left {
                left -= BLOCK;
                nearest.take::<false>(&points, &block(left));
                let next = xs[left - 1];
                to_left = any::<LANES>(|lane| points.x[lane] - next < nearest.last()[lane]);
            }
        }
        let radius = nearest.last();
        let mut level = [0_u32; LANES];
        for kept in nearest.all() {
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

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const N: usize = 4096;
    const K: usize = 3;

    fn column(seed: u64, value: impl Fn(usize, f32) -> f32) -> Sorted<f32> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Sorted::new(&(0..N).map(|row| value(row, random.random())).collect::<Vec<_>>())
    }

    fn check(x: &Sorted<f32>, y: &Sorted<f32>) {
        let plane = Plane::new(x, y);
        let mut found = Found::new(N);
        plane.search(&(0..N as u32).collect::<Vec<_>>(), K, &mut found);
        let points: Vec<(f32, f32)> = x.places().iter().copied().zip(plane.along().iter().copied()).collect();
        for (at, &(x, y)) in points.iter().enumerate() {
            let mut distances: Vec<f32> = points.iter().map(|&(a, b)| (a - x).abs().max((b - y).abs())).collect();
            // The point itself is at 0.
            assert_eq!(found.radii[at], *distances.select_nth_unstable_by(K, f32::total_cmp).1);
        }
    }

    #[test]
    fn points_are_searched_for_in_the_order_of_the_coordinate_that_is_thinner() {
        let (narrow, wide) = (column(1, |_, u| u), column(2, |_, u| 100.0 * u));
        let all: Vec<u32> = (0..N as u32).collect();
        let parts = |x: &Sorted<f32>, y: &Sorted<f32>| {
            let plane = Plane::new(x, y);
            let (in_x, in_y) = plane.by_coordinate(&all);
            (in_x.len(), in_y.len())
        };
        assert_eq!(parts(&narrow, &wide), (0, N));
        assert_eq!(parts(&wide, &narrow), (N, 0));
        assert_eq!(parts(&narrow, &column(3, |_, u| u)), (N, 0));
        check(&narrow, &wide);
        check(&wide, &narrow);
        let sigmoid = |seed| column(seed, |_, u| 1.0 / (1.0 + (10.0 - 20.0 * u).exp()));
        let (in_x, in_y) = parts(&sigmoid(4), &sigmoid(5));
        assert!(in_x + in_y == N && in_x > N / 2 && in_y > N / 8, "{in_x}, {in_y}");
        check(&sigmoid(4), &sigmoid(5));
    }

    #[test]
    fn a_search_that_is_long_in_the_thinner_coordinate_is_left_to_the_other() {
        // Crowds that are far apart: thin though they are in y, most of a ball's strip there is of other crowds.
        let (x, y) = (column(1, |row, u| (row / 48) as f32 + 1e-4 * u), column(2, |_, u| u));
        let plane = Plane::new(&x, &y);
        let all: Vec<u32> = (0..N as u32).collect();
        let (_, in_y) = plane.by_coordinate(&all);
        assert!(in_y.len() > N / 4, "{}", in_y.len());
        let late = plane.turned().search_along(&plane.turn(&in_y), K, share_of(N, K), &mut Found::new(N));
        assert!(late.len() > N / 16, "{}", late.len());
        check(&x, &y);
    }
}
