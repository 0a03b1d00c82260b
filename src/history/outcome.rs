//! How runs end.

use serde::{Deserialize, Serialize};

use super::db::Row;
use super::error::HistoryError;

/// How a rank has ended, or the run of several ranks: as the worst of them, and of these as the first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum RunOutcome {
    #[default]
    Finished,
    /// The rank was advised to stop.
    StoppedOnAdvice { rank: u32 },
    /// An exception of the type `error` ended the rank.
    Failed { rank: u32, error: String, message: String },
}

impl RunOutcome {
    /// The outcome of a run whose ranks have ended with this one so far, once another has ended as `later` says.
    #[must_use]
    pub fn joined(self, later: Self) -> Self {
        if later.gravity() > self.gravity() { later } else { self }
    }

    /// The rank whose outcome this is, unless it finished.
    pub fn rank(&self) -> Option<u32> {
        match self {
            Self::Finished => None,
            Self::StoppedOnAdvice { rank } | Self::Failed { rank, .. } => Some(*rank),
        }
    }

    /// Whether the outcome of a run still holds where a rank joins, or declares itself again, in an attempt that goes on. The
    /// ranks of an unnamed launch are not known.
    pub(super) fn outlives(&self, joining: Option<u32>) -> bool {
        self.rank().is_some_and(|rank| joining != Some(rank))
    }

    /// Reads the outcome of a run from a column.
    pub(super) fn stored(row: &Row<'_, '_>, column: usize) -> Result<Option<Self>, HistoryError> {
        Ok(row.get::<Option<String>>(column)?.as_deref().map(serde_json::from_str).transpose()?)
    }

    fn gravity(&self) -> u8 {
        match self {
            Self::Finished => 0,
            Self::StoppedOnAdvice { .. } => 1,
            Self::Failed { .. } => 2,
        }
    }
}
