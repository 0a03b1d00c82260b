//! The search over all points, for tests of the searches that look at few of them.

use super::knn_lanes::Found;
use super::sorted_pair::Plane;

/// Asserts that the result found for a position is that of the search over all points.
pub fn assert_nearest(plane: &Plane<f32>, at: usize, k: usize, found: &Found<f32>) {
    let [centre_x, centre_y] = [plane.x()[at], plane.across()[at]];
    let to = |(&x, &y): (&f32, &f32)| (x - centre_x).abs().max((y - centre_y).abs());
    let mut distances: Vec<f32> = plane.x().iter().zip(plane.across()).map(to).collect();
    // The point itself is at 0.
    let radius = *distances.select_nth_unstable_by(k, f32::total_cmp).1;
    assert_eq!(found.radii[at], radius, "position {at}");
    let inside = distances.iter().filter(|&&distance| distance < radius).count().saturating_sub(1);
    assert_eq!(found.at_radius[at] as usize, k - inside, "position {at}");
}
