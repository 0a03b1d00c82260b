//! The history: curve points in SQLite, on disk or in memory with the same code.
//!
//! All calls block; the server makes them from blocking tasks. One connection behind a lock serves readers and the
//! writer: writing a point takes milliseconds, and the file is locked exclusively anyway.

mod blob;
mod error;
mod open;
mod read;
mod record;
mod retain;
mod runs;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

pub use error::HistoryError;
pub use open::FILE_NAME;
pub use read::{ScoreMatrix, SeriesPoint, StoredRun, StoredSplit};
pub use record::Recorded;
pub use retain::{Dropped, Limits, Usage};
pub use runs::{Identity, RunRecord};

/// Runs and their curve points. Names are always bound as parameters, never formatted into SQL.
pub struct History {
    store: Mutex<Store>,
    limits: Limits,
}

struct Store {
    connection: Connection,
    dropped: Dropped,
}

impl History {
    /// Opens the history in `directory`, which is created if absent; without a directory the history lives in memory.
    /// Errors when the file is in use, cannot be written, is not a history or has a newer schema.
    pub fn open(directory: Option<&Path>, limits: Limits) -> Result<Self, HistoryError> {
        let connection = open::open(directory)?;
        Ok(Self { store: Mutex::new(Store { connection, dropped: Dropped::default() }), limits })
    }

    /// A poisoned lock is safe to use: the transaction of the caller that panicked rolled back when it was dropped.
    fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
