//! Why the sidecar does not apply or answer something: one list for every port.

use crate::fault::{Fault, in_short};
use crate::history::HistoryError;
use crate::question::Refused;
use crate::sample::CommitError;

/// Why something received was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Invalid(#[from] Fault),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{what}: '{name}' is unknown")]
    Unknown { what: &'static str, name: String },
    /// What a question is about is not there.
    #[error(transparent)]
    Nothing(Fault),
    #[error("run: '{0}' is finished, start it again to resume it")]
    Finished(String),
    #[error("{what} is at its limit of {limit}, send it again later")]
    OverBudget { what: &'static str, limit: usize },
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error("the server is stopping")]
    Stopping,
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown(fault) => Self::Nothing(fault),
            Refused::Bad(fault) => Self::Invalid(fault),
            Refused::History(error) => Self::History(error),
        }
    }
}

impl Refusal {
    /// A name that anyone may have made up, shortened.
    pub fn unknown(what: &'static str, name: &str) -> Self {
        Self::Unknown { what, name: in_short(name) }
    }

    /// Whether sending the same again, later, may succeed.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Commit(CommitError::Restarted { .. }) | Self::OverBudget { .. } | Self::Stopping)
    }

    /// The field at fault; empty when it is none of the message's.
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid(fault) | Self::Nothing(fault) | Self::Commit(CommitError::Invalid(fault)) => &fault.field,
            Self::Commit(CommitError::OlderAttempt) => "attempt",
            Self::Commit(_) => "step",
            Self::Unknown { what, .. } => what,
            Self::Finished(_) => "run",
            Self::History(HistoryError::DeclarationDiffers { field, .. }) => field,
            Self::OverBudget { .. } | Self::History(_) | Self::Stopping => "",
        }
    }
}
