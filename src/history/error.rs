//! Errors of the history, worded so that the reader can act on them.

use std::path::PathBuf;

/// Why the history could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("data directory {path}: {source}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("history {path}: not a history file of this program ({why})")]
    NotHistory { path: PathBuf, why: String },
    #[error("history {path}: got schema version {found}, expected at most {known}: a newer program wrote it")]
    NewerSchema { path: PathBuf, found: i64, known: i64 },
    /// Another process holds the file's lock.
    #[error("history {path}: in use by another process")]
    InUse { path: PathBuf },
    #[error("history {path}: cannot be written: {source}")]
    Unwritable { path: PathBuf, source: rusqlite::Error },
    /// The run is stored with a different declaration; a run's declaration never changes.
    #[error("{field}: got {came}, but run '{run}' was declared with {stored}")]
    DeclarationDiffers { run: String, field: String, stored: String, came: String },
    /// `what` is `run` or `concept`.
    #[error("{what}: '{name}' is unknown")]
    Unknown { what: &'static str, name: String },
    /// A number that cannot be stored, or a list of the wrong length.
    #[error("{field}: {message}")]
    Invalid { field: String, message: String },
    #[error("history: the disk is full or the file has reached its size limit")]
    Full,
    #[error("history: {0}")]
    Storage(rusqlite::Error),
    #[error("history: stored JSON cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

impl From<rusqlite::Error> for HistoryError {
    fn from(error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => Self::Full,
            _ => Self::Storage(error),
        }
    }
}

impl HistoryError {
    pub(super) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }
}
