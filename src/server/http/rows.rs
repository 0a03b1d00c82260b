//! The rows of the overview, and what each was computed from.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde::Serialize;

use leakage::diagnosis::{StopAdvised, Verdict};

/// A run in one split; without evaluations it has no verdict.
#[derive(Serialize)]
pub struct Row {
    pub name: String,
    pub verdict: Option<Verdict>,
    pub step: Option<u64>,
    pub epoch: Option<f64>,
    pub time: Option<f64>,
    pub rows: Option<u64>,
    pub evaluations: u64,
    /// By catalogue id, at the newest evaluation that has the score. Where one of several tasks decides, its own.
    pub scores: BTreeMap<&'static str, Value>,
    /// Concepts whose own value is above the limit of the mean.
    pub concepts: Option<Concepts>,
    pub spark: Option<Spark>,
}

#[derive(Serialize)]
pub struct Value {
    pub step: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standard_error: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undefined: Option<String>,
}

#[derive(Serialize)]
pub struct Concepts {
    pub score: &'static str,
    pub above: usize,
    pub of: usize,
    pub limit: f64,
}

#[derive(Serialize)]
pub struct Spark {
    pub score: &'static str,
    pub steps: Vec<u64>,
    pub values: Vec<f64>,
}

/// Run and split.
pub type Key = (String, String);

/// Rows that have been computed.
#[derive(Default)]
pub struct Rows(pub Mutex<BTreeMap<Key, (Version, Arc<Row>)>>);

/// The state that a row was computed from. Seconds of points change when slow scores join them.
#[derive(Clone, PartialEq)]
pub struct Version {
    pub started: f64,
    pub finished: bool,
    pub points: u64,
    pub last_step: Option<u64>,
    /// Step, time and seconds of the newest point, and of those that slow scores joined last.
    pub newest: Vec<(u64, f64, f64)>,
    pub advised: Option<StopAdvised>,
    /// As the run's sidecar judged, where the history has that.
    pub judged: Option<Verdict>,
}
