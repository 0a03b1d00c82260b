//! Training of one network on all its rows: minibatches, weight decay, and scikit-learn's rule for when to stop.

use ndarray::{Array2, ArrayView2, Axis};
use rand::seq::SliceRandom;
use rand::{Rng, RngExt};

use super::adam::{Adam, Epsilon};
use super::loss::{binary_cross_entropy, softmax_cross_entropy};
use super::mlp::Mlp;
use super::random_state::RandomState;

/// The targets of each row.
pub enum Targets {
    /// [n, m], 0 or 1: m classifiers of two classes each, by binary cross-entropy summed over m.
    Flags(Array2<f32>),
    /// n class numbers, by the cross-entropy of a softmax.
    Classes(Vec<usize>),
    /// The same with the outputs added to these logits [n, l], which stay as they are.
    ClassesFrom(Vec<usize>, Array2<f32>),
}

/// How a network is trained.
#[derive(Clone, Copy, Debug)]
pub struct Recipe {
    /// At most.
    pub epochs: usize,
    pub batch: usize,
    pub learning_rate: f32,
    pub epsilon: Epsilon,
    /// α of the penalty α/2 · Σ weight² / rows of the batch, biases left out.
    pub weight_decay: f32,
    /// Ends when the loss of an epoch has not fallen by `tolerance` below the best for more than `patience` epochs.
    pub stop: Option<Stop>,
}

#[derive(Clone, Copy, Debug)]
pub struct Stop {
    pub tolerance: f64,
    pub patience: usize,
}

/// Weights uniform in ±√(6 / (inputs + outputs)) (Glorot & Bengio 2010) and no biases, as Keras does by default.
pub fn start_as_keras(network: &mut Mlp, rng: &mut impl Rng) {
    for layer in network.parameters_mut() {
        let (inputs, outputs) = layer.weights.dim();
        let bound = (6.0 / (inputs + outputs) as f32).sqrt();
        layer.weights.mapv_inplace(|_| rng.random_range(-bound..=bound));
        layer.bias.fill(0.0);
    }
}

/// Weights and biases uniform in ±√(6 / (inputs + outputs)): the numbers from which scikit-learn's MLPClassifier starts.
pub fn start_as_scikit_learn(network: &mut Mlp, random: &mut RandomState) {
    for layer in network.parameters_mut() {
        let (inputs, outputs) = layer.weights.dim();
        let bound = (6.0 / (inputs + outputs) as f64).sqrt();
        let mut draw = || (2.0 * bound * random.uniform() - bound) as f32;
        layer.weights.mapv_inplace(|_| draw());
        layer.bias.mapv_inplace(|_| draw());
    }
}

/// Puts the rows in the order of the next epoch.
pub trait Shuffle {
    fn shuffle(&mut self, order: &mut Vec<usize>);
}

impl<R: Rng> Shuffle for R {
    fn shuffle(&mut self, order: &mut Vec<usize>) {
        order.as_mut_slice().shuffle(self);
    }
}

/// As scikit-learn's MLPClassifier does, which goes on with the state that drew its weights.
impl Shuffle for RandomState {
    fn shuffle(&mut self, order: &mut Vec<usize>) {
        *order = self.permutation(order.len()).into_iter().map(|at| order[at]).collect();
    }
}

/// Trains `network` on `inputs` [n, d]; returns the mean loss of a row, penalty included, of each epoch, taken before the
/// steps of its batches. After each epoch the function gets its number, from 1, and the network. Panics when there are no
/// rows.
pub fn fit(
    network: &mut Mlp,
    inputs: ArrayView2<f32>,
    targets: &Targets,
    recipe: &Recipe,
    random: &mut impl Shuffle,
    after_each_epoch: &mut dyn FnMut(usize, &Mlp),
) -> Vec<f64> {
    let n = inputs.nrows();
    assert!(n > 0 && recipe.batch > 0, "a batch has at least one row");
    let mut optimiser = Adam::with_epsilon(network, recipe.learning_rate, recipe.epsilon);
    let mut order: Vec<usize> = (0..n).collect();
    let (mut best, mut without_progress) = (f64::INFINITY, 0);
    let mut losses = Vec::new();
    for epoch in 1..=recipe.epochs {
        random.shuffle(&mut order);
        let mut total = 0.0;
        for rows in order.chunks(recipe.batch) {
            let batch = inputs.select(Axis(0), rows);
            let trace = network.forward(batch.view());
            let (loss, gradient) = loss(targets, trace.outputs().view(), rows);
            let (mut by_layer, _) = network.backward(batch.view(), &trace, gradient);
            let decay = recipe.weight_decay / rows.len() as f32;
            let mut squares = 0.0;
            for (gradient, layer) in by_layer.iter_mut().zip(network.parameters()) {
                gradient.weights.scaled_add(decay, &layer.weights);
                squares += f64::from(layer.weights.iter().map(|w| w * w).sum::<f32>());
            }
            total += (loss + 0.5 * f64::from(decay) * squares) * rows.len() as f64;
            optimiser.step(network, &by_layer);
        }
        after_each_epoch(epoch, network);
        let loss = total / n as f64;
        losses.push(loss);
        let Some(stop) = recipe.stop else { continue };
        without_progress = if loss > best - stop.tolerance { without_progress + 1 } else { 0 };
        best = best.min(loss);
        if without_progress > stop.patience {
            break;
        }
    }
    losses
}

/// The mean loss of a row, and its gradient by the outputs.
fn loss(targets: &Targets, outputs: ArrayView2<f32>, rows: &[usize]) -> (f64, Array2<f32>) {
    match targets {
        Targets::Flags(flags) => {
            // The mean over all elements times m is the sum over m, mean over rows.
            let m = outputs.ncols() as f32;
            let (loss, gradient) = binary_cross_entropy(outputs, flags.select(Axis(0), rows).view());
            (f64::from(loss * m), gradient * m)
        }
        Targets::Classes(classes) => {
            let chosen: Vec<usize> = rows.iter().map(|&row| classes[row]).collect();
            let (loss, gradient) = softmax_cross_entropy(outputs, &chosen);
            (f64::from(loss), gradient)
        }
        Targets::ClassesFrom(classes, start) => {
            let chosen: Vec<usize> = rows.iter().map(|&row| classes[row]).collect();
            let mut logits = start.select(Axis(0), rows);
            logits += &outputs;
            let (loss, gradient) = softmax_cross_entropy(logits.view(), &chosen);
            (f64::from(loss), gradient)
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::nn::dense::Activation;

    #[test]
    fn weight_decay_pulls_weights_to_0_and_leaves_biases() {
        let mut rng = ChaCha8Rng::seed_from_u64(3);
        let inputs = Array2::from_shape_simple_fn((256, 2), || f32::from(u8::from(rng.random::<bool>())));
        let classes: Vec<usize> = inputs.rows().into_iter().map(|row| usize::from(row[0] != row[1])).collect();
        let mut size = |weight_decay: f32| {
            let (epochs, batch, learning_rate) = (300, 64, 1e-2);
            let recipe = Recipe { epochs, batch, learning_rate, epsilon: Epsilon::Corrected, weight_decay, stop: None };
            let mut learnt = Mlp::new(2, &[(16, Activation::Relu), (2, Activation::Identity)], &mut rng);
            start_as_keras(&mut learnt, &mut rng);
            let targets = Targets::Classes(classes.clone());
            fit(&mut learnt, inputs.view(), &targets, &recipe, &mut rng, &mut |_, _| ());
            learnt.parameters().map(|layer| layer.weights.iter().map(|w| w * w).sum::<f32>()).sum::<f32>()
        };
        assert!(size(10.0) < 0.2 * size(0.0));
    }
}
