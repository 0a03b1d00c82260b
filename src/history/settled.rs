//! How a pass without a complete point is settled.

use serde::Serialize;

use leakage::point::Point;
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// How a pass without a complete point ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::AsRefStr, strum::EnumString)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Ending {
    /// A newer pass was ready before it could be scored.
    Skipped,
    /// A newer attempt of the run began, or a rank left the pass without ending it.
    Discarded,
    /// It had no rows, or its scores could not be computed.
    Failed,
    /// The sidecar stopped before it was scored.
    Unsettled,
    /// The stored point does not match its checksum. Only read, never recorded.
    Damaged,
}

/// Records kept of each run; beyond it the oldest are removed.
pub const UNSCORED_PER_RUN: u64 = 10_000;

/// A pass that was settled without a complete point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unscored {
    #[serde(skip)]
    pub run: String,
    pub split: String,
    pub step: u64,
    /// The number of the pass among those of its step; absent for the first.
    #[serde(skip_serializing_if = "Ordinal::is_first")]
    pub ordinal: Ordinal,
    /// Seconds since 1970-01-01 UTC at which it was settled.
    pub time: f64,
    pub outcome: Ending,
    /// In words.
    pub reason: String,
    /// Distinct rows that had arrived.
    pub rows_seen: u64,
    #[serde(skip)]
    pub attempt: Option<Attempt>,
}

/// A point or record that had to wait and is durable now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub run: String,
    pub split: String,
    pub step: u64,
    pub ordinal: Ordinal,
    pub attempt: Option<Attempt>,
    /// How the pass ended; `None` for one that has a point.
    pub ending: Option<Ending>,
}

impl Written {
    pub(super) fn of(point: &Point, attempt: Option<Attempt>) -> Self {
        let (run, split) = (point.run.to_string(), point.split.to_string());
        Self { run, split, step: point.step, ordinal: point.ordinal, attempt, ending: None }
    }
}

impl From<&Unscored> for Written {
    fn from(pass: &Unscored) -> Self {
        let (run, split) = (pass.run.clone(), pass.split.clone());
        let (step, ordinal, attempt) = (pass.step, pass.ordinal, pass.attempt);
        Self { run, split, step, ordinal, attempt, ending: Some(pass.outcome) }
    }
}
