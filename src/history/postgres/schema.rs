//! The tables.

use std::path::PathBuf;

use super::link::Link;
use crate::history::error::HistoryError;

const TABLES: &str = include_str!("schema.sql");
const VERSION: i64 = 1;

/// Held by the process that creates the tables. The number has no meaning.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7220211870110001)";

/// Creates the tables in an empty database, once, however many processes do so at the same time. Errors where another
/// version of the program has been here. `shown` names the database.
pub(super) fn create(link: &mut Link, shown: &str) -> Result<(), HistoryError> {
    let is_created = |link: &mut Link| match version(link)? {
        None => Ok(false),
        Some(VERSION) => Ok(true),
        Some(found) => Err(HistoryError::OtherSchema { path: PathBuf::from(shown), found, known: VERSION }),
    };
    // A user who may only read can use tables that are there.
    if is_created(link)? {
        return Ok(());
    }
    link.transaction("BEGIN", &mut |link| {
        link.batch(LOCK)?;
        if is_created(link)? {
            return Ok(());
        }
        link.batch(TABLES)?;
        link.batch("CREATE TABLE conceptwatch_schema (version bigint NOT NULL)")?;
        link.execute("INSERT INTO conceptwatch_schema VALUES ($1)", &[&VERSION]).map(drop)
    })
}

/// `None` where there are no tables.
fn version(link: &mut Link) -> Result<Option<i64>, HistoryError> {
    // Not by `to_regclass`, which may remember from before the lock that there is none.
    let found = link.query_one(
        "SELECT EXISTS (SELECT FROM pg_tables WHERE tablename = 'conceptwatch_schema' \
         AND schemaname = ANY (current_schemas(false)))",
        &[],
    )?;
    match found.get::<_, bool>(0) {
        true => Ok(Some(link.query_one("SELECT version FROM conceptwatch_schema", &[])?.get(0))),
        false => Ok(None),
    }
}
