//! A concept bottleneck model of binary concepts and a binary task, encoder and head trained jointly
//! (Koh et al. 2020, arXiv 2007.04612), with the architecture and the optimiser of arXiv 2504.14094, Appendix A.2.

use ndarray::{Array2, ArrayView2};
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

/// A concept bottleneck model for [TabularToy](super::tabular_toy): a 7-64-64-3 leaky ReLU encoder, and a linear head to
/// one logit that reads the sigmoids of the encoder's three outputs.
#[derive(Clone, Debug)]
pub struct Bottleneck {
    concept_weight: f32,
    encoder: Mlp,
    head: Mlp,
    encoder_optimiser: Adam,
    head_optimiser: Adam,
    /// Draws the order of rows.
    rng: ChaCha8Rng,
}

impl Bottleneck {
    /// An untrained model. `lambda` is the λ of the loss BCE(y) + λ · mean BCE(c). Panics when it is negative or not
    /// finite.
    pub fn new(lambda: f32, seed: u64) -> Self {
        assert!(lambda.is_finite() && lambda >= 0.0, "lambda: got {lambda}, expected a finite weight of at least 0");
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let hidden = (64, Activation::LeakyRelu);
        let encoder = Mlp::new(INPUTS, &[hidden, hidden, (CONCEPTS, Activation::Identity)], &mut rng);
        let head = Mlp::new(CONCEPTS, &[(1, Activation::Identity)], &mut rng);
        let encoder_optimiser = Adam::new(&encoder, LEARNING_RATE);
        let head_optimiser = Adam::new(&head, LEARNING_RATE);
        Self { concept_weight: lambda, encoder, head, encoder_optimiser, head_optimiser, rng }
    }

    /// One pass over `data` in batches of 512 rows in random order; the last batch may be smaller.
    pub fn train_epoch(&mut self, data: &Rows) {
        let mut order: Vec<usize> = (0..data.len()).collect();
        order.shuffle(&mut self.rng);
        for batch in order.chunks(BATCH) {
            let (_, encoder, head) = self.gradient(&data.gather(batch));
            self.encoder_optimiser.step(&mut self.encoder, &encoder);
            self.head_optimiser.step(&mut self.head, &head);
        }
    }

    /// The loss of one batch, and its gradient by the parameters of encoder and head.
    fn gradient(&self, batch: &Rows) -> (f32, Vec<Parameters>, Vec<Parameters>) {
        let encoded = self.encoder.forward(batch.inputs());
        let concepts = probabilities(encoded.outputs());
        let decided = self.head.forward(concepts.view());
        let (task, by_task_logits) = binary_cross_entropy(decided.outputs().view(), batch.tasks());
        let (concept, by_concept_logits) = binary_cross_entropy(encoded.outputs().view(), batch.concepts());
        let (head, mut by_encoded) = self.head.backward(concepts.view(), &decided, by_task_logits);
        Activation::Sigmoid.backward(&concepts, &mut by_encoded);
        by_encoded.scaled_add(self.concept_weight, &by_concept_logits);
        let (encoder, _) = self.encoder.backward(batch.inputs(), &encoded, by_encoded);
        (task + self.concept_weight * concept, encoder, head)
    }

    /// The probability of each concept in each of `rows`, [n, k].
    pub fn concepts(&self, rows: &Rows) -> Array2<f32> {
        probabilities(&self.encoder.outputs(rows.inputs()))
    }

    /// The predicted task, 0 or 1, of rows whose concepts have these probabilities, [n, k]: those of the model, or the true
    /// values after an intervention on all concepts.
    pub fn tasks(&self, concepts: ArrayView2<f32>) -> Vec<i32> {
        self.head.outputs(concepts).column(0).iter().map(|&z| i32::from(z > 0.0)).collect()
    }

    /// Predicted tasks of `rows` after 0 to all of their concepts were set to their true values and to wrong ones:
    /// [n, k + 1] each, row-major. The first concept to be set rotates by row.
    pub fn intervention_curves(&self, rows: &Rows) -> [Vec<i32>; 2] {
        let untouched = self.concepts(rows);
        [false, true].map(|wrong| {
            let mut curve = vec![0; rows.len() * (CONCEPTS + 1)];
            for count in 0..=CONCEPTS {
                let mut concepts = untouched.clone();
                for ((row, i), value) in concepts.indexed_iter_mut() {
                    if (i + row) % CONCEPTS < count {
                        *value = f32::from(u8::from((rows.concepts()[[row, i]] > 0.5) != wrong));
                    }
                }
                let predicted = self.tasks(concepts.view());
                predicted.iter().enumerate().for_each(|(row, class)| curve[row * (CONCEPTS + 1) + count] = *class);
            }
            curve
        })
    }
}

fn probabilities(concept_logits: &Array2<f32>) -> Array2<f32> {
    let mut probabilities = concept_logits.clone();
    Activation::Sigmoid.apply(&mut probabilities);
    probabilities
}

/// Share of `rows` whose task is the one predicted, in [0, 1].
pub fn task_accuracy(predictions: &[i32], rows: &Rows) -> f64 {
    let correct = predictions.iter().zip(&rows.tasks()).filter(|&(&y, &truth)| y as f32 == truth).count();
    correct as f64 / rows.len() as f64
}

#[cfg(test)]
mod tests;
