//! Opening the store: its path, its durability, and the migration of older schemas.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use super::error::HistoryError;
use super::seal::seal_older;

/// The file in the data directory.
pub const FILE_NAME: &str = "history.sqlite3";

/// Entry i migrates schema version i to i + 1. Entries are never changed, only added.
const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
];

/// The first schema with checksums.
const FIRST_SEALED: i64 = 6;

/// How long a restart waits for the file's lock, which a stopping process holds for a moment longer.
const WAIT_FOR_LOCK: Duration = Duration::from_millis(500);

/// Opens `directory`/[`FILE_NAME`], or a store in memory.
///
/// Durability: a write-ahead log with `synchronous=NORMAL`. The log is synced before its pages reach the main file,
/// and each of its frames has a checksum, so after a power loss the last points may be missing but the older ones are
/// intact. Syncing each point would gain little: a lost point is one evaluation of many.
///
/// The file is locked exclusively, so that two sidecars never write to one history.
pub(super) fn open(directory: Option<&Path>) -> Result<Connection, HistoryError> {
    let path = match directory {
        Some(directory) => {
            std::fs::create_dir_all(directory)
                .map_err(|source| HistoryError::Directory { path: directory.to_owned(), source })?;
            directory.join(FILE_NAME)
        }
        None => PathBuf::from(":memory:"),
    };
    prepare(&path, directory.is_none()).map_err(|fault| match fault {
        Fault::Typed(error) => *error,
        Fault::Sqlite(error) => match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                HistoryError::NotHistory { path, why: error.to_string() }
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => HistoryError::InUse { path },
            Some(ErrorCode::DiskFull) => HistoryError::Full,
            _ => HistoryError::Unwritable { path, source: error },
        },
    })
}

enum Fault {
    Sqlite(rusqlite::Error),
    Typed(Box<HistoryError>),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

fn prepare(path: &Path, memory: bool) -> Result<Connection, Fault> {
    let mut connection = if memory { Connection::open_in_memory()? } else { Connection::open(path)? };
    connection.busy_timeout(WAIT_FOR_LOCK)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "NORMAL")?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)?;

    // An immediate transaction takes the lock now, so a locked or read-only file fails here and not at the first point.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = MIGRATIONS.len() as i64;
    if found > known {
        return Err(Fault::Typed(Box::new(HistoryError::NewerSchema { path: path.to_owned(), found, known })));
    }
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if found < 0 || (found == 0) != (tables == 0) {
        let why = format!("schema version {found} with {tables} tables and indices");
        return Err(Fault::Typed(Box::new(HistoryError::NotHistory { path: path.to_owned(), why })));
    }
    for migration in &MIGRATIONS[found as usize..] {
        transaction.execute_batch(migration)?;
    }
    if found < known {
        if 0 < found && found < FIRST_SEALED {
            seal_older(&transaction).map_err(|error| Fault::Typed(Box::new(error)))?;
        }
        transaction.pragma_update(None, "user_version", known)?;
    }
    transaction.commit()?;
    Ok(connection)
}
