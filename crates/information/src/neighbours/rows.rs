//! Vectors: neighbours from rows of distances. All distances from four rows at a time are computed, block by block of the
//! others, so that what is read serves all four and the loop vectorises; then the closest are selected and sorted. A list
//! serves every label. Exact in any width.
//!
//! Cost: N·d a row. Where a [tree](super::tree) costs less, that is taken.

use crate::width::every_width;

use super::Counts;
use super::lanes::larger;

/// Vectors, one per row, stored by coordinate.
#[derive(Clone, Debug)]
pub struct Block {
    rows: usize,
    width: usize,
    /// From one coordinate to the next: the rows, padded so that all blocks are whole.
    stride: usize,
    /// Coordinate c of row i is at `c·stride + i`.
    values: Vec<f64>,
}

impl Block {
    /// `columns` holds one coordinate after the other, each `rows` long.
    pub fn new(columns: Vec<f64>, rows: usize) -> Self {
        let width = columns.len().checked_div(rows).unwrap_or(0);
        let stride = rows.next_multiple_of(BLOCK);
        let mut values = Vec::with_capacity(width * stride);
        for column in columns.chunks(rows.max(1)) {
            values.extend_from_slice(column);
            values.resize(values.len() + stride - rows, 0.0);
        }
        Self { rows, width, stride, values }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn width(&self) -> usize {
        self.width
    }

    pub fn coordinate(&self, at: usize) -> &[f64] {
        &self.values[at * self.stride..at * self.stride + self.rows]
    }

    /// Raises each of `distances` to the largest distance along any coordinate from `row` to that row.
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

/// Rows whose distances are computed together: what is read for one serves all.
pub const TOGETHER: usize = 4;
/// Distances whose sums stay in registers while the coordinates are summed.
const BLOCK: usize = 16;

impl Block {
    /// Squared Euclidean distances from up to [`TOGETHER`] rows, from `first` on, to every row. No square root: it would
    /// merge distinct distances. Every sum runs in the order of the coordinates, so a distance is the same from both
    /// ends. One row at a time takes twice as long (d = 16, N = 2,048, AVX-512): the block exceeds the first-level cache.
    pub fn squared_euclidean(&self, first: usize, distances: &mut [Vec<f64>; TOGETHER]) {
        squared_euclidean(self, first, distances);
    }
}

every_width! {
fn squared_euclidean(block: &Block, first: usize, distances: &mut [Vec<f64>; TOGETHER]) {
    let Block { values, rows, stride, .. } = block;
    // The last rows of all repeat the very last one.
    let centres = std::array::from_fn::<usize, TOGETHER, _>(|which| (first + which).min(rows - 1));
    distances.iter_mut().for_each(|distances| distances.resize(*stride, 0.0));
    for start in (0..*stride).step_by(BLOCK) {
        let mut sums = [[0.0; BLOCK]; TOGETHER];
        for coordinate in values.chunks_exact(*stride) {
            let mut coordinates = [0.0; BLOCK];
            coordinates.copy_from_slice(&coordinate[start..start + BLOCK]);
            for which in 0..TOGETHER {
                let centre = coordinate[centres[which]];
                for at in 0..BLOCK {
                    let along = coordinates[at] - centre;
                    sums[which][at] += along * along;
                }
            }
        }
        for (distances, sums) in distances.iter_mut().zip(&sums) {
            distances[start..start + BLOCK].copy_from_slice(sums);
        }
    }
    distances.iter_mut().for_each(|distances| distances.truncate(*rows));
}
}

/// The `k`-th smallest distance to another row; `scratch` is overwritten.
pub fn kth_distance(distances: &[f64], row: usize, k: usize, scratch: &mut Vec<f64>) -> f64 {
    scratch.clear();
    scratch.extend_from_slice(&distances[..row]);
    scratch.extend_from_slice(&distances[row + 1..]);
    kth_smallest(scratch, k)
}

/// Counts the other rows closer than `radius` and at it, in the distances from one row.
pub fn counts(distances: &[f64], radius: f64) -> Counts {
    let all = count(distances, radius);
    // The row itself is at distance 0: closer, unless the radius is 0 too.
    let own = usize::from(radius > 0.0);
    Counts { closer: all.closer - own, at_radius: all.at_radius - (1 - own) }
}

/// The `k`-th smallest of `distances`, which are put in another order.
pub fn kth_smallest(distances: &mut [f64], k: usize) -> f64 {
    *distances.select_nth_unstable_by(k - 1, f64::total_cmp).1
}

every_width! {
/// How many of `distances` are below `radius`, and how many equal it.
pub fn count(distances: &[f64], radius: f64) -> Counts {
    let (mut closer, mut at_radius) = (0_u64, 0_u64);
    for &distance in distances {
        closer += u64::from(distance < radius);
        at_radius += u64::from(distance == radius);
    }
    Counts { closer: closer as usize, at_radius: at_radius as usize }
}
}

/// The nearest other rows of a row, in order.
#[derive(Default)]
pub struct Nearest {
    /// (squared distance, row), ascending. Every row that is not among them is farther than the last.
    pub pairs: Vec<(f64, u32)>,
    sampled: Vec<f64>,
    within: Vec<u32>,
}

/// One distance in this many is looked at to guess how far the list must reach.
const SAMPLED: usize = 16;

impl Nearest {
    /// Starts over with the distances from one row, its own being infinite; about `wanted` neighbours or more.
    pub fn fill(&mut self, distances: &[f64], wanted: usize) {
        self.sampled.clear();
        self.sampled.extend(distances.iter().step_by(SAMPLED));
        let guess = wanted / SAMPLED + 2;
        let reach = match guess < self.sampled.len() / 2 {
            true => kth_smallest(&mut self.sampled, guess),
            false => f64::MAX,
        };
        // Every row is written and only those within reach are kept: no branch to predict.
        self.within.resize(distances.len(), 0);
        let mut count = 0;
        for (&distance, row) in distances.iter().zip(0..) {
            self.within[count] = row;
            count += usize::from(distance <= reach);
        }
        self.pairs.clear();
        self.pairs.extend(self.within[..count].iter().map(|&row| (distances[row as usize], row)));
        self.pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_come_in_order_and_none_is_missing() {
        let mut distances: Vec<f64> = (0..1000_u32).map(|i| f64::from(i * 37 % 500)).collect();
        distances[7] = f64::INFINITY;
        let mut expected: Vec<f64> = distances.iter().copied().filter(|distance| distance.is_finite()).collect();
        expected.sort_by(f64::total_cmp);
        for wanted in [1, 30, 200, 5000] {
            let mut nearest = Nearest::default();
            nearest.fill(&distances, wanted);
            let got: Vec<f64> = nearest.pairs.iter().map(|pair| pair.0).collect();
            assert!(got.len() >= wanted.min(20) && got == expected[..got.len()], "{wanted}: {}", got.len());
            assert!(got.last() < expected.get(got.len()).or(Some(&f64::INFINITY)));
            assert!(nearest.pairs.iter().all(|&(distance, row)| distances[row as usize] == distance));
        }
    }

    #[test]
    fn a_row_is_not_its_own_neighbour() {
        let distances = [2.0, 0.0, 0.0, 1.0, 1.0];
        assert_eq!(kth_distance(&distances, 1, 1, &mut Vec::new()), 0.0);
        assert_eq!(counts(&distances, 0.0), Counts { closer: 0, at_radius: 1 });
        assert_eq!(counts(&distances, 1.0), Counts { closer: 1, at_radius: 2 });
        assert_eq!(counts(&distances, 2.0), Counts { closer: 3, at_radius: 1 });
    }

    #[test]
    fn distances_are_the_textbook_ones() {
        let block = Block::new(vec![0.0, 3.0, -1.0, 0.0, 4.0, 0.5], 3);
        let mut distances = Default::default();
        block.squared_euclidean(0, &mut distances);
        assert_eq!(distances[0], [0.0, 25.0, 1.25]);
        assert_eq!(distances[1], [25.0, 0.0, 28.25]);
        let mut distances = [0.0; 3];
        block.join_chebyshev(0, &mut distances);
        assert_eq!(distances, [0.0, 4.0, 1.0]);
    }
}
