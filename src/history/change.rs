//! A change of a history that another history can make, too: a hub makes those of its sidecars.

use serde::{Deserialize, Serialize};

use super::outcome::RunOutcome;
use super::run::Remark;
use super::settled::Unscored;
use leakage::point::Point;
use leakage::run::Run;
use leakage::step::Rank;

/// A change. Runs have the names of the history in which it was made first.
///
/// Serde writes those that stand nowhere else in the history of a sidecar.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Change {
    /// A rank, or a launch without ranks, has declared a run.
    Declare(Box<Declared>),
    FinishRun {
        run: String,
        /// Absent where other ranks go on.
        finished: Option<f64>,
        /// The outcome of the rank that has ended.
        outcome: RunOutcome,
    },
    /// A point, and the launch whose evaluation it is.
    #[serde(skip)]
    Point(Box<Point>, Option<Launch>),
    /// Scores that join a point later, and the launch whose evaluation it is: the point with these scores alone.
    #[serde(skip)]
    Late(Box<Point>, Option<Launch>),
    /// A pass without a complete point. `attempt` of the record is `None`.
    #[serde(skip)]
    Unscored(Unscored, Option<Launch>),
    Remark {
        run: String,
        remark: Remark,
    },
    RemoveRun(String),
    Judged(Judgement),
}

/// The state of an alert rule, or the verdict on a split, as a sidecar judged it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub run: String,
    pub split: String,
    /// `None` for the verdict.
    pub rule: Option<String>,
    /// The rule is pending or fires.
    pub active: bool,
    /// When the state began, in seconds since 1970-01-01 UTC.
    pub since: f64,
    /// As the API shows it.
    pub json: String,
}

/// The declaration of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    pub run: Run,
    /// The name that the job asked for, if the run has another.
    pub declared_name: Option<String>,
    pub launch: Launch,
    pub rank: Rank,
    pub client: String,
    pub resume: bool,
    /// As in [`Identity`](super::run::Identity).
    pub scheduler_job: String,
    pub host: String,
    /// Seconds since 1970-01-01 UTC.
    pub started: f64,
}

/// A launch by its name, since its number in one history is not that in another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// Empty for an unnamed launch.
    pub job: String,
    /// Restarts of the launch so far.
    pub restart: u32,
    /// Its number in the history in which the change was made first.
    pub number: u32,
}

impl Change {
    /// The title and note of a run as they are now; an absent one is sent as empty.
    pub(super) fn said(run: &str, title: Option<String>, note: Option<String>) -> Self {
        let remark = Remark { title: Some(title.unwrap_or_default()), note: Some(note.unwrap_or_default()) };
        Self::Remark { run: run.to_owned(), remark }
    }

    /// The run that it changes.
    pub fn run(&self) -> &str {
        match self {
            Self::Declare(declared) => &declared.run.name,
            Self::Point(point, _) | Self::Late(point, _) => &point.run,
            Self::Judged(judgement) => &judgement.run,
            Self::Unscored(record, _) => &record.run,
            Self::FinishRun { run, .. } | Self::Remark { run, .. } | Self::RemoveRun(run) => run,
        }
    }
}
