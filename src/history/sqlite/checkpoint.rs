//! The end: what waits is written, and the log is moved into the file, so that a stopped sidecar's file alone has everything.

use super::store::Sqlite;
use super::wal::LONG;
use crate::history::error::HistoryError;
use crate::history::store::Store;
use crate::history::usage::Waiting;

impl Sqlite {
    /// Tries once more to write what waits, also before the next attempt is due, and waits for the disk. Errors where it
    /// still waits.
    pub fn write_at_last(&self) -> Result<(), HistoryError> {
        let mut store = self.store();
        store.write_waiting(None);
        self.note(&store);
        drop(store);
        self.is_durable(LONG);
        self.all_written()
    }

    /// Errors where changes wait in memory. Does not block.
    pub fn all_written(&self) -> Result<(), HistoryError> {
        match self.waiting() {
            Waiting { why: Some(why), entries: entries @ 1.., .. } => Err(HistoryError::Lost { entries, why }),
            _ => Ok(()),
        }
    }

    /// Moves the log into the file. Returns whether nothing is left in the log. What is left is as durable as before: the
    /// next one who opens the history reads it.
    pub fn empty_log(&self) -> Result<bool, HistoryError> {
        let store = self.store();
        // Changes that wait are in a transaction that is open.
        if store.is_waiting() {
            return Ok(false);
        }
        let busy: i64 = store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0))?;
        Ok(busy == 0)
    }
}
