//! How to estimate: which of the two estimators, and its parameters.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of the two estimators. Serde and [`Kind::name`] give each the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Gaussian noise of scale 10⁻¹⁰·|mean| (of the column; of the whole block for vectors) breaks ties. It differs from
    /// repeat to repeat and between the two sides of a pair; each repeat is clipped at 0 before the mean.
    Published,
    /// Ties in random order, in expectation; never clipped.
    TieAware,
}

impl Kind {
    /// The default first.
    pub const ALL: [Self; 2] = [Self::TieAware, Self::Published];

    /// As in options, points and the protocol.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TieAware => "tie_aware",
            Self::Published => "published",
        }
    }
}

/// A name that is none of an estimator's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected {}", Kind::ALL.map(Kind::name).join(" or "))]
pub struct UnknownKind;

impl FromStr for Kind {
    type Err = UnknownKind;

    /// Returns the estimator of that [`name`](Self::name).
    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or(UnknownKind)
    }
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
