//! Vectors: the rows within a radius of a row, from a k-d tree, where that costs less than [`rows`](super::rows) of
//! distances: where rows are many for the dimension that they fill.
//!
//! kiddo's tree holds the leading principal coordinates. Rotating keeps distances, leaving coordinates out only shortens
//! them, and those that vary by less than a search reaches would not prune: so the tree gives a superset of the rows within
//! a radius, which is widened by what rounding may add. Distances computed as in rows decide, so results have the same
//! bits.
//!
//! Cost: N·(log N + d) to build, and for each row the leaves that the ball of its neighbours meets, about 3 along each
//! dimension. Memory: up to 17 + d numbers a row.

use kiddo::{ImmutableKdTree, SquaredEuclidean};

use crate::thresholds;

use super::lanes::larger;
use super::rows::{self, Block, TOGETHER};

/// Coordinates of a tree.
const DIMENSIONS: std::ops::RangeInclusive<usize> = 2..=8;
/// The rows of a block, to be searched.
pub struct Tree {
    points: Box<dyn KdTree>,
    /// Coordinates of row i from `i·width` on.
    values: Vec<f64>,
    width: usize,
    /// The most that rounding may add to the distance of two points in the tree.
    slack: f64,
    typical: f64,
    largest: f64,
}

impl Tree {
    /// `None` where rows of distances are expected to cost less. `neighbours` are about as many as are searched for.
    pub fn new(block: &Block, neighbours: usize) -> Option<Self> {
        let rows = block.rows();
        if !thresholds::may_take_tree(rows, block.width()) {
            return None;
        }
        let surroundings = Surroundings::new(block, neighbours);
        if !thresholds::takes_tree(rows, surroundings.dimension()?) {
            return None;
        }
        let tree = Self::of(block, &surroundings)?;
        let candidates = surroundings.radii.iter().map(|&(row, radius)| tree.candidates(row, radius)).sum::<usize>();
        thresholds::tree_prunes(candidates, surroundings.radii.len(), rows).then_some(tree)
    }

    /// A tree wherever there can be one, for benchmarks and tests.
    pub fn whatever_it_costs(block: &Block, neighbours: usize) -> Option<Self> {
        Self::of(block, &Surroundings::new(block, neighbours))
    }

    /// `None` for values whose squares leave the range of numbers, and where most rows have identical neighbours.
    fn of(block: &Block, surroundings: &Surroundings) -> Option<Self> {
        let (typical, largest) = surroundings.median_and_largest();
        let (rows, width) = (block.rows(), block.width());
        let extent = (0..width).flat_map(|at| block.coordinate(at)).fold(0.0, |most, value| larger(most, value.abs()));
        if !(1e-100..1e100).contains(&extent) || typical == 0.0 {
            return None;
        }
        let axes = principal_axes(block);
        let wide = axes.iter().filter(|axis| axis.variance > typical * MATTERS).count();
        let dimensions = wide.clamp(*DIMENSIONS.start(), (*DIMENSIONS.end()).min(width));
        let points = kd_tree(&project(block, &axes[..dimensions]), dimensions)?;
        let values = (0..rows).flat_map(|row| (0..width).map(move |at| block.coordinate(at)[row])).collect();
        let slack = 16.0 * (width * width) as f64 * f64::EPSILON * extent;
        Some(Self { points, values, width, slack, typical, largest })
    }

    pub fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// All rows, those near each other one after the other.
    pub fn order(&self) -> Vec<u32> {
        self.points.order()
    }

    /// The squared distances from `row` to each of the `others`, as [`Block::squared_euclidean`] gives them.
    pub fn squared_distances(&self, row: usize, others: &[u32], distances: &mut Vec<f64>) {
        let of_row = |row: usize| &self.values[row * self.width..][..self.width];
        let centre = of_row(row);
        let squared = |&other: &u32| {
            let along = of_row(other as usize).iter().zip(centre).map(|(there, here)| there - here);
            along.fold(0.0, |sum, along| sum + along * along)
        };
        distances.clear();
        distances.extend(others.iter().map(squared));
    }

    /// Every other row with a squared distance of at most `radius` from `row`, with that distance, in any order.
    pub fn within(&self, row: usize, radius: f64, found: &mut Within) {
        let Within { candidates, distances, pairs } = found;
        candidates.clear();
        self.points.within(row, widened(radius, self.slack), candidates);
        self.squared_distances(row, candidates, distances);
        pairs.clear();
        let inside = |&(&distance, &other): &(&f64, &u32)| distance <= radius && other as usize != row;
        pairs.extend(
            distances.iter().zip(candidates.iter()).filter(inside).map(|(&distance, &other)| (distance, other)),
        );
    }

    /// The nearest other rows of `row`, ascending: `wanted` or more, where there are as many, and every row that is not
    /// among them is farther than the last. `reach` is the squared radius to begin with, and then to begin with near by.
    pub fn nearest(&self, row: usize, wanted: usize, reach: &mut f64, found: &mut Within) {
        let wanted = wanted.min(self.rows() - 1);
        let mut radius = larger(reach.min(self.largest), self.typical / 16.0);
        loop {
            self.within(row, radius, found);
            if found.pairs.len() >= wanted {
                break;
            }
            radius *= if found.pairs.len() * 2 < wanted { 4.0 } else { 1.5 };
        }
        if found.pairs.len() > wanted {
            let (_, &mut (last, _), _) = found.pairs.select_nth_unstable_by(wanted, |a, b| a.0.total_cmp(&b.0));
            found.pairs.retain(|pair| pair.0 <= last);
        }
        found.pairs.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        *reach = 1.2 * found.pairs[wanted - 1].0;
    }

    /// How many points the tree has within a squared radius of a row.
    fn candidates(&self, row: usize, radius: f64) -> usize {
        let mut candidates = Vec::new();
        self.points.within(row, widened(radius, self.slack), &mut candidates);
        candidates.len()
    }

    /// A radius to begin with.
    pub fn typical(&self) -> f64 {
        self.typical
    }
}

/// The result of a search, whose buffers are kept from one to the next.
#[derive(Default)]
pub struct Within {
    /// (squared distance, row).
    pub pairs: Vec<(f64, u32)>,
    candidates: Vec<u32>,
    distances: Vec<f64>,
}

/// A squared radius by which no point is missed whose distance in the tree is too large by rounding.
fn widened(radius: f64, slack: f64) -> f64 {
    let radius = radius.sqrt() * (1.0 + 1e-9) + slack;
    radius * radius
}

/// A k-d tree of some number of coordinates.
trait KdTree: Send + Sync {
    /// Adds the points within a squared radius of one of them, itself too.
    fn within(&self, of: usize, radius: f64, found: &mut Vec<u32>);
    /// All points, leaf by leaf.
    fn order(&self) -> Vec<u32>;
}

struct Projected<const D: usize> {
    tree: ImmutableKdTree<f64, D>,
    points: Vec<[f64; D]>,
}

impl<const D: usize> Projected<D> {
    /// Builds a tree from coordinates that follow each other point by point.
    fn boxed(values: &[f64]) -> Option<Box<dyn KdTree>> {
        let points = values.as_chunks::<D>().0.to_vec();
        let tree = ImmutableKdTree::new_from_slice(&points).ok()?;
        Some(Box::new(Self { tree, points }))
    }
}

impl<const D: usize> KdTree for Projected<D> {
    fn within(&self, of: usize, radius: f64, found: &mut Vec<u32>) {
        let search = self.tree.query(&self.points[of]).within::<SquaredEuclidean<f64>>(radius);
        search.unsorted().visit(|point| found.push(point.item));
    }

    fn order(&self) -> Vec<u32> {
        self.tree.iter().map(|(item, _)| item).collect()
    }
}

/// A tree of `dimensions` coordinates; `None` where kiddo makes none.
fn kd_tree(values: &[f64], dimensions: usize) -> Option<Box<dyn KdTree>> {
    match dimensions {
        2 => Projected::<2>::boxed(values),
        3 => Projected::<3>::boxed(values),
        4 => Projected::<4>::boxed(values),
        5 => Projected::<5>::boxed(values),
        6 => Projected::<6>::boxed(values),
        7 => Projected::<7>::boxed(values),
        8 => Projected::<8>::boxed(values),
        _ => None,
    }
}

/// The surroundings of some of the rows.
struct Surroundings {
    /// Rows, each with the squared radius of the neighbours searched for.
    radii: Vec<(usize, f64)>,
    /// Neighbours within these, and within those of the inner radii.
    neighbours: [usize; 2],
    /// ln(radius / inner radius), of rows whose inner radius is not 0.
    growth: Vec<f64>,
}

/// Groups of [`TOGETHER`] rows that are looked at.
const GROUPS: usize = 8;
/// The radius of a share of the neighbours is compared with that of all.
const INNER: usize = 4;
/// Fewer neighbours than this say little.
const LEAST_NEIGHBOURS: usize = 16;

impl Surroundings {
    fn new(block: &Block, neighbours: usize) -> Self {
        let rows = block.rows();
        let outer = neighbours.max(LEAST_NEIGHBOURS).min(rows - 1);
        let inner = outer.div_ceil(INNER);
        let (mut together, mut nearest) = (Default::default(), Vec::new());
        let (mut radii, mut growth) = (Vec::new(), Vec::new());
        for group in 0..GROUPS {
            let first = group * rows.saturating_sub(TOGETHER) / GROUPS;
            block.squared_euclidean(first, &mut together);
            for (row, distances) in (first..rows).zip(&together) {
                let radius = rows::kth_distance(distances, row, outer, &mut nearest);
                let inside = rows::kth_smallest(&mut nearest[..outer], inner);
                radii.push((row, radius));
                growth.extend((inside > 0.0).then(|| 0.5 * (radius / inside).ln()));
            }
        }
        Self { radii, neighbours: [outer, inner], growth }
    }

    /// How many dimensions the rows fill, from how the number of neighbours grows with the radius; `None` where all have
    /// identical neighbours.
    fn dimension(&self) -> Option<f64> {
        let [outer, inner] = self.neighbours;
        let mean = self.growth.iter().sum::<f64>() / self.growth.len() as f64;
        (!self.growth.is_empty()).then(|| (outer as f64 / inner as f64).ln() / mean)
    }

    fn median_and_largest(&self) -> (f64, f64) {
        let mut radii: Vec<f64> = self.radii.iter().map(|sample| sample.1).collect();
        radii.sort_unstable_by(f64::total_cmp);
        (radii[radii.len() / 2], radii[radii.len() - 1])
    }
}

/// A direction in which rows vary.
struct Axis {
    variance: f64,
    direction: Vec<f64>,
}

/// Rows that axes are found from.
const ROWS_OF_AXES: usize = 1024;
/// An axis is worth a coordinate of the tree where its variance is more than this share of the squared radius.
const MATTERS: f64 = 0.25;

/// The principal axes of some of the rows, the longest first. Any orthonormal axes serve, these prune best.
fn principal_axes(block: &Block) -> Vec<Axis> {
    let width = block.width();
    let step = block.rows().div_ceil(ROWS_OF_AXES);
    let columns: Vec<Vec<f64>> = (0..width)
        .map(|at| {
            let mut column: Vec<f64> = block.coordinate(at).iter().step_by(step).copied().collect();
            let mean = column.iter().sum::<f64>() / column.len() as f64;
            column.iter_mut().for_each(|value| *value -= mean);
            column
        })
        .collect();
    let covariance = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>() / a.len() as f64;
    let mut matrix: Vec<Vec<f64>> =
        columns.iter().map(|a| columns.iter().map(|b| covariance(a, b)).collect()).collect();
    let mut directions: Vec<Vec<f64>> =
        (0..width).map(|at| (0..width).map(|i| f64::from(u8::from(i == at))).collect()).collect();
    for _ in 0..SWEEPS {
        for (p, q) in (0..width).flat_map(|q| (0..q).map(move |p| (p, q))) {
            rotate(&mut matrix, &mut directions, p, q);
        }
    }
    let axis = |(at, direction): (usize, Vec<f64>)| Axis { variance: matrix[at][at], direction };
    let mut axes: Vec<Axis> = directions.into_iter().enumerate().map(axis).collect();
    axes.sort_by(|a, b| b.variance.total_cmp(&a.variance));
    axes
}

/// The sweeps of Jacobi's method, which then has the axes to far more digits than matter.
const SWEEPS: usize = 6;

/// Rotates two axes so that the symmetric `matrix` has a 0 at p, q: one step of Jacobi's method.
fn rotate(matrix: &mut [Vec<f64>], directions: &mut [Vec<f64>], p: usize, q: usize) {
    if matrix[p][q] == 0.0 {
        return;
    }
    let slope = (matrix[q][q] - matrix[p][p]) / (2.0 * matrix[p][q]);
    let tangent = slope.signum() / (slope.abs() + slope.hypot(1.0));
    let cosine = 1.0 / tangent.hypot(1.0);
    let sine = tangent * cosine;
    let turn = |a: &mut f64, b: &mut f64| (*a, *b) = (cosine * *a - sine * *b, sine * *a + cosine * *b);
    for row in matrix.iter_mut() {
        let (mut a, mut b) = (row[p], row[q]);
        turn(&mut a, &mut b);
        (row[p], row[q]) = (a, b);
    }
    for rows in [matrix, directions] {
        let (before, behind) = rows.split_at_mut(q);
        before[p].iter_mut().zip(&mut behind[0]).for_each(|(a, b)| turn(a, b));
    }
}

/// The rows along `axes`, point by point.
fn project(block: &Block, axes: &[Axis]) -> Vec<f64> {
    let dimensions = axes.len();
    let mut points = vec![0.0; block.rows() * dimensions];
    for coordinate in 0..block.width() {
        let values = block.coordinate(coordinate);
        let middle = values[0];
        for (point, value) in points.chunks_exact_mut(dimensions).zip(values) {
            for (along, axis) in point.iter_mut().zip(axes) {
                *along += axis.direction[coordinate] * (value - middle);
            }
        }
    }
    points
}
