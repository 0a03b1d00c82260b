//! The columns that estimators work on. A variable is built once for a sample and holds what several estimates share:
//! class counts, sorted order, ties.

mod parts;

use std::cmp::Ordering;
use std::sync::{Arc, OnceLock};

use super::key::Key;
use super::levels::Levels;
use super::neighbours::rows::Block;
use super::neighbours::sorted::Sorted;
use super::noise::Source;
use super::spread::{root_mean_square, spread};
use super::undefined::Undefined;

/// A column of a sample, as the estimators see it.
#[derive(Clone, Debug)]
pub enum Variable {
    Discrete(Discrete),
    Scalar(Scalar),
    Vector(Vector),
}

impl Variable {
    /// Classes, one per row; any numbers, they need not be consecutive.
    pub fn discrete(codes: &[i32]) -> Self {
        Self::Discrete(Discrete::new(codes))
    }

    /// One value per row. `ids` are the rows' identities, as long as `values`. Panics if it is not.
    pub fn scalar(values: Vec<f64>, ids: &Arc<[u64]>, key: Key) -> Self {
        Self::Scalar(Scalar::new(values, ids, key))
    }

    /// A vector of `width` values per row, row-major. A vector of width 1 becomes a scalar. Panics if `values` is not
    /// `width` values for each of `ids`, or `width` is 0.
    pub fn vector(values: &[f64], width: usize, ids: &Arc<[u64]>, key: Key) -> Self {
        match width {
            1 => Self::scalar(values.to_vec(), ids, key),
            _ => Self::Vector(Vector::new(values, width, ids, key)),
        }
    }

    /// N.
    pub fn rows(&self) -> usize {
        match self {
            Self::Discrete(v) => v.classes.len(),
            Self::Scalar(v) => v.values.len(),
            Self::Vector(v) => v.block.rows(),
        }
    }

    /// Share of rows whose value (for vectors: the whole vector) equals that of another row, 0 to 1. For a discrete
    /// variable, where equal values are the rule, the same share.
    pub fn tie_fraction(&self) -> f64 {
        let tied = match self {
            Self::Discrete(v) => v.sizes.iter().filter(|&&size| size > 1).map(|&size| size as usize).sum(),
            Self::Scalar(v) => v.tied(),
            Self::Vector(v) => v.tied(),
        };
        tied as f64 / self.rows().max(1) as f64
    }
}

/// Classes numbered from 0 in ascending order of their codes.
#[derive(Clone, Debug)]
pub struct Discrete {
    classes: Vec<u32>,
    sizes: Vec<u32>,
    members: OnceLock<Members>,
}

/// The rows of each class, class behind class, and where each starts.
#[derive(Clone, Debug)]
struct Members {
    rows: Vec<u32>,
    starts: Vec<u32>,
}

impl Discrete {
    fn new(codes: &[i32]) -> Self {
        let mut distinct = codes.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let mut sizes = vec![0; distinct.len()];
        let classes = codes
            .iter()
            .map(|code| {
                // Every code is among the distinct ones, so its own is where the smaller ones end.
                let class = distinct.partition_point(|other| other < code);
                sizes[class] += 1;
                class as u32
            })
            .collect();
        Self { classes, sizes, members: OnceLock::new() }
    }

    /// The class of each row.
    pub fn classes(&self) -> &[u32] {
        &self.classes
    }

    /// The rows of each class; none is empty.
    pub fn sizes(&self) -> &[u32] {
        &self.sizes
    }

    /// The rows of a class, ascending.
    pub fn members(&self, class: usize) -> &[u32] {
        let Members { rows, starts } = self.members.get_or_init(|| {
            let mut starts = vec![0];
            starts.extend(self.sizes.iter().scan(0, |end, size| {
                *end += size;
                Some(*end)
            }));
            let mut next = starts.clone();
            let mut rows = vec![0; self.classes.len()];
            for (&class, row) in self.classes.iter().zip(0..) {
                rows[next[class as usize] as usize] = row;
                next[class as usize] += 1;
            }
            Members { rows, starts }
        });
        &rows[starts[class] as usize..starts[class + 1] as usize]
    }
}

/// A continuous variable of either shape.
#[derive(Clone, Copy)]
pub enum Continuous<'a> {
    Scalar(&'a Scalar),
    Vector(&'a Vector),
}

impl<'a> Continuous<'a> {
    pub fn rows(self) -> usize {
        match self {
            Self::Scalar(scalar) => scalar.values.len(),
            Self::Vector(vector) => vector.block.rows(),
        }
    }

    pub fn key(self) -> Key {
        match self {
            Self::Scalar(scalar) => scalar.key,
            Self::Vector(vector) => vector.key,
        }
    }

    /// Why nothing can be estimated from these values, whatever they are paired with.
    pub fn fault(self) -> Option<Undefined> {
        let known = match self {
            Self::Scalar(scalar) => &scalar.fault,
            Self::Vector(vector) => &vector.fault,
        };
        *known.get_or_init(|| {
            let mut values = self.coordinates().flatten();
            if !values.all(|value| value.is_finite()) {
                return Some(Undefined::NotFinite);
            }
            // Differences of values are then finite too.
            if !self.coordinates().flatten().map(|value| value.abs()).sum::<f64>().is_finite() {
                return Some(Undefined::TooLarge);
            }
            let constant = |values: &[f64]| values.iter().all(|value| value == &values[0]);
            self.coordinates().all(constant).then_some(Undefined::Constant)
        })
    }

    /// The standard deviation without outliers: see [`spread`]. Of a vector the root mean square over its coordinates,
    /// which are in one unit.
    pub fn spread(self) -> f64 {
        match self {
            Self::Scalar(scalar) => *scalar.spread.get_or_init(|| match scalar.compact() {
                Some(sorted) => spread(&sorted.values().iter().map(|&value| f64::from(value)).collect::<Vec<_>>()),
                None => spread(scalar.sorted().values()),
            }),
            Self::Vector(vector) => *vector.spread.get_or_init(|| {
                let spreads = self.coordinates().map(|values| spread(Sorted::new(values).values()));
                root_mean_square(&spreads.collect::<Vec<_>>())
            }),
        }
    }

    /// The columns, one for a scalar.
    pub fn coordinates(self) -> impl Iterator<Item = &'a [f64]> {
        let width = match self {
            Self::Scalar(_) => 1,
            Self::Vector(vector) => vector.block.width(),
        };
        (0..width).map(move |at| match self {
            Self::Scalar(scalar) => scalar.values.as_slice(),
            Self::Vector(vector) => vector.block.coordinate(at),
        })
    }

    /// Rows whose value equals that of another row.
    pub fn tied(self) -> usize {
        match self {
            Self::Scalar(scalar) => scalar.tied(),
            Self::Vector(vector) => vector.tied(),
        }
    }
}

/// A column of one number per row.
#[derive(Clone, Debug)]
pub struct Scalar {
    values: Vec<f64>,
    ids: Arc<[u64]>,
    key: Key,
    sorted: OnceLock<Box<Sorted<f64>>>,
    compact: OnceLock<Option<Sorted<f32>>>,
    levels: OnceLock<Option<Box<Levels>>>,
    tied: OnceLock<usize>,
    spread: OnceLock<f64>,
    fault: OnceLock<Option<Undefined>>,
}

impl Scalar {
    fn new(values: Vec<f64>, ids: &Arc<[u64]>, key: Key) -> Self {
        assert_eq!(values.len(), ids.len(), "a column has one value for each row id");
        Self {
            values: values.into_iter().map(without_sign_of_zero).collect(),
            ids: Arc::clone(ids),
            key,
            sorted: OnceLock::new(),
            compact: OnceLock::new(),
            levels: OnceLock::new(),
            tied: OnceLock::new(),
            spread: OnceLock::new(),
            fault: OnceLock::new(),
        }
    }

    pub fn values(&self) -> &[f64] {
        &self.values
    }

    pub fn key(&self) -> Key {
        self.key
    }

    pub fn sorted(&self) -> &Sorted<f64> {
        self.sorted.get_or_init(|| Box::new(Sorted::new(&self.values)))
    }

    /// Rows whose value equals that of another row.
    pub fn tied(&self) -> usize {
        *self.tied.get_or_init(|| match self.compact() {
            Some(sorted) => count_tied(sorted.values(), |a, b| a == b),
            None => count_tied(self.sorted().values(), |a, b| a == b),
        })
    }

    /// The rows in ascending order of their values; equal ones keep their order.
    pub fn ascending(&self) -> &[u32] {
        self.compact().map_or_else(|| self.sorted().rows(), Sorted::rows)
    }

    /// The column in float32, where it loses nothing by it.
    pub fn compact(&self) -> Option<&Sorted<f32>> {
        let narrow = || {
            let values: Vec<f32> = self.values.iter().map(|&value| value as f32).collect();
            let exact = values.iter().zip(&self.values).all(|(&narrow, &value)| f64::from(narrow) == value);
            exact.then(|| Sorted::new(&values))
        };
        self.compact.get_or_init(narrow).as_ref()
    }

    /// The distinct values, where they are few.
    pub fn levels(&self) -> Option<&Levels> {
        let of_sorted = || match self.compact() {
            Some(sorted) => Levels::new(sorted),
            None => Levels::new(self.sorted()),
        };
        self.levels.get_or_init(|| of_sorted().map(Box::new)).as_deref()
    }

    /// The column with the published estimator's noise: Gaussian, of scale 10⁻¹⁰·|mean|.
    pub fn with_noise(&self, seed: u64, side: usize, repeat: usize, other: Option<Key>) -> Vec<f64> {
        let source = Source::new(seed, self.key, side, repeat, other);
        add_noise(&self.values, &self.ids, NOISE * mean(self.sorted().values()).abs(), source)
    }
}

/// A column of one vector per row.
#[derive(Clone, Debug)]
pub struct Vector {
    block: Block,
    ids: Arc<[u64]>,
    key: Key,
    tied: OnceLock<usize>,
    spread: OnceLock<f64>,
    fault: OnceLock<Option<Undefined>>,
}

impl Vector {
    fn new(values: &[f64], width: usize, ids: &Arc<[u64]>, key: Key) -> Self {
        assert!(width > 0, "a vector has at least one coordinate");
        assert_eq!(values.len(), ids.len() * width, "a column has one vector for each row id");
        let columns = (0..width)
            .flat_map(|at| values.iter().skip(at).step_by(width).map(|&value| without_sign_of_zero(value)))
            .collect();
        Self::of_block(Block::new(columns, ids.len()), Arc::clone(ids), key)
    }

    fn of_block(block: Block, ids: Arc<[u64]>, key: Key) -> Self {
        Self { block, ids, key, tied: OnceLock::new(), spread: OnceLock::new(), fault: OnceLock::new() }
    }

    pub fn block(&self) -> &Block {
        &self.block
    }

    pub fn key(&self) -> Key {
        self.key
    }

    /// Rows whose vector equals that of another row.
    pub fn tied(&self) -> usize {
        *self.tied.get_or_init(|| {
            let compare = |&a: &u32, &b: &u32| {
                (0..self.block.width())
                    .map(|at| self.block.coordinate(at))
                    .map(|values| values[a as usize].total_cmp(&values[b as usize]))
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            };
            let mut rows: Vec<u32> = (0..self.block.rows() as u32).collect();
            rows.sort_unstable_by(compare);
            count_tied(&rows, |a, b| compare(a, b).is_eq())
        })
    }

    /// The block with the published estimator's noise: Gaussian, of scale 10⁻¹⁰ times the block's |mean|.
    pub fn with_noise(&self, seed: u64, side: usize, repeat: usize, other: Option<Key>) -> Block {
        let coordinates = || (0..self.block.width()).map(|at| self.block.coordinate(at));
        let scale = NOISE
            * (coordinates().map(|values| mean(Sorted::new(values).values())).sum::<f64>() / self.block.width() as f64)
                .abs();
        let columns = coordinates().enumerate().flat_map(|(at, values)| {
            let source = Source::new(seed, self.coordinate_key(at), side, repeat, other);
            add_noise(values, &self.ids, scale, source)
        });
        Block::new(columns.collect(), self.block.rows())
    }

    fn coordinate_key(&self, at: usize) -> Key {
        Key { coordinate: self.key.coordinate.wrapping_add(at as u64), ..self.key }
    }
}

/// Scale of the published estimator's noise, relative to the mean.
const NOISE: f64 = 1e-10;

/// −0 and +0 are the same value; adding +0 makes them the same bits.
fn without_sign_of_zero(value: f64) -> f64 {
    value + 0.0
}

/// In ascending order, so that the order of the rows has no influence on the last bit.
fn mean(sorted: &[f64]) -> f64 {
    sorted.iter().sum::<f64>() / sorted.len() as f64
}

fn add_noise(values: &[f64], ids: &[u64], scale: f64, source: Source) -> Vec<f64> {
    values.iter().zip(ids).map(|(value, &id)| value + scale * source.gaussian(id)).collect()
}

/// Members of runs longer than 1 among neighbours in a sorted list.
fn count_tied<T>(sorted: &[T], equal: impl Fn(&T, &T) -> bool) -> usize {
    sorted.chunk_by(equal).map(<[T]>::len).filter(|&length| length > 1).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: Key = Key { tensor: 0, coordinate: 0 };

    fn ids(n: u64) -> Arc<[u64]> {
        (0..n).collect()
    }

    #[test]
    fn tie_fraction_is_the_share_of_values_that_are_not_alone() {
        assert_eq!(Variable::scalar(vec![0.0, -0.0, 1.0, 2.0], &ids(4), KEY).tie_fraction(), 0.5);
        assert_eq!(Variable::scalar(vec![3.0, 1.0, 2.0], &ids(3), KEY).tie_fraction(), 0.0);
        assert_eq!(Variable::vector(&[0.0, 1.0, 0.0, 1.0, 0.0, 2.0], 2, &ids(3), KEY).tie_fraction(), 2.0 / 3.0);
        assert_eq!(Variable::discrete(&[5, 5, 7]).tie_fraction(), 2.0 / 3.0);
        assert_eq!(Variable::scalar(Vec::new(), &ids(0), KEY).tie_fraction(), 0.0);
    }

    #[test]
    fn noise_has_the_scale_of_the_mean_of_column_or_block() {
        let spread = |values: &[f64], clean: &[f64]| {
            (values.iter().zip(clean).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
        };
        let values = vec![-4.0; 2000];
        let scalar = Scalar::new(values.clone(), &ids(2000), KEY);
        let noise = spread(&scalar.with_noise(0, 0, 0, None), &values);
        assert!((noise / 4e-10 - 1.0).abs() < 0.1, "{noise}");
        let rows: Vec<f64> = (0..2000).flat_map(|_| [0.0, 6.0]).collect();
        let vector = Vector::new(&rows, 2, &ids(2000), KEY);
        let noise = spread(vector.with_noise(0, 0, 0, None).coordinate(0), &[0.0; 2000]);
        assert!((noise / 3e-10 - 1.0).abs() < 0.1, "{noise}");
    }
}
