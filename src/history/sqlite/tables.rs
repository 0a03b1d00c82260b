//! The tables, and how a history is recognised.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, Row};

use crate::history::error::HistoryError;

pub(super) const TABLES: &str = include_str!("schema.sql");

/// Statements that a connection keeps prepared: more than there are.
pub(super) const STATEMENTS: usize = 128;

/// The version of the tables.
pub const SCHEMA: i64 = 1;

/// Whether a file has the tables of a history; `false` for one that has nothing. Errors where another version of the
/// program wrote the file, or another program.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<bool, HistoryError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == SCHEMA {
        return Ok(true);
    }
    let objects: i64 = connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    match (found, objects) {
        (0, 0) => Ok(false),
        (1.., _) => Err(HistoryError::OtherSchema { path: path.to_owned(), found, known: SCHEMA }),
        _ => {
            let why = format!("got schema version {found} with {objects} tables and indices");
            Err(HistoryError::NotHistory { path: path.to_owned(), why })
        }
    }
}

/// Says which column the file does not have as the schema declares it. SQLite keeps the declarations as text, so
/// damage in them can leave other names that are as valid.
pub(super) fn altered(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    let new = Connection::open_in_memory()?;
    new.execute_batch(TABLES)?;
    let found = columns(connection)?;
    let missing = columns(&new)?.into_iter().find(|column| !found.contains(column));
    Ok(missing.map(|[table, column, kind]| format!("table '{table}' has no column '{column}' of type {kind}")))
}

/// Each column's table, name and type.
fn columns(connection: &Connection) -> Result<BTreeSet<[String; 3]>, rusqlite::Error> {
    let statement = "SELECT t.name, c.name, c.type FROM sqlite_schema t, pragma_table_info(t.name) c \
         WHERE t.type = 'table'";
    connection.prepare(statement)?.query_map([], |row| Ok([text(row, 0)?, text(row, 1)?, text(row, 2)?]))?.collect()
}

/// A text of which damage may have left anything.
fn text(row: &Row<'_>, column: usize) -> Result<String, rusqlite::Error> {
    let bytes = row.get_ref(column)?.as_bytes_or_null()?;
    Ok(String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned())
}

/// Bytes of the pages in use.
pub(super) fn used(connection: &Connection) -> Result<u64, rusqlite::Error> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let pages = pragma("page_count")? - pragma("freelist_count")?;
    Ok((pages * pragma("page_size")?).cast_unsigned())
}
