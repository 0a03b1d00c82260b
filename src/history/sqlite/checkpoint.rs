//! The end: what waits is written, and the log is moved into the file, so that a stopped sidecar's file alone has everything.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::store::Sqlite;
use super::wal::LONG;
use crate::history::error::HistoryError;
use crate::history::usage::Waiting;

/// Pause between two looks at a store that is in use.
const PAUSE: Duration = Duration::from_millis(5);

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

    /// Errors where changes wait. Does not block.
    pub fn all_written(&self) -> Result<(), HistoryError> {
        match self.waits() {
            Waiting { why: Some(why), entries: entries @ 1.., .. } => Err(HistoryError::Lost { entries, why }),
            _ => Ok(()),
        }
    }

    /// Moves the log into the file, if that is done at `deadline`. Returns whether nothing is left in the log. What is left
    /// is as durable as before: the next one who opens the history reads it. Blocks until `deadline` at most, unless the
    /// disk does not answer.
    pub fn empty_log(&self, deadline: Instant) -> Result<bool, HistoryError> {
        let store = loop {
            match self.free_store() {
                Some(store) => break store,
                None if Instant::now() >= deadline => return Ok(false),
                None => thread::sleep(PAUSE),
            }
        };
        // Changes that wait are in a transaction that is open.
        if store.is_waiting() {
            return Ok(false);
        }
        let interrupt = store.connection.get_interrupt_handle();
        let (done, waits) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let left = deadline.saturating_duration_since(Instant::now());
                if waits.recv_timeout(left) == Err(mpsc::RecvTimeoutError::Timeout) {
                    interrupt.interrupt();
                }
            });
            let moved = store.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0));
            drop(done);
            match moved {
                Ok(busy) => Ok(busy == 0),
                Err(error) if error.sqlite_error_code() == Some(rusqlite::ErrorCode::OperationInterrupted) => Ok(false),
                Err(error) => Err(error.into()),
            }
        })
    }
}
