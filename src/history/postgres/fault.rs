//! PostgreSQL's errors as those of the history.

use postgres::error::SqlState;

use crate::history::error::HistoryError;
use crate::history::usage::Unwritable;
use leakage::field_error::with_causes;

impl From<postgres::Error> for HistoryError {
    fn from(error: postgres::Error) -> Self {
        let Some(said) = error.as_db_error() else {
            // An error that the database did not report came from the connection to it.
            return match error.is_closed()
                || std::error::Error::source(&error).is_some_and(|cause| cause.is::<std::io::Error>())
            {
                true => Self::Unreachable { why: with_causes(&error) },
                false => Self::Storage(error.into()),
            };
        };
        let why = said.message().to_owned();
        match said.code() {
            &SqlState::DISK_FULL => Self::Full,
            // Names have none, so this is a text that nobody checked.
            &SqlState::CHARACTER_NOT_IN_REPERTOIRE => {
                Self::invalid("text", "has the character \\0, expected text without it")
            }
            &SqlState::READ_ONLY_SQL_TRANSACTION => Self::ReadOnly,
            code if code.code().starts_with("28") => Self::Denied { why },
            &SqlState::INVALID_CATALOG_NAME | &SqlState::INSUFFICIENT_PRIVILEGE => Self::Denied { why },
            // Connection exceptions, shutdowns, too many connections, and conflicts between transactions.
            code if ["08", "57P", "53300", "40001", "40P01", "55P03"]
                .iter()
                .any(|class| code.code().starts_with(class)) =>
            {
                Self::Unreachable { why }
            }
            _ => Self::Storage(with_causes(&error).into()),
        }
    }
}

/// Whether the same call may succeed on another connection.
pub(super) fn is_passing(error: &HistoryError) -> bool {
    matches!(error, HistoryError::Unreachable { .. })
}

/// The state of a database that answers a change with this error; `None` where the change itself is at fault.
pub(super) fn unwritable(error: &HistoryError) -> Option<Unwritable> {
    match error {
        HistoryError::ReadOnly => Some(Unwritable::ReadOnly),
        HistoryError::Full => Some(Unwritable::Full),
        HistoryError::Unreachable { .. } => Some(Unwritable::Unreachable),
        HistoryError::Denied { .. } => Some(Unwritable::Denied),
        HistoryError::Storage(_) => Some(Unwritable::Other),
        _ => None,
    }
}
