//! The store behind its lock.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::Connection;

use super::error::HistoryError;
use super::open;

/// How much the history may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of stored pages. Above it the oldest matrices go, then the oldest points, then finished runs without
    /// points. The newest point always stays. On disk the file may be larger by free pages, which are used again,
    /// and has a log of up to 16 MiB beside it.
    pub bytes: u64,
}

/// What the limit has cost since the history was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    pub matrices: u64,
    pub points: u64,
    pub runs: u64,
}

/// Runs and their curve points. Names are only ever bound as parameters.
pub struct History {
    store: Mutex<Store>,
    pub(super) limits: Limits,
}

pub(super) struct Store {
    pub connection: Connection,
    pub dropped: Dropped,
}

impl History {
    /// Opens the history under `directory`, made if absent; without one the history lives in memory.
    pub fn open(directory: Option<&Path>, limits: Limits) -> Result<Self, HistoryError> {
        let connection = open::open(directory)?;
        Ok(Self { store: Mutex::new(Store { connection, dropped: Dropped::default() }), limits })
    }

    /// A caller that panicked left no half-written state: its transaction rolled back when it was dropped.
    pub(super) fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
