//! The schema: its versions, its tables, and how a history is recognised whose version is damaged.

use std::collections::BTreeSet;
use std::path::Path;

use rusqlite::{Connection, Row};

use crate::history::error::HistoryError;

/// Entry i migrates schema version i to i + 1. Entries are never changed, only added.
pub(super) const MIGRATIONS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
    include_str!("schema_9.sql"),
    include_str!("schema_10.sql"),
];

/// The first schema with checksums.
pub(super) const FIRST_SEALED: i64 = 6;

/// The newest schema.
pub fn schema() -> i64 {
    MIGRATIONS.len() as i64
}

/// The schema of a file, and in words what is wrong with the version that stands in it. No checksum covers that number, so
/// a file that has exactly the tables of the newest schema is of that schema. Errors where a newer program wrote the file,
/// or no program of this kind.
pub(super) fn version(connection: &Connection, path: &Path) -> Result<(i64, Option<String>), HistoryError> {
    let (found, known): (i64, _) = (connection.pragma_query_value(None, "user_version", |row| row.get(0))?, schema());
    if found == known {
        return Ok((known, None));
    }
    let objects = objects(connection)?;
    if objects.is_empty() {
        return Ok((found, (found != 0).then(|| format!("got schema version {found} without tables"))));
    }
    let new = newest()?;
    if objects == self::objects(&new)? && columns(connection)?.is_superset(&columns(&new)?) {
        return Ok((known, Some(format!("got schema version {found}, but the tables are those of version {known}"))));
    }
    if found > known {
        return Err(HistoryError::NewerSchema { path: path.to_owned(), found, known });
    }
    if found > 0 {
        return Ok((found, None));
    }
    let why = format!("got schema version {found} with {} tables and indices", objects.len());
    match ["run", "point"].iter().all(|table| objects.contains(*table)) {
        true => Ok((known, Some(why))),
        false => Err(HistoryError::NotHistory { path: path.to_owned(), why }),
    }
}

/// An empty history.
fn newest() -> Result<Connection, rusqlite::Error> {
    let new = Connection::open_in_memory()?;
    for migration in MIGRATIONS {
        new.execute_batch(migration)?;
    }
    Ok(new)
}

/// The names of tables and indices, without SQLite's own and those of an outbox, which no schema has.
fn objects(connection: &Connection) -> Result<BTreeSet<String>, rusqlite::Error> {
    let mut statement = connection.prepare("SELECT name FROM sqlite_schema")?;
    let names = statement.query_map([], |row| text(row, 0))?.collect::<Result<BTreeSet<_>, _>>()?;
    Ok(names.into_iter().filter(|name| !name.starts_with("sqlite_") && !name.starts_with("outbox")).collect())
}

/// Says which column the file does not have as the newest schema declares it. SQLite keeps the declarations as text, so
/// damage in them can leave other names that are as valid.
pub(super) fn altered(connection: &Connection) -> Result<Option<String>, rusqlite::Error> {
    let new = newest()?;
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
