//! Wide vectors as the published estimator computes them. The authors' code finds r_i with scikit-learn, which above 15
//! coordinates takes squared distances from dot products, |x|² + |y|² − 2x·y, and then counts m_i with distances from
//! differences. The two round differently: in about half of the rows the k-th neighbour, which defines r_i, lies inside
//! its own ball, and the estimate is lower by about 1/2k nats. On concept embeddings of 16 coordinates, N = 2,000, k = 3,
//! as a share of the label's entropy: 0.70 published, 0.93 from either kind of distance alone.
//!
//! Figures in papers have that offset, so the published estimator has it too. No other estimate uses this file.

use super::rows::Block;

/// Widest vectors whose neighbours the authors' code finds without dot products.
pub const WIDEST_WITHOUT: usize = 15;

/// |x|² of every row.
pub fn squared_norms(block: &Block) -> Vec<f64> {
    let mut norms = vec![0.0; block.rows()];
    for coordinate in 0..block.width() {
        for (norm, value) in norms.iter_mut().zip(block.coordinate(coordinate)) {
            *norm += value * value;
        }
    }
    norms
}

/// Squared distances from `row` to every row, from dot products; rounding may take them a little below 0.
pub fn squared_distances(block: &Block, norms: &[f64], row: usize, distances: &mut [f64]) {
    distances.fill(0.0);
    for coordinate in 0..block.width() {
        let values = block.coordinate(coordinate);
        let centre = values[row];
        for (dot, value) in distances.iter_mut().zip(values) {
            *dot += centre * value;
        }
    }
    for (distance, norm) in distances.iter_mut().zip(norms) {
        *distance = -2.0 * *distance + norms[row] + norm;
    }
}

/// The square of the largest f64 below the distance whose square is `squared`: what counts as closer than r_i.
pub fn squared_radius(squared: f64) -> f64 {
    let radius = squared.max(0.0).sqrt();
    let below = if radius > 0.0 { radius.next_down() } else { 0.0 };
    below * below
}
