//! Vectors: neighbours from rows of distances. For one point all N distances are computed, coordinate after coordinate
//! so that the loop vectorises, and the closest are selected and sorted as far as they are asked for. Exact in any
//! width. A list once made serves every label column.
//!
//! A k-d tree was measured for 2 to 8 coordinates: kiddo 6.3, `ImmutableKdTree`, the nearest 28 of N = 2,000 Gaussian
//! points, which is what a few labels need, for every point. It gives the same bits, also with 900 identical points,
//! but takes 14 ms for 2 coordinates, 23 ms for 4 and 68 ms for 8; rows take 17, 19 and 23 ms with the estimates of four
//! labels included, whatever the classes' sizes. So trees serve as an oracle of the tests only.

use super::Counts;
use super::lanes::larger;

/// Vectors, one per row, stored by coordinate.
#[derive(Clone, Debug)]
pub struct Block {
    rows: usize,
    width: usize,
    /// Coordinate c of row i is at `c·rows + i`.
    values: Vec<f64>,
}

impl Block {
    /// `columns` hold the coordinates one behind the other, each `rows` long.
    pub fn new(columns: Vec<f64>, rows: usize) -> Self {
        let width = columns.len().checked_div(rows).unwrap_or(0);
        Self { rows, width, values: columns }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn coordinate(&self, at: usize) -> &[f64] {
        &self.values[at * self.rows..(at + 1) * self.rows]
    }

    /// The largest distance along any coordinate, from `row` to every row, joined to `distances` by the maximum.
    pub fn join_chebyshev(&self, row: usize, distances: &mut [f64]) {
        for coordinate in 0..self.width {
            let values = self.coordinate(coordinate);
            let centre = values[row];
            for (distance, value) in distances.iter_mut().zip(values) {
                *distance = larger(*distance, (value - centre).abs());
            }
        }
    }
}

/// Distances of one chunk stay in the first-level cache while the coordinates are added up.
const CHUNK: usize = 512;

impl Block {
    /// Squared Euclidean distance from `row` to every row. No square root: it would merge distinct distances. Every
    /// pair is added up in the order of its coordinates, so the distance is the same from both ends.
    pub fn squared_euclidean(&self, row: usize, distances: &mut [f64]) {
        for (chunk, distances) in distances.chunks_mut(CHUNK).enumerate() {
            distances.fill(0.0);
            let start = chunk * CHUNK;
            for coordinate in 0..self.width {
                let values = self.coordinate(coordinate);
                let centre = values[row];
                for (distance, value) in distances.iter_mut().zip(&values[start..]) {
                    let along = value - centre;
                    *distance += along * along;
                }
            }
        }
    }
}

/// The `k`-th smallest distance to another row; `scratch` is overwritten.
pub fn kth_distance(distances: &[f64], row: usize, k: usize, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend_from_slice(&distances[..row]);
    scratch.extend_from_slice(&distances[row + 1..]);
    *scratch.select_nth_unstable_by(k - 1, f64::total_cmp).1
}

/// Counts the other rows closer than `radius` and at it, in the distances from one row.
pub fn counts(distances: &[f64], radius: f64) -> Counts {
    let closer = distances.iter().filter(|&&d| d < radius).count();
    let border = distances.iter().filter(|&&d| d == radius).count();
    // The row itself is at distance 0: closer, unless the radius is 0 too.
    let own = usize::from(radius > 0.0);
    Counts { closer: closer - own, border: border - (1 - own) }
}

/// The other rows in order of their distance, sorted only as far as they are looked at.
#[derive(Default)]
pub struct Nearest {
    /// (distance, row). Up to `sorted` in order; none behind is closer than any before.
    pairs: Vec<(f64, u32)>,
    sorted: usize,
    ahead: usize,
}

impl Nearest {
    /// Starts over with the distances from `row`; about `ahead` neighbours are expected to be needed.
    pub fn reset(&mut self, row: usize, distances: &[f64], ahead: usize) {
        self.pairs.clear();
        self.pairs.extend(distances.iter().zip(0..).map(|(&distance, other)| (distance, other)));
        self.pairs.swap_remove(row);
        self.sorted = 0;
        self.ahead = ahead.max(1);
    }

    /// The neighbour at position `at` from the nearest: (distance, row).
    pub fn get(&mut self, at: usize) -> Option<(f64, u32)> {
        while at >= self.sorted && self.sorted < self.pairs.len() {
            let rest = &mut self.pairs[self.sorted..];
            let take = self.ahead.min(rest.len());
            let by_distance = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0);
            if take < rest.len() {
                rest.select_nth_unstable_by(take - 1, by_distance);
            }
            rest[..take].sort_unstable_by(by_distance);
            self.sorted += take;
            self.ahead *= 2;
        }
        self.pairs.get(at).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_come_in_order_however_few_are_sorted_at_a_time() {
        let distances: Vec<f64> = (0..100_u32).map(|i| f64::from(i * 37 % 50)).collect();
        let mut expected: Vec<f64> = distances.clone();
        expected.remove(7);
        expected.sort_by(f64::total_cmp);
        for ahead in [1, 3, 64, 1000] {
            let mut nearest = Nearest::default();
            nearest.reset(7, &distances, ahead);
            let got: Vec<(f64, u32)> = (0..).map_while(|at| nearest.get(at)).collect();
            assert_eq!(got.iter().map(|pair| pair.0).collect::<Vec<_>>(), expected);
            assert!(got.iter().all(|&(distance, row)| row != 7 && distances[row as usize] == distance));
        }
    }

    #[test]
    fn a_row_is_not_its_own_neighbour() {
        let distances = [2.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(kth_distance(&distances, 1, 1, &mut Vec::new()), 0.0);
        assert_eq!(counts(&distances, 0.0), Counts { closer: 0, border: 1 });
        assert_eq!(counts(&distances, 1.0), Counts { closer: 1, border: 2 });
        assert_eq!(counts(&distances, 2.0), Counts { closer: 3, border: 1 });
    }

    #[test]
    fn distances_are_the_textbook_ones() {
        let block = Block::new(vec![0.0, 3.0, -1.0, 0.0, 4.0, 0.5], 3);
        let mut distances = [0.0; 3];
        block.squared_euclidean(0, &mut distances);
        assert_eq!(distances, [0.0, 25.0, 1.25]);
        let mut distances = [0.0; 3];
        block.join_chebyshev(0, &mut distances);
        assert_eq!(distances, [0.0, 4.0, 1.0]);
    }
}
