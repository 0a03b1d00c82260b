//! What stands at exactly the radius of a point of the plane, where values repeat.
//!
//! In x the border of a ball is mostly one run of equal values on either side, and so it is in y: both are found from
//! where runs start and end, whatever their length. What is left is to compare the other coordinate of their points
//! with the ball, sixteen at a time. Where distances only seem equal because they are rounded to float32, the point is
//! left to who asks.
//!
//! Whether there is anything at the radius on a side is up to chance, and mostly it is no more than sixteen points: so a
//! step is taken on each of the four sides without asking, and what a run is compared with is chosen without a branch.
//!
//! Cost: a step of sixteen lanes for every sixteen points at the radius in x, and in y, and at least four. Measured on
//! bfloat16 sigmoids, N = 1,024, AVX-512: 21 ns a point. With a branch for each side, and the counts of a step added up in 64
//! bits, it was 36.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use crate::estimate::width::every_width;

use super::inside::Inside;
use super::lanes::{LANES, Real, far};
use super::plane::Plane;
use super::sorted::{MARGIN, Sorted};

/// One coordinate of the plane, in its own order.
#[derive(Clone, Copy)]
pub struct Side<'a, 'b, T> {
    pub column: &'a Sorted<T>,
    /// The plane in the order of this coordinate.
    pub plane: &'a Plane<'b, T>,
    pub inside: &'a Inside,
}

/// Points at the radius in this coordinate: closer than that in the other one, at it, and farther.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub closer: u32,
    pub border: u32,
    pub beyond: u32,
}

/// Of each of the `points`, positions in x's order, what is at its radius in x and in y; nothing where those distances
/// are equal by rounding alone.
pub fn levels<T: Real>(x: Side<T>, y: Side<T>, radii: &[T], points: &[u32]) -> Vec<Option<[Level; 2]>> {
    let mut found = Vec::with_capacity(points.len());
    look(x, y, radii, points, &mut found);
    found
}

every_width! {
fn look<T: Real>(x: Side<T>, y: Side<T>, radii: &[T], points: &[u32], found: &mut Vec<Option<[Level; 2]>>) {
    let (runs_x, runs_y) = (&x.column.runs().bounds, &y.column.runs().bounds);
    for &at in points {
        let at = at as usize;
        let (at_y, radius) = (x.plane.rank_y()[at] as usize, radii[at]);
        let (in_x, in_y) = (Border::new(&x, runs_x, at, radius), Border::new(&y, runs_y, at_y, radius));
        let centre = [x.column.places()[at], y.column.places()[at_y]];
        let (mut closer_in_y, mut closer_in_x, mut border) = (NONE, NONE, NONE);
        in_x.count::<T, true>(x.plane.padded(), centre[1], radius, &mut closer_in_y, &mut border);
        in_y.count::<T, false>(y.plane.padded(), centre[0], radius, &mut closer_in_x, &mut border);
        let [closer_in_y, closer_in_x, border] = [closer_in_y, closer_in_x, border].map(|counts| counts.0.iter().sum::<u32>());
        let level = |all: u32, closer: u32| Level { closer, border, beyond: all.wrapping_sub(closer + border) };
        let levels = [level(in_x.all(), closer_in_y), level(in_y.all(), closer_in_x)];
        // Rounding keeps the order: what is closer in float32 is closer.
        let is_one = in_x.is_one & in_y.is_one & ((in_x.distance == in_y.distance) | (in_x.all() == 0) | (in_y.all() == 0));
        found.push(is_one.then_some(levels));
    }
}
}

/// Counts that are added up together.
#[repr(align(64))]
struct Counts([u32; LANES]);

const NONE: Counts = Counts([0; LANES]);

/// The positions at the radius before and behind a point.
struct Border {
    ranges: [[u32; 2]; 2],
    /// Whether those on either side are one value, and both sides equally far in f64.
    is_one: bool,
    /// That distance, where there are any.
    distance: f64,
}

impl Border {
    /// Without a branch: whether there is anything at the radius on either side is up to chance.
    #[inline(always)]
    fn new<T: Real>(side: &Side<T>, runs: &[[u32; 2]], at: usize, radius: T) -> Self {
        let padded = side.column.padded();
        let centre = padded[MARGIN + at];
        let near = side.inside.range(at);
        let level = |at: usize| (padded[at] - centre).abs() == radius;
        let exact = |at: usize| far(padded[at], centre);
        // The margin is infinitely far.
        let (before, behind) = (MARGIN + near.start - 1, MARGIN + near.end);
        let [start, _] = runs[near.start.saturating_sub(1)];
        let [_, end] = runs[near.end.min(runs.len() - 1)];
        let (level_before, level_behind) = (level(before), level(behind));
        let one_before = !level(MARGIN + start as usize - 1);
        let one_behind = !level(MARGIN + end as usize);
        let (far_before, far_behind) = (exact(before), exact(behind));
        let (near_start, near_end) = (near.start as u32, near.end as u32);
        Self {
            ranges: [
                [if level_before { start } else { near_start }, near_start],
                [near_end, if level_behind { end } else { near_end }],
            ],
            is_one: (!level_before | one_before)
                & (!level_behind | one_behind)
                & (!(level_before & level_behind) | (far_before == far_behind)),
            distance: if level_before { far_before } else { far_behind },
        }
    }

    /// How many points there are.
    fn all(&self) -> u32 {
        self.ranges.iter().map(|[start, end]| end - start).sum()
    }

    /// Adds to `closer` and, from x, to `border` those of the points that are so in the other coordinate: those at the
    /// radius in both are counted once.
    #[inline(always)]
    fn count<T: Real, const IN_X: bool>(
        &self,
        along: &[T],
        centre: T,
        radius: T,
        closer: &mut Counts,
        border: &mut Counts,
    ) {
        for [start, end] in self.ranges {
            // Once without a branch, also where there is nothing: mostly that is all.
            let mut first = start;
            loop {
                // The margin is longer than what is read beyond the last point.
                let places = &along[MARGIN + first as usize..][..LANES];
                let mut distances = [T::INFINITY; LANES];
                for lane in 0..LANES {
                    let distance = (places[lane] - centre).abs();
                    distances[lane] = if first + (lane as u32) < end { distance } else { T::INFINITY };
                }
                for lane in 0..LANES {
                    closer.0[lane] += u32::from(distances[lane] < radius);
                }
                if IN_X {
                    for lane in 0..LANES {
                        border.0[lane] += u32::from(distances[lane] == radius);
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
    use crate::estimate::neighbours::inside::inside;

    fn value() -> impl Strategy<Value = f32> {
        prop_oneof![(-9..9_i32).prop_map(|v| v as f32), -3.0..3.0_f32]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn levels_are_those_of_all_points(
            rows in prop::collection::vec((-5..5_i32, value()), 5..200),
            radius in prop_oneof![(0..4_i32).prop_map(|v| v as f32), 0.0..3.0_f32],
        ) {
            let (x, y): (Vec<f32>, Vec<f32>) = rows.iter().map(|&(x, y)| (x as f32, y)).unzip();
            let (by_x, by_y) = (Sorted::new(&x), Sorted::new(&y));
            let (plane, turned) = (Plane::new(&by_x, &by_y), Plane::new(&by_y, &by_x));
            let radii = vec![radius; rows.len() + LANES];
            let [in_x, in_y] = [&by_x, &by_y].map(|column| inside(column.padded(), &radii));
            let side_x = Side { column: &by_x, plane: &plane, inside: &in_x };
            let side_y = Side { column: &by_y, plane: &turned, inside: &in_y };
            let points: Vec<u32> = (0..rows.len() as u32).collect();
            for (found, &row) in levels(side_x, side_y, &radii, &points).into_iter().zip(by_x.rows()) {
                let row = row as usize;
                let exact = |column: &[f32], other: usize| (f64::from(column[other]) - f64::from(column[row])).abs();
                let far = |column: &[f32], other: usize| (column[other] - column[row]).abs();
                let of = |here: &[f32], there: &[f32]| {
                    let others = (0..rows.len()).filter(move |&other| other != row);
                    let level: Vec<usize> = others.filter(|&other| far(here, other) == radius).collect();
                    let closer = level.iter().filter(|&&other| far(there, other) < radius).count() as u32;
                    let border = level.iter().filter(|&&other| far(there, other) == radius).count() as u32;
                    let distances: Vec<f64> = level.iter().map(|&other| exact(here, other)).collect();
                    (Level { closer, border, beyond: level.len() as u32 - closer - border }, distances)
                };
                let ((in_x, mut distances), (in_y, more)) = (of(&x, &y), of(&y, &x));
                distances.extend(more);
                let expected = distances.windows(2).all(|pair| pair[0] == pair[1]).then_some([in_x, in_y]);
                prop_assert_eq!(found, expected, "row {}", row);
            }
        }
    }
}
