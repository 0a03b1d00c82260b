//! Losses on logits, each with its gradient.

use ndarray::{Array2, ArrayView2, Zip};

use super::dense::sigmoid;

/// Mean binary cross-entropy over all elements, in nats, and its gradient with respect to the logits. `logits` and
/// `targets` (in [0, 1], or NaN for an unknown one, which adds nothing) are [n, m]. Computed as max(z, 0) − z·t + ln(1 + exp(−|z|)), which is finite for every finite logit.
pub fn binary_cross_entropy(logits: ArrayView2<f32>, targets: ArrayView2<f32>) -> (f32, Array2<f32>) {
    let elements = logits.len() as f32;
    let mut sum = 0.0_f64;
    let mut gradient = Array2::zeros(logits.raw_dim());
    Zip::from(&mut gradient).and(logits).and(targets).for_each(|g, &z, &target| {
        if !target.is_nan() {
            sum += f64::from(z.max(0.0) - z * target + (-z.abs()).exp().ln_1p());
            *g = (sigmoid(z) - target) / elements;
        }
    });
    ((sum / f64::from(elements)) as f32, gradient)
}

/// Mean cross-entropy of the softmax over classes, in nats, and its gradient with respect to the logits. `logits` is [n, l];
/// `classes` holds n class numbers below l, and a larger one panics.
pub fn softmax_cross_entropy(logits: ArrayView2<f32>, classes: &[usize]) -> (f32, Array2<f32>) {
    assert_eq!(logits.nrows(), classes.len(), "a class number for each row of logits");
    let rows = logits.nrows() as f32;
    let mut sum = 0.0_f64;
    let mut gradient = logits.to_owned();
    for (mut row, &class) in gradient.rows_mut().into_iter().zip(classes) {
        // Relative to the largest logit, no exponential overflows.
        let largest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let relative = row[class] - largest;
        row.mapv_inplace(|z| (z - largest).exp());
        let total = row.sum();
        sum += f64::from(total.ln() - relative);
        row.mapv_inplace(|e| e / (total * rows));
        row[class] -= 1.0 / rows;
    }
    ((sum / f64::from(rows)) as f32, gradient)
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn binary_cross_entropy_is_ln_2_for_an_undecided_logit() {
        let (loss, gradient) = binary_cross_entropy(array![[0.0, 0.0]].view(), array![[1.0, 0.0]].view());
        assert!((loss - std::f32::consts::LN_2).abs() < 1e-6);
        assert_eq!(gradient, array![[-0.25, 0.25]]);
    }

    #[test]
    fn an_unknown_target_has_no_gradient() {
        let (loss, gradient) = binary_cross_entropy(array![[0.0, 3.0]].view(), array![[1.0, f32::NAN]].view());
        assert!((loss - std::f32::consts::LN_2 / 2.0).abs() < 1e-6);
        assert_eq!(gradient, array![[-0.25, 0.0]]);
    }

    #[test]
    fn binary_cross_entropy_of_huge_wrong_logits_is_their_size() {
        let logits = array![[1e4, -1e4, 1e4, -1e4]];
        let (loss, gradient) = binary_cross_entropy(logits.view(), array![[1.0, 0.0, 0.0, 1.0]].view());
        assert_eq!(loss, 5e3);
        assert_eq!(gradient, array![[0.0, 0.0, 0.25, -0.25]]);
    }

    #[test]
    fn softmax_of_two_classes_is_the_binary_loss_of_the_difference() {
        let logits = array![[0.4, -0.9], [-2.0, 1.5]];
        let difference = array![[-1.3_f32], [3.5]];
        let (two, _) = softmax_cross_entropy(logits.view(), &[1, 0]);
        let (binary, _) = binary_cross_entropy(difference.view(), array![[1.0], [0.0]].view());
        assert!((two - binary).abs() < 1e-6);
    }

    #[test]
    fn softmax_cross_entropy_of_huge_logits_is_finite() {
        let (loss, gradient) = softmax_cross_entropy(array![[1e4, -1e4], [1e4, -1e4]].view(), &[0, 1]);
        assert_eq!(loss, 1e4);
        assert_eq!(gradient, array![[0.0, 0.0], [0.5, -0.5]]);
    }
}
