//! One table from the program's errors to gRPC's codes.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::fault::Fault;
use crate::history::HistoryError;
use crate::sample::CommitError;

use super::question::Refused;

/// How long a client should wait when the sidecar is over a budget.
pub const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Why something received was not applied.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error(transparent)]
    Invalid(#[from] Fault),
    #[error(transparent)]
    Commit(#[from] CommitError),
    #[error("{what}: '{name}' is unknown")]
    Unknown { what: &'static str, name: String },
    /// Something asked for is not there.
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
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid(_) | Self::Commit(CommitError::Invalid(_)) => Code::InvalidArgument,
            Self::Commit(CommitError::Late { .. }) | Self::Finished(_) => Code::FailedPrecondition,
            Self::Unknown { .. } | Self::Nothing(_) | Self::History(HistoryError::Unknown { .. }) => Code::NotFound,
            Self::Commit(CommitError::Superseded { .. }) | Self::OverBudget { .. } | Self::Stopping => {
                Code::Unavailable
            }
            Self::History(HistoryError::DeclarationDiffers { .. }) => Code::FailedPrecondition,
            Self::History(HistoryError::Invalid { .. }) => Code::InvalidArgument,
            Self::History(_) => Code::Internal,
        }
    }

    /// Whether sending the same again, later, may be taken.
    pub fn is_passing(&self) -> bool {
        self.code() == Code::Unavailable
    }

    /// The field at fault; empty when it is none of the message's.
    pub fn field(&self) -> &str {
        match self {
            Self::Invalid(fault) | Self::Nothing(fault) | Self::Commit(CommitError::Invalid(fault)) => &fault.field,
            Self::Commit(_) => "step",
            Self::Unknown { what, .. } => what,
            Self::Finished(_) => "run",
            Self::History(HistoryError::DeclarationDiffers { field, .. }) => field,
            Self::OverBudget { .. } | Self::History(_) | Self::Stopping => "",
        }
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let details = if refusal.is_passing() {
            ErrorDetails::with_retry_info(Some(RETRY_AFTER))
        } else if refusal.field().is_empty() {
            ErrorDetails::new()
        } else {
            ErrorDetails::with_bad_request(vec![FieldViolation::new(refusal.field(), refusal.to_string())])
        };
        Status::with_error_details(refusal.code(), refusal.to_string(), details)
    }
}
