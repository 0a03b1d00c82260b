//! Dense layers: an affine map and an activation function, forward and backward.

use ndarray::linalg::general_mat_mul;
use ndarray::{Array1, Array2, ArrayView2, Axis, Zip};
use rand::{Rng, RngExt};

/// Slope of leaky ReLU below 0, PyTorch's default.
const LEAK: f32 = 0.01;

/// An elementwise function after a dense layer. Its derivative follows from its output alone, so a forward pass stores
/// outputs only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Identity,
    Relu,
    /// x above 0, 0.01 x below.
    LeakyRelu,
    /// 1 / (1 + exp(−x)), in [0, 1].
    Sigmoid,
}

impl Activation {
    /// Replaces every value by its image.
    pub fn apply(self, values: &mut Array2<f32>) {
        match self {
            Self::Identity => {}
            Self::Relu => values.mapv_inplace(|x| x.max(0.0)),
            Self::LeakyRelu => values.mapv_inplace(|x| if x > 0.0 { x } else { LEAK * x }),
            Self::Sigmoid => values.mapv_inplace(sigmoid),
        }
    }

    /// Replaces the gradient of a loss with respect to this function's outputs by that with respect to its inputs. At the
    /// kink of the ReLUs the slope is the one below 0, as in PyTorch.
    pub fn backward(self, outputs: &Array2<f32>, gradient: &mut Array2<f32>) {
        let slopes = Zip::from(gradient).and(outputs);
        match self {
            Self::Identity => {}
            Self::Relu => slopes.for_each(|g, &out| *g = if out > 0.0 { *g } else { 0.0 }),
            Self::LeakyRelu => slopes.for_each(|g, &out| *g = if out > 0.0 { *g } else { LEAK * *g }),
            Self::Sigmoid => slopes.for_each(|g, &out| *g *= out * (1.0 - out)),
        }
    }
}

/// 1 / (1 + exp(−x)), without overflow at either end.
pub fn sigmoid(x: f32) -> f32 {
    let small = (-x.abs()).exp();
    if x >= 0.0 { 1.0 / (1.0 + small) } else { small / (1.0 + small) }
}

/// Weights and biases of one layer. Their gradient and Adam's moments have the same shape, and so the same type.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameters {
    /// [inputs, outputs].
    pub weights: Array2<f32>,
    /// [outputs].
    pub bias: Array1<f32>,
}

impl Parameters {
    pub fn zeros(inputs: usize, outputs: usize) -> Self {
        Self { weights: Array2::zeros((inputs, outputs)), bias: Array1::zeros(outputs) }
    }

    pub fn zeros_like(other: &Self) -> Self {
        let (inputs, outputs) = other.weights.dim();
        Self::zeros(inputs, outputs)
    }
}

/// outputs = activation(inputs · weights + bias), one row for each sample.
#[derive(Clone, Debug)]
pub struct Dense {
    pub parameters: Parameters,
    pub activation: Activation,
}

impl Dense {
    /// Weights and biases uniform in ±1/√inputs, as PyTorch's `nn.Linear` does.
    pub fn new(inputs: usize, outputs: usize, activation: Activation, rng: &mut impl Rng) -> Self {
        assert!(inputs > 0 && outputs > 0, "a layer of {inputs} inputs and {outputs} outputs maps nothing");
        let bound = 1.0 / (inputs as f32).sqrt();
        let mut draw = || rng.random_range(-bound..=bound);
        let weights = Array2::from_shape_simple_fn((inputs, outputs), &mut draw);
        let bias = Array1::from_shape_simple_fn(outputs, &mut draw);
        Self { parameters: Parameters { weights, bias }, activation }
    }

    /// [n, inputs] to [n, outputs].
    pub fn forward(&self, inputs: ArrayView2<f32>) -> Array2<f32> {
        let mut outputs = inputs.dot(&self.parameters.weights);
        outputs += &self.parameters.bias;
        self.activation.apply(&mut outputs);
        outputs
    }

    /// The gradient of a loss with respect to this layer's parameters and inputs [n, inputs], from that with respect to its
    /// outputs [n, outputs]. `inputs` and `outputs` are those of the forward pass.
    pub fn backward(
        &self,
        inputs: ArrayView2<f32>,
        outputs: &Array2<f32>,
        mut gradient: Array2<f32>,
    ) -> (Parameters, Array2<f32>) {
        self.activation.backward(outputs, &mut gradient);
        let mut by_parameters = Parameters::zeros_like(&self.parameters);
        general_mat_mul(1.0, &inputs.t(), &gradient, 0.0, &mut by_parameters.weights);
        by_parameters.bias = gradient.sum_axis(Axis(0));
        let by_inputs = gradient.dot(&self.parameters.weights.t());
        (by_parameters, by_inputs)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;

    #[test]
    fn a_layer_maps_each_row_by_its_weights_and_bias() {
        let parameters = Parameters { weights: array![[1.0, -1.0], [2.0, 0.5]], bias: array![0.5, -3.0] };
        let inputs = array![[1.0, 1.0], [0.0, -2.0]];
        let outputs = |activation| Dense { parameters: parameters.clone(), activation }.forward(inputs.view());
        assert_eq!(outputs(Activation::Identity), array![[3.5, -3.5], [-3.5, -4.0]]);
        assert_eq!(outputs(Activation::Relu), array![[3.5, 0.0], [0.0, 0.0]]);
        assert_eq!(outputs(Activation::LeakyRelu), array![[3.5, -0.035], [-0.035, -0.04]]);
        let probabilities = outputs(Activation::Sigmoid);
        assert!((probabilities[[0, 0]] - 0.970_687_8).abs() < 1e-6);
        assert!((probabilities[[0, 0]] + probabilities[[0, 1]] - 1.0).abs() < 1e-6);
    }

    #[test]
    fn sigmoid_is_finite_and_monotone_at_both_ends() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!((sigmoid(-1e4), sigmoid(1e4)), (0.0, 1.0));
        assert!(sigmoid(-80.0) > 0.0, "small probabilities keep their exponent");
        let values: Vec<f32> = (-200..=200).map(|x| sigmoid(x as f32 / 10.0)).collect();
        assert!(values.is_sorted());
    }

    #[test]
    fn initial_parameters_are_uniform_within_the_bound_of_the_fan_in() {
        let layer = Dense::new(100, 400, Activation::Identity, &mut ChaCha8Rng::seed_from_u64(1));
        let values = layer.parameters.weights.iter().chain(&layer.parameters.bias);
        let (n, mean, square) = values.clone().fold((0.0_f64, 0.0_f64, 0.0_f64), |(n, mean, square), &w| {
            (n + 1.0, mean + f64::from(w), square + f64::from(w) * f64::from(w))
        });
        assert!(values.clone().all(|w| w.abs() <= 0.1));
        assert!(values.clone().any(|w| w.abs() > 0.099));
        // A uniform variable on ±b has variance b²/3; four standard errors of 40,400 draws.
        assert!((mean / n).abs() < 4.0 * (0.01 / 3.0 / n).sqrt());
        assert!((square / n - 0.01 / 3.0).abs() < 4.0 * 0.01 * (4.0 / 45.0 / n).sqrt());
    }
}
