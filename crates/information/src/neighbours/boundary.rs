//! The points at exactly the radius of a point of the plane, where values repeat.
//!
//! In x the boundary of a ball is mostly one run of equal values on either side, and so it is in y: both follow from where
//! runs start and end, whatever their length. What is left is to compare the other coordinate of their points with the ball,
//! sixteen at a time. Where distances only seem equal because they are rounded to float32, the caller handles the point.
//!
//! Whether anything is at the radius on a side is unpredictable, and mostly it is no more than sixteen points: so a step is
//! taken on each of the four sides without a test, and what a run is compared with is chosen without a branch.
//!
//! Cost: a step of sixteen lanes for every sixteen points at the radius in x, and in y, and at least four.

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

use crate::width::every_width;

use super::count_within::Inside;
use super::lanes::{LANES, Real, far};
use super::padded::MARGIN;
use super::sorted::Sorted;
use super::sorted_pair::Plane;

/// One coordinate of the plane, in its own order.
#[derive(Clone, Copy)]
pub struct Side<'a, 'b, T> {
    pub column: &'a Sorted<T>,
    /// The plane in the order of this coordinate.
    pub plane: &'a Plane<'b, T>,
    pub inside: &'a Inside,
}

/// Points at the radius in this coordinate, by their distance in the other one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtRadius {
    /// Closer than the radius.
    pub closer: u32,
    /// At the radius in both.
    pub both: u32,
    /// Farther.
    pub beyond: u32,
}

/// Counts the points at the radius in x and in y of each of the `points`, positions in x's order; `None` where those
/// distances are equal by rounding alone.
pub fn at_radius<T: Real>(x: Side<T>, y: Side<T>, radii: &[T], points: &[u32]) -> Vec<Option<[AtRadius; 2]>> {
    let mut found = Vec::with_capacity(points.len());
    compare(x, y, radii, points, &mut found);
    found
}

every_width! {
fn compare<T: Real>(x: Side<T>, y: Side<T>, radii: &[T], points: &[u32], found: &mut Vec<Option<[AtRadius; 2]>>) {
    let (runs_x, runs_y) = (&x.column.runs().bounds, &y.column.runs().bounds);
    for &at in points {
        let at = at as usize;
        let (at_y, radius) = (x.plane.rank_y()[at] as usize, radii[at]);
        let (in_x, in_y) = (Boundary::new(&x, runs_x, at, radius), Boundary::new(&y, runs_y, at_y, radius));
        let centre = [x.column.values()[at], y.column.values()[at_y]];
        let (mut closer_in_y, mut closer_in_x, mut both) = (NONE, NONE, NONE);
        in_x.count::<T, true>(x.plane.across_with_margins(), centre[1], radius, &mut closer_in_y, &mut both);
        in_y.count::<T, false>(y.plane.across_with_margins(), centre[0], radius, &mut closer_in_x, &mut both);
        let [closer_in_y, closer_in_x, both] = [closer_in_y, closer_in_x, both].map(|counts| counts.0.iter().sum::<u32>());
        let of_side = |all: u32, closer: u32| AtRadius { closer, both, beyond: all.wrapping_sub(closer + both) };
        let at_radius = [of_side(in_x.all(), closer_in_y), of_side(in_y.all(), closer_in_x)];
        // Rounding keeps the order: what is closer in float32 is closer.
        let is_one = in_x.is_one & in_y.is_one & ((in_x.distance == in_y.distance) | (in_x.all() == 0) | (in_y.all() == 0));
        found.push(is_one.then_some(at_radius));
    }
}
}

/// Counts that are added up together.
#[repr(align(64))]
struct Counts([u32; LANES]);

const NONE: Counts = Counts([0; LANES]);

/// The positions at the radius before and behind a point.
struct Boundary {
    ranges: [[u32; 2]; 2],
    /// Whether those on either side are one value, and both sides equally far in f64.
    is_one: bool,
    /// That distance, where there are any.
    distance: f64,
}

impl Boundary {
    /// Without a branch: whether anything is at the radius on either side is unpredictable.
    #[inline(always)]
    fn new<T: Real>(side: &Side<T>, runs: &[[u32; 2]], at: usize, radius: T) -> Self {
        let padded = side.column.padded().with_margins();
        let centre = padded[MARGIN + at];
        let near = side.inside.range(at);
        let is_at_radius = |at: usize| (padded[at] - centre).abs() == radius;
        let exact = |at: usize| far(padded[at], centre);
        // The margin is infinitely far.
        let (before, behind) = (MARGIN + near.start - 1, MARGIN + near.end);
        let [start, _] = runs[near.start.saturating_sub(1)];
        let [_, end] = runs[near.end.min(runs.len() - 1)];
        let (any_before, any_behind) = (is_at_radius(before), is_at_radius(behind));
        let one_before = !is_at_radius(MARGIN + start as usize - 1);
        let one_behind = !is_at_radius(MARGIN + end as usize);
        let (far_before, far_behind) = (exact(before), exact(behind));
        let (near_start, near_end) = (near.start as u32, near.end as u32);
        Self {
            ranges: [
                [if any_before { start } else { near_start }, near_start],
                [near_end, if any_behind { end } else { near_end }],
            ],
            is_one: (!any_before | one_before)
                & (!any_behind | one_behind)
                & (!(any_before & any_behind) | (far_before == far_behind)),
            distance: if any_before { far_before } else { far_behind },
        }
    }

    /// How many points there are.
    fn all(&self) -> u32 {
        self.ranges.iter().map(|[start, end]| end - start).sum()
    }

    /// Adds to `closer` and, from x, to `both` those of the points that are closer and at the radius in the other coordinate:
    /// those at the radius in both are counted once.
    #[inline(always)]
    fn count<T: Real, const IN_X: bool>(
        &self,
        across: &[T],
        centre: T,
        radius: T,
        closer: &mut Counts,
        both: &mut Counts,
    ) {
        for [start, end] in self.ranges {
            // Once without a branch, even where there is nothing: mostly that is all.
            let mut first = start;
            loop {
                // The margin is longer than what is read beyond the last point.
                let values = &across[MARGIN + first as usize..][..LANES];
                let mut distances = [T::INFINITY; LANES];
                for lane in 0..LANES {
                    let distance = (values[lane] - centre).abs();
                    distances[lane] = if first + (lane as u32) < end { distance } else { T::INFINITY };
                }
                for lane in 0..LANES {
                    closer.0[lane] += u32::from(distances[lane] < radius);
                }
                if IN_X {
                    for lane in 0..LANES {
                        both.0[lane] += u32::from(distances[lane] == radius);
                    }
                }
                first += LANES as u32;
                if first >= end {
                    break;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::neighbours::count_within::inside;

    fn value() -> impl Strategy<Value = f32> {
        prop_oneof![(-9..9_i32).prop_map(|v| v as f32), -3.0..3.0_f32]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn points_at_the_radius_are_those_of_all_points(
            rows in prop::collection::vec((-5..5_i32, value()), 5..200),
            radius in prop_oneof![(0..4_i32).prop_map(|v| v as f32), 0.0..3.0_f32],
        ) {
            let (x, y): (Vec<f32>, Vec<f32>) = rows.iter().map(|&(x, y)| (x as f32, y)).unzip();
            let (by_x, by_y) = (Sorted::new(&x), Sorted::new(&y));
            let (plane, transposed) = (Plane::new(&by_x, &by_y), Plane::new(&by_y, &by_x));
            let radii = vec![radius; rows.len() + LANES];
            let [in_x, in_y] = [&by_x, &by_y].map(|column| inside(column.padded(), &radii));
            let side_x = Side { column: &by_x, plane: &plane, inside: &in_x };
            let side_y = Side { column: &by_y, plane: &transposed, inside: &in_y };
            let points: Vec<u32> = (0..rows.len() as u32).collect();
            for (found, &row) in at_radius(side_x, side_y, &radii, &points).into_iter().zip(by_x.rows()) {
                let row = row as usize;
                let exact = |column: &[f32], other: usize| (f64::from(column[other]) - f64::from(column[row])).abs();
                let far = |column: &[f32], other: usize| (column[other] - column[row]).abs();
                let of = |here: &[f32], there: &[f32]| {
                    let others = (0..rows.len()).filter(move |&other| other != row);
                    let all: Vec<usize> = others.filter(|&other| far(here, other) == radius).collect();
                    let closer = all.iter().filter(|&&other| far(there, other) < radius).count() as u32;
                    let both = all.iter().filter(|&&other| far(there, other) == radius).count() as u32;
                    let distances: Vec<f64> = all.iter().map(|&other| exact(here, other)).collect();
                    (AtRadius { closer, both, beyond: all.len() as u32 - closer - both }, distances)
                };
                let ((in_x, mut distances), (in_y, more)) = (of(&x, &y), of(&y, &x));
                distances.extend(more);
                let expected = distances.windows(2).all(|pair| pair[0] == pair[1]).then_some([in_x, in_y]);
                prop_assert_eq!(found, expected, "row {}", row);
            }
        }
    }
}
