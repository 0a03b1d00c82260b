//! A rule's finding in a run, with the numbers it rests on.

use serde::{Deserialize, Serialize};

use crate::limits::{INTERVAL, plus_minus};

/// A rule's result for a run. An error names the score that is missing or undefined, and says why.
pub type Judgement = Result<Reading, String>;

/// Whether the rule found what it looks for, with a sentence and the numbers that it rests on; never without any.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub found: bool,
    pub text: String,
    pub evidence: Vec<Evidence>,
}

impl Reading {
    pub fn judged(found: bool, text: impl Into<String>, evidence: Vec<Evidence>) -> Judgement {
        Ok(Self { found, text: text.into(), evidence })
    }
}

pub fn is_found(judgement: &Judgement) -> bool {
    judgement.as_ref().is_ok_and(|reading| reading.found)
}

/// A number of the run beside the rule's limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// A score's id, a difference of two, `rows` or `tie_fraction`.
    pub score: String,
    pub value: f64,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub standard_error: Option<f64>,
    /// Absent for numbers that only accompany the others.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub limit: Option<f64>,
    /// The step of the evaluation that the number is from.
    pub step: u64,
}

impl Evidence {
    /// The ends of the 95 % interval.
    pub fn low(&self) -> f64 {
        self.value - INTERVAL * self.standard_error.unwrap_or(0.0)
    }

    pub fn high(&self) -> f64 {
        self.value + INTERVAL * self.standard_error.unwrap_or(0.0)
    }
}

impl std::fmt::Display for Evidence {
    /// Such as "ctl_excess 0.3100 ± 0.0098, limit 0.15", where ± is half of the 95 % interval.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Counts have no fraction.
        match self.value {
            count if self.score == "rows" => write!(f, "{} {count}", self.score)?,
            value => write!(f, "{} {value:.4}", self.score)?,
        }
        f.write_str(&plus_minus(self.standard_error))?;
        if let Some(limit) = self.limit {
            write!(f, ", limit {limit}")?;
        }
        Ok(())
    }
}
