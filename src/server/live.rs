//! The state of a running sidecar or hub as the HTTP API and the metrics read it, and the events it broadcasts.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::history::{Unwritable, Waiting};
use crate::server::scoring::carried::RowsOfStep;
use leakage::alert::{Rule, Severity, State};
use leakage::diagnosis::{StopAdvised, Verdict};
use leakage::point::Point;

/// The state of a running sidecar or hub. Calls must be fast, but may block: each scrape of the metrics makes them. What a
/// method returns here is that of a history that nobody writes.
pub trait Live: Send + Sync {
    /// Runs that clients have declared to this process; at a hub, unfinished ones whose sidecar was heard within a day.
    fn runs(&self) -> Vec<RunStatus> {
        Vec::new()
    }
    /// One entry for each split to export, in order of priority: a metric family that exceeds its cap omits the last
    /// ones. A run has no entry once it has finished and its linger time is over.
    fn latest(&self) -> Vec<Latest> {
        Vec::new()
    }
    /// Curves that [`latest`](Self::latest) leaves out because there are too many.
    fn curves_left_out(&self) -> u64 {
        0
    }
    /// The identities of the runs of [`latest`](Self::latest), and of those without an evaluation.
    fn identities(&self) -> Vec<RunIdentity> {
        Vec::new()
    }
    /// Unfinished runs at a hub, and the time since each one's sidecar was last heard, in seconds.
    fn push_ages(&self) -> Vec<(String, f64)> {
        Vec::new()
    }
    /// How a sidecar stands with its hub; `None` without one.
    fn upstream(&self) -> Option<UpstreamStatus> {
        None
    }
    /// The verdicts on the curves of [`latest`](Self::latest) where sidecars have judged them; `None` at a sidecar, which
    /// judges its points itself.
    fn verdicts(&self) -> Option<Vec<CurveVerdict>> {
        None
    }
    /// Whether verdicts are judged here.
    fn judges(&self) -> bool {
        true
    }
    /// Whether a stored point belongs to the attempt at work on its split, or precedes it.
    fn admits(&self, _point: &Point) -> bool {
        true
    }
    /// The state of every rule for every run, and recent changes.
    fn alerts(&self) -> AlertsStatus {
        AlertsStatus::default()
    }
    fn status(&self) -> Status;
    /// Lets go of a run that the history has removed.
    fn forget(&self, _run: &str) {}
    /// Whether batches are accepted and points can be stored; the error says why not. Never blocks.
    fn ready(&self) -> Result<(), String>;
    /// The rows of a split's newest evaluation that leak most, with the names of the concepts; `None` where they are not in
    /// memory.
    fn leaking_rows(&self, _run: &str, _split: &str) -> Option<(Arc<[String]>, Arc<RowsOfStep>)> {
        None
    }
    /// Says that the disk is slow, if it is. Batches are accepted all the same.
    fn slowness(&self) -> Option<String> {
        None
    }
}

/// Run, split and the verdict on them.
pub type CurveVerdict = (Arc<str>, Arc<str>, Verdict);

/// The place where a run trains, and its labels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunIdentity {
    pub run: Arc<str>,
    /// The scheduler's id of the job, else the name of the launch; empty where neither is known.
    pub job: String,
    /// The machine of the lowest rank of the newest attempt; empty where it is not known.
    pub host: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RunStatus {
    pub name: String,
    pub splits: Vec<SplitStatus>,
    /// Why its job is lost, in words.
    pub lost: Option<&'static str>,
    /// When a job last sent something, in seconds since 1970-01-01 UTC, where this is known.
    pub heard: Option<f64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitStatus {
    pub split: String,
    /// `pass`, `recent` or `all`.
    pub window: &'static str,
    pub rows_received: u64,
    /// Received rows that the sample already had.
    pub rows_duplicate: u64,
    /// Rows that were not accepted.
    pub rows_dropped: u64,
    /// Passes whose point, or the reason why there is none, is not in the history yet.
    pub passes_unsettled: u64,
}

/// The current state of a split's curve.
#[derive(Clone, Debug)]
pub struct Latest {
    pub run: Arc<str>,
    pub split: Arc<str>,
    /// k names.
    pub concepts: Arc<[String]>,
    /// t names; empty for one task without a name.
    pub tasks: Arc<[String]>,
    /// The newest point that is not provisional; absent before the first.
    pub point: Option<Arc<Point>>,
    /// Scores that join points later, those of each cost in a point: of the newest that has any, which may be older than
    /// `point`.
    pub late: Vec<Arc<Point>>,
    /// The window is rolling, not a pass.
    pub rolling: bool,
    /// The newest sample is still filling; its values are not part of the curve yet.
    pub filling: bool,
}

impl Latest {
    /// Puts the curve with the newest point first.
    pub fn newest_first(latest: &mut [Self]) {
        let time = |latest: &Self| latest.point.as_ref().map_or(0.0, |point| point.time);
        latest.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.run.cmp(&b.run)));
    }
}

/// The sidecar as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Status {
    pub version: &'static str,
    pub catalogue_version: u32,
    pub uptime_seconds: f64,
    /// Scoring delay: how long the oldest waiting evaluation has been due.
    pub lag_seconds: f64,
    pub rows_dropped: u64,
    /// Evaluations that were not scored, because a newer one was ready first.
    pub points_skipped: u64,
    pub memory_bytes: u64,
    pub memory_limit_bytes: u64,
    /// The most that scores of the newest evaluation take, as estimated, fast and slow ones together.
    pub scoring_memory_bytes: u64,
    pub scoring_memory_limit_bytes: u64,
    /// The highest age of a newest point over the splits of unfinished runs.
    pub staleness_seconds: f64,
    /// CPU-seconds per second that scoring may use on average.
    pub cpu_share: f64,
    /// CPU-seconds that scoring has used.
    pub cpu_seconds: f64,
    pub estimator: &'static str,
    /// Absent while the history can be written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unwritable: Option<UnwritableStatus>,
    /// Absent without a hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamStatus>,
}

/// Why the history cannot be written.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnwritableStatus {
    pub reason: Unwritable,
    /// In words.
    pub why: String,
}

impl UnwritableStatus {
    pub fn of(waiting: Waiting) -> Option<Self> {
        waiting.why.map(|why| Self { reason: waiting.kind, why })
    }
}

/// How a sidecar stands with its hub.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct UpstreamStatus {
    /// The address used last.
    pub hub: String,
    /// The last call was answered.
    pub reached: bool,
    /// In words; empty if the hub is reached.
    pub why: String,
    /// Changes of the history that the hub has yet to be told of.
    pub waiting: u64,
    /// Changes that the hub has applied since the start.
    pub sent: u64,
    /// Changes that the hub can never apply.
    pub refused: u64,
    /// Changes that the history's size limit removed before they were sent, or that could not be read.
    pub dropped: u64,
    /// Since the hub's last answer, or since the start where there was none.
    pub seconds_since_answer: f64,
}

/// An event that is sent to watchers immediately.
#[derive(Clone, Debug)]
pub enum Event {
    /// Without matrices, which no watcher is sent.
    Point(Arc<Point>),
    /// A run started, resumed or finished.
    Run(Arc<str>),
    Alert(Arc<AlertChange>),
}

impl Event {
    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + match self {
                Self::Point(point) => point.bytes(),
                Self::Run(run) => run.len(),
                Self::Alert(change) => size_of::<AlertChange>() + change.evidence.len(),
            }
    }
}

/// The state of an alert rule for a run, or a change to that state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertChange {
    pub rule: String,
    pub run: String,
    pub split: String,
    /// Catalogue id; empty for rules that are not about a score.
    pub score: String,
    pub state: State,
    /// When the state began, in seconds since 1970-01-01 UTC.
    pub since: f64,
    /// The reason in words: value, limit and number of evaluations.
    pub evidence: String,
    pub step: u64,
    pub severity: Severity,
    pub advises_stop: bool,
    pub value: Option<f64>,
    /// The value that a rise is measured from.
    pub baseline: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub runbook: Option<String>,
}

/// The evidence of alerts that ended with their run begins so.
pub const AT_END: &str = "the run finished";

/// The rules, the state of each for each run, and recent changes, oldest first.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AlertsStatus {
    pub rules: Vec<Arc<Rule>>,
    pub standings: Vec<AlertChange>,
    pub changes: Vec<Arc<AlertChange>>,
    /// At a hub, the states of runs whose sidecar is lost: the last that are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub last_known: Vec<AlertChange>,
}

impl AlertsStatus {
    /// The rule on the split that advises to stop this run, or did when the run finished, and the step from which on it was
    /// beyond its limit; of several the first.
    pub fn advised(&self, run: &str, split: &str) -> Option<StopAdvised> {
        let is_own = |one: &AlertChange| one.run == run && one.split == split;
        // The step at which a rule was first beyond its limit, and whether it advised once it fired.
        let began = |rule: &str| {
            let changes = self.changes.iter().rev().filter(|change| is_own(change) && change.rule == rule);
            let mut stretch = changes
                .skip_while(|change| change.state == State::Inactive)
                .take_while(|change| change.state != State::Inactive);
            let fired = stretch.next().filter(|change| change.state == State::Firing)?;
            Some((stretch.last().unwrap_or(fired).step, fired.advises_stop))
        };
        let advising = self.standings.iter().filter(|one| is_own(one)).filter_map(|one| {
            let (began, at_end) = (began(&one.rule), one.evidence.strip_prefix(AT_END));
            let advises = if at_end.is_some() { began.is_some_and(|(_, advised)| advised) } else { one.advises_stop };
            let evidence = at_end.map_or(&*one.evidence, |end| end.trim_start_matches("; last: ")).to_owned();
            let since = began.map_or(one.step, |(first, _)| first);
            advises.then(|| StopAdvised { rule: one.rule.clone(), since, evidence })
        });
        advising.min_by_key(|advising| advising.since)
    }
}
