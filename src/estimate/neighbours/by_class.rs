//! Scalars with classes: the distance to the k-th nearest place of the same class.
//!
//! In the order of its class that place is among the k before and the k behind, so sixteen places that follow each other
//! in their class search together: 2k contiguous reads, the k best of them kept by minima and maxima.
//!
//! Cost: linear in the places for a fixed k.

// A loop over lanes steps through several arrays at once; indices keep it in the shape that becomes vectors.
#![allow(clippy::needless_range_loop)]

use crate::estimate::width::every_width;

use super::lanes::{LANES, Real, insert};

/// The distance from each of `places`, which ascend, to the k-th nearest other place of its class, longer than the places
/// by [`LANES`]. `of` holds the class of each place, `sizes` their sizes and `neighbours` their k, at least 1 and below
/// the size for each class that occurs.
pub fn radii<T: Real>(places: &[T], of: &[u32], sizes: &[u32], neighbours: &[usize]) -> Vec<T> {
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
    for ((&place, &class), at) in places.iter().zip(of).zip(0..) {
        let slot = &mut next[class as usize];
        own[*slot] = place;
        from[*slot] = at;
        *slot += 1;
    }
    let mut radii = vec![T::default(); places.len() + LANES];
    for ((&start, &end), &k) in starts.iter().zip(&next).zip(neighbours).filter(|class| *class.1 > 0) {
        let (own, from) = (&own[start - k..end + k + LANES], &from[start..end]);
        match k {
            3 => search::<T, [[T; LANES]; 3]>(own, from, [[T::INFINITY; LANES]; 3], &mut radii),
            _ => search(own, from, vec![[T::INFINITY; LANES]; k], &mut radii),
        }
    }
    radii
}

every_width! {
/// `own` has k infinitely far places before those of the class, and k and [`LANES`] behind.
fn search<T: Real, B: AsMut<[[T; LANES]]> + Clone>(own: &[T], from: &[u32], empty: B, radii: &mut [T]) {
    for (group, from) in from.chunks(LANES).enumerate() {
        let mut nearest = empty.clone();
        let nearest = nearest.as_mut();
        let k = nearest.len();
        let around = &own[group * LANES..group * LANES + LANES + 2 * k];
        for offset in (0..k).chain(k + 1..=2 * k) {
            let mut distance = [T::default(); LANES];
            for lane in 0..LANES {
                distance[lane] = (around[lane + offset] - around[lane + k]).abs();
            }
            insert(nearest, distance);
        }
        for (lane, &at) in from.iter().enumerate() {
            radii[at as usize] = nearest[k - 1][lane];
        }
    }
}
}
