//! The searches against kiddo's k-d tree, a program of others.

use std::num::NonZero;

use kiddo::{Chebyshev, ImmutableKdTree, SquaredEuclidean};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};

use super::knn_lanes::Found;
use super::rows::{Block, Nearest};
use super::search::search;
use super::sorted::Sorted;
use super::sorted_pair::Plane;

fn gaussians(count: usize, seed: u64) -> Vec<f64> {
    StandardNormal.sample_iter(ChaCha8Rng::seed_from_u64(seed)).take(count).collect()
}

fn kiddo_finds_the_same_neighbours<const WIDTH: usize>() {
    let rows = 400;
    let values = gaussians(rows * WIDTH, WIDTH as u64);
    let mut points: Vec<[f64; WIDTH]> = values.as_chunks().0.to_vec();
    // A crowd at one place, as a saturated layer gives, and a few near it.
    (0..60).for_each(|row| points[row] = [1.0; WIDTH]);
    (60..80).for_each(|row| points[row][0] = 1.0);
    let tree: ImmutableKdTree<f64, WIDTH> = ImmutableKdTree::new_from_slice(&points).unwrap();
    let block = Block::new((0..WIDTH).flat_map(|at| points.iter().map(move |p| p[at])).collect(), rows);
    let (mut together, mut nearest) = (Default::default(), Nearest::default());
    for (row, point) in points.iter().enumerate() {
        block.squared_euclidean(row, &mut together);
        let distances = &mut together[0];
        distances[row] = f64::INFINITY;
        nearest.fill(distances, 71);
        // The point finds itself first.
        let found = tree.query(point).nearest_n::<SquaredEuclidean<f64>>(NonZero::new(71).unwrap()).execute();
        for (k, neighbour) in found.iter().skip(1).take(nearest.pairs.len()).enumerate() {
            let (distance, _) = nearest.pairs[k];
            assert!((neighbour.distance - distance).abs() <= 1e-14 * distance, "row {row}, neighbour {k}");
        }
    }
}

#[test]
fn kiddo_finds_the_same_neighbours_of_vectors() {
    kiddo_finds_the_same_neighbours::<2>();
    kiddo_finds_the_same_neighbours::<3>();
    kiddo_finds_the_same_neighbours::<8>();
}

#[test]
fn kiddo_finds_the_same_radii_of_pairs_of_scalars() {
    // Few distinct x, so that a search along x alone would not do.
    let x: Vec<f64> = gaussians(600, 77).iter().map(|v| (v * 2.0).round() / 2.0).collect();
    let y: Vec<f64> = gaussians(600, 78).iter().zip(&x).map(|(noise, x)| 0.7 * x + 0.7 * noise).collect();
    let points: Vec<[f64; 2]> = x.iter().zip(&y).map(|(&x, &y)| [x, y]).collect();
    let tree: ImmutableKdTree<f64, 2> = ImmutableKdTree::new_from_slice(&points).unwrap();
    let (by_x, by_y) = (Sorted::new(&x), Sorted::new(&y));
    let plane = Plane::new(&by_x, &by_y);
    let positions: Vec<u32> = (0..600).collect();
    for k in [1, 3, 10] {
        let mut found = Found::new(600);
        search(&plane, &positions, k, &mut found);
        for (&row, radius) in by_x.rows().iter().zip(found.radii) {
            let found = tree.query(&points[row as usize]).nearest_n::<Chebyshev<f64>>(NonZero::new(k + 1).unwrap());
            assert_eq!(radius, found.execute()[k].distance);
        }
    }
}
