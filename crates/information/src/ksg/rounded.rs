//! The neighbourhood of a point whose distances at the radius are not all of one value on each side.
//!
//! Mostly they are equal by rounding to float32 alone: thousands may be, as those from 0.5 to everything that steep sigmoids
//! make of what is far below 0. Or differences leave the range of float32, or distances are equal in f64 too, by its
//! rounding. The radius is one in f64, and on either side of the point the order of the others is that of their distances,
//! so how many are closer is found by halving. Only those that are no farther in the other coordinate have to be compared
//! one by one; of all at the rounded radius they are few, and a comparison of sixteen at a time finds them.
//!
//! Cost: one step of sixteen lanes for every sixteen points at the rounded radius. It is what searching in float32 costs
//! where values saturate (`steeper` in `cargo bench --bench shapes`).

#![expect(clippy::needless_range_loop, reason = "with indices, loops over lanes become vectors")]

use std::ops::Range;

use crate::neighbours::count_within::boundary;
use crate::neighbours::lanes::{LANES, Real, far, larger};
use crate::neighbours::sorted_pair::Plane;
use crate::width::every_width;

use super::balls::Balls;
use super::neighbourhood::Neighbourhood;

/// Points at the rounded radius in one coordinate that are no farther in the other one.
#[derive(Default)]
pub(super) struct Near {
    /// Their distances in x and in y.
    distances: Vec<[f64; 2]>,
    /// The larger of the two.
    joint: Vec<f64>,
    /// The result of the last search, as indices of the values searched.
    found: Vec<u32>,
}

impl<T: Real> Balls<'_, T> {
    /// Returns the neighbourhood of the point at position `at`. `transposed` is the plane in y's order, `near` is
    /// overwritten.
    pub(super) fn neighbourhood_in_f64(&self, at: usize, transposed: &Plane<T>, near: &mut Near) -> Neighbourhood {
        let at_y = self.rank_y(at);
        let radius = self.found.radii[at];
        let in_x = Line { values: self.x.values(), at, closer: self.in_x.range(at) };
        let in_y = Line { values: self.y.values(), at: at_y, closer: self.in_y.range(at_y) };
        let [x, y] = [in_x.centre(), in_y.centre()];
        near.distances.clear();
        let (before, behind) = boundary(in_x.values, at, radius, in_x.closer.clone());
        for range in [before, behind] {
            let (here, others) = (&in_x.values[range.clone()], &self.plane.across()[range]);
            find(others, y, radius, &mut near.found);
            let found = near.found.iter().map(|&index| index as usize);
            near.distances.extend(found.map(|index| [far(here[index], x), far(others[index], y)]));
        }
        let (before, behind) = boundary(in_y.values, at_y, radius, in_y.closer.clone());
        for range in [before, behind] {
            let (here, others) = (&in_y.values[range.clone()], &transposed.across()[range]);
            find(others, x, radius, &mut near.found);
            let found = near.found.iter().map(|&index| index as usize);
            // Points at the radius in both coordinates are in the list already.
            let once = found.filter(|&index| (others[index] - x).abs() < radius);
            near.distances.extend(once.map(|index| [far(others[index], x), far(here[index], y)]));
        }
        // Points that are closer in float32 are closer in f64 too.
        let missing = self.found.at_radius[at] as usize;
        let radius = near.radius(missing);
        let count = |counts: fn(f64, f64, f64) -> bool| {
            near.distances.iter().filter(|&&[dx, dy]| counts(dx, dy, radius)).count()
        };
        let only = [count(|dx, dy, r| (dx == r) & (dy < r)), count(|dx, dy, r| (dx < r) & (dy == r))];
        let both = count(|dx, dy, r| (dx == r) & (dy == r));
        let [(closer_x, all_x), (closer_y, all_y)] = [in_x.counts(radius), in_y.counts(radius)];
        Neighbourhood {
            closer: [closer_x, closer_y],
            closer_in_both: self.k - missing + count(|dx, dy, r| (dx < r) & (dy < r)),
            only,
            both,
            beyond: [all_x - only[0] - both, all_y - only[1] - both],
            missing: 0,
        }
    }
}

impl Near {
    /// The radius in f64 that has as many within it as are `missing`, at least 1.
    fn radius(&mut self, missing: usize) -> f64 {
        self.joint.clear();
        self.joint.extend(self.distances.iter().map(|&[dx, dy]| larger(dx, dy)));
        *self.joint.select_nth_unstable_by(missing - 1, f64::total_cmp).1
    }
}

every_width! {
/// The indices of the `others` that are no farther than `radius`.
fn find<T: Real>(others: &[T], centre: T, radius: T, found: &mut Vec<u32>) {
    found.clear();
    for (block, others) in others.chunks(LANES).enumerate() {
        let mut distances = [T::INFINITY; LANES];
        match <&[T; LANES]>::try_from(others) {
            Ok(others) => {
                for lane in 0..LANES {
                    distances[lane] = (others[lane] - centre).abs();
                }
            }
            Err(_) => others.iter().zip(&mut distances).for_each(|(&other, distance)| *distance = (other - centre).abs()),
        }
        let mut any = false;
        for lane in 0..LANES {
            any |= distances[lane] <= radius;
        }
        if any {
            for lane in 0..others.len() {
                if distances[lane] <= radius {
                    found.push((block * LANES + lane) as u32);
                }
            }
        }
    }
}
}

/// A point in one coordinate, among all others.
struct Line<'a, T> {
    /// Ascending.
    values: &'a [T],
    at: usize,
    /// The positions that are closer than the rounded radius.
    closer: Range<usize>,
}

impl<T: Real> Line<'_, T> {
    fn centre(&self) -> T {
        self.values[self.at]
    }

    /// How many others are closer than `radius`, which is one in f64 that rounds to the rounded one, and how many are at it.
    fn counts(&self, radius: f64) -> (usize, usize) {
        let (before, behind) = (&self.values[..self.closer.start], &self.values[self.closer.end..]);
        let distance = |value: &T| far(*value, self.centre());
        let [closer, no_farther] = [
            before.len() - before.partition_point(|value| distance(value) >= radius)
                + behind.partition_point(|value| distance(value) < radius),
            before.len() - before.partition_point(|value| distance(value) > radius)
                + behind.partition_point(|value| distance(value) <= radius),
        ];
        (self.closer.len() - 1 + closer, no_farther - closer)
    }
}
