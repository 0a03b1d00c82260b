//! Adam (Kingma & Ba 2015, arXiv 1412.6980, algorithm 1).

use ndarray::Zip;

use super::dense::Parameters;
use super::mlp::Mlp;

const FIRST_DECAY: f32 = 0.9;
const SECOND_DECAY: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// The root that ε is added to. Where gradients vanish the two train differently: a classifier that separates its
/// classes goes on for other epochs and ends elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epsilon {
    /// The corrected one: algorithm 1, and PyTorch.
    Corrected,
    /// The uncorrected one: the faster form at the end of the paper's Section 2, scikit-learn and Keras.
    Uncorrected,
}

/// The learning rate, and the factor of the root of the second moment, corrected for moments that start at 0. `step`
/// counts from 1.
pub fn corrections(learning_rate: f32, step: i32, epsilon: Epsilon) -> [f32; 2] {
    match epsilon {
        Epsilon::Corrected => {
            [learning_rate / (1.0 - FIRST_DECAY.powi(step)), 1.0 / (1.0 - SECOND_DECAY.powi(step)).sqrt()]
        }
        Epsilon::Uncorrected => {
            let [first, second] = [FIRST_DECAY, SECOND_DECAY].map(|decay| 1.0 - f64::from(decay).powi(step));
            [(f64::from(learning_rate) * second.sqrt() / first) as f32, 1.0]
        }
    }
}

/// Moves one parameter against the gradient `g`, with its moments and the step's [`corrections`].
#[inline]
pub fn update(value: &mut f32, g: f32, first: &mut f32, second: &mut f32, step_size: f32, second_scale: f32) {
    *first = FIRST_DECAY * *first + (1.0 - FIRST_DECAY) * g;
    *second = SECOND_DECAY * *second + (1.0 - SECOND_DECAY) * g * g;
    *value -= step_size * *first / (second.sqrt() * second_scale + EPSILON);
}

/// Optimiser state for one network. Two networks trained on one loss may have one each: no parameter's step depends
/// on another's.
#[derive(Clone, Debug)]
pub struct Adam {
    learning_rate: f32,
    epsilon: Epsilon,
    steps: i32,
    /// Running means of the gradient and of its square, layer by layer.
    moments: Vec<(Parameters, Parameters)>,
}

impl Adam {
    /// With ε as in algorithm 1.
    pub fn new(network: &Mlp, learning_rate: f32) -> Self {
        Self::with_epsilon(network, learning_rate, Epsilon::Corrected)
    }

    pub fn with_epsilon(network: &Mlp, learning_rate: f32, epsilon: Epsilon) -> Self {
        let zeros = |parameters| (Parameters::zeros_like(parameters), Parameters::zeros_like(parameters));
        Self { learning_rate, epsilon, steps: 0, moments: network.parameters().map(zeros).collect() }
    }

    /// Moves the parameters of the network this state was made for one step against `gradient`.
    pub fn step(&mut self, network: &mut Mlp, gradient: &[Parameters]) {
        assert_eq!(gradient.len(), self.moments.len(), "a gradient for each layer of the network");
        self.steps = self.steps.saturating_add(1);
        let [step_size, second_scale] = corrections(self.learning_rate, self.steps, self.epsilon);
        let update = |value: &mut f32, &g: &f32, first: &mut f32, second: &mut f32| {
            update(value, g, first, second, step_size, second_scale);
        };
        for ((parameters, gradient), (first, second)) in
            network.parameters_mut().zip(gradient).zip(self.moments.iter_mut())
        {
            Zip::from(&mut parameters.weights)
                .and(&gradient.weights)
                .and(&mut first.weights)
                .and(&mut second.weights)
                .for_each(update);
            Zip::from(&mut parameters.bias)
                .and(&gradient.bias)
                .and(&mut first.bias)
                .and(&mut second.bias)
                .for_each(update);
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::nn::dense::Activation;

    fn one_weight(value: f32) -> (Mlp, Adam) {
        let mut network = Mlp::new(1, &[(1, Activation::Identity)], &mut ChaCha8Rng::seed_from_u64(0));
        for parameters in network.parameters_mut() {
            *parameters = Parameters { weights: array![[value]], bias: array![0.0] };
        }
        let adam = Adam::new(&network, 0.1);
        (network, adam)
    }

    fn weight(network: &Mlp) -> f32 {
        network.parameters().map(|layer| layer.weights[[0, 0]]).sum()
    }

    #[test]
    fn two_steps_by_hand() {
        let (mut network, mut adam) = one_weight(1.0);
        // Step 1: m = 0.1·2 = 0.2, v = 0.001·4 = 0.004, both corrected to 2 and 4: 1 − 0.1·2/√4 = 0.9.
        adam.step(&mut network, &[Parameters { weights: array![[2.0]], bias: array![0.0] }]);
        assert!((weight(&network) - 0.9).abs() < 1e-6, "{}", weight(&network));
        // Step 2: m = 0.9·0.2 − 0.1 = 0.08, corrected 0.08/0.19; v = 0.999·0.004 + 0.001 = 0.004996, corrected
        // 0.004996/0.001999: 0.9 − 0.1·0.421053/1.580899 = 0.873366.
        adam.step(&mut network, &[Parameters { weights: array![[-1.0]], bias: array![0.0] }]);
        assert!((weight(&network) - 0.873_366).abs() < 2e-6, "{}", weight(&network));
        assert_eq!(network.parameters().map(|layer| layer.bias[0]).sum::<f32>(), 0.0, "no gradient, no step");
    }

    #[test]
    fn epsilon_beside_the_uncorrected_root_shortens_first_steps_of_small_gradients() {
        let step = |epsilon| {
            let (mut network, _) = one_weight(0.0);
            let mut adam = Adam::with_epsilon(&network, 0.1, epsilon);
            adam.step(&mut network, &[Parameters { weights: array![[1e-8]], bias: array![0.0] }]);
            weight(&network)
        };
        // m/(1 − β₁) = 1e-8 and √(v/(1 − β₂)) = 1e-8: −0.1 · 1/(1 + 1).
        assert!((step(Epsilon::Corrected) + 0.05).abs() < 1e-4, "{}", step(Epsilon::Corrected));
        // √v = 1e-8·√0.001: −0.1 · √0.001/(√0.001 + 1).
        assert!((step(Epsilon::Uncorrected) + 0.003_065_3).abs() < 1e-5, "{}", step(Epsilon::Uncorrected));
    }
}
