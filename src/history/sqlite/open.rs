//! Opening the store: its path, its durability, and the migration of older schemas.

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode};

use super::fault::is_damage;
use super::log;
use super::place::{FILE_NAME, Place, is_remote};
use super::seal::seal_older;
use crate::history::error::HistoryError;

/// Entry i migrates schema version i to i + 1. Entries are never changed, only added.
const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
    include_str!("schema_9.sql"),
];

/// The first schema with checksums.
pub(super) const FIRST_SEALED: i64 = 6;

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
    let hidden = keep_damaged_log(directory);
    let journal = if is_remote(directory) { "DELETE" } else { "WAL" };
    let connection = prepare(&path, journal).map_err(|fault| named(fault, path))?;
    Ok((connection, Place::of_open(directory, hidden)?))
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

/// SQLite overwrites what it does not read of a log. If that has committed changes, a copy is kept. Returns how many.
fn keep_damaged_log(directory: &Path) -> u64 {
    let log = directory.join(format!("{FILE_NAME}-wal"));
    let Ok(hidden @ 1..) = log::hidden(&log) else { return 0 };
    let copy =
        (1..).map(|number| directory.join(format!("{FILE_NAME}-wal.damaged-{number}"))).find(|copy| !copy.exists());
    let kept = copy.as_ref().map(|copy| std::fs::copy(&log, copy));
    tracing::error!(
        changes = hidden, copy = ?copy.unwrap_or_default(), kept = kept.is_some_and(|kept| kept.is_ok()),
        "the log of the history is damaged: its last committed changes cannot be read"
    );
    hidden
}

/// Whether a directory has no history, or one that was never written.
pub(super) fn is_absent(directory: &Path) -> bool {
    std::fs::metadata(directory.join(FILE_NAME)).map_or(true, |file| file.len() == 0)
}

/// The newest schema.
pub fn schema() -> i64 {
    MIGRATIONS.len() as i64
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

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

/// Says which column the file does not have as the newest schema declares it. SQLite keeps the declarations as text, so
/// damage in them can leave other names that are as valid.
pub(super) fn altered(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    let new = Connection::open_in_memory()?;
    for migration in MIGRATIONS {
        new.execute_batch(migration)?;
    }
    let found = columns(connection)?;
    let missing = columns(&new)?.into_iter().find(|column| !found.contains(column));
    Ok(missing.map(|[table, column, kind]| format!("table '{table}' has no column '{column}' of type {kind}")))
}

/// Each column's table, name and type, of which damage may have left anything.
fn columns(connection: &Connection) -> Result<BTreeSet<[String; 3]>, rusqlite::Error> {
    let statement = "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c \
         WHERE t.type = 'table'";
    let text = |row: &rusqlite::Row<'_>, column: usize| -> Result<String, rusqlite::Error> {
        let bytes = row.get_ref(column)?.as_bytes_or_null()?;
        Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
    };
    connection.prepare(statement)?.query_map([], |row| Ok([text(row, 0)?, text(row, 1)?, text(row, 2)?]))?.collect()
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

    // A migration may replace a table that others refer to.
    connection.pragma_update(None, "foreign_keys", false)?;
    // An immediate transaction takes the lock now, so a locked or read-only file fails here and not at the first point.
    let transaction = connection.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let known = schema();
    if found > known {
        return Err(Fault::Typed(Box::new(HistoryError::NewerSchema { path: path.to_owned(), found, known })));
    }
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    if found < 0 || (found == 0) != (tables == 0) {
        let why = format!("schema version {found} with {tables} tables and indices");
        return Err(Fault::Typed(Box::new(HistoryError::NotHistory { path: path.to_owned(), why })));
    }
    let began = Instant::now();
    let is_older = 0 < found && found < known;
    if is_older {
        let mebibytes = std::fs::metadata(path).map_or(0, |file| file.len() >> 20);
        tracing::info!(
            path = %path.display(), mebibytes, from = found, to = known,
            "migrating the history, which takes up to a minute for each gigabyte and as much room on the disk again"
        );
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
    if let Some(why) = altered(&transaction)? {
        return Err(Fault::Typed(Box::new(HistoryError::Corrupt { path: path.to_owned(), why })));
    }
    transaction.commit()?;
    if is_older {
        tracing::info!(seconds = began.elapsed().as_secs(), "the history is migrated");
    }
    connection.pragma_update(None, "foreign_keys", true)?;
    if found == known && std::fs::metadata(path).is_ok_and(|file| file.len() <= CHECKED_WHOLE) {
        let fault: String = connection.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
        if fault != "ok" {
            return Err(Fault::Typed(Box::new(HistoryError::Corrupt { path: path.to_owned(), why: fault })));
        }
    }
    Ok(connection)
}
