//! The mapping from refusals to gRPC status codes.

use std::time::Duration;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, FieldViolation, StatusExt};

use super::messages::Unreadable;
use crate::history::HistoryError;
use crate::server::metrics::Metrics;
use crate::server::refusal::Refusal;
use leakage::field_error::FieldError;
use leakage::sample::CommitError;

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
        Refusal::Forbidden(_) => Code::PermissionDenied,
        Refusal::Commit(_) | Refusal::Finished(_) | Refusal::History(HistoryError::DeclarationDiffers { .. }) => {
            Code::FailedPrecondition
        }
        Refusal::History(HistoryError::DeclarationsFull { .. }) => Code::ResourceExhausted,
        Refusal::History(_) => Code::Internal,
        Refusal::NoRoom { .. } => Code::ResourceExhausted,
        Refusal::OverBudget { .. } | Refusal::Forgotten(_) | Refusal::Stopping => Code::Unavailable,
    }
}

pub fn refused(fault: FieldError) -> Status {
    Refusal::from(fault).into()
}

/// Makes a call on a thread that may block. `broken` is what the status says where the call panics.
pub async fn blocking<T, E>(
    call: impl FnOnce() -> Result<T, E> + Send + 'static,
    broken: &'static str,
) -> Result<T, Status>
where
    T: Send + 'static,
    E: Into<Refusal> + Send + 'static,
{
    match tokio::task::spawn_blocking(call).await {
        Ok(result) => result.map_err(|error| error.into().into()),
        Err(_) => Err(Status::internal(broken)),
    }
}

/// Returns the status of a call whose message cannot be read, and counts it. `field` is at fault. Where sending it again
/// would not help, the code must not be one that clients may take for temporary, such as OUT_OF_RANGE.
pub fn unreadable(error: &Unreadable, field: &str, metrics: &Metrics) -> Status {
    let bad = |message: String| refused(FieldError::new(field, message));
    let status = match error {
        Unreadable::TooLarge { limit } => bad(format!("got a larger message, expected at most {limit} bytes")),
        Unreadable::OverBudget { limit } => Refusal::OverBudget { what: "ingest memory", limit: *limit }.into(),
        Unreadable::Slow { limit } => {
            let seconds = limit.as_secs();
            Status::deadline_exceeded(format!("got a part of a message, expected all of it within {seconds} s"))
        }
        Unreadable::Compressed => bad("got a compressed message, expected none".into()),
        Unreadable::Ended => bad("got a part of a message, expected all of it".into()),
        Unreadable::Malformed(error) => bad(format!("got bytes that cannot be read: {error}")),
        // No message is at fault.
        Unreadable::Broken => return Status::cancelled("the connection broke off"),
    };
    metrics.batches_refused.with_label_values(&[format!("{:?}", status.code()).as_str()]).inc();
    tracing::warn!(field, why = status.message(), "a message could not be read");
    status
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
