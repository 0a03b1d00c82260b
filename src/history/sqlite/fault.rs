//! SQLite's errors as those of the history.

use rusqlite::ErrorCode;

use crate::history::error::{Cause, HistoryError};

impl From<rusqlite::Error> for HistoryError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => Self::Full,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Self::Damaged(error.into()),
            Some(ErrorCode::SystemIoFailure) if is_damage(&error) => Self::Damaged(error.into()),
            _ => Self::Storage(error.into()),
        }
    }
}

/// Whether what was read is shorter than it must be, or the file system knows that it is not what was written.
fn is_damage(error: &rusqlite::Error) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_CORRUPTFS, SQLITE_IOERR_DATA, SQLITE_IOERR_SHORT_READ};
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(SQLITE_IOERR_SHORT_READ | SQLITE_IOERR_DATA | SQLITE_IOERR_CORRUPTFS))
}

/// SQLite's code of an error.
fn code(cause: &Cause) -> Option<ErrorCode> {
    cause.downcast_ref().and_then(rusqlite::Error::sqlite_error_code)
}

/// Whether another process has the file.
pub(super) fn is_busy(cause: &Cause) -> bool {
    matches!(code(cause), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

/// Whether the file is of another program.
pub(super) fn is_no_database(cause: &Cause) -> bool {
    code(cause) == Some(ErrorCode::NotADatabase)
}

/// Whether the same change may succeed later: the disk is full, or failed, or is not there.
pub(super) fn is_passing(error: &HistoryError) -> bool {
    let passing = |cause: &Cause| {
        matches!(
            code(cause),
            Some(
                ErrorCode::DiskFull
                    | ErrorCode::SystemIoFailure
                    | ErrorCode::ReadOnly
                    | ErrorCode::CannotOpen
                    | ErrorCode::PermissionDenied
            )
        )
    };
    match error {
        HistoryError::Full | HistoryError::Detached { .. } | HistoryError::Directory { .. } => true,
        HistoryError::Storage(cause) | HistoryError::Unwritable { source: cause, .. } => passing(cause),
        _ => false,
    }
}
