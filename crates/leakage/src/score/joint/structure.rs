//! The information in activations beyond the labels of their own concepts, as inputs of a predictor.
//!
//! Each activation is measured within the rows whose concept has the same label: its distance from their mean, and in which
//! quarter of them it lies. Three functions of the quarter, each 1 or −1, are orthogonal: upper or lower half, inner or outer,
//! and their product. Pairs of these functions, and of one of them with a true concept, are screened for products that go with
//! the task: networks do not find an exclusive or of two among a hundred, a screen does. Threshold: the probability that one
//! of all candidates passes without an effect is about 1 %.

use ndarray::{Array2, ArrayView2, Axis};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ChiSquared, ContinuousCDF};

/// Directions in the space of classes along which the screen looks, at most.
const DIRECTIONS: usize = 8;
/// Functions, and products, that a predictor reads at most.
const CHOSEN: usize = 32;
/// Candidates that are held at once.
const HELD: usize = 4096;
const LEVEL: f64 = 0.01;
/// Distances are cut here, so that one outlier does not rule a linear model.
const FARTHEST: f64 = 4.0;

/// One activation column and its concept's labels as strata; `None` where the label is unknown.
pub struct Activation {
    pub values: Vec<f64>,
    pub strata: Vec<Option<usize>>,
}

/// Inputs of one row each, [n, …].
pub struct Structure {
    /// Distances from the mean of the stratum, in its standard deviations.
    distances: Array2<f32>,
    /// Three columns for each activation, of mean 0 in every stratum.
    functions: Array2<f32>,
    /// The functions, then the true concepts.
    factors: Array2<f32>,
}

impl Structure {
    /// `concepts` [n, d] are the true concepts as numbers.
    pub fn new(activations: &[Activation], concepts: &Array2<f32>) -> Self {
        let rows = concepts.nrows();
        let mut distances = Array2::zeros((rows, activations.len()));
        let mut functions = Array2::zeros((rows, 3 * activations.len()));
        for (at, activation) in activations.iter().enumerate() {
            let mut order: Vec<usize> = (0..rows).filter(|&row| activation.strata[row].is_some()).collect();
            order.sort_by(|&a, &b| {
                let key = |row: usize| activation.strata[row];
                key(a).cmp(&key(b)).then(activation.values[a].total_cmp(&activation.values[b]))
            });
            for stratum in order.chunk_by(|&a, &b| activation.strata[a] == activation.strata[b]) {
                let values: Vec<f64> = stratum.iter().map(|&row| activation.values[row]).collect();
                for ((row, distance), quarter) in stratum.iter().zip(standardised(&values)).zip(quarters(&values)) {
                    distances[[*row, at]] = distance.clamp(-FARTHEST, FARTHEST) as f32;
                    let half = if quarter >= 2 { 1.0 } else { -1.0 };
                    let inner = if quarter == 1 || quarter == 2 { 1.0 } else { -1.0 };
                    for (function, value) in [half, inner, half * inner].into_iter().enumerate() {
                        functions[[*row, 3 * at + function]] = value;
                    }
                }
                for function in 3 * at..3 * at + 3 {
                    let mean =
                        stratum.iter().map(|&row| functions[[row, function]]).sum::<f32>() / stratum.len() as f32;
                    stratum.iter().for_each(|&row| functions[[row, function]] -= mean);
                }
            }
        }
        let mut centred = concepts.clone();
        for mut column in centred.columns_mut() {
            let mean = column.mean().unwrap_or(0.0);
            column.mapv_inplace(|c| c - mean);
        }
        let factors = ndarray::concatenate![Axis(1), functions, centred];
        Self { distances, functions, factors }
    }

    /// All distances, and the functions and products that go with `residuals` [rows, l] on the rows `on`.
    pub fn inputs(&self, on: &[usize], residuals: ArrayView2<f32>, seed: u64) -> Array2<f32> {
        let directions = directions(residuals, seed);
        let functions = self.functions.select(Axis(0), on);
        let factors = self.factors.select(Axis(0), on);
        let ones = Array2::ones((on.len(), 1));
        let mut columns = Vec::new();
        for (chosen, _) in chosen(&strengths(&functions, &ones, &directions), directions.len(), |_, _| true) {
            columns.push(self.functions.column(chosen).to_owned());
        }
        // A function with one of its own activation is a third of that activation; pairs are looked at once.
        let is_pair = |a: usize, b: usize| b >= self.functions.ncols() || a / 3 < b / 3;
        for (a, b) in chosen(&strengths(&functions, &factors, &directions), directions.len(), is_pair) {
            columns.push(&self.functions.column(a) * &self.factors.column(b));
        }
        let mut inputs = Array2::zeros((self.distances.nrows(), self.distances.ncols() + columns.len()));
        inputs.slice_mut(ndarray::s![.., ..self.distances.ncols()]).assign(&self.distances);
        for (at, column) in columns.iter().enumerate() {
            inputs.column_mut(self.distances.ncols() + at).assign(column);
        }
        inputs
    }
}

/// Distances from the mean in standard deviations; 0 where values do not differ.
fn standardised(values: &[f64]) -> Vec<f64> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let deviation = (values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n).sqrt();
    let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
    values.iter().map(|x| (x - mean) * scale).collect()
}

/// The quarter, 0 to 3, of each of some ascending values; equal values are in the quarter of their middle.
fn quarters(ascending: &[f64]) -> Vec<usize> {
    let mut quarters = Vec::with_capacity(ascending.len());
    for equal in ascending.chunk_by(|a, b| a == b) {
        let middle = quarters.len() as f64 + equal.len() as f64 / 2.0;
        let quarter = (4.0 * middle / ascending.len() as f64) as usize;
        quarters.extend(std::iter::repeat_n(quarter.min(3), equal.len()));
    }
    quarters
}

/// Columns [rows] of the residuals, or of random combinations of them where there are many classes. The last of few classes
/// follows from the others.
fn directions(residuals: ArrayView2<f32>, seed: u64) -> Vec<Vec<f32>> {
    let classes = residuals.ncols();
    if classes <= DIRECTIONS + 1 {
        return (0..classes.saturating_sub(1)).map(|class| residuals.column(class).to_vec()).collect();
    }
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let signs = Array2::from_shape_simple_fn((classes, DIRECTIONS), || if rng.random() { 1.0_f32 } else { -1.0 });
    residuals.dot(&signs).columns().into_iter().map(|column| column.to_vec()).collect()
}

/// How strongly the product of each column of `a` with each of `b` goes with the directions: without an effect, about χ² with
/// as many degrees of freedom as there are directions.
fn strengths(a: &Array2<f32>, b: &Array2<f32>, directions: &[Vec<f32>]) -> Array2<f32> {
    let mut total = Array2::<f32>::zeros((a.ncols(), b.ncols()));
    let squares = |x: &Array2<f32>| x.mapv(|x| x * x);
    let spread = squares(a).t().dot(&squares(b));
    for direction in directions {
        let power = direction.iter().map(|e| e * e).sum::<f32>() / direction.len().max(1) as f32;
        if power > 0.0 {
            let mut weighted = a.clone();
            weighted.rows_mut().into_iter().zip(direction).for_each(|(mut row, &e)| row *= e);
            ndarray::Zip::from(&mut total).and(&weighted.t().dot(b)).and(&spread).for_each(|total, &sum, &spread| {
                *total += if spread > 0.0 { sum * sum / (spread * power) } else { 0.0 };
            });
        }
    }
    total
}

/// The strongest of the candidates that exceed the threshold.
fn chosen(strengths: &Array2<f32>, directions: usize, candidate: impl Fn(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let candidates = strengths.indexed_iter().filter(|((a, b), _)| candidate(*a, *b));
    let count = candidates.clone().count();
    let Ok(distribution) = ChiSquared::new(directions as f64) else { return Vec::new() };
    let threshold = distribution.inverse_cdf(1.0 - LEVEL / count.max(1) as f64) as f32;
    let mut found: Vec<((usize, usize), f32)> = Vec::new();
    let keep_strongest = |found: &mut Vec<((usize, usize), f32)>| {
        found.sort_by(|x, y| y.1.total_cmp(&x.1).then(x.0.cmp(&y.0)));
        found.truncate(CHOSEN);
    };
    for (at, strength) in candidates.filter(|(_, strength)| **strength > threshold) {
        found.push((at, *strength));
        // On few rows most candidates may exceed it.
        if found.len() == HELD {
            keep_strongest(&mut found);
        }
    }
    keep_strongest(&mut found);
    found.into_iter().map(|(at, _)| at).collect()
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn equal_values_share_the_quarter_of_their_middle() {
        assert_eq!(quarters(&[1.0, 2.0, 3.0, 4.0]), [0, 1, 2, 3]);
        assert_eq!(quarters(&[1.0, 1.0, 1.0, 1.0]), [2, 2, 2, 2]);
        // Nine of ten hard predictions are right: the wrong one stands apart on either side.
        assert_eq!(quarters(&[0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), [0, 2, 2, 2, 2, 2, 2, 2, 2, 2]);
    }

    #[test]
    fn functions_have_mean_0_in_every_stratum_and_unknown_labels_count_nothing() {
        let values = (0..40).map(|row| f64::from(row * row)).collect();
        let strata = (0..40).map(|row| (row % 5 != 4).then_some(row % 2)).collect();
        let structure = Structure::new(&[Activation { values, strata }], &Array2::zeros((40, 1)));
        for stratum in 0..2 {
            for function in 0..3 {
                let of = (0..40).filter(|row| row % 5 != 4 && row % 2 == stratum);
                let sum: f32 = of.map(|row| structure.functions[[row, function]]).sum();
                assert!(sum.abs() < 1e-5, "{stratum}, {function}: {sum}");
            }
        }
        assert!((0..40).filter(|row| row % 5 == 4).all(|row| structure.distances[[row, 0]] == 0.0));
    }

    #[test]
    fn the_strength_of_a_product_is_its_squared_correlation_times_the_rows() {
        let (a, b) = (array![[1.0_f32], [1.0], [-1.0], [-1.0]], array![[1.0_f32], [-1.0], [1.0], [-1.0]]);
        let strength = |e: Vec<f32>| strengths(&a, &b, &[e])[[0, 0]];
        assert!((strength(vec![0.5, -0.5, -0.5, 0.5]) - 4.0).abs() < 1e-6);
        assert_eq!(strength(vec![0.5, 0.5, -0.5, -0.5]), 0.0);
        assert_eq!(strength(vec![0.0; 4]), 0.0);
    }
}
