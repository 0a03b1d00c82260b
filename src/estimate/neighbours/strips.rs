//! Pairs of scalars: the plane cut into strips.
//!
//! The order of x is cut into strips of about √(kN) points, and each strip holds its points in the order of y. A search
//! goes up and down in the point's own strip until the y-distance exceeds the k-th best, then to the strips left and
//! right until their x-distance does. Where x and y are independent a ball is about as wide as a strip, so a few points
//! of two or three strips are looked at. Strips are cut by rank: crowded values fill many strips instead of one long
//! one, and a point in a crowd costs a binary search in each of them, never a walk over all of it.
//!
//! Cost: building is linear, a search about √(N/k)·log N at worst and constant where the coordinates are independent.

use super::sorted::Sorted;
use super::{Closest, Place};

/// Points of a plane, in strips along x.
#[derive(Clone, Debug)]
pub struct Strips<P> {
    /// Points of each strip but the last.
    length: usize,
    /// Strip behind strip, each in ascending y.
    points: Vec<Point<P>>,
    /// First and last x of each strip.
    edges: Vec<(P, P)>,
}

#[derive(Clone, Copy, Debug)]
struct Point<P> {
    y: P,
    x: P,
    row: u32,
}

impl<P: Place> Strips<P> {
    /// `x` and `y` are columns of the same rows; searches are for about `k` neighbours.
    pub fn new(x: &Sorted<P>, y: &Sorted<P>, k: usize) -> Self {
        let n = x.places().len();
        let length = ((k * n) as f64).sqrt().ceil().max(1.0) as usize;
        let mut next: Vec<usize> = (0..n.div_ceil(length)).map(|strip| strip * length).collect();
        let unset = Point { y: y.places()[0], x: x.places()[0], row: 0 };
        let mut points = vec![unset; n];
        // In the order of y, so that every strip comes out in it.
        for (&row, &place) in y.rows().iter().zip(y.places()) {
            let rank = x.rank(row as usize);
            let slot = &mut next[rank / length];
            points[*slot] = Point { y: place, x: x.places()[rank], row };
            *slot += 1;
        }
        let edge = |strip: &[P]| (strip[0], strip[strip.len() - 1]);
        Self { length, points, edges: x.places().chunks(length).map(edge).collect() }
    }

    /// Distance from the point of `row`, at position `rank` of x's order, to its k-th nearest other point, where
    /// distance is the larger of those in x and in y and k is the length of `nearest`. There are more than k points.
    pub fn kth_distance(&self, row: u32, rank: usize, x: P, y: P, nearest: &mut Closest) -> f64 {
        nearest.clear();
        let own = rank / self.length;
        let centre = Point { y, x, row };
        self.search(own, centre, nearest);
        let (mut left, mut right) = (own, own + 1);
        loop {
            let to_left = left.checked_sub(1).map(|strip| self.edges[strip].1.distance(x));
            let to_right = self.edges.get(right).map(|edge| edge.0.distance(x));
            match (to_left, to_right) {
                (Some(distance), other) if other.is_none_or(|other| distance <= other) => {
                    if distance >= nearest.last() {
                        break;
                    }
                    left -= 1;
                    self.search(left, centre, nearest);
                }
                (_, Some(distance)) => {
                    if distance >= nearest.last() {
                        break;
                    }
                    self.search(right, centre, nearest);
                    right += 1;
                }
                _ => break,
            }
        }
        nearest.last()
    }

    fn search(&self, strip: usize, centre: Point<P>, nearest: &mut Closest) {
        let start = strip * self.length;
        let points = &self.points[start..(start + self.length).min(self.points.len())];
        let middle = points.partition_point(|point| point.y.compare(&centre.y).is_lt());
        let (below, above) = points.split_at(middle);
        let mut walk = |point: &Point<P>| {
            let dy = point.y.distance(centre.y);
            if dy >= nearest.last() {
                return false;
            }
            if point.row != centre.row {
                nearest.insert(dy.max(point.x.distance(centre.x)));
            }
            true
        };
        // Ends at the first point that is too far: those behind it are farther.
        let _ = above.iter().all(&mut walk);
        let _ = below.iter().rev().all(&mut walk);
    }
}
