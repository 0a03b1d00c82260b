//! The result of an estimator: a value in nats with the influence of each row, from which its standard error follows.

use super::{elementwise, sum};

/// An estimate in nats, and what its uncertainty follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate. In the published kind the mean over repeats of each repeat's value clipped at 0, otherwise raw: it
    /// may be negative.
    pub value: f64,
    /// In the published kind each repeat's value, clipped at 0, for scores that are computed repeat by repeat; otherwise
    /// `value` alone.
    pub repeats: Vec<f64>,
    /// The same without clipping.
    pub unclipped: f64,
    /// The rows' centred terms, in row order and as long as there are rows; 0 for rows left out. The sampling variance
    /// of `unclipped` is about Σ influence² / N², and that of a sum of estimates Σ (summed influence)² / N².
    pub influence: Vec<f64>,
    /// Variance of `unclipped` over draws or repeats; 0 where there is no noise or only one of them.
    pub draw_variance: f64,
}

impl Estimate {
    /// `normaliser` + the mean of the rows' terms. Rows `left_out` are excluded; their terms are 0.
    pub(super) fn from_terms(normaliser: f64, terms: Vec<f64>, left_out: &[u32]) -> Self {
        let included = (terms.len() - left_out.len()).max(1) as f64;
        let mean = sum::total(&terms) / included;
        let value = normaliser + mean;
        let weight = terms.len() as f64 / included;
        let mut influence = terms;
        elementwise::centre(&mut influence, mean, weight);
        left_out.iter().for_each(|&row| influence[row as usize] = 0.0);
        Self { value, repeats: vec![value], unclipped: value, influence, draw_variance: 0.0 }
    }

    /// The mean of estimates that differ in their noise, each clipped at 0. `repeats` is not empty.
    pub(super) fn over_repeats(repeats: &[Self]) -> Self {
        let count = repeats.len() as f64;
        let unclipped: Vec<f64> = repeats.iter().map(|repeat| repeat.unclipped).collect();
        let clipped: Vec<f64> = unclipped.iter().map(|value| value.max(0.0)).collect();
        let mut influence = vec![0.0; repeats[0].influence.len()];
        for repeat in repeats {
            for (mean, term) in influence.iter_mut().zip(&repeat.influence) {
                *mean += term / count;
            }
        }
        Self {
            value: clipped.iter().sum::<f64>() / count,
            repeats: clipped,
            unclipped: unclipped.iter().sum::<f64>() / count,
            influence,
            draw_variance: variance_of_mean(&unclipped),
        }
    }

    /// √Σ influence² / N: the standard error from sampling alone.
    pub fn sampling_error(&self) -> f64 {
        let squares: Vec<f64> = self.influence.iter().map(|term| term * term).collect();
        sum::total(&squares).sqrt() / self.influence.len().max(1) as f64
    }
}

/// Variance of the mean of independent `values`; 0 for fewer than two.
pub(super) fn variance_of_mean(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
}
