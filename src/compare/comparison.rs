//! Two means and what their difference shows.

use serde::{Deserialize, Serialize};

use super::interval::Interval;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    HigherInA,
    HigherInB,
    /// The interval of the difference contains 0.
    Compatible,
    Undefined,
}

/// Two means and their difference, a − b.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub a: Option<Interval>,
    pub b: Option<Interval>,
    pub difference: Option<Interval>,
    /// Two-sided, of no difference; absent where the error is unknown.
    pub p_value: Option<f64>,
    pub verdict: Verdict,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undefined: Option<String>,
}
