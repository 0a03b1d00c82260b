//! What lies about a point some of whose distances equal the radius by rounding to float32 alone: thousands may, as those
//! from 0.5 to all that steep sigmoids make of what is far below 0.
//!
//! In f64 they differ. In either coordinate the order of the points is that of their distances, so how many are closer than
//! the radius in f64 is found by halving. Only those that are no farther in the other coordinate have to be met one by one,
//! and of all that are at the rounded radius they are few: a look at sixteen at a time finds them.
//!
//! Measured with AVX-512 on sigmoids of 30 z, N = 16,384, where one point in sixty is such a point and has some 640 others
//! at its rounded radius: 330 ns a row; 430 with all of them written down in f64 and counted, and 390 with a ball that
//! grows from one distance in f64 to the next.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use std::ops::Range;

use crate::estimate::neighbours::lanes::{LANES, Real, larger};
use crate::estimate::neighbours::plane::Plane;
use crate::estimate::width::every_width;

use super::around::Around;
use super::balls::Balls;

/// Points at the rounded radius in one coordinate that are no farther in the other one.
#[derive(Default)]
pub(super) struct Near {
    /// Their distances in x and in y.
    distances: Vec<[f64; 2]>,
    /// The larger of the two.
    joint: Vec<f64>,
    /// Where they are among those at the radius.
    places: Vec<u32>,
}

impl<T: Real> Balls<'_, T> {
    /// What lies about the point at position `at`. `turned` is the plane in y's order, `near` is overwritten.
    pub(super) fn around_in_f64(&self, at: usize, turned: &Plane<T>, near: &mut Near) -> Around {
        let at_y = self.rank_y(at);
        let radius = self.found.radii[at];
        let in_x = Line { places: self.x.places(), at, closer: self.in_x.range(at) };
        let in_y = Line { places: self.y.places(), at: at_y, closer: self.in_y.range(at_y) };
        let [x, y] = [in_x.centre(), in_y.centre()];
        near.distances.clear();
        for range in in_x.border(|distance| distance == radius) {
            let others = &self.plane.along()[range.clone()];
            near.find(others, y, radius);
            let both = near.places.iter().map(|&place| place as usize);
            let both = both.map(|place| [far(in_x.places[range.start + place], x), far(others[place], y)]);
            near.distances.extend(both);
        }
        for range in in_y.border(|distance| distance == radius) {
            let others = &turned.along()[range.clone()];
            near.find(others, x, radius);
            // Those at the radius in both are there already.
            let once =
                near.places.iter().map(|&place| place as usize).filter(|&place| (others[place] - x).abs() < radius);
            let both = once.map(|place| [far(others[place], x), far(in_y.places[range.start + place], y)]);
            near.distances.extend(both);
        }
        // What is closer in float32 is closer.
        let place = self.found.levels[at] as usize;
        let radius = near.radius(place);
        let count = |counts: fn(f64, f64, f64) -> bool| {
            near.distances.iter().filter(|&&[dx, dy]| counts(dx, dy, radius)).count()
        };
        let only = [count(|dx, dy, r| (dx == r) & (dy < r)), count(|dx, dy, r| (dx < r) & (dy == r))];
        let both = count(|dx, dy, r| (dx == r) & (dy == r));
        let [(closer_x, all_x), (closer_y, all_y)] = [in_x.counts(radius), in_y.counts(radius)];
        Around {
            closer: [closer_x, closer_y],
            closer_in_both: self.k - place + count(|dx, dy, r| (dx < r) & (dy < r)),
            only,
            both,
            beyond: [all_x - only[0] - both, all_y - only[1] - both],
            missing: 0,
        }
    }
}

/// |a − b| in f64.
fn far<T: Real>(a: T, b: T) -> f64 {
    (a.widen() - b.widen()).abs()
}

impl Near {
    /// The distance in f64 that has that `place`, from 1 on.
    fn radius(&mut self, place: usize) -> f64 {
        self.joint.clear();
        self.joint.extend(self.distances.iter().map(|&[dx, dy]| larger(dx, dy)));
        *self.joint.select_nth_unstable_by(place - 1, f64::total_cmp).1
    }

    /// Finds the `others` that are no farther than `radius`.
    fn find<T: Real>(&mut self, others: &[T], centre: T, radius: T) {
        self.places.clear();
        find(others, centre, radius, &mut self.places);
    }
}

every_width! {
fn find<T: Real>(others: &[T], centre: T, radius: T, places: &mut Vec<u32>) {
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
                    places.push((block * LANES + lane) as u32);
                }
            }
        }
    }
}
}

/// A point in one coordinate, among all others.
struct Line<'a, T> {
    /// Ascending.
    places: &'a [T],
    at: usize,
    /// The positions that are closer than the rounded radius.
    closer: Range<usize>,
}

impl<T: Real> Line<'_, T> {
    fn centre(&self) -> T {
        self.places[self.at]
    }

    /// The positions before and behind those that are closer whose rounded distance is still `level`.
    fn border(&self, level: impl Fn(T) -> bool) -> [Range<usize>; 2] {
        let (before, behind) = self.places.split_at(self.closer.end);
        let before = &before[..self.closer.start];
        let level = |place: &T| level((*place - self.centre()).abs());
        let start = before.partition_point(|place| !level(place));
        [start..before.len(), self.closer.end..self.closer.end + behind.partition_point(level)]
    }

    /// How many others are closer than `radius`, which is one in f64 that rounds to the rounded one, and how many are at it.
    fn counts(&self, radius: f64) -> (usize, usize) {
        let (before, behind) = (&self.places[..self.closer.start], &self.places[self.closer.end..]);
        let far = |place: &T| far(*place, self.centre());
        let [closer, no_farther] = [
            before.len() - before.partition_point(|place| far(place) >= radius)
                + behind.partition_point(|place| far(place) < radius),
            before.len() - before.partition_point(|place| far(place) > radius)
                + behind.partition_point(|place| far(place) <= radius),
        ];
        (self.closer.len() - 1 + closer, no_farther - closer)
    }
}
