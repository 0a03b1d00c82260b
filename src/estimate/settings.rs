//! How to estimate: which of the two estimators, and its parameters.

use serde::{Deserialize, Serialize};

/// Which of the two estimators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Gaussian noise of scale 10⁻¹⁰·|mean| (of the column; of the whole block for vectors) breaks ties. It differs from
    /// repeat to repeat and between the two sides of a pair; each repeat is clipped at 0 before the mean.
    Published,
    /// Ties in random order, in expectation; never clipped.
    TieAware,
}

/// How to estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
