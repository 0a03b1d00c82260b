//! Scalars with classes: the distance to the k-th nearest value of the same class.
//!
//! In the order of its class that value is among the k before and the k behind, and distances grow on either side: the k-th
//! is the least, over all splits of k into i and k − i, of the larger of the i-th distance before and the (k − i)-th behind.
//! Sixteen values that follow each other in their class search together, and all reads are contiguous.
//!
//! Cost: k + 1 splits a value.

use crate::width::every_width;

use super::lanes::{LANES, Real, contiguous, larger};

/// The distance from each of `values`, which ascend, to the k-th nearest other value of its class, longer than the values
/// by [`LANES`]. `of` holds the class of each value, `sizes` their sizes and `neighbours` their k, at least 1 and below
/// the size for each class that occurs.
pub fn radii<T: Real>(values: &[T], of: &[u32], sizes: &[u32], neighbours: &[usize]) -> Vec<T> {
    let largest = neighbours.iter().copied().max().unwrap_or(0);
    // Class behind class, with room between them that is infinitely far from all.
    let gap = largest + LANES;
    let mut next = Vec::with_capacity(sizes.len());
    let mut end = 0;
    for &size in sizes {
        next.push(end + gap);
        end += gap + size as usize;
    }
    let starts = next.clone();
    let mut own = vec![T::INFINITY; end + gap];
    let mut from = vec![0_u32; end + gap];
    for ((&value, &class), at) in values.iter().zip(of).zip(0..) {
        let slot = &mut next[class as usize];
        own[*slot] = value;
        from[*slot] = at;
        *slot += 1;
    }
    let mut radii = vec![T::default(); values.len() + LANES];
    for ((&start, &end), &k) in starts.iter().zip(&next).zip(neighbours).filter(|class| *class.1 > 0) {
        search(&own[start - k..end + k + LANES], &from[start..end], k, &mut radii);
    }
    radii
}

every_width! {
/// `own` has k infinite values before those of the class, and k and [`LANES`] behind.
fn search<T: Real>(own: &[T], from: &[u32], k: usize, radii: &mut [T]) {
    for (group, from) in from.chunks(LANES).enumerate() {
        let around = &own[group * LANES..group * LANES + LANES + 2 * k];
        let centres: [T; LANES] = contiguous(&around[k..]);
        let distances = |offset: usize| {
            let mut distances: [T; LANES] = contiguous(&around[offset..]);
            for lane in 0..LANES {
                distances[lane] = (distances[lane] - centres[lane]).abs();
            }
            distances
        };
        let mut nearest = [T::INFINITY; LANES];
        for before in 0..=k {
            // No value on a side: the value itself, at distance 0, takes its position.
            let (left, right) = (distances(k - before), distances(2 * k - before));
            for lane in 0..LANES {
                let farther = larger(left[lane], right[lane]);
                nearest[lane] = if farther < nearest[lane] { farther } else { nearest[lane] };
            }
        }
        for (lane, &at) in from.iter().enumerate() {
            radii[at as usize] = nearest[lane];
        }
    }
}
}
