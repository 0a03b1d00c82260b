//! Multilayer perceptrons: dense layers in sequence.

use ndarray::{Array2, ArrayView2};
use rand::Rng;

use super::dense::{Activation, Dense, Parameters};

/// A stack of dense layers. Single precision, and no parallelism inside, so a result depends on the seed alone.
#[derive(Clone, Debug)]
pub struct Mlp {
    layers: Vec<Dense>,
}

/// Outputs of every layer in one forward pass, which the backward pass needs.
#[derive(Clone, Debug)]
pub struct Trace(Vec<Array2<f32>>);

impl Trace {
    /// Outputs of the last layer, [n, outputs].
    pub fn outputs(&self) -> &Array2<f32> {
        self.0.last().expect("`Mlp::new` requires at least one layer")
    }
}

impl Mlp {
    /// A network from `inputs` values through layers of the given widths and activation functions. Losses take logits,
    /// so the last layer is mostly an [`Activation::Identity`]. Panics when there is no layer or a width is 0.
    pub fn new(inputs: usize, layers: &[(usize, Activation)], rng: &mut impl Rng) -> Self {
        assert!(!layers.is_empty(), "a network has at least one layer");
        let mut width = inputs;
        let layers = layers.iter().map(|&(outputs, activation)| {
            let layer = Dense::new(width, outputs, activation, rng);
            width = outputs;
            layer
        });
        Self { layers: layers.collect() }
    }

    pub fn parameters(&self) -> impl Iterator<Item = &Parameters> {
        self.layers.iter().map(|layer| &layer.parameters)
    }

    pub fn parameters_mut(&mut self) -> impl Iterator<Item = &mut Parameters> {
        self.layers.iter_mut().map(|layer| &mut layer.parameters)
    }

    /// Outputs of the last layer, [n, inputs] to [n, outputs].
    pub fn outputs(&self, inputs: ArrayView2<f32>) -> Array2<f32> {
        let (first, rest) = self.layers.split_first().expect("`new` requires at least one layer");
        rest.iter().fold(first.forward(inputs), |values, layer| layer.forward(values.view()))
    }

    /// The same as [`Self::outputs`], with what [`Self::backward`] needs.
    pub fn forward(&self, inputs: ArrayView2<f32>) -> Trace {
        let mut outputs: Vec<Array2<f32>> = Vec::with_capacity(self.layers.len());
        for layer in &self.layers {
            let values = layer.forward(outputs.last().map_or(inputs, |outputs| outputs.view()));
            outputs.push(values);
        }
        Trace(outputs)
    }

    /// The gradient of a loss with respect to the parameters of each layer and to `inputs`, [n, inputs], from its gradient
    /// with respect to the outputs, [n, outputs]. `trace` is the forward pass of the same `inputs` with the same parameters.
    pub fn backward(
        &self,
        inputs: ArrayView2<f32>,
        trace: &Trace,
        gradient: Array2<f32>,
    ) -> (Vec<Parameters>, Array2<f32>) {
        let mut gradient = gradient;
        let mut by_layer = Vec::with_capacity(self.layers.len());
        for (at, layer) in self.layers.iter().enumerate().rev() {
            let layer_inputs = if at == 0 { inputs } else { trace.0[at - 1].view() };
            let (by_parameters, by_inputs) = layer.backward(layer_inputs, &trace.0[at], gradient);
            by_layer.push(by_parameters);
            gradient = by_inputs;
        }
        by_layer.reverse();
        (by_layer, gradient)
    }
}

#[cfg(test)]
mod tests;
