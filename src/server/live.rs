//! What the exports ask of the running sidecar, and the events it announces.

use std::sync::Arc;

use serde::Serialize;

use crate::alert::{Rule, Severity, State};
use crate::point::Point;

/// The state of the running sidecar as its readers see it. Calls must be quick: they happen at every scrape.
pub trait Live: Send + Sync {
    /// Runs that this process has received something from.
    fn runs(&self) -> Vec<RunStatus>;
    /// One entry for each split whose metrics are to be given out, the most wanted first: when a family has more
    /// series than its cap, the last ones are left out. A run that finished long enough ago has no entry.
    fn latest(&self) -> Vec<Latest>;
    /// Where every rule stands, and what changed lately.
    fn alerts(&self) -> AlertsStatus;
    fn status(&self) -> Status;
    /// Whether batches are taken; if not, why.
    fn ready(&self) -> Result<(), String>;
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunStatus {
    pub name: String,
    pub splits: Vec<SplitStatus>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitStatus {
    pub split: String,
    /// `pass`, `recent` or `all`.
    pub window: &'static str,
    pub rows_received: u64,
    /// Of these, rows already known.
    pub rows_duplicate: u64,
    /// Rows not taken.
    pub rows_dropped: u64,
}

/// Where a split's curve stands.
#[derive(Clone, Debug)]
pub struct Latest {
    pub run: Arc<str>,
    pub split: Arc<str>,
    /// k names.
    pub concepts: Arc<[String]>,
    /// The newest point of a full or finished sample; absent before the first.
    pub point: Option<Arc<Point>>,
    /// The slow scores of the newest point that has them, which may be an earlier one.
    pub slow: Option<Arc<Point>>,
    /// Its window is not a pass.
    pub rolling: bool,
    /// A newer sample is filling; its values are not part of the curve yet.
    pub filling: bool,
}

/// The sidecar as a whole.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Status {
    pub version: &'static str,
    pub catalogue_version: u32,
    pub uptime_seconds: f64,
    /// How far scoring is behind what was received.
    pub lag_seconds: f64,
    pub rows_dropped: u64,
    /// Evaluations that a newer one replaced before they ran.
    pub points_skipped: u64,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    /// Age of the newest point of the running split that has waited longest.
    pub staleness_seconds: f64,
    /// CPU-seconds per second that scoring may take on average.
    pub cpu_share: f64,
    /// That scoring has taken.
    pub cpu_seconds: f64,
    pub estimator: &'static str,
}

/// Something that watchers hear of at once.
#[derive(Clone, Debug)]
pub enum Event {
    Point(Arc<Point>),
    /// A run started, resumed or finished.
    Run(Arc<str>),
    Alert(Arc<AlertChange>),
}

/// Where an alert rule stands for a run, or how it came to stand there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AlertChange {
    pub rule: String,
    pub run: String,
    pub split: String,
    /// Catalogue id; empty for rules that look at no score.
    pub score: &'static str,
    pub state: State,
    /// Seconds since 1970-01-01 UTC.
    pub since: f64,
    /// In words: value, limit, for how many evaluations.
    pub evidence: String,
    pub step: u64,
    pub severity: Severity,
    pub advises_stop: bool,
    pub value: Option<f64>,
    /// That a rise is measured from.
    pub baseline: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runbook: Option<String>,
}

/// The rules, where each stands for each run, and what changed lately, oldest first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AlertsStatus {
    pub rules: Vec<Arc<Rule>>,
    pub standings: Vec<AlertChange>,
    pub changes: Vec<Arc<AlertChange>>,
}
