//! The tables, and how a history is recognised whose version is damaged.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, Row};

use crate::history::error::HistoryError;

pub(super) const TABLES: &str = include_str!("schema.sql");

/// The version of the tables.
pub const SCHEMA: i64 = 1;

/// Whether a file has the tables of a history, and in words what is wrong with the version that stands in it. No checksum
/// covers that number, so a file that has exactly these tables is a history. Errors where another version of the program
/// wrote the file, or another program.
pub(super) fn recognise(connection: &Connection, path: &Path) -> Result<(bool, Option<String>), HistoryError> {
    let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if found == SCHEMA {
        return Ok((true, None));
    }
    let objects = objects(connection)?;
    if objects.is_empty() {
        return Ok((false, (found != 0).then(|| format!("got schema version {found} without tables"))));
    }
    let new = empty()?;
    if objects == self::objects(&new)? && columns(connection)?.is_superset(&columns(&new)?) {
        return Ok((true, Some(format!("got schema version {found}, but the tables are those of version {SCHEMA}"))));
    }
    if found > 0 {
        return Err(HistoryError::OtherSchema { path: path.to_owned(), found, known: SCHEMA });
    }
    let why = format!("got schema version {found} with {} tables and indices", objects.len());
    match ["run", "point"].iter().all(|table| objects.contains(*table)) {
        true => Ok((true, Some(why))),
        false => Err(HistoryError::NotHistory { path: path.to_owned(), why }),
    }
}

/// An empty history.
fn empty() -> Result<Connection, rusqlite::Error> {
    let new = Connection::open_in_memory()?;
    new.execute_batch(TABLES)?;
    Ok(new)
}

/// The names of tables and indices, without SQLite's own and those of an outbox, which the schema does not have.
fn objects(connection: &Connection) -> Result<BTreeSet<String>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT name FROM sqlite_schema")?;
    let names = statement.query_map([], |row| text(row, 0))?.collect::<Result<BTreeSet<_>, _>>()?;
    Ok(names.into_iter().filter(|name| !name.starts_with("sqlite_") && !name.starts_with("outbox")).collect())
}

/// Says which column the file does not have as the schema declares it. SQLite keeps the declarations as text, so
/// damage in them can leave other names that are as valid.
pub(super) fn altered(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    let new = empty()?;
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
