//! Classifiers of two classes from one number: 1-32-1 ReLU networks, trained by the ten thousand.
//!
//! All networks that read the same column share its batches ([`Batches`]), drawn once. One network's 97 parameters, its
//! moments and a batch of inputs stay in the first-level cache from the first step to the last. Loops over rows run in
//! blocks of [`LANES`], which compilers turn into vector instructions of any width; sums are in a fixed order, so a result
//! depends on the seed alone.

use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::adam;

/// Units of the hidden layer.
pub const HIDDEN: usize = 32;

const LANES: usize = 16;

/// How networks are trained.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    pub epochs: usize,
    /// Rows of a step; the last one of an epoch may have fewer.
    pub batch: usize,
    pub learning_rate: f32,
}

/// One column's training values, in the order of every epoch.
pub struct Batches {
    recipe: Recipe,
    rows: usize,
    /// Row numbers, one epoch after the other.
    order: Vec<u32>,
    /// The column in that order.
    values: Vec<f32>,
    levels: Option<Levels>,
}

/// A column of few distinct values, such as a true concept: a step then needs the number of rows at each of them and the
/// sum of their labels, not a pass over every row and unit.
struct Levels {
    values: Vec<f32>,
    /// The level of each row, in the batches' order.
    of: Vec<u8>,
}

impl Levels {
    /// `None` when there are more than [`LANES`].
    fn of(ordered: &[f32]) -> Option<Self> {
        let mut values: Vec<f32> = Vec::new();
        let mut of = Vec::with_capacity(ordered.len());
        for x in ordered {
            let known = values.iter().position(|value| value == x);
            let level = known.unwrap_or(values.len());
            if known.is_none() {
                values.push(*x);
            }
            if values.len() > LANES {
                return None;
            }
            of.push(level as u8);
        }
        Some(Self { values, of })
    }
}

impl Batches {
    /// Panics when there are no values or the batch is 0.
    pub fn new(values: &[f32], recipe: Recipe, rng: &mut impl Rng) -> Self {
        assert!(!values.is_empty() && recipe.batch > 0, "a batch has at least one row");
        let mut one: Vec<u32> = (0..values.len() as u32).collect();
        let mut order = Vec::with_capacity(recipe.epochs * one.len());
        for _ in 0..recipe.epochs {
            one.shuffle(rng);
            order.extend_from_slice(&one);
        }
        let ordered: Vec<f32> = order.iter().map(|&row| values[row as usize]).collect();
        let levels = Levels::of(&ordered);
        Self { recipe, rows: values.len(), order, values: ordered, levels }
    }

    /// (row numbers, values) of each step.
    fn steps(&self) -> impl Iterator<Item = (&[u32], &[f32])> {
        let epochs = self.order.chunks(self.rows).zip(self.values.chunks(self.rows));
        let batch = self.recipe.batch;
        epochs.flat_map(move |(order, values)| order.chunks(batch).zip(values.chunks(batch)))
    }
}

/// Logit = outᵀ · relu(weight · x + bias) + shift.
#[derive(Clone, Debug, PartialEq)]
pub struct Classifier {
    /// Weights and biases of the hidden layer, weights of the output, one after the other, then the output's bias.
    parameters: [f32; PARAMETERS],
}

const PARAMETERS: usize = 3 * HIDDEN + 1;
const SHIFT: usize = 3 * HIDDEN;

impl Classifier {
    /// Weights uniform in ±√(6 / (inputs + outputs)) and no biases (Glorot & Bengio 2010), as Keras does by default.
    pub fn new(rng: &mut impl Rng) -> Self {
        let bound = (6.0 / (1 + HIDDEN) as f32).sqrt();
        let mut parameters = [0.0; PARAMETERS];
        for (at, parameter) in parameters.iter_mut().enumerate().take(SHIFT) {
            if at / HIDDEN != 1 {
                *parameter = rng.random_range(-bound..=bound);
            }
        }
        Self { parameters }
    }

    /// Trains on binary cross-entropy with Adam. `labels` (0 or 1) has one for each value the batches were made of.
    pub fn fit(&mut self, batches: &Batches, labels: &[f32]) {
        assert_eq!(labels.len(), batches.rows, "a label for each row");
        let mut moments = [[0.0; PARAMETERS]; 2];
        let mut padded = PaddedBatch::default();
        let mut done = 0;
        for (step, (order, values)) in batches.steps().enumerate() {
            let labels = order.iter().map(|&row| labels[row as usize]);
            match &batches.levels {
                Some(levels) => padded.fill_levels(&levels.values, &levels.of[done..done + order.len()], labels),
                None => padded.fill(values, labels),
            }
            done += order.len();
            let gradient = self.gradient(&mut padded);
            let [first, second] = &mut moments;
            let [step_size, second_scale] =
                adam::corrections(batches.recipe.learning_rate, step as i32 + 1, adam::Epsilon::Corrected);
            for at in 0..PARAMETERS {
                adam::update(
                    &mut self.parameters[at],
                    gradient[at],
                    &mut first[at],
                    &mut second[at],
                    step_size,
                    second_scale,
                );
            }
        }
    }

    /// The logit of each value.
    pub fn logits(&self, values: &[f32]) -> Vec<f32> {
        let mut padded = PaddedBatch::default();
        padded.fill(values, std::iter::empty());
        self.forward(&mut padded);
        padded.outputs[..values.len()].to_vec()
    }

    fn forward(&self, rows: &mut PaddedBatch) {
        let (weights, rest) = self.parameters.split_at(HIDDEN);
        let (biases, out) = rest.split_at(HIDDEN);
        let (inputs, outputs) = (rows.inputs.as_chunks::<LANES>().0, rows.outputs.as_chunks_mut::<LANES>().0);
        for (x, z) in inputs.iter().zip(outputs) {
            let mut sums = [self.parameters[SHIFT]; LANES];
            for h in 0..HIDDEN {
                let (weight, bias, out) = (weights[h], biases[h], out[h]);
                for lane in 0..LANES {
                    let unit = weight * x[lane] + bias;
                    sums[lane] += out * if unit > 0.0 { unit } else { 0.0 };
                }
            }
            *z = sums;
        }
    }

    /// The gradient of the mean binary cross-entropy over the rows.
    fn gradient(&self, rows: &mut PaddedBatch) -> [f32; PARAMETERS] {
        self.forward(rows);
        rows.errors();
        let mut gradient = [0.0; PARAMETERS];
        let (inputs, errors) = (rows.inputs.as_chunks::<LANES>().0, rows.outputs.as_chunks::<LANES>().0);
        let moments = rows.moments.as_chunks::<LANES>().0;
        for h in 0..HIDDEN {
            let [weight, bias, out] = [0, 1, 2].map(|part| self.parameters[part * HIDDEN + h]);
            // Sums over the rows on which the unit is on: of the error, and of the error times the input.
            let (mut sums, mut products) = ([0.0; LANES], [0.0; LANES]);
            for ((x, error), moment) in inputs.iter().zip(errors).zip(moments) {
                for lane in 0..LANES {
                    let on = weight * x[lane] + bias > 0.0;
                    sums[lane] += if on { error[lane] } else { 0.0 };
                    products[lane] += if on { moment[lane] } else { 0.0 };
                }
            }
            let (sum, product) = (sums.iter().sum::<f32>(), products.iter().sum::<f32>());
            gradient[h] = out * product;
            gradient[HIDDEN + h] = out * sum;
            gradient[2 * HIDDEN + h] = weight * product + bias * sum;
        }
        gradient[SHIFT] = rows.outputs.iter().sum();
        gradient
    }
}

/// A batch, filled up to whole blocks with inputs that no row has.
#[derive(Default)]
struct PaddedBatch {
    rows: usize,
    inputs: Vec<f32>,
    /// Rows that have the input.
    counts: Vec<f32>,
    /// Sum of their labels.
    labels: Vec<f32>,
    /// Logits, and after [`Self::errors`] the gradient by them.
    outputs: Vec<f32>,
    /// Gradient by the logit times input.
    moments: Vec<f32>,
}

impl PaddedBatch {
    fn fill(&mut self, values: &[f32], labels: impl Iterator<Item = f32>) {
        self.start(values, values.len());
        self.counts[..values.len()].fill(1.0);
        self.labels.iter_mut().zip(labels).for_each(|(sum, label)| *sum = label);
    }

    fn fill_levels(&mut self, values: &[f32], levels: &[u8], labels: impl Iterator<Item = f32>) {
        self.start(values, levels.len());
        for (&level, label) in levels.iter().zip(labels) {
            self.counts[usize::from(level)] += 1.0;
            self.labels[usize::from(level)] += label;
        }
    }

    fn start(&mut self, values: &[f32], rows: usize) {
        self.rows = rows;
        let length = values.len().next_multiple_of(LANES);
        self.inputs.clear();
        self.inputs.extend_from_slice(values);
        self.inputs.resize(length, 0.0);
        for cleared in [&mut self.counts, &mut self.labels, &mut self.outputs, &mut self.moments] {
            cleared.clear();
            cleared.resize(length, 0.0);
        }
    }

    fn errors(&mut self) {
        let scale = 1.0 / self.rows as f32;
        for ((z, count), label) in self.outputs.iter_mut().zip(&self.counts).zip(&self.labels) {
            *z = (count * sigmoid(*z) - label) * scale;
        }
        for ((moment, error), x) in self.moments.iter_mut().zip(&self.outputs).zip(&self.inputs) {
            *moment = error * x;
        }
    }
}

/// 1 / (1 + exp(−x)) to within 3e-7, in operations that run in lanes and give the same bits on every machine.
fn sigmoid(x: f32) -> f32 {
    // exp(−x) = 2ⁿ · exp(r) with |r| ≤ ln 2 / 2 (Cody & Waite 1980); adding 1.5 · 2²³ rounds to a whole number.
    const ROUND: f32 = 12_582_912.0;
    const LN_2_HIGH: f32 = 0.693_359_4;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    // Beyond these ends the result is 0 or 1 to within the error above.
    let y = if x > 80.0 {
        -80.0
    } else if x < -80.0 {
        80.0
    } else {
        -x
    };
    let n = (y * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = (y - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut series = 1.0 / 720.0;
    for coefficient in [1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        series = series * r + coefficient;
    }
    let power = f32::from_bits(((n as i32 + 127) << 23) as u32);
    1.0 / (1.0 + series * power)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    fn random(seed: u64) -> ChaCha8Rng {
        ChaCha8Rng::seed_from_u64(seed)
    }

    fn rows(n: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
        let mut rng = random(seed);
        let values: Vec<f32> = (0..n).map(|_| rng.random_range(-1.5..1.5)).collect();
        // Present in the middle: no single threshold separates it.
        let labels = values.iter().map(|x| f32::from(u8::from(x.abs() < 0.6))).collect();
        (values, labels)
    }

    #[test]
    fn the_sigmoid_is_the_mathematical_one() {
        for step in -4000..=4000 {
            let x = step as f32 / 37.0;
            let exact = 1.0 / (1.0 + (-f64::from(x)).exp());
            assert!((f64::from(sigmoid(x)) - exact).abs() < 3e-7, "{x}");
        }
        assert_eq!((sigmoid(1e30), sigmoid(f32::INFINITY)), (1.0, 1.0));
        assert!(sigmoid(-1e30) < 1e-30 && sigmoid(f32::NEG_INFINITY) < 1e-30);
    }

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let (values, labels) = rows(37, 1);
        let mut network = Classifier::new(&mut random(2));
        network.parameters.iter_mut().enumerate().for_each(|(at, p)| *p += 0.01 * (at % 7) as f32);
        let loss = |network: &Classifier| {
            let logits = network.logits(&values);
            let row = |(&z, &label): (&f32, &f32)| {
                let z = f64::from(z);
                z.max(0.0) - z * f64::from(label) + (-z.abs()).exp().ln_1p()
            };
            logits.iter().zip(&labels).map(row).sum::<f64>() / values.len() as f64
        };
        let mut padded = PaddedBatch::default();
        padded.fill(&values, labels.iter().copied());
        let gradient = network.gradient(&mut padded);
        for (at, analytic) in gradient.into_iter().enumerate() {
            let shifted = |by: f32| {
                let mut network = network.clone();
                network.parameters[at] += by;
                loss(&network)
            };
            let numeric = (shifted(1e-3) - shifted(-1e-3)) / 2e-3;
            assert!((f64::from(analytic) - numeric).abs() < 1e-3, "parameter {at}: {analytic} {numeric}");
        }
    }

    #[test]
    fn a_network_learns_what_one_threshold_cannot() {
        let (values, labels) = rows(1_000, 3);
        let recipe = Recipe { epochs: 60, batch: 64, learning_rate: 1e-2 };
        let batches = Batches::new(&values, recipe, &mut random(4));
        let mut network = Classifier::new(&mut random(5));
        network.fit(&batches, &labels);
        let right = |(z, label): (&f32, &f32)| (*z > 0.0) == (*label > 0.5);
        let share = network.logits(&values).iter().zip(&labels).filter(|row| right(*row)).count() as f64 / 1_000.0;
        assert!(share > 0.95, "{share}");
    }

    #[test]
    fn rows_of_few_values_count_as_they_are() {
        let (_, labels) = rows(300, 7);
        let values: Vec<f32> = (0..300).map(|row| [0.0, 1.0, 2.5][row % 3]).collect();
        let recipe = Recipe { epochs: 10, batch: 64, learning_rate: 1e-2 };
        let mut batches = Batches::new(&values, recipe, &mut random(8));
        assert!(batches.levels.is_some());
        let trained = |batches: &Batches| {
            let mut network = Classifier::new(&mut random(9));
            network.fit(batches, &labels);
            network.logits(&[0.0, 1.0, 2.5])
        };
        let by_level = trained(&batches);
        batches.levels = None;
        let by_row = trained(&batches);
        assert!(by_level.iter().zip(&by_row).all(|(a, b)| (a - b).abs() < 1e-4), "{by_level:?} {by_row:?}");
        let (many, _) = rows(50, 10);
        assert!(Batches::new(&many, recipe, &mut random(11)).levels.is_none());
    }

    #[test]
    fn batches_visit_every_row_once_an_epoch() {
        let recipe = Recipe { epochs: 3, batch: 4, learning_rate: 1e-3 };
        let values: Vec<f32> = (0..10).map(|x| x as f32).collect();
        let batches = Batches::new(&values, recipe, &mut random(6));
        let sizes: Vec<usize> = batches.steps().map(|(order, _)| order.len()).collect();
        assert_eq!(sizes, [4, 4, 2, 4, 4, 2, 4, 4, 2]);
        for epoch in batches.order.chunks(10) {
            let mut sorted = epoch.to_vec();
            sorted.sort_unstable();
            assert!(sorted.iter().enumerate().all(|(at, &row)| at == row as usize));
        }
        assert!(batches.steps().all(|(order, x)| order.iter().zip(x).all(|(&row, &x)| row as f32 == x)));
    }
}
