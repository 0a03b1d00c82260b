use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::nn::loss::{binary_cross_entropy, softmax_cross_entropy};

type Loss = fn(ArrayView2<f32>) -> (f32, Array2<f32>);

fn against_binary_targets(logits: ArrayView2<f32>) -> (f32, Array2<f32>) {
    let targets = Array2::from_shape_fn(logits.raw_dim(), |(row, column)| ((row + column) % 2) as f32);
    binary_cross_entropy(logits, targets.view())
}

fn against_classes(logits: ArrayView2<f32>) -> (f32, Array2<f32>) {
    let classes: Vec<usize> = (0..logits.nrows()).map(|row| row % logits.ncols()).collect();
    softmax_cross_entropy(logits, &classes)
}

fn inputs(rows: usize, columns: usize, rng: &mut ChaCha8Rng) -> Array2<f32> {
    Array2::from_shape_simple_fn((rows, columns), || rng.random_range(-2.0..2.0))
}

/// Half the distance of the central differences below. Small, so that hardly a unit crosses the kink of a ReLU.
const STEP: f32 = 2e-3;
/// Largest gap, relative for gradients above 1: the rounding of a loss of a few nats in single precision, over the
/// distance, with room for the third derivative.
const TOLERANCE: f32 = 3e-4;

#[test]
fn backward_agrees_with_central_differences_for_every_activation_and_loss() {
    let losses: [(&str, Loss); 2] = [("binary", against_binary_targets), ("softmax", against_classes)];
    let activations = [Activation::Identity, Activation::Relu, Activation::LeakyRelu, Activation::Sigmoid];
    for hidden in activations {
        for (name, loss) in losses {
            let mut rng = ChaCha8Rng::seed_from_u64(3);
            let x = inputs(6, 4, &mut rng);
            let layers = [(5, hidden), (4, hidden), (3, Activation::Identity)];
            let mut network = Mlp::new(4, &layers, &mut rng);
            // Larger than initial weights are, so that no gradient drowns in rounding.
            network.parameters_mut().for_each(|layer| layer.weights *= 2.5);
            let trace = network.forward(x.view());
            let (by_parameters, by_inputs) = network.backward(x.view(), &trace, loss(trace.outputs().view()).1);
            for layer in &by_parameters {
                let largest = layer.weights.iter().fold(0.0, |largest: f32, g| largest.max(g.abs()));
                assert!(largest > 5.0 * TOLERANCE, "{hidden:?}, {name}: {largest} would pass as 0");
            }

            let compare = |part: String, analytic: f32, shifted: &dyn Fn(f32) -> f32| {
                let numeric = (shifted(STEP) - shifted(-STEP)) / (2.0 * STEP);
                let gap = (analytic - numeric).abs() / (1.0 + analytic.abs());
                assert!(gap < TOLERANCE, "{hidden:?}, {name}, {part}: {analytic} and {numeric}");
            };
            for (at, &analytic) in by_inputs.indexed_iter() {
                compare(format!("input {at:?}"), analytic, &|by| {
                    let mut x = x.clone();
                    x[at] += by;
                    loss(network.outputs(x.view()).view()).0
                });
            }
            for (layer, gradient) in by_parameters.iter().enumerate() {
                for (at, &analytic) in gradient.weights.indexed_iter() {
                    compare(format!("layer {layer} weight {at:?}"), analytic, &|by| {
                        let mut network = network.clone();
                        network.layers[layer].parameters.weights[at] += by;
                        loss(network.outputs(x.view()).view()).0
                    });
                }
                for (at, &analytic) in gradient.bias.indexed_iter() {
                    compare(format!("layer {layer} bias {at}"), analytic, &|by| {
                        let mut network = network.clone();
                        network.layers[layer].parameters.bias[at] += by;
                        loss(network.outputs(x.view()).view()).0
                    });
                }
            }
        }
    }
}
