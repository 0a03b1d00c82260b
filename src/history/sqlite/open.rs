//! Opening the store: its path and its durability.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode};

use super::data_file::{FILE_NAME, Place, emptied, is_remote};
use super::fault::is_damage;
use super::tables::{SCHEMA, TABLES, altered, recognise};
use crate::history::error::HistoryError;

/// How long a restart waits for the file's lock, which a stopping process holds for a moment longer.
const WAIT_FOR_LOCK: Duration = Duration::from_millis(500);

/// A file up to this size is checked as a whole when it is opened, which takes under a second. Larger ones are checked
/// where they are read.
const CHECKED_WHOLE: u64 = 256 << 20;

/// SQLite's name of a database in memory.
const MEMORY: &str = ":memory:";

/// Opens a history in memory.
pub(super) fn memory() -> Result<Connection, HistoryError> {
    prepare(Path::new(MEMORY), "MEMORY").map_err(|fault| named(fault, PathBuf::from(MEMORY)))
}

/// Opens `directory`/[`FILE_NAME`].
///
/// Durability: what is committed survives a power loss (`synchronous=FULL`), and so does the file itself. On local file
/// systems there is a write-ahead log, whose frames have checksums and which is synced at each commit; on those of the
/// network, for which SQLite's log is not meant, a rollback journal.
///
/// The file is locked exclusively, so that two sidecars never write to one history.
pub(super) fn open(directory: &Path) -> Result<(Connection, Place), HistoryError> {
    Place::prepare(directory)?;
    let path = directory.join(FILE_NAME);
    if let Some(why) = emptied(directory) {
        return Err(HistoryError::Corrupt { path, why });
    }
    let journal = if is_remote(directory) { "DELETE" } else { "WAL" };
    let connection = prepare(&path, journal).map_err(|fault| named(fault, path))?;
    Ok((connection, Place::of_open(directory)?))
}

/// Creates a history beside the one that it will replace.
pub(super) fn create(path: &Path) -> Result<Connection, HistoryError> {
    prepare(path, "DELETE").map_err(|fault| named(fault, path.to_owned()))
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

fn named(fault: Fault, path: PathBuf) -> HistoryError {
    match fault {
        Fault::Typed(error) => match *error {
            HistoryError::Damaged(error) => HistoryError::Corrupt { path, why: error.to_string() },
            error => error,
        },
        Fault::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => HistoryError::NotHistory { path, why: error.to_string() },
            _ if is_damage(&error) => HistoryError::Corrupt { path, why: error.to_string() },
            Some(ErrorCode::DatabaseCorrupt) => HistoryError::Corrupt { path, why: error.to_string() },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HistoryError::InUse { path },
            Some(ErrorCode::DiskFull) => HistoryError::Full,
            _ => HistoryError::Unwritable { path, source: error.into() },
        },
    }
}

enum Fault {
    Sqlite(rusqlite::Error),
    Typed(Box<HistoryError>),
}

impl From<HistoryError> for Fault {
    fn from(error: HistoryError) -> Self {
        Self::Typed(Box::new(error))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Opens a history to read it. Its log stays as it is.
pub(super) fn unchanged(path: &Path) -> Result<Connection, HistoryError> {
    let connection = Connection::open_with_flags(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE)?;
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

fn prepare(path: &Path, journal: &str) -> Result<Connection, Fault> {
    if path != Path::new(MEMORY) {
        create_private(path);
    }
    let mut connection = Connection::open(path)?;
    connection.busy_timeout(WAIT_FOR_LOCK)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", journal)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;

    // An immediate transaction takes the lock now, so a locked or read-only file fails here and not at the first point.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let (is_there, fault) = recognise(&transaction, path)?;
    if let Some(why) = fault {
        return Err(HistoryError::Corrupt { path: path.to_owned(), why }.into());
    }
    if !is_there {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "user_version", SCHEMA)?;
    }
    if let Some(why) = altered(&transaction)? {
        return Err(HistoryError::Corrupt { path: path.to_owned(), why }.into());
    }
    transaction.commit()?;
    connection.pragma_update(None, "foreign_keys", true)?;
    if is_there && std::fs::metadata(path).is_ok_and(|file| file.len() <= CHECKED_WHOLE) {
        let fault: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if fault != "ok" {
            return Err(HistoryError::Corrupt { path: path.to_owned(), why: fault }.into());
        }
    }
    Ok(connection)
}
