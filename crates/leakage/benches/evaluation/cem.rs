//! Embeddings of a concept embedding model (Zarlenga et al. 2022, arXiv 2209.09056) trained on TabularToy.

use leakage::nn::adam::Adam;
use leakage::nn::dense::{Activation, sigmoid};
use leakage::nn::loss::binary_cross_entropy;
use leakage::nn::mlp::Mlp;
use leakage::nn::tabular_toy::{CONCEPTS, INPUTS, TabularToy};
use ndarray::{Array2, ArrayView2, s};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

const ROWS: usize = 2000;
const EPOCHS: usize = 100;
const BATCH: usize = 256;
const LEARNING_RATE: f32 = 1e-3;

/// A concept's embedding mixes its presence and absence embeddings by its probability.
pub struct Cem {
    width: usize,
    /// Weights from the inputs to the presence and absence embeddings of each concept.
    trunk: Mlp,
    /// Weights from these embeddings to the concept's logit.
    score: Mlp,
    /// Weights from the mixed embeddings to the task's logit.
    head: Mlp,
}

impl Cem {
    /// Trains a model with embeddings of `width` coordinates.
    pub fn trained(width: usize) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let hidden = (64, Activation::LeakyRelu);
        let both = (CONCEPTS * 2 * width, Activation::LeakyRelu);
        let mut cem = Self {
            width,
            trunk: Mlp::new(INPUTS, &[hidden, hidden, both], &mut random),
            score: Mlp::new(2 * width, &[(1, Activation::Identity)], &mut random),
            head: Mlp::new(CONCEPTS * width, &[(1, Activation::Identity)], &mut random),
        };
        let mut optimisers = [&cem.trunk, &cem.score, &cem.head].map(|network| Adam::new(network, LEARNING_RATE));
        let data = TabularToy::new(0.25).expect("a correlation").rows(ROWS, 1);
        let mut order: Vec<usize> = (0..ROWS).collect();
        for _ in 0..EPOCHS {
            order.shuffle(&mut random);
            for batch in order.chunks(BATCH) {
                let batch = data.gather(batch);
                cem.step(batch.inputs(), batch.concepts(), batch.tasks(), &mut optimisers);
            }
        }
        cem
    }

    fn step(
        &mut self,
        inputs: ArrayView2<f32>,
        concepts: ArrayView2<f32>,
        tasks: ArrayView2<f32>,
        optimisers: &mut [Adam; 3],
    ) {
        let n = inputs.nrows();
        let trunk = self.trunk.forward(inputs);
        let pairs = self.pairs(trunk.outputs());
        let scores = self.score.forward(pairs.view());
        let mixed = self.mixed(&pairs, scores.outputs());
        let head = self.head.forward(mixed.view());
        let (_, by_task) = binary_cross_entropy(head.outputs().view(), tasks);
        let (by_head, by_mixed) = self.head.backward(mixed.view(), &head, by_task);
        let targets = concepts.to_shape((n * CONCEPTS, 1)).expect("as many elements").into_owned();
        let (_, mut by_score) = binary_cross_entropy(scores.outputs().view(), targets.view());
        let by_mixed = by_mixed.to_shape((n * CONCEPTS, self.width)).expect("as many elements").into_owned();
        let mut by_pairs = Array2::zeros(pairs.raw_dim());
        for row in 0..n * CONCEPTS {
            let p = sigmoid(scores.outputs()[[row, 0]]);
            for at in 0..self.width {
                let gradient = by_mixed[[row, at]];
                by_pairs[[row, at]] = p * gradient;
                by_pairs[[row, self.width + at]] = (1.0 - p) * gradient;
                by_score[[row, 0]] += gradient * (pairs[[row, at]] - pairs[[row, self.width + at]]) * p * (1.0 - p);
            }
        }
        let (by_scores, by_inputs) = self.score.backward(pairs.view(), &scores, by_score);
        by_pairs += &by_inputs;
        let by_trunk = by_pairs.to_shape((n, CONCEPTS * 2 * self.width)).expect("as many elements").into_owned();
        let (by_trunk, _) = self.trunk.backward(inputs, &trunk, by_trunk);
        let networks = [(&mut self.trunk, by_trunk), (&mut self.score, by_scores), (&mut self.head, by_head)];
        for (optimiser, (network, gradient)) in optimisers.iter_mut().zip(networks) {
            optimiser.step(network, &gradient);
        }
    }

    /// Reshapes outputs to one row for each row and concept.
    fn pairs(&self, outputs: &Array2<f32>) -> Array2<f32> {
        outputs.to_shape((outputs.nrows() * CONCEPTS, 2 * self.width)).expect("as many elements").into_owned()
    }

    /// The mixed embeddings of all concepts, one row for each row.
    fn mixed(&self, pairs: &Array2<f32>, scores: &Array2<f32>) -> Array2<f32> {
        let mixed = |row: usize, at: usize| {
            let p = sigmoid(scores[[row, 0]]);
            p * pairs[[row, at]] + (1.0 - p) * pairs[[row, self.width + at]]
        };
        let all = Array2::from_shape_fn((pairs.nrows(), self.width), |(row, at)| mixed(row, at));
        all.to_shape((pairs.nrows() / CONCEPTS, CONCEPTS * self.width)).expect("as many elements").into_owned()
    }

    /// The first concept's embeddings of new rows, coordinates side by side, and its labels.
    pub fn embeddings(&self, rows: usize) -> (Vec<f64>, Vec<i32>) {
        let data = TabularToy::new(0.25).expect("a correlation").rows(rows, 2);
        let pairs = self.pairs(&self.trunk.outputs(data.inputs()));
        let mixed = self.mixed(&pairs, &self.score.outputs(pairs.view()));
        let first = mixed.slice(s![.., ..self.width]);
        (
            first.iter().map(|&value| f64::from(value)).collect(),
            data.concepts().column(0).iter().map(|&c| c as i32).collect(),
        )
    }
}
