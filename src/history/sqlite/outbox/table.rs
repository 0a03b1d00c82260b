//! The tables of an outbox, and what it holds as a whole.

use rusqlite::{Connection, OptionalExtension};

use crate::history::db::Db;
use crate::history::error::HistoryError;

/// Not part of the schema, so that a history without a hub has none of it.
const TABLES: &str = "
CREATE TABLE outbox_source (
    id TEXT NOT NULL -- names this outbox at every hub
) STRICT;

-- Runs whose changes are noted.
CREATE TABLE outbox_run (
    run INTEGER PRIMARY KEY REFERENCES run(id) ON DELETE CASCADE
) STRICT;

-- A row that is removed with what it refers to was not sent.
CREATE TABLE outbox (
    number   INTEGER PRIMARY KEY AUTOINCREMENT,
    run      INTEGER REFERENCES run(id) ON DELETE CASCADE,
    point    INTEGER REFERENCES point(id) ON DELETE CASCADE,
    unscored INTEGER REFERENCES unscored(id) ON DELETE CASCADE,
    topic    TEXT,             -- of entries of a run only the newest on a topic is sent
    body     TEXT,             -- JSON: a change; of a point that was sent, the scores that joined it
    checksum INTEGER           -- over the body
) STRICT;

CREATE INDEX outbox_by_run ON outbox (run);
CREATE INDEX outbox_by_point ON outbox (point) WHERE point IS NOT NULL;
CREATE INDEX outbox_by_unscored ON outbox (unscored) WHERE unscored IS NOT NULL;
";

/// The outbox as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// A UUID.
    pub id: String,
    /// The highest number that was given out.
    pub newest: u64,
}

/// Creates the tables unless they exist, within a transaction of the caller.
pub fn create(connection: &Connection) -> Result<(), HistoryError> {
    if !exists(&mut Db::Sqlite(connection))? {
        connection.execute_batch(TABLES)?;
        connection.execute("INSERT INTO outbox_source (id) VALUES (?1)", [uuid()])?;
    }
    Ok(())
}

/// A random UUID. Its bits are from the system's generator, by way of the standard library's hash keys.
fn uuid() -> String {
    use std::hash::{BuildHasher, RandomState};
    let random = || RandomState::new().hash_one(std::process::id());
    let (high, low) = (random(), random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        (low >> 48) & 0x3fff | 0x8000,
        low & 0xffff_ffff_ffff
    )
}

pub fn source(connection: &Connection) -> Result<Source, HistoryError> {
    let id = connection.query_row("SELECT id FROM outbox_source", [], |row| row.get(0))?;
    let newest: Option<i64> = connection
        .query_row("SELECT seq FROM sqlite_sequence WHERE name = 'outbox'", [], |row| row.get(0))
        .optional()?;
    Ok(Source { id, newest: newest.unwrap_or_default().cast_unsigned() })
}

/// Whether there is an outbox: never in PostgreSQL.
pub fn exists(db: &mut Db<'_>) -> Result<bool, HistoryError> {
    Ok(db.sqlite().is_some() && db.exists("SELECT 1 FROM sqlite_schema WHERE name = 'outbox'", &[])?)
}

/// How many entries wait; 0 without an outbox.
pub fn count(db: &mut Db<'_>) -> Result<u64, HistoryError> {
    if !exists(db)? {
        return Ok(0);
    }
    Ok(db.one("SELECT count(*) FROM outbox", &[], |row| row.unsigned(0))?.unwrap_or_default())
}

/// Makes a change that may remove what waits. Returns also how many entries went with it.
pub fn losing<T>(
    db: &mut Db<'_>,
    change: impl FnOnce(&mut Db<'_>) -> Result<T, HistoryError>,
) -> Result<(T, u64), HistoryError> {
    let waited = count(db)?;
    let value = change(db)?;
    Ok((value, waited.saturating_sub(count(db)?)))
}
