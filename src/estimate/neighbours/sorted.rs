//! Scalars: neighbours in a sorted column. Distances grow on either side of a point, so the k-th neighbour is found by
//! walking outward and a count by galloping outward with the same predicate.

use std::ops::Range;

use super::{Counts, Place};

/// A column in ascending order.
#[derive(Clone, Debug)]
pub struct Sorted<P> {
    places: Vec<P>,
    rows: Vec<u32>,
    ranks: Vec<u32>,
}

impl<P: Place> Sorted<P> {
    pub fn new(column: &[P]) -> Self {
        let mut rows: Vec<u32> = (0..column.len() as u32).collect();
        rows.sort_unstable_by(|&a, &b| column[a as usize].compare(&column[b as usize]));
        let mut ranks = vec![0; rows.len()];
        for (rank, &row) in rows.iter().enumerate() {
            ranks[row as usize] = rank as u32;
        }
        Self { places: rows.iter().map(|&row| column[row as usize]).collect(), rows, ranks }
    }

    /// Ascending.
    pub fn places(&self) -> &[P] {
        &self.places
    }

    /// The column as it came.
    pub fn in_row_order(&self) -> Vec<P> {
        self.ranks.iter().map(|&rank| self.places[rank as usize]).collect()
    }

    /// The row at each position of [`Self::places`].
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// The position of `row` in [`Self::places`].
    pub fn rank(&self, row: usize) -> usize {
        self.ranks[row] as usize
    }
}

/// Distance from `places[at]` to its `k`-th nearest other place; `places` ascend and hold more than `k`.
pub fn kth_distance<P: Place>(places: &[P], at: usize, k: usize) -> f64 {
    let mut walk = Outward::new(places, at);
    let mut distance = 0.0;
    for _ in 0..k {
        match walk.next() {
            Some((_, next)) => distance = next,
            None => break,
        }
    }
    distance
}

/// The positions of all places closer to `places[at]` than `radius`, itself included even for a radius of 0.
fn within<P: Place>(places: &[P], at: usize, radius: f64) -> Range<usize> {
    let left = gallop(at, 0, |i| places[at - 1 - i].distance(places[at]) < radius);
    let right = gallop(places.len() - at - 1, 0, |i| places[at + 1 + i].distance(places[at]) < radius);
    at - left..at + right + 1
}

/// Counts the other places closer to `places[at]` than `radius`, and those at exactly that distance.
pub fn counts<P: Place>(places: &[P], at: usize, radius: f64) -> Counts {
    let centre = places[at];
    let closer = within(places, at, radius);
    let left = gallop(at, at - closer.start, |i| places[at - 1 - i].distance(centre) <= radius);
    let right = gallop(places.len() - at - 1, closer.end - at - 1, |i| places[at + 1 + i].distance(centre) <= radius);
    Counts { closer: closer.len() - 1, border: left + right + 1 - closer.len() }
}

/// The first i in `from..length` at which `within` is false, or `length`; `within` is true up to some i and false from
/// there on. Takes time logarithmic in the answer's distance from `from`.
fn gallop(length: usize, from: usize, within: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut step) = (from, 1);
    let mut high = loop {
        let probe = low + step - 1;
        if probe >= length {
            break length;
        }
        if !within(probe) {
            break probe;
        }
        low = probe + 1;
        step *= 2;
    };
    while low < high {
        let middle = low + (high - low) / 2;
        if within(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

/// The other places of a sorted column in order of distance from one of them: (position, distance).
struct Outward<'a, P> {
    places: &'a [P],
    at: usize,
    /// The next to the left is `left − 1`, the next to the right is `right`.
    left: usize,
    right: usize,
}

impl<'a, P: Place> Outward<'a, P> {
    fn new(places: &'a [P], at: usize) -> Self {
        Self { places, at, left: at, right: at + 1 }
    }
}

impl<P: Place> Iterator for Outward<'_, P> {
    type Item = (usize, f64);

    fn next(&mut self) -> Option<(usize, f64)> {
        let centre = self.places[self.at];
        let left = self.left.checked_sub(1).map(|i| (i, self.places[i].distance(centre)));
        let right = self.places.get(self.right).map(|place| (self.right, place.distance(centre)));
        match (left, right) {
            (Some(l), Some(r)) if r.1 < l.1 => {
                self.right += 1;
                Some(r)
            }
            (Some(l), _) => {
                self.left -= 1;
                Some(l)
            }
            (None, Some(r)) => {
                self.right += 1;
                Some(r)
            }
            (None, None) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn column() -> impl Strategy<Value = Vec<f64>> {
        let value = prop_oneof![
            (-4..4_i32).prop_map(f64::from),
            any::<f32>().prop_filter("finite", |v| v.is_finite()).prop_map(f64::from),
            Just(0.0),
            Just(f64::from(f32::MIN_POSITIVE) / 4.0),
            Just(1e38),
            Just(-1e38)
        ];
        prop::collection::vec(value, 2..80)
    }

    proptest! {
        #[test]
        fn walking_and_galloping_find_what_a_full_search_finds(column in column(), k in 1_usize..10) {
            let sorted = Sorted::new(&column);
            let k = k.min(column.len() - 1);
            for row in 0..column.len() {
                let mut distances: Vec<f64> = (0..column.len()).filter(|&j| j != row)
                    .map(|j| (column[j] - column[row]).abs()).collect();
                distances.sort_by(f64::total_cmp);
                let at = sorted.rank(row);
                prop_assert_eq!(sorted.rows()[at] as usize, row);
                let radius = kth_distance(sorted.places(), at, k);
                prop_assert_eq!(radius, distances[k - 1]);
                let expected = Counts {
                    closer: distances.iter().filter(|&&d| d < radius).count(),
                    border: distances.iter().filter(|&&d| d == radius).count(),
                };
                prop_assert_eq!(counts(sorted.places(), at, radius), expected);
            }
        }
    }

    #[test]
    fn an_offset_orders_ties_where_a_sum_would_round_it_away() {
        let place = |value, offset| Moved { value, offset };
        use super::super::Moved;
        let near_one = 1.0 - f64::EPSILON / 2.0;
        let column = [place(1.0, 1e-20), place(near_one, 0.0), place(1.0, -1e-20), place(1.0, 3e-20)];
        let sorted = Sorted::new(&column);
        assert_eq!(sorted.rows(), [1, 2, 0, 3]);
        let distance = kth_distance(sorted.places(), sorted.rank(0), 1);
        assert_eq!(distance, 2e-20);
    }
}
