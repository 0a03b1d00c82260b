//! Means of few values, with what is known about their error.
//!
//! Intervals are Student's t. A bootstrap of so few values is too narrow: of five normal ones, its 95 % interval holds
//! the truth in 83 % of cases, that of t in 95 % (docs/compare.md, measured by `tests/compare/coverage.rs`).

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A mean, the variance of its error, and the degrees of freedom of that variance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    pub mean: f64,
    /// `None` where the error is unknown.
    pub error: Option<Error>,
    /// Values in the mean.
    pub count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Error {
    pub variance: f64,
    /// Degrees of freedom, above 0.
    pub freedom: f64,
}

/// One evaluation's value and its sampling error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    pub value: f64,
    pub standard_error: Option<f64>,
    /// N.
    pub rows: u64,
}

impl Estimate {
    /// Repeated evaluations of one run on one evaluation set. They share its rows, so their sampling errors W do not
    /// average out, while their scatter B does: the variance is mean(W) + B/m, as between and within imputations in
    /// Rubin's rule. `None` of nothing.
    pub fn of_evaluations(values: &[Measured]) -> Option<Self> {
        let (mean, scatter) = mean_and_variance(&values.iter().map(|one| one.value).collect::<Vec<_>>())?;
        let squares: Option<Vec<f64>> = values.iter().map(|one| Some(one.standard_error?.powi(2))).collect();
        let m = values.len() as f64;
        let error = squares.map(|squares| {
            let rows = values.iter().map(|one| one.rows).min().unwrap_or(0);
            let within = Error { variance: squares.iter().sum::<f64>() / m, freedom: (rows as f64 - 1.0).max(1.0) };
            let between = Error { variance: scatter.unwrap_or(0.0) / m, freedom: (m - 1.0).max(1.0) };
            within.and(between)
        });
        Some(Self { mean, error, count: values.len() })
    }

    /// Runs trained alike, or folds: independent values, whose scatter is their error. `None` of nothing.
    pub fn of_folds(means: &[f64]) -> Option<Self> {
        let (mean, variance) = mean_and_variance(means)?;
        let n = means.len() as f64;
        let error = variance.map(|variance| Error { variance: variance / n, freedom: n - 1.0 });
        Some(Self { mean, error, count: means.len() })
    }

    /// This minus the other, as if their errors were independent. For runs on the same rows they are not: what they share
    /// cancels, and the error is smaller than stated.
    pub fn less(&self, other: &Self) -> Self {
        let error = self.error.zip(other.error).map(|(a, b)| a.and(b));
        Self { mean: self.mean - other.mean, error, count: self.count.min(other.count) }
    }

    pub fn interval(&self, confidence: f64) -> Interval {
        let half = self.error.map(|error| match error.variance {
            0.0 => 0.0,
            variance => variance.sqrt() * error.student().inverse_cdf(0.5 + 0.5 * confidence),
        });
        Interval {
            mean: self.mean,
            standard_error: self.error.map(|error| error.variance.sqrt()),
            low: half.map(|half| self.mean - half),
            high: half.map(|half| self.mean + half),
            count: self.count,
        }
    }

    /// Two-sided, of a mean of 0. `None` where the error is unknown.
    pub fn p_value(&self) -> Option<f64> {
        let error = self.error?;
        Some(match error.variance {
            0.0 => f64::from(self.mean == 0.0),
            variance => 2.0 * error.student().cdf(-self.mean.abs() / variance.sqrt()),
        })
    }
}

impl Error {
    /// The error of a sum or difference, with the degrees of freedom of Welch and Satterthwaite
    /// (doi:10.1093/biomet/34.1-2.28).
    fn and(self, other: Self) -> Self {
        let variance = self.variance + other.variance;
        let spent = self.variance.powi(2) / self.freedom + other.variance.powi(2) / other.freedom;
        let freedom = if spent > 0.0 { variance.powi(2) / spent } else { self.freedom.min(other.freedom) };
        Self { variance, freedom }
    }

    fn student(self) -> StudentsT {
        StudentsT::new(0.0, 1.0, self.freedom).expect("degrees of freedom are above 0")
    }
}

/// A mean with its confidence interval, in the score's unit; the ends are absent where the error is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub mean: f64,
    pub standard_error: Option<f64>,
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// Evaluations or runs in the mean.
    pub count: usize,
}

impl Interval {
    /// Its ends cut to a score's range. Noise puts the mean of an unclipped score beyond an end; a cut there would hide the
    /// error on that side.
    pub(super) fn within(self, (least, most): (f64, f64)) -> Self {
        let low = self.low.map(|low| if self.mean < least { low } else { low.max(least) });
        let high = self.high.map(|high| if self.mean > most { high } else { high.min(most) });
        Self { low, high, ..self }
    }
}

/// Mean and unbiased variance; the variance of one value is unknown.
fn mean_and_variance(values: &[f64]) -> Option<(f64, Option<f64>)> {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (!values.is_empty()).then_some((mean, (values.len() > 1).then_some(variance)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64, standard_error: Option<f64>) -> Measured {
        Measured { value, standard_error, rows: 1000 }
    }

    #[test]
    fn the_interval_of_runs_is_that_of_the_textbook() {
        // Mean 3, standard deviation √2.5, t(4) at 97.5 %: 2.776445.
        let interval = Estimate::of_folds(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap().interval(0.95);
        let half = 2.776_445_105_198 * (2.5_f64 / 5.0).sqrt();
        assert_eq!((interval.mean, interval.count), (3.0, 5));
        assert!((interval.high.unwrap() - 3.0 - half).abs() < 1e-9, "{interval:?}");
        assert!((3.0 - interval.low.unwrap() - half).abs() < 1e-9, "{interval:?}");
    }

    #[test]
    fn differences_are_those_of_welch() {
        // By Welch's formulas; p by Simpson's rule over the density of t.
        let a = Estimate::of_folds(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        let b = Estimate::of_folds(&[2.0, 4.0, 6.0, 8.0, 10.0]).unwrap();
        let difference = a.less(&b);
        let error = difference.error.unwrap();
        assert!((difference.mean / error.variance.sqrt() + 2.251_436_323_159_37).abs() < 1e-9);
        assert!((error.freedom - 5.520_787_746_170_677).abs() < 1e-9);
        assert!((difference.p_value().unwrap() - 0.069_133_593).abs() < 1e-8, "{:?}", difference.p_value());
    }

    #[test]
    fn repeated_evaluations_do_not_average_out_what_their_rows_share() {
        let one = Estimate::of_evaluations(&[measured(0.2, Some(0.01))]).unwrap();
        let same = Estimate::of_evaluations(&[measured(0.2, Some(0.01)); 5]).unwrap();
        assert!((one.error.unwrap().variance - 1e-4).abs() < 1e-18);
        assert!((same.error.unwrap().variance - 1e-4).abs() < 1e-18);
        let scattered = [0.1, 0.3, 0.1, 0.3].map(|value| measured(value, Some(0.01)));
        let error = Estimate::of_evaluations(&scattered).unwrap().error.unwrap();
        // Scatter: 4 · 0.01 / 3, over 4.
        assert!((error.variance - (1e-4 + 0.04 / 3.0 / 4.0)).abs() < 1e-12);
        assert!(error.freedom > 3.0 && error.freedom < 4.0, "{}", error.freedom);
    }

    #[test]
    fn without_any_error_there_is_no_interval() {
        assert_eq!(Estimate::of_evaluations(&[measured(0.2, None); 3]).unwrap().interval(0.95).low, None);
        assert_eq!(Estimate::of_folds(&[0.2]).unwrap().interval(0.95).high, None);
        assert_eq!(Estimate::of_folds(&[0.2]).unwrap().p_value(), None);
        assert_eq!(Estimate::of_folds(&[]), None);
        assert_eq!(Estimate::of_evaluations(&[]), None);
    }

    #[test]
    fn values_that_do_not_vary_have_an_interval_without_width() {
        let zero = Estimate::of_folds(&[0.0; 4]).unwrap();
        assert_eq!(
            (zero.interval(0.95).low, zero.interval(0.95).high, zero.p_value()),
            (Some(0.0), Some(0.0), Some(1.0))
        );
        assert_eq!(Estimate::of_folds(&[0.5; 4]).unwrap().less(&zero).p_value(), Some(0.0));
    }
}
