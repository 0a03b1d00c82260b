//! The mapping from refusals to gRPC status codes.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use crate::history::HistoryError;
use crate::sample::CommitError;
use crate::server::refusal::Refusal;

/// How long a client should wait before it retries a refusal that is temporary.
pub const RETRY_AFTER: Duration = Duration::from_millis(500);

pub fn code(refusal: &Refusal) -> Code {
    match refusal {
        refusal if refusal.is_passing() => Code::Unavailable,
        Refusal::Invalid(_)
        | Refusal::Commit(CommitError::Invalid(_))
        | Refusal::History(HistoryError::Invalid { .. }) => Code::InvalidArgument,
        Refusal::Unknown { .. } | Refusal::Nothing(_) | Refusal::History(HistoryError::Unknown { .. }) => {
            Code::NotFound
        }
        Refusal::Commit(_) | Refusal::Finished(_) | Refusal::History(HistoryError::DeclarationDiffers { .. }) => {
            Code::FailedPrecondition
        }
        Refusal::History(HistoryError::DeclarationsFull { .. }) => Code::ResourceExhausted,
        Refusal::History(_) => Code::Internal,
        Refusal::OverBudget { .. } | Refusal::Stopping => Code::Unavailable,
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
        Status::with_error_details(code(&refusal), refusal.to_string(), details)
    }
}
