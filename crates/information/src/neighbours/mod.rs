//! Neighbour searches. All of them give exact distances in f64 and compare a distance with a radius in the arithmetic
//! the radius was computed in, so that the k-th neighbour, which is on the boundary, is never miscounted. The exception
//! is [`dot_products`], which repeats a rounding error that published figures carry.

pub mod boundary;
pub mod by_class;
pub mod count_within;
pub mod dot_products;
pub mod knn_lanes;
pub mod lanes;
pub mod padded;
pub mod rows;
pub mod search;
pub mod sorted;
pub mod sorted_pair;
pub mod strips;
pub mod tree;

/// How many other points are about a point, by their distance to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Closer than the radius.
    pub closer: usize,
    /// At exactly the radius.
    pub at_radius: usize,
}
