//! Errors of the history, worded so that the reader can act on them.

use std::path::PathBuf;

/// The error of an engine.
pub type Cause = Box<dyn std::error::Error + Send + Sync>;

/// Why the history could not be opened, read or written.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("data directory {path}: {source}")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("history {path}: not a history file of this program ({why})")]
    NotHistory { path: PathBuf, why: String },
    #[error("history {path}: got schema version {found}, expected {known}: another version of the program wrote it")]
    OtherSchema { path: PathBuf, found: i64, known: i64 },
    /// Another process holds the file's lock.
    #[error("history {path}: in use by another process")]
    InUse { path: PathBuf },
    /// The file cannot be read as SQLite wrote it.
    #[error("history {path}: damaged ({why}): `conceptwatch doctor --repair --data-dir DIR` salvages what is readable")]
    Corrupt { path: PathBuf, why: String },
    /// A part of the file cannot be read as SQLite wrote it.
    #[error("history: damaged ({0}): stop the sidecar, then `conceptwatch doctor --repair` salvages what is readable")]
    Damaged(Cause),
    /// The open file is not in its directory any more, so what is written to it would be lost.
    #[error("history {path}: was {what} while in use: export the curves, then start the sidecar again")]
    Detached { path: PathBuf, what: String },
    /// The history cannot be written, and the queue of waiting changes is full.
    #[error("history: cannot be written, and too much waits already: {why}")]
    Unwritten { why: String },
    /// The process ends while changes wait.
    #[error(
        "history: {entries} changes could not be written before the sidecar stopped ({why}): they are lost unless their jobs \
         still run and send them to the next sidecar"
    )]
    Lost { entries: u64, why: String },
    /// There is no room for another declaration.
    #[error("run: declarations take {bytes} bytes of the history, expected at most {limit} (see --history-mib)")]
    DeclarationsFull { bytes: u64, limit: u64 },
    #[error("history {path}: cannot be written: {source}")]
    Unwritable { path: PathBuf, source: Cause },
    /// The run is stored with a different declaration; a run's declaration never changes.
    #[error(
        "{field}: got {came}, but run '{run}' was declared with {stored}, which it keeps: declare it alike on all ranks, or \
         choose another name, or leave resume out"
    )]
    DeclarationDiffers { run: String, field: String, stored: String, came: String },
    /// A job may still send to the run.
    #[error("run: '{run}' is open, expected one that has finished")]
    Open { run: String },
    /// `what` is `run` or `concept`.
    #[error("{what}: '{name}' is unknown")]
    Unknown { what: &'static str, name: String },
    /// A number that cannot be stored, or a list of the wrong length.
    #[error("{field}: {message}")]
    Invalid { field: String, message: String },
    #[error("history: the disk is full or the file has reached its size limit")]
    Full,
    /// The database, or a connection to it, is gone. A change may or may not have been made.
    #[error("history: the database cannot be reached: {why}")]
    Unreachable { why: String },
    /// The database refuses the user, the password or the name of the database.
    #[error("history: the database refuses access: {why}")]
    Denied { why: String },
    #[error("history: the database takes no changes: it is read-only")]
    ReadOnly,
    #[error("run: '{run}' belongs to project '{project}', got '{got}'")]
    OtherProject { run: String, project: String, got: String },
    #[error("history: {0}")]
    Storage(Cause),
    #[error("history: stored JSON cannot be read: {0}")]
    Json(#[from] serde_json::Error),
}

impl HistoryError {
    pub(super) fn invalid(field: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), message: message.into() }
    }

    /// The same about the file at `path`, of which a copy was read.
    pub(super) fn at(self, path: PathBuf) -> Self {
        match self {
            Self::NotHistory { why, .. } => Self::NotHistory { path, why },
            Self::OtherSchema { found, known, .. } => Self::OtherSchema { path, found, known },
            Self::Corrupt { why, .. } => Self::Corrupt { path, why },
            error => error,
        }
    }
}
