//! The distance from each point of a plane to its k-th nearest.
//!
//! The points are in the order of one coordinate or of the other, and [`knn_lanes`](super::knn_lanes) searches along
//! it. Where values crowd in one coordinate that can be most of the column, but then not in the other: for a search to
//! be long in both, its ball must be empty while the strips above and beside it are full, and there is no room for many
//! such points (N_w points with w others in both strips need N_w ≤ k(N/w)²). So a search of too many candidates is left
//! to the order of the other coordinate. Where there are many points and neither coordinate is clearly thinner,
//! [`strips`] take most of them.
//!
//! Cost: about √(kN) candidates for sixteen points, some 60 in strips. [`thresholds`] decides between them.

use crate::thresholds;

use super::knn_lanes::{Found, Search};
use super::lanes::Real;
use super::sorted_pair::Plane;
use super::strips;

/// Searches for the `k` nearest other points of each of the `queries`, positions in ascending order. Distance is the larger
/// of those in x and in y; there are more than k points.
pub fn search<T: Real>(plane: &Plane<T>, queries: &[u32], k: usize, found: &mut Found<T>) {
    let n = plane.rank_y().len();
    let most = thresholds::most_candidates(n, k);
    let late = match queries.len() == n && takes_strips(plane) {
        true => strips::search(plane, k, most, found),
        false => along(plane, queries, k, most, found),
    };
    if late.is_empty() {
        return;
    }
    let mut found_in_y = Found::new(n);
    along(plane.transposed(), &plane.positions_in_y(&late), k, usize::MAX, &mut found_in_y);
    for at in late.into_iter().map(|at| at as usize) {
        let at_y = plane.rank_y()[at] as usize;
        (found.radii[at], found.at_radius[at]) = (found_in_y.radii[at_y], found_in_y.at_radius[at_y]);
    }
}

fn takes_strips<T: Real>(plane: &Plane<T>) -> bool {
    thresholds::takes_strips(plane.rank_y(), plane.sorted_x().gaps(), plane.sorted_y().gaps())
}

/// [`search`] in the order of x alone. Returns the positions whose search was given up because it would have compared more
/// than `most` candidates.
fn along<T: Real>(plane: &Plane<T>, queries: &[u32], k: usize, most: usize, found: &mut Found<T>) -> Vec<u32> {
    let (along, across) = (plane.sorted_x().padded().with_margins(), plane.across_with_margins());
    Search { along, across, queries, to: None, most }.nearest(k, found)
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::super::sorted::Sorted;
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
        search(&plane, &(0..N as u32).collect::<Vec<_>>(), K, &mut found);
        for at in 0..N {
            let [centre_x, centre_y] = [plane.x()[at], plane.across()[at]];
            let to = |(&x, &y): (&f32, &f32)| (x - centre_x).abs().max((y - centre_y).abs());
            let mut distances: Vec<f32> = plane.x().iter().zip(plane.across()).map(to).collect();
            // The point itself is at 0.
            let radius = *distances.select_nth_unstable_by(K, f32::total_cmp).1;
            assert_eq!(found.radii[at], radius, "position {at}");
            let inside = distances.iter().filter(|&&distance| distance < radius).count().saturating_sub(1);
            assert_eq!(found.at_radius[at] as usize, K - inside, "position {at}");
        }
    }

    #[test]
    fn neighbours_are_found_whichever_coordinate_is_crowded() {
        let (narrow, wide) = (column(1, |_, u| u), column(2, |_, u| 100.0 * u));
        check(&narrow, &wide);
        check(&wide, &narrow);
        let sigmoid = |seed| column(seed, |_, u| 1.0 / (1.0 + (10.0 - 20.0 * u).exp()));
        check(&sigmoid(4), &sigmoid(5));
    }

    #[test]
    fn strips_are_for_many_independent_points_of_about_equal_gaps() {
        let y = column(2, |_, u| u);
        let takes = |x: &Sorted<f32>| takes_strips(&Plane::new(x, &y));
        assert!(takes(&column(1, |_, u| u)));
        assert!(takes(&column(1, |_, u| u * u)));
        // The same random numbers, so that y follows from x.
        assert!(!takes(&column(2, |_, u| 1.0 - u * u)));
        assert!(!takes(&column(1, |_, u| 100.0 * u)));
        assert!(!takes(&column(1, |_, u| 0.01 * u)));
        assert!(!takes(&column(1, |row, u| if row % 2 == 0 { 0.0 } else { u })));
        let some = |seed, rows| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            Sorted::new(&(0..rows).map(|_| random.random()).collect::<Vec<f32>>())
        };
        assert!(takes_strips(&Plane::new(&some(1, 1200), &some(2, 1200))));
        assert!(!takes_strips(&Plane::new(&some(1, 700), &some(2, 700))));
        // Most of y follows from x.
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let first: Vec<f32> = (0..1200).map(|_| random.random()).collect();
        let second: Vec<f32> = first.iter().map(|v| v + 0.3 * random.random::<f32>()).collect();
        assert!(!takes_strips(&Plane::new(&Sorted::new(&first), &Sorted::new(&second))));
        check(&column(1, |_, u| u * u), &y);
    }

    #[test]
    fn a_search_that_is_long_in_one_order_is_left_to_the_other() {
        let (x, y) = (column(1, |_, u| u), column(2, |row, u| (row / 48) as f32 + 1e-4 * u));
        let plane = Plane::new(&x, &y);
        let all: Vec<u32> = (0..N as u32).collect();
        let late = along(&plane, &all, K, thresholds::most_candidates(N, K), &mut Found::new(N));
        assert!(late.len() > N / 16, "{}", late.len());
        check(&x, &y);
    }
}
