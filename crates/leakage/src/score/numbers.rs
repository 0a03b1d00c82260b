//! How well numbers are predicted: R², the share of their variance.

use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::term::Term;

/// Numbers to be predicted, which vary.
pub struct Numbers {
    values: Vec<f64>,
    mean: f64,
    variance: f64,
}

impl Numbers {
    /// Errors where they are constant.
    pub fn new(values: Vec<f64>) -> Result<Self, String> {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        if variance > 0.0 { Ok(Self { values, mean, variance }) } else { Err("its label is constant".into()) }
    }

    /// Reads the labels of a task that is a number.
    pub fn of_task(p: &Prepared) -> Result<Self, String> {
        if !p.run().has_continuous_labels(TensorName::TaskLabels) {
            return Err("the task labels are classes".into());
        }
        let labels = p.column(TensorName::TaskLabels).ok_or("there are no task labels")?;
        Self::new(labels.floats(0)).map_err(|_| "the task labels are constant".into())
    }

    /// The standard deviation.
    pub fn deviation(&self) -> f64 {
        self.variance.sqrt()
    }

    /// 1 − Σ(ŷ − y)² / Σ(y − mean y)², with the influence of each row on both sums.
    pub fn r2(&self, predictions: &[f64]) -> Term {
        let unexplained = 1.0 - self.value(predictions);
        let influence = |(prediction, value): (&f64, &f64)| {
            (unexplained * (value - self.mean).powi(2) - (prediction - value).powi(2)) / self.variance
        };
        let influence = predictions.iter().zip(&self.values).map(influence).collect();
        Term { value: 1.0 - unexplained, excess: 1.0 - unexplained, influence, draw_variance: 0.0 }
    }

    /// |ŷ − y| of each row.
    pub fn absolute_errors(&self, predictions: &[f64]) -> Vec<f64> {
        predictions.iter().zip(&self.values).map(|(prediction, value)| (prediction - value).abs()).collect()
    }

    /// The share of each row in R². Their mean is at least 0: predictions worse than a constant count as that constant.
    pub fn shares_of_r2(&self, predictions: &[f64]) -> Vec<f64> {
        let is_worse = self.value(predictions) < 0.0;
        let predicted = |prediction: &f64| if is_worse { self.mean } else { *prediction };
        let share = |(prediction, value): (&f64, &f64)| 1.0 - (predicted(prediction) - value).powi(2) / self.variance;
        predictions.iter().zip(&self.values).map(share).collect()
    }

    fn value(&self, predictions: &[f64]) -> f64 {
        let errors = predictions.iter().zip(&self.values).map(|(prediction, value)| (prediction - value).powi(2));
        1.0 - errors.sum::<f64>() / (self.values.len() as f64 * self.variance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_of_explained_variance_is_its_closed_form() {
        let labels = [0.0, 1.0, 2.0, 3.0];
        let numbers = Numbers::new(labels.to_vec()).unwrap();
        assert_eq!(numbers.r2(&labels).value, 1.0);
        assert_eq!(numbers.r2(&[1.5; 4]).value, 0.0);
        let term = numbers.r2(&[0.0, 1.0, 2.0, 4.0]);
        assert!((term.value - 0.8).abs() < 1e-15 && term.influence.iter().sum::<f64>().abs() < 1e-12);
        assert!(Numbers::new(vec![1.0; 4]).is_err());
        assert_eq!(numbers.absolute_errors(&[0.0, 3.0, 2.0, 2.5]), [0.0, 2.0, 0.0, 0.5]);
    }
}
