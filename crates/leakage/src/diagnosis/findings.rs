//! The results of all rules for one evaluation.

use serde::{Deserialize, Serialize};

use super::judgement::Evidence;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Found,
    Absent,
    Unknown,
}

/// A rule and its result for a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    pub rule: String,
    pub title: String,
    #[serde(default)]
    pub subject: String,
    pub source: String,
    /// The advice where it is found, in a few words.
    #[serde(default)]
    pub action: String,
    pub state: State,
    /// The finding, the check that passed, or the score that is missing.
    pub text: String,
    /// Empty only where unknown.
    pub evidence: Vec<Evidence>,
}

/// The results of all rules for a run's newest evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    pub run: String,
    pub split: String,
    pub step: u64,
    pub epoch: Option<f64>,
    /// N.
    pub rows: u64,
    /// The evaluation lacks ranks or rows.
    #[serde(default)]
    pub incomplete: bool,
    /// In the order of [`RULES`].
    pub lines: Vec<Line>,
}

impl Diagnosis {
    pub fn found(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.state == State::Found)
    }
}
