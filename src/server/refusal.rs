//! The reasons for which the sidecar refuses a message or a request, shared by both ports.

use crate::analysis_query::Refused;
use crate::history::HistoryError;
use leakage::field_error::{FieldError, in_short};
use leakage::sample::CommitError;

/// Why a message or a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Invalid(#[from] FieldError),
    /// The subject of the request belongs to another project.
    #[error(transparent)]
    Forbidden(FieldError),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{what}: '{name}' is unknown")]
    Unknown { what: &'static str, name: String },
    /// The subject of a comparison or diagnosis does not exist.
    #[error(transparent)]
    Nothing(FieldError),
    #[error("run: '{0}' has finished, start it again to resume it")]
    Finished(String),
    #[error("{what} is at its limit of {limit}, send it again later")]
    OverBudget { what: &'static str, limit: usize },
    /// The samples of one split have no room. Other splits go on.
    #[error("sample memory has no room for more rows of split '{split}': its limit is {limit} bytes")]
    NoRoom { split: String, limit: usize },
    /// The run was silent for so long that its samples were freed.
    #[error("run: '{0}' was silent for long and was removed from memory, declare it again")]
    Forgotten(String),
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
    /// An unknown name, shortened because a client may have sent any text.
    pub fn unknown(what: &'static str, name: &str) -> Self {
        Self::Unknown { what, name: in_short(name) }
    }

    /// Whether the same message may succeed later.
    pub fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Commit(CommitError::Restarted { .. })
                | Self::OverBudget { .. }
                | Self::Forgotten(_)
                | Self::Stopping
                | Self::History(
                    HistoryError::Unreachable { .. }
                        | HistoryError::Full
                        | HistoryError::ReadOnly
                        | HistoryError::Denied { .. }
                )
        )
    }

    /// The field at fault; empty if no field of the message is.
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid(fault)
            | Self::Forbidden(fault)
            | Self::Nothing(fault)
            | Self::Commit(CommitError::Invalid(fault)) => &fault.field,
            Self::Commit(CommitError::OlderAttempt) => "attempt",
            Self::Commit(_) => "step",
            Self::Unknown { what, .. } => what,
            Self::Finished(_) | Self::Forgotten(_) => "run",
            Self::NoRoom { .. } => "split",
            Self::History(HistoryError::DeclarationDiffers { field, .. } | HistoryError::Invalid { field, .. }) => {
                field
            }
            Self::OverBudget { .. } | Self::History(_) | Self::Stopping => "",
        }
    }
}
