//! Counts the values of a column by their distance from one of them: closer than a radius, and at it.
//!
//! Distances grow on either side of a value, so where they reach the radius is found by stepping outward and then halving
//! the step, always with the predicate that the radius itself was compared by: |x_j − x_i| < r. Sixteen neighbouring values
//! step together, and what they compare with is one contiguous read; only the halving gathers. Where one of them has more
//! than a thousand closer values on one side, as about a crowd of equal or nearly equal values, all sixteen halve the whole
//! column, and in a crowd the next sixteen do so at once.
//!
//! Cost: on either side one contiguous read for every eight closer values and three gathers, or log₂ N gathers in a crowd.

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

use std::ops::Range;

use crate::thresholds::{FAR, FAR_IN_A_CROWD};
use crate::width::every_width;

use super::lanes::{LANES, Real, any, contiguous, smaller};
use super::padded::{MARGIN, Padded};

/// How many other values are closer to a value than its radius, and how many of the first beyond are at it.
#[derive(Clone, Copy, Default)]
pub struct Count(u32);

impl Count {
    #[inline(always)]
    fn new(closer: u32, edges: u32) -> Self {
        Self(closer << 3 | edges)
    }

    /// Other values closer than the radius.
    #[inline(always)]
    pub fn closer(self) -> u32 {
        self.0 >> 3
    }

    /// How many of the first two values on each side that are not closer are at exactly the radius. One of them set the
    /// radius; more mean that equal distances leave the count open.
    #[inline(always)]
    pub fn edges(self) -> u32 {
        self.0 & 7
    }

    /// Whether more than the one distance that set the radius equals it, in this column or the `other` of a plane.
    #[inline(always)]
    pub fn is_open(self, other: Self) -> bool {
        self.edges() + other.edges() > 1
    }
}

/// How many other values are closer to each value of a column than a radius of its own.
pub struct Inside {
    /// The closer ones to the left.
    left: Vec<u32>,
    counts: Vec<Count>,
}

impl Inside {
    /// Other values closer than the radius.
    #[inline]
    pub fn closer(&self, at: usize) -> usize {
        self.counts[at].closer() as usize
    }

    /// Returns the counts of each position, and a few more.
    pub fn counts(&self) -> &[Count] {
        &self.counts
    }

    /// The positions of the values closer than the radius, the value itself among them.
    pub fn range(&self, at: usize) -> Range<usize> {
        let left = self.left[at] as usize;
        at - left..at + self.closer(at) - left + 1
    }
}

/// The first steps, which are then halved down to 1.
const STRIDE: usize = 8;
/// First steps between two checks of whether to go on, and the values from the first of them to the last.
const STEPS: usize = 4;
const LOOK: usize = (STEPS - 1) * STRIDE;

// Lanes to spare begin up to LANES − 1 behind the last value, and read up to a stride from there.
const _: () = assert!(2 <= STRIDE && LANES - 1 + STRIDE < MARGIN);

/// Counts for each of the `values`, which ascend, within its radius. `radii` are in the same order. Panics unless they are
/// longer than the values by [`LANES`].
pub fn inside<T: Real>(values: &Padded<T>, radii: &[T]) -> Inside {
    assert!(radii.len() >= values.len() + LANES, "a radius for each value and each lane to spare");
    let groups = values.len().next_multiple_of(LANES);
    let mut inside = Inside { left: vec![0; groups], counts: vec![Count::default(); groups] };
    count(values, radii, &mut inside.left, &mut inside.counts);
    inside
}

every_width! {
fn count<T: Real>(values: &Padded<T>, radii: &[T], left: &mut [u32], counts: &mut [Count]) {
    let padded = values.with_margins();
    // To the left and to the right.
    let mut far = [FAR; 2];
    for group in (0..left.len()).step_by(LANES) {
        let mut at = [0; LANES];
        for lane in 0..LANES {
            at[lane] = (MARGIN + group + lane) as u32;
        }
        let centres = Centres::<T> { padded, at, values: contiguous(&padded[MARGIN + group..]), radii: contiguous(&radii[group..]) };
        let first = MARGIN + group;
        let (to_left, to_right) = (centres.strides::<false>(first, &mut far[0]), centres.strides::<true>(first, &mut far[1]));
        let (to_left, to_right) = centres.reach(to_left, to_right);
        let edges = centres.edges(&to_left, &to_right);
        let mut all = [Count::default(); LANES];
        for lane in 0..LANES {
            all[lane] = Count::new(to_left.closer[lane] + to_right.closer[lane], edges[lane]);
        }
        left[group..group + LANES].copy_from_slice(&to_left.closer);
        counts[group..group + LANES].copy_from_slice(&all);
    }
}
}

/// Values whose neighbours are counted together.
#[repr(align(64))]
struct Centres<'a, T> {
    /// A [`Padded`] column with its margins.
    padded: &'a [T],
    /// Positions in `padded`: of values, or up to [`LANES`] − 1 behind the last.
    at: [u32; LANES],
    values: [T; LANES],
    radii: [T; LANES],
}

/// The known reach of the closer values to one side.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Reach<T> {
    /// How many are known to be closer than the radius. The last of them is a value of the column: margins never are
    /// closer.
    closer: [u32; LANES],
    /// The distance of the first that is known not to be.
    beyond: [T; LANES],
}

impl<T: Real> Reach<T> {
    /// Nothing yet.
    const NONE: Self = Self { closer: [0; LANES], beyond: [T::INFINITY; LANES] };

    /// Takes note of the distances of the values `step` positions beyond those that are known to be closer.
    #[inline(always)]
    fn note(&mut self, distances: [T; LANES], radii: &[T; LANES], step: u32) {
        for lane in 0..LANES {
            self.closer[lane] += if distances[lane] < radii[lane] { step } else { 0 };
        }
        for lane in 0..LANES {
            let beyond = if distances[lane] < radii[lane] { T::INFINITY } else { distances[lane] };
            self.beyond[lane] = smaller(beyond, self.beyond[lane]);
        }
    }
}

impl<T: Real> Centres<'_, T> {
    #[inline(always)]
    fn distance<const RIGHT: bool>(&self, lane: usize, value: T) -> T {
        let centre = self.values[lane];
        if RIGHT { value - centre } else { centre - value }
    }

    /// The distance of the value `offset` positions to one side.
    ///
    /// # Safety
    /// `offset` is at most [`STRIDE`] beyond the closer values of a [`Reach`] on that side.
    #[inline(always)]
    unsafe fn beside<const RIGHT: bool>(&self, lane: usize, offset: u32) -> T {
        let at = if RIGHT { self.at[lane] + offset } else { self.at[lane] - offset };
        // SAFETY: `Centres::at` is a value or LANES − 1 behind the last, and the closer ones end at a value, so what is at
        // most STRIDE farther is within the MARGIN that `Padded` has at either end.
        self.distance::<RIGHT>(lane, unsafe { *self.padded.get_unchecked(index(at)) })
    }

    /// Whether any of the distances is below the radius.
    #[inline(always)]
    fn any_within(&self, distances: &[T; LANES]) -> bool {
        any::<LANES>(|lane| distances[lane] < self.radii[lane])
    }

    /// Whole strides to one side, of centres at `first` and behind it. `far` is where to leave it to halving, and then where
    /// the next group is to.
    #[inline(always)]
    fn strides<const RIGHT: bool>(&self, first: usize, far: &mut usize) -> Reach<T> {
        let mut reach = Reach::NONE;
        let mut ahead = STRIDE;
        loop {
            let mut distances = [T::INFINITY; LANES];
            let start = if RIGHT { first + ahead } else { first - ahead - LOOK };
            let others = &self.padded[start..start + LOOK + LANES];
            for lane in 0..LANES {
                let (mut closer, mut beyond) = (0, T::INFINITY);
                // From the farthest on, so that the last that is not closer is the first beyond.
                for step in (0..STEPS).rev() {
                    let offset = if RIGHT { step * STRIDE } else { LOOK - step * STRIDE };
                    let distance = self.distance::<RIGHT>(lane, others[offset + lane]);
                    let is_closer = distance < self.radii[lane];
                    closer += if is_closer { STRIDE as u32 } else { 0 };
                    beyond = if is_closer { beyond } else { distance };
                    if step == STEPS - 1 {
                        distances[lane] = distance;
                    }
                }
                reach.closer[lane] += closer;
                reach.beyond[lane] = smaller(beyond, reach.beyond[lane]);
            }
            ahead += STEPS * STRIDE;
            if !self.any_within(&distances) {
                *far = FAR;
                return reach;
            }
            if ahead > *far {
                let reach = halved::<T, RIGHT>(self, reach);
                *far = if any::<LANES>(|lane| reach.closer[lane] > FAR as u32) { FAR_IN_A_CROWD } else { FAR };
                return reach;
            }
        }
    }

    /// Distances of the values `step` positions beyond those that are known to be closer.
    ///
    /// # Safety
    /// `step` is at most [`STRIDE`].
    #[inline(always)]
    unsafe fn distances<const RIGHT: bool>(&self, reach: &Reach<T>, step: u32) -> [T; LANES] {
        let mut distances = [T::default(); LANES];
        for lane in 0..LANES {
            // SAFETY: the offset ends `step` beyond the closer values of `reach`.
            distances[lane] = unsafe { self.beside::<RIGHT>(lane, reach.closer[lane] + step) };
        }
        distances
    }

    /// All values to either side, from those in whole strides. The two sides alternate, since every step waits for the one
    /// before.
    #[inline(always)]
    fn reach(&self, mut to_left: Reach<T>, mut to_right: Reach<T>) -> (Reach<T>, Reach<T>) {
        let mut step = STRIDE as u32 / 2;
        while step > 0 {
            // SAFETY: half a stride and less.
            let (left, right) =
                unsafe { (self.distances::<false>(&to_left, step), self.distances::<true>(&to_right, step)) };
            to_left.note(left, &self.radii, step);
            to_right.note(right, &self.radii, step);
            step /= 2;
        }
        (to_left, to_right)
    }

    /// How many values are at the radius, where that is none or one; more where it is more.
    #[inline(always)]
    fn edges(&self, to_left: &Reach<T>, to_right: &Reach<T>) -> [u32; LANES] {
        let mut edges = [0; LANES];
        for lane in 0..LANES {
            let radius = self.radii[lane];
            let (before, behind) = (to_left.beyond[lane] == radius, to_right.beyond[lane] == radius);
            // A second value on the same side may be at the radius too and is still to be compared.
            let at = self.at[lane];
            let second = if behind { at + to_right.closer[lane] + 2 } else { at - to_left.closer[lane] - 2 };
            // SAFETY: two positions beyond the closer values of a `Reach`: as in `beside`.
            let value = unsafe { *self.padded.get_unchecked(index(second)) };
            let centre = self.values[lane];
            edges[lane] = u32::from(before) + u32::from(behind) + u32::from((value - centre).abs() == radius);
        }
        edges
    }
}

/// [`Padded`] keeps positions below 2³¹, and a signed one is read in fewer steps.
#[inline(always)]
fn index(at: u32) -> usize {
    at.cast_signed() as usize
}

/// Whole strides to one side, over the whole column, from what is known of it.
#[inline(always)]
fn halved<T: Real, const RIGHT: bool>(centres: &Centres<T>, mut reach: Reach<T>) -> Reach<T> {
    let last = centres.padded.len() as u32 - 1;
    let mut step = last.next_power_of_two() / 2;
    while step >= STRIDE as u32 {
        let mut distances = [T::default(); LANES];
        for lane in 0..LANES {
            let offset = reach.closer[lane] + step;
            let at = centres.at[lane];
            let at = if RIGHT { (at + offset).min(last) } else { at.saturating_sub(offset) };
            // SAFETY: at most the last position of `padded`.
            distances[lane] = centres.distance::<RIGHT>(lane, unsafe { *centres.padded.get_unchecked(index(at)) });
        }
        reach.note(distances, &centres.radii, step);
        step /= 2;
    }
    reach
}

/// The positions about `at` whose distance from `values[at]` is exactly `radius`: those before and those behind
/// `closer`, the positions that are closer.
pub fn boundary<T: Real>(values: &[T], at: usize, radius: T, closer: Range<usize>) -> (Range<usize>, Range<usize>) {
    let centre = values[at];
    let is_at_radius = |value: &T| (*value - centre).abs() == radius;
    // Distances grow on either side, so those at the radius come first.
    let start = values[..closer.start].partition_point(|value| !is_at_radius(value));
    let end = closer.end + values[closer.end..].partition_point(is_at_radius);
    (start..closer.start, closer.end..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, *};

    use super::super::sorted::Sorted;
    use super::*;

    fn column() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![
            (-4..4_i32).prop_map(|v| v as f32),
            -1.0..1.0_f32,
            any::<f32>().prop_filter("finite", |v| v.is_finite()),
            Just(0.0),
            Just(f32::MIN_POSITIVE / 4.0),
            Just(1e38),
            Just(-1e38)
        ];
        prop_oneof![prop::collection::vec(value.clone(), 2..80), prop::collection::vec(value, 500..900)]
    }

    fn check<T: Real + std::fmt::Debug>(column: &[T], radii: &[T]) {
        let sorted = Sorted::new(column);
        let values = sorted.values();
        let radii: Vec<T> = (0..column.len() + LANES).map(|i| radii[i % radii.len()].abs()).collect();
        let inside = inside(sorted.padded(), &radii);
        for (at, &radius) in radii[..column.len()].iter().enumerate() {
            assert_eq!(sorted.ranks()[sorted.rows()[at] as usize] as usize, at);
            let distance = |other: usize| (values[other] - values[at]).abs();
            let others = || (0..column.len()).filter(|&other| other != at);
            let closer = others().filter(|&other| distance(other) < radius).count();
            assert_eq!(inside.closer(at), closer);
            let at_radius = others().filter(|&other| distance(other) == radius).count();
            let range = inside.range(at);
            assert_eq!(range.len(), closer + 1);
            assert!(range.contains(&at));
            let (before, behind) = boundary(values, at, radius, range);
            assert_eq!(before.len() + behind.len(), at_radius);
            if radius < T::INFINITY {
                assert_eq!(inside.counts()[at].edges().min(2) as usize, (before.len() + behind.len()).min(2));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn counts_are_those_of_a_full_search(column in column(), pick in 0..5_usize) {
            // Radii that are distances between values, and some that are not.
            let distances = || column.iter().zip(column.iter().cycle().skip(1 + pick)).map(|(a, b)| a - b);
            check(&column, &distances().chain([0.0, 0.3, 1e38]).collect::<Vec<_>>());
            let wide: Vec<f64> = column.iter().map(|&value| f64::from(value)).collect();
            check(&wide, &distances().map(f64::from).chain([0.0, 0.3, 1e38]).collect::<Vec<_>>());
        }
    }

    #[test]
    #[should_panic = "a radius for each value and each lane to spare"]
    fn too_few_radii_panic() {
        inside(Sorted::new(&[1.0, 2.0, 3.0]).padded(), &[1.0; 3]);
    }
}
