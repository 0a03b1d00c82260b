//! Networks that predict the task, starting from given log probabilities, and what they predict at several lengths of
//! training.

use ndarray::{Array2, ArrayView1, Axis};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::nn::adam::Epsilon;
use crate::nn::dense::Activation;
use crate::nn::mlp::Mlp;
use crate::nn::trainer::{Recipe, Targets, fit};
use crate::sample::priority::priority;

const BATCH: usize = 128;
const LEARNING_RATE: f32 = 5e-3;
const WEIGHT_DECAY: f32 = 0.1;
/// The most multiplications of one training, which bound its epochs for many classes and concepts.
const WORK: usize = 700_000_000;
const LONGEST: usize = 128;
const HIDDEN: usize = 64;

/// The form of a model that predicts the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Linear,
    /// One hidden layer of 64 ReLU units.
    Hidden,
}

pub const FORMS: [Form; 2] = [Form::Linear, Form::Hidden];

/// The task of every row.
pub struct Task {
    /// Class numbers below `classes`.
    pub labels: Vec<usize>,
    pub classes: usize,
}

/// A training of one network.
pub struct Training<'a> {
    pub form: Form,
    /// [n, d].
    pub inputs: &'a Array2<f32>,
    /// Log probabilities [n, l] that the outputs are added to.
    pub start: &'a Array2<f32>,
    pub task: &'a Task,
    /// Distinguishes the weights and batches of trainings.
    pub seed: u64,
    pub pause: &'a (dyn Fn() + Sync),
}

impl Training<'_> {
    /// Numbers of epochs after which predictions are kept, ascending. The same for every number of training rows.
    pub fn lengths(&self) -> Vec<usize> {
        let (d, l) = (self.inputs.ncols(), self.task.classes);
        let weights = match self.form {
            Form::Linear => d * l,
            Form::Hidden => (d + l) * HIDDEN,
        };
        let most = (WORK / (weights * self.inputs.nrows()).max(1)).clamp(4, LONGEST);
        std::iter::successors(Some(1), |epochs| Some(2 * epochs)).take_while(|&epochs| epochs <= most).collect()
    }

    /// Trains on the rows `on`; log probabilities of `of` after each of `lengths`, ascending.
    pub fn predictions(&self, on: &[usize], of: &[usize], lengths: &[usize]) -> Vec<Array2<f32>> {
        let mut rng = ChaCha8Rng::seed_from_u64(priority(self.seed, self.form as u64));
        let last = (self.task.classes, Activation::Identity);
        let layers = match self.form {
            Form::Linear => vec![last],
            Form::Hidden => vec![(HIDDEN, Activation::Relu), last],
        };
        let mut network = Mlp::new(self.inputs.ncols(), &layers, &mut rng);
        // An untrained network adds nothing to its start.
        if let Some(last) = network.parameters_mut().last() {
            last.weights.fill(0.0);
            last.bias.fill(0.0);
        }
        let labels = on.iter().map(|&row| self.task.labels[row]).collect();
        let targets = Targets::ClassesFrom(labels, self.start.select(Axis(0), on));
        let recipe = Recipe {
            epochs: lengths.last().copied().unwrap_or(0),
            batch: BATCH,
            learning_rate: LEARNING_RATE,
            epsilon: Epsilon::Corrected,
            weight_decay: WEIGHT_DECAY,
            stop: None,
        };
        let (inputs, start) = (self.inputs.select(Axis(0), of), self.start.select(Axis(0), of));
        let mut kept = Vec::with_capacity(lengths.len());
        fit(
            &mut network,
            self.inputs.select(Axis(0), on).view(),
            &targets,
            &recipe,
            &mut rng,
            &mut |epoch, network| {
                (self.pause)();
                if lengths.contains(&epoch) {
                    let mut logits = network.outputs(inputs.view());
                    logits += &start;
                    kept.push(normalised(logits));
                }
            },
        );
        kept
    }
}

/// Log probabilities of logits.
fn normalised(mut logits: Array2<f32>) -> Array2<f32> {
    for mut row in logits.rows_mut() {
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let total: f32 = row.iter().map(|z| (z - largest).exp()).sum();
        let shift = largest + total.ln();
        row.mapv_inplace(|z| z - shift);
    }
    logits
}

/// −ln p of `label` in nats. A share of 1/2,048 of p is uniform over the classes, so that no row costs more than
/// ln(2,048 l).
pub fn loss(log_probabilities: ArrayView1<f32>, label: usize) -> f64 {
    const SHARE: f64 = 1.0 / 2_048.0;
    let p = f64::from(log_probabilities[label]).exp();
    -((1.0 - SHARE) * p + SHARE / log_probabilities.len() as f64).ln()
}
