//! Concept bottleneck models of binary concepts and a binary task, encoder and head trained jointly
//! (Koh et al. 2020, arXiv 2007.04612), with the architecture and the optimiser of arXiv 2504.14094, Appendix A.2.

use ndarray::{Array1, Array2, ArrayView2};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use super::adam::Adam;
use super::dense::{Activation, Parameters};
use super::loss::binary_cross_entropy;
use super::mlp::Mlp;
use super::rows::Rows;
use super::tabular_toy::{CONCEPTS, INPUTS};

const LEARNING_RATE: f32 = 1e-3;
const BATCH: usize = 512;

/// The values that the head receives from the encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BottleneckKind {
    /// Probabilities: the sigmoid of the concept logits.
    Soft,
    /// The concept logits themselves.
    Logit,
}

impl BottleneckKind {
    fn activation(self) -> Activation {
        match self {
            Self::Soft => Activation::Sigmoid,
            Self::Logit => Activation::Identity,
        }
    }
}

/// A concept bottleneck model for [TabularToy](super::tabular_toy): a 7-64-64-3 leaky ReLU encoder, the bottleneck,
/// and a linear head to one logit.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    kind: BottleneckKind,
    concept_weight: f32,
    encoder: Mlp,
    head: Mlp,
    encoder_optimiser: Adam,
    head_optimiser: Adam,
    /// Draws the order of rows.
    rng: ChaCha8Rng,
}

/// Losses of one epoch in nats, each row taken with the parameters of its step; means over rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Losses {
    /// Cross-entropy of the task.
    pub task: f32,
    /// Cross-entropy of a concept, mean over concepts, before it is weighted by λ.
    pub concept: f32,
}

/// A model's outputs for some rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// [n, k], as the head receives them: probabilities (`Soft`) or logits (`Logit`).
    pub concept_activations: Array2<f32>,
    /// [n, k].
    pub concept_logits: Array2<f32>,
    /// [n].
    pub task_logits: Array1<f32>,
}

impl Bottleneck {
    /// An untrained model. `lambda` is the λ of the loss BCE(y) + λ · mean BCE(c). Panics when it is negative or not
    /// finite.
    pub fn new(kind: BottleneckKind, lambda: f32, seed: u64) -> Self {
        assert!(lambda.is_finite() && lambda >= 0.0, "lambda: got {lambda}, expected a finite weight of at least 0");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let hidden = (64, Activation::LeakyRelu);
        let encoder = Mlp::new(INPUTS, &[hidden, hidden, (CONCEPTS, Activation::Identity)], &mut rng);
        let head = Mlp::new(CONCEPTS, &[(1, Activation::Identity)], &mut rng);
        let encoder_optimiser = Adam::new(&encoder, LEARNING_RATE);
        let head_optimiser = Adam::new(&head, LEARNING_RATE);
        Self { kind, concept_weight: lambda, encoder, head, encoder_optimiser, head_optimiser, rng }
    }

    /// One pass over `data` in batches of 512 rows in random order; the last batch may be smaller. Panics when there
    /// are no rows.
    pub fn train_epoch(&mut self, data: &Rows) -> Losses {
        assert!(!data.is_empty(), "an epoch has at least one row");
        let mut order: Vec<usize> = (0..data.len()).collect();
        order.shuffle(&mut self.rng);
        let (mut task, mut concept) = (0.0_f64, 0.0_f64);
        for batch in order.chunks(BATCH) {
            let (losses, encoder, head) = self.gradient(&data.gather(batch));
            self.encoder_optimiser.step(&mut self.encoder, &encoder);
            self.head_optimiser.step(&mut self.head, &head);
            task += f64::from(losses.task) * batch.len() as f64;
            concept += f64::from(losses.concept) * batch.len() as f64;
        }
        let rows = data.len() as f64;
        Losses { task: (task / rows) as f32, concept: (concept / rows) as f32 }
    }

    /// Losses of one batch, and the gradient of BCE(y) + λ · mean BCE(c) by the parameters of encoder and head.
    fn gradient(&self, batch: &Rows) -> (Losses, Vec<Parameters>, Vec<Parameters>) {
        let encoded = self.encoder.forward(batch.inputs());
        let activations = self.activations(encoded.outputs());
        let decided = self.head.forward(activations.view());
        let (task, by_task_logits) = binary_cross_entropy(decided.outputs().view(), batch.tasks());
        let (concept, by_concept_logits) = binary_cross_entropy(encoded.outputs().view(), batch.concepts());
        let (head, mut by_encoded) = self.head.backward(activations.view(), &decided, by_task_logits);
        self.kind.activation().backward(&activations, &mut by_encoded);
        by_encoded.scaled_add(self.concept_weight, &by_concept_logits);
        let (encoder, _) = self.encoder.backward(batch.inputs(), &encoded, by_encoded);
        (Losses { task, concept }, encoder, head)
    }

    pub fn evaluate(&self, rows: &Rows) -> Evaluation {
        let concept_logits = self.encoder.outputs(rows.inputs());
        let concept_activations = self.activations(&concept_logits);
        let task_logits = self.decide(concept_activations.view());
        Evaluation { concept_activations, concept_logits, task_logits }
    }

    /// Predicted task of each of `rows`, 0 or 1, with every concept replaced by its true value: 0 or 1 in a soft
    /// bottleneck; the 5th or 95th percentile of that concept's logits over `training` in a logit bottleneck
    /// (doi:10.1609/aaai.v37i10.26392). Panics when a logit bottleneck gets no training rows.
    pub fn intervened(&self, training: &Rows, rows: &Rows) -> Vec<i32> {
        let ends = self.ends(training);
        let mut activations = rows.concepts().to_owned();
        activations.indexed_iter_mut().for_each(|((_, i), value)| *value = ends[usize::from(*value > 0.5)][i]);
        classes(&self.decide(activations.view()))
    }

    /// Predicted tasks of `rows` after 0 to all of their concepts were set, as by [`intervened`](Self::intervened), to
    /// their true values and to wrong ones: [n, k + 1] each, row-major. The first concept to be set rotates by row.
    pub fn intervention_curves(&self, training: &Rows, rows: &Rows) -> [Vec<i32>; 2] {
        let ends = self.ends(training);
        let untouched = self.activations(&self.encoder.outputs(rows.inputs()));
        [false, true].map(|wrong| {
            let mut curve = vec![0; rows.len() * (CONCEPTS + 1)];
            for count in 0..=CONCEPTS {
                let mut activations = untouched.clone();
                for ((row, i), value) in activations.indexed_iter_mut() {
                    if (i + row) % CONCEPTS < count {
                        *value = ends[usize::from((rows.concepts()[[row, i]] > 0.5) != wrong)][i];
                    }
                }
                let predicted = classes(&self.decide(activations.view()));
                predicted.iter().enumerate().for_each(|(row, class)| curve[row * (CONCEPTS + 1) + count] = *class);
            }
            curve
        })
    }

    /// Returns what the head receives for an absent and for a present concept that is set.
    fn ends(&self, training: &Rows) -> [[f32; CONCEPTS]; 2] {
        match self.kind {
            BottleneckKind::Soft => [[0.0; CONCEPTS], [1.0; CONCEPTS]],
            BottleneckKind::Logit => {
                let logits = self.encoder.outputs(training.inputs());
                [0.05, 0.95].map(|share| std::array::from_fn(|i| quantile(logits.column(i).to_vec(), share)))
            }
        }
    }

    fn activations(&self, concept_logits: &Array2<f32>) -> Array2<f32> {
        let mut activations = concept_logits.clone();
        self.kind.activation().apply(&mut activations);
        activations
    }

    fn decide(&self, activations: ArrayView2<f32>) -> Array1<f32> {
        self.head.outputs(activations).column(0).to_owned()
    }
}

impl Evaluation {
    /// n class numbers, 0 or 1.
    pub fn task_predictions(&self) -> Vec<i32> {
        classes(&self.task_logits)
    }

    /// Share of `rows`, those evaluated, whose task is predicted, in [0, 1].
    pub fn task_accuracy(&self, rows: &Rows) -> f64 {
        task_accuracy(&self.task_predictions(), rows)
    }

    /// Share of concepts of `rows`, those evaluated, that are predicted, in [0, 1].
    pub fn concept_accuracy(&self, rows: &Rows) -> f64 {
        let truth = rows.concepts();
        let correct = self.concept_logits.iter().zip(&truth).filter(|&(&z, &c)| (z > 0.0) == (c > 0.5)).count();
        correct as f64 / truth.len() as f64
    }
}

/// Share of `rows` whose task is the one predicted, in [0, 1].
pub fn task_accuracy(predictions: &[i32], rows: &Rows) -> f64 {
    let correct = predictions.iter().zip(&rows.tasks()).filter(|&(&y, &truth)| y as f32 == truth).count();
    correct as f64 / rows.len() as f64
}

fn classes(logits: &Array1<f32>) -> Vec<i32> {
    logits.iter().map(|&z| i32::from(z > 0.0)).collect()
}

/// The value below which `share` of `values` lie, interpolated linearly between order statistics.
fn quantile(mut values: Vec<f32>, share: f64) -> f32 {
    assert!(!values.is_empty(), "a percentile is taken of at least one value");
    values.sort_unstable_by(f32::total_cmp);
    let at = share * (values.len() - 1) as f64;
    let (below, fraction) = (at.floor() as usize, at.fract());
    let above = (below + 1).min(values.len() - 1);
    (f64::from(values[below]) * (1.0 - fraction) + f64::from(values[above]) * fraction) as f32
}

#[cfg(test)]
mod tests;
