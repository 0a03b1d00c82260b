//! What stands at exactly the radius of a point of the plane, where values repeat.
//!
//! In x the border of a ball is mostly one run of equal values on either side, and so it is in y: both are found from
//! where runs start and end, whatever their length. What is left is to compare the other coordinate of their points
//! with the ball, sixteen at a time. Where distances only seem equal because they are rounded to float32, the point is
//! left to who asks.
//!
//! Cost: a step of sixteen lanes for every sixteen points at the radius in x, and in y. Measured on bfloat16 sigmoids,
//! N = 2,048, AVX-512: 43 ns a point. Stepping along the border place by place, for all points but those in a table of
//! points met before, took about 110.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use crate::estimate::width::every_width;

use super::lanes::{LANES, Real};
use super::sorted::{Inside, MARGIN, Sorted};
use super::walk::Plane;

/// One coordinate of the plane, in its own order.
#[derive(Clone, Copy)]
pub struct Side<'a, T> {
    pub column: &'a Sorted<T>,
    /// The plane in the order of this coordinate.
    pub plane: &'a Plane<'a, T>,
    pub inside: &'a Inside,
}

/// Points at the radius in this coordinate: closer than that in the other one, at it, and farther.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub closer: u32,
    pub border: u32,
    pub beyond: u32,
}

/// Of each of the `points`, positions in x's order, what is at its radius in x and in y; nothing where distances have
/// to be looked at again in f64.
pub fn levels<T: Real>(x: Side<T>, y: Side<T>, radii: &[T], points: &[u32]) -> Vec<Option<[Level; 2]>> {
    let mut found = vec![None; points.len()];
    if radii.len() < MOST {
        look(x, y, radii, points, &mut found);
    }
    found
}

every_width! {
fn look<T: Real>(x: Side<T>, y: Side<T>, radii: &[T], points: &[u32], found: &mut [Option<[Level; 2]>]) {
    let (runs_x, runs_y) = (&x.column.runs().bounds, &y.column.runs().bounds);
    for (&at, found) in points.iter().zip(found) {
        let at = at as usize;
        let (at_y, radius) = (x.plane.rank_y()[at] as usize, radii[at]);
        let (Some(in_x), Some(in_y)) = (border(&x, runs_x, at, radius), border(&y, runs_y, at_y, radius)) else {
            continue;
        };
        let centre = [x.column.places()[at], y.column.places()[at_y]];
        let mut counts = [0; LANES];
        let all = [
            count::<T, true>(x.plane.padded(), in_x, centre[1], radius, &mut counts),
            count::<T, false>(y.plane.padded(), in_y, centre[0], radius, &mut counts),
        ];
        *found = Some(unpacked(&counts, all));
    }
}
}

/// Counts that are added up together: those closer in y of those at the radius in x, those at it in both, and those
/// closer in x of those at it in y.
const PACKED: [u32; 3] = [0, 21, 42];
/// Rows that they have room for.
const MOST: usize = 1 << 21;

/// Not inlined, so that the counts are added up as a whole.
#[inline(never)]
fn unpacked(counts: &[u64; LANES], all: [u32; 2]) -> [Level; 2] {
    let counts: u64 = counts.iter().sum();
    let [in_x, border, in_y] = PACKED.map(|shift| (counts >> shift) as u32 & (MOST as u32 - 1));
    let level = |closer, all| Level { closer, border, beyond: all - closer - border };
    [level(in_x, all[0]), level(in_y, all[1])]
}

/// The positions at the radius before and behind `at`, where each are one value and its distance needs no rounding.
#[inline(always)]
fn border<T: Real>(side: &Side<T>, runs: &[[u32; 2]], at: usize, radius: T) -> Option<[[u32; 2]; 2]> {
    let padded = side.column.padded();
    let centre = padded[MARGIN + at];
    let near = side.inside.range(at);
    let level = |at: usize| (padded[at] - centre).abs() == radius;
    let exact = |at: usize| (padded[at].widen() - centre.widen()).abs() == radius.widen();
    let mut border = [[0; 2]; 2];
    // The margin is infinitely far.
    let (before, behind) = (MARGIN + near.start - 1, MARGIN + near.end);
    if level(before) {
        let [start, _] = runs[before - MARGIN];
        if !exact(before) || level(MARGIN + start as usize - 1) {
            return None;
        }
        border[0] = [start, near.start as u32];
    }
    if level(behind) {
        let [_, end] = runs[behind - MARGIN];
        if !exact(behind) || level(MARGIN + end as usize) {
            return None;
        }
        border[1] = [near.end as u32, end];
    }
    Some(border)
}

/// Adds to `counts` those of the points in `ranges`, and returns how many points there are.
#[inline(always)]
fn count<T: Real, const IN_X: bool>(
    along: &[T],
    ranges: [[u32; 2]; 2],
    centre: T,
    radius: T,
    counts: &mut [u64; LANES],
) -> u32 {
    let closer = 1_u64 << PACKED[if IN_X { 0 } else { 2 }];
    // Points at the radius in both are counted once.
    let border = if IN_X { 1_u64 << PACKED[1] } else { 0 };
    let mut all = 0;
    for [start, end] in ranges {
        all += end - start;
        for first in (start..end).step_by(LANES) {
            // The margin is longer than what is read beyond the last point.
            let places = &along[MARGIN + first as usize..][..LANES];
            for lane in 0..LANES {
                let distance = (places[lane] - centre).abs();
                let counts_here = lane as u32 + first < end;
                counts[lane] += if counts_here & (distance < radius) { closer } else { 0 };
                counts[lane] += if counts_here & (distance == radius) { border } else { 0 };
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::estimate::neighbours::sorted::inside;

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
                let of = |here: &[f32], there: &[f32]| {
                    let row = row as usize;
                    let others = || (0..rows.len()).filter(move |&other| other != row);
                    let level = || others().filter(|&other| (here[other] - here[row]).abs() == radius);
                    let far = |other: usize| (there[other] - there[row]).abs();
                    let runs_are_exact = level().all(|other| {
                        let before = here[other] < here[row];
                        let exact = (f64::from(here[other]) - f64::from(here[row])).abs() == f64::from(radius);
                        let mut same_side = level().filter(|&another| (here[another] < here[row]) == before);
                        exact && same_side.all(|another| here[another] == here[other])
                    });
                    let closer = level().filter(|&other| far(other) < radius).count() as u32;
                    let border = level().filter(|&other| far(other) == radius).count() as u32;
                    let beyond = level().count() as u32 - closer - border;
                    runs_are_exact.then_some(Level { closer, border, beyond })
                };
                let expected = of(&x, &y).zip(of(&y, &x)).map(|(x, y)| [x, y]);
                prop_assert_eq!(found, expected, "row {}", row);
            }
        }
    }
}
