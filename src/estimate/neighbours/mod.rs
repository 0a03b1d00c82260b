//! Neighbour searches. All of them give exact distances in f64 and compare a distance with a radius in the arithmetic
//! the radius was computed in, so that the k-th neighbour, which lies on the border, is never miscounted. The exception
//! is [`dot_products`], which repeats a rounding error that published figures carry.

pub mod dot_products;
pub mod rows;
pub mod sorted;
pub mod strips;

use std::cmp::Ordering;

/// A place on a line: a value, or a value with an offset far smaller than its gap to the next value.
pub trait Place: Copy {
    fn distance(self, other: Self) -> f64;
    fn compare(&self, other: &Self) -> Ordering;
}

impl Place for f64 {
    fn distance(self, other: Self) -> f64 {
        (self - other).abs()
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.total_cmp(other)
    }
}

/// A value whose ties are broken by an offset. The two are kept apart because their sum would often round the offset
/// away: near 1, neighbouring f64 values have nothing between them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    pub value: f64,
    pub offset: f64,
}

impl Place for Moved {
    fn distance(self, other: Self) -> f64 {
        ((self.value - other.value) + (self.offset - other.offset)).abs()
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then(self.offset.total_cmp(&other.offset))
    }
}

/// How many other points lie about a point, by their distance to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Closer than the radius.
    pub closer: usize,
    /// At exactly the radius.
    pub border: usize,
}

/// The k smallest distances seen so far, ascending; infinity where there are fewer.
#[derive(Clone, Debug)]
pub struct Closest(Vec<f64>);

impl Closest {
    /// Room for `k` distances, at least 1.
    pub fn new(k: usize) -> Self {
        Self(vec![f64::INFINITY; k.max(1)])
    }

    pub fn clear(&mut self) {
        self.0.fill(f64::INFINITY);
    }

    /// The k-th.
    pub fn last(&self) -> f64 {
        self.0[self.0.len() - 1]
    }

    /// Takes `distance` among them if it is closer than the k-th.
    pub fn insert(&mut self, distance: f64) {
        let mut at = self.0.len() - 1;
        if distance >= self.0[at] {
            return;
        }
        while at > 0 && self.0[at - 1] > distance {
            self.0[at] = self.0[at - 1];
            at -= 1;
        }
        self.0[at] = distance;
    }
}
