//! Mutual information and entropy from samples, in nats.
//!
//! ```text
//!                discrete        scalar or vector
//! discrete       plug_in         ross
//! continuous     ross            ksg
//! ```
//!
//! Two estimators by name: [`Kind::Published`] repeats what the authors of the leakage scores computed, noise and
//! clipping included; [`Kind::TieAware`] is the expectation of the same estimator when equal distances are ordered at
//! random and nothing else is disturbed. Without ties the two agree.
//!
//! A result depends on the rows and their identities alone: not on their order, on the order of the pair, on threads
//! or on what was computed before. Sums are exact ([`sum`]) and noise is a function of what it disturbs ([`noise`]).

pub mod digamma;
pub(crate) mod elementwise;
pub(crate) mod ids;
pub mod ksg;
pub(crate) mod levels;
pub mod neighbours;
pub mod noise;
pub mod plug_in;
pub mod ross;
pub mod sum;
pub mod ties;
pub mod variable;
mod width;

pub use variable::{Key, Variable};

use serde::{Deserialize, Serialize};
use variable::{Continuous, Discrete};

/// Which of the two estimators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Gaussian noise of scale 10⁻¹⁰·|mean| (of the column; of the whole block for vectors) breaks ties, drawn anew for
    /// each repeat and independently for the two sides of a pair; each repeat is clipped at 0 before the mean.
    Published,
    /// Ties in random order, in expectation; never clipped.
    TieAware,
}

/// How to estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Settings {
    pub kind: Kind,
    /// k, at least 1. Variance falls with k, bias grows.
    pub neighbours: usize,
    /// Repeats of the published estimator with different noise; 0 counts as 1.
    pub repeats: usize,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { kind: Kind::TieAware, neighbours: 3, repeats: 5, seed: 0 }
    }
}

/// An estimate in nats, and what its uncertainty follows from.
#[derive(Clone, Debug, PartialEq)]
pub struct Estimate {
    /// The estimate. In the published kind the mean over repeats of each repeat's value clipped at 0, otherwise raw: it
    /// may be negative by chance.
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
    /// `normaliser` + the mean of the rows' terms. Rows `left_out` take no part; their terms are 0.
    fn from_terms(normaliser: f64, terms: Vec<f64>, left_out: &[u32]) -> Self {
        let kept = (terms.len() - left_out.len()).max(1) as f64;
        let mean = sum::total(&terms) / kept;
        let value = normaliser + mean;
        let weight = terms.len() as f64 / kept;
        let mut influence = terms;
        elementwise::centre(&mut influence, mean, weight);
        left_out.iter().for_each(|&row| influence[row as usize] = 0.0);
        Self { value, repeats: vec![value], unclipped: value, influence, draw_variance: 0.0 }
    }

    /// The mean of estimates that differ in their noise, each clipped at 0. `repeats` is not empty.
    fn over_repeats(repeats: &[Self]) -> Self {
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
fn variance_of_mean(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    if values.len() < 2 {
        return 0.0;
    }
    let mean = values.iter().sum::<f64>() / count;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0) / count
}

/// Why there is no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Undefined {
    #[error("{rows} rows are too few: {neighbours} neighbours need at least {}", neighbours + 2)]
    TooFewRows { rows: usize, neighbours: usize },
    #[error("there are no rows")]
    NoRows,
    #[error("the two variables have {0} and {1} rows")]
    UnequalRows(usize, usize),
    #[error("the number of neighbours is 0; it is at least 1")]
    NoNeighbours,
    #[error("a continuous variable is constant")]
    Constant,
    #[error("a value is NaN or infinite")]
    NotFinite,
    #[error("the values are so large that their sum leaves the range of numbers")]
    TooLarge,
    #[error("the discrete variable has fewer than two classes of at least two rows")]
    OneClass,
    #[error("none of the {classes} classes has two rows")]
    NoClassOfTwo { classes: usize },
}

/// I(X;Y). The same bits as I(Y;X). For two discrete variables one class is no fault: the estimate is 0.
pub fn mutual_information(x: &Variable, y: &Variable, settings: &Settings) -> Result<Estimate, Undefined> {
    if std::ptr::eq(x, y) {
        return self_information(x, settings);
    }
    if x.rows() != y.rows() {
        return Err(Undefined::UnequalRows(x.rows(), y.rows()));
    }
    match (sort(x, settings)?, sort(y, settings)?) {
        (Sort::Discrete(x), Sort::Discrete(y)) => Ok(plug_in::mutual_information(x, y)),
        (Sort::Continuous(x), Sort::Discrete(y)) | (Sort::Discrete(y), Sort::Continuous(x)) => {
            ross::with_each(x, &[y], settings).swap_remove(0)
        }
        (Sort::Continuous(x), Sort::Continuous(y)) => Ok(match settings.kind {
            Kind::Published => ksg::published(x, y, settings),
            Kind::TieAware => ksg::tie_aware(x, y, settings),
        }),
    }
}

/// I(X; label) for each label, in their order: the same bits as one at a time, but x's neighbours are found once for all
/// discrete labels.
pub fn mutual_information_with_each(
    x: &Variable,
    labels: &[&Variable],
    settings: &Settings,
) -> Vec<Result<Estimate, Undefined>> {
    let together: Vec<Option<&Discrete>> = labels
        .iter()
        .map(|label| match label {
            Variable::Discrete(label) if label.classes().len() == x.rows() => Some(label),
            _ => None,
        })
        .collect();
    let shared: Vec<&Discrete> = together.iter().flatten().copied().collect();
    let mut shared = match sort(x, settings) {
        Ok(Sort::Continuous(x)) => ross::with_each(x, &shared, settings),
        _ => Vec::new(),
    }
    .into_iter();
    let alone = |label| mutual_information(x, label, settings);
    labels
        .iter()
        .zip(together)
        .map(|(label, together)| together.and_then(|_| shared.next()).unwrap_or_else(|| alone(label)))
        .collect()
}

/// The estimator of the variable with itself: plug-in entropy for a discrete variable (0 for one class), otherwise the
/// estimate of I(X;X), which depends on N and k (without ties: on nothing else) and serves as "H(X)" in normalised scores.
pub fn self_information(x: &Variable, settings: &Settings) -> Result<Estimate, Undefined> {
    match (sort(x, settings)?, settings.kind) {
        (Sort::Discrete(x), _) => Ok(plug_in::entropy(x)),
        (Sort::Continuous(x), Kind::Published) => Ok(ksg::published(x, x, settings)),
        (Sort::Continuous(x), Kind::TieAware) if x.tied() == 0 => {
            Ok(ksg::self_information_without_ties(x.rows(), settings.neighbours))
        }
        (Sort::Continuous(x), Kind::TieAware) => Ok(ksg::tie_aware(x, x, settings)),
    }
}

/// A variable that can be estimated from.
enum Sort<'a> {
    Discrete(&'a Discrete),
    Continuous(Continuous<'a>),
}

fn sort<'a>(variable: &'a Variable, settings: &Settings) -> Result<Sort<'a>, Undefined> {
    let (rows, neighbours) = (variable.rows(), settings.neighbours);
    let continuous = match variable {
        Variable::Discrete(_) if rows == 0 => return Err(Undefined::NoRows),
        Variable::Discrete(discrete) => return Ok(Sort::Discrete(discrete)),
        Variable::Scalar(scalar) => Continuous::Scalar(scalar),
        Variable::Vector(vector) => Continuous::Vector(vector),
    };
    if neighbours == 0 {
        return Err(Undefined::NoNeighbours);
    }
    if rows < neighbours + 2 {
        return Err(Undefined::TooFewRows { rows, neighbours });
    }
    match continuous.fault() {
        Some(fault) => Err(fault),
        None => Ok(Sort::Continuous(continuous)),
    }
}
