//! Opening the store: its path and its durability.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::data_file::{FILE_NAME, Place, emptied, is_remote};
use super::fault::{is_busy, is_no_database};
use super::tables::{SCHEMA, STATEMENTS, TABLES, altered, recognise};
use super::wal::{MOVED_ABOVE, Wal};
use crate::history::error::HistoryError;

/// How long a restart waits for the file's lock, which a stopping process holds for a moment longer.
const WAIT_FOR_LOCK: Duration = Duration::from_millis(500);
/// Pause between two attempts to lock.
const PAUSE: Duration = Duration::from_millis(10);

/// How long a change waits for a log that is being moved into the file.
const WAIT_FOR_LOG: Duration = Duration::from_secs(60);

/// A file up to this size is checked as a whole when it is opened, which takes under a second. Larger ones are checked
/// where they are read.
const CHECKED_WHOLE: u64 = 256 << 20;

/// SQLite's name of a database in memory.
const MEMORY: &str = ":memory:";

/// How a connection locks and writes: values of SQLite's pragmas.
pub(super) struct Mode {
    locking: &'static str,
    journal: &'static str,
    synchronous: &'static str,
}

const IN_MEMORY: Mode = Mode { locking: "EXCLUSIVE", journal: "MEMORY", synchronous: "FULL" };
/// On a file system of the network, for which SQLite's log is not meant.
pub(super) const REMOTE: Mode = Mode { locking: "EXCLUSIVE", journal: "DELETE", synchronous: "FULL" };
/// With readers beside the writer. [`Wal`] syncs the log.
const SHARED: Mode = Mode { locking: "NORMAL", journal: "WAL", synchronous: "NORMAL" };
/// Without memory that connections share, for which there may be no room. Nothing is written until something changes.
pub(super) const ALONE: Mode = Mode { locking: "EXCLUSIVE", journal: "WAL", synchronous: "FULL" };

/// An open history.
pub(super) struct Opened {
    pub connection: Connection,
    pub place: Place,
    /// `None` where a change is on the disk when it was made, and all read with the same connection.
    pub wal: Option<Arc<Wal>>,
}

/// Opens a history in memory.
pub(super) fn memory() -> Result<Connection, HistoryError> {
    prepare(Path::new(MEMORY), &IN_MEMORY).map_err(|error| named(error, PathBuf::from(MEMORY)))
}

/// Opens `directory`/[`FILE_NAME`]. On a local file system in this mode; if none is given, with readers beside the writer.
///
/// Durability: what is on the disk survives a power loss, and so does the file itself. On local file systems there is a
/// write-ahead log, whose frames have checksums; on those of the network a rollback journal.
///
/// The directory or the file is locked exclusively, so that two sidecars never write to one history.
pub(super) fn open(directory: &Path, mode: Option<&Mode>) -> Result<Opened, HistoryError> {
    Place::prepare(directory)?;
    let path = directory.join(FILE_NAME);
    let held = take(directory)?;
    if let Some(why) = emptied(directory) {
        return Err(HistoryError::Corrupt { path, why });
    }
    let local = if held.is_some() { &SHARED } else { &ALONE };
    let mut mode = if is_remote(directory) { &REMOTE } else { mode.unwrap_or(local) };
    let mut prepared = prepare(&path, mode);
    if prepared.as_ref().is_err_and(is_of_shared_memory) {
        mode = &ALONE;
        prepared = prepare(&path, mode);
    }
    let connection = prepared.map_err(|error| named(error, path.clone()))?;
    let place = Place::of_open(directory, mode.journal == REMOTE.journal)?;
    let held = held.filter(|_| mode.locking == SHARED.locking);
    let wal = held.map(|held| Wal::start(path, held)).transpose()?;
    Ok(Opened { connection, place, wal })
}

/// Locks a directory for this process, until the file that is returned is closed; `None` where its file system has no such
/// locks.
fn take(directory: &Path) -> Result<Option<File>, HistoryError> {
    let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
    let held = File::open(directory).map_err(fault)?;
    let began = Instant::now();
    loop {
        match held.try_lock() {
            Ok(()) => return Ok(Some(held)),
            Err(TryLockError::WouldBlock) if began.elapsed() < WAIT_FOR_LOCK => thread::sleep(PAUSE),
            Err(TryLockError::WouldBlock) => return Err(HistoryError::InUse { path: directory.join(FILE_NAME) }),
            Err(TryLockError::Error(_)) => return Ok(None),
        }
    }
}

/// Whether the file that connections share to find their way in the log could not be made.
fn is_of_shared_memory(error: &HistoryError) -> bool {
    use rusqlite::ffi::{SQLITE_IOERR_SHMLOCK, SQLITE_IOERR_SHMMAP, SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE};
    let HistoryError::Storage(cause) = error else { return false };
    let code = cause.downcast_ref().and_then(rusqlite::Error::sqlite_error).map(|error| error.extended_code);
    code.is_some_and(|code| {
        [SQLITE_IOERR_SHMOPEN, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_SHMLOCK, SQLITE_IOERR_SHMMAP].contains(&code)
    })
}

/// Creates a history beside the one that it will replace.
pub(super) fn create(path: &Path) -> Result<Connection, HistoryError> {
    prepare(path, &REMOTE).map_err(|error| named(error, path.to_owned()))
}

/// Creates an absent file that only its owner can read. SQLite creates files as the umask says, and gives its logs the mode
/// of the file to which they belong. Where this fails, SQLite fails at the same and says why.
pub(super) fn create_private(path: &Path) {
    let _ = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
}

/// Whether a directory has no history, or one that was never written.
pub(super) fn is_absent(directory: &Path) -> bool {
    std::fs::metadata(directory.join(FILE_NAME)).map_or(true, |file| file.len() == 0)
}

/// The error about the file at `path`.
fn named(error: HistoryError, path: PathBuf) -> HistoryError {
    match error {
        HistoryError::Damaged(cause) if is_no_database(&cause) => {
            HistoryError::NotHistory { path, why: cause.to_string() }
        }
        HistoryError::Damaged(cause) => HistoryError::Corrupt { path, why: cause.to_string() },
        HistoryError::Storage(cause) if is_busy(&cause) => HistoryError::InUse { path },
        HistoryError::Storage(source) => HistoryError::Unwritable { path, source },
        error => error,
    }
}

/// Opens a history to read it. Its log stays as it is.
pub(super) fn unchanged(path: &Path) -> Result<Connection, HistoryError> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    Ok(connection)
}

/// Opens a damaged history to read what is left of it. SQLite then reads files that are shorter than they say, and tables
/// beside a declaration that makes no sense. Nothing is written.
pub(super) fn salvaged(path: &Path) -> Result<Connection, HistoryError> {
    let connection = unchanged(path)?;
    connection.pragma_update(None, "writable_schema", true)?;
    Ok(connection)
}

fn prepare(path: &Path, mode: &Mode) -> Result<Connection, HistoryError> {
    if path != Path::new(MEMORY) {
        create_private(path);
    }
    let mut connection = Connection::open(path)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.busy_timeout(WAIT_FOR_LOCK)?;
    connection.pragma_update(None, "locking_mode", mode.locking)?;
    connection.pragma_update(None, "journal_mode", mode.journal)?;
    connection.pragma_update(None, "synchronous", mode.synchronous)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "journal_size_limit", MOVED_ABOVE as i64)?;

    // An immediate transaction takes the lock now, so a locked or read-only file fails here and not at the first point.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let is_there = recognise(&transaction, path)?;
    if !is_there {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
    }
    if let Some(why) = altered(&transaction)? {
        return Err(HistoryError::Corrupt { path: path.to_owned(), why });
    }
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if is_there && std::fs::metadata(path).is_ok_and(|file| file.len() <= CHECKED_WHOLE) {
        let fault: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if fault != "ok" {
            return Err(HistoryError::Corrupt { path: path.to_owned(), why: fault });
        }
    }
    if mode.locking == SHARED.locking {
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
        connection.busy_timeout(WAIT_FOR_LOG)?;
        // The first change since the log was moved syncs its head: better now than when a job waits. A full disk does not
        // keep the history from being opened.
        let _ = connection.pragma_update(None, "user_version", SCHEMA);
    }
    Ok(connection)
}
