//! The tables, and their migration from older schemas.

use std::path::PathBuf;

use super::link::Link;
use super::recent::fill_recent;
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
];

/// Held by who migrates. The number has no meaning.
const LOCK: &str = "SELECT pg_advisory_xact_lock(7220211870110001)";

/// A migration rewrites tables of any size, and waits for whoever reads them: no limit of other statements is one for it.
const PATIENT: &str = "SET LOCAL lock_timeout = 0; SET LOCAL statement_timeout = 0";

/// The newest schema of a database.
pub fn schema() -> i64 {
    MIGRATIONS.len() as i64
}

/// Creates or migrates the tables, once, however many processes do so at the same time. Errors where a newer program
/// has been here, or where the tables cannot be changed. `shown` names the database.
pub(super) fn migrate(link: &mut Link, shown: &str) -> Result<(), HistoryError> {
    let known = schema();
    let checked = |found: i64| match found > known {
        true => Err(HistoryError::NewerSchema { path: PathBuf::from(shown), found, known }),
        false => Ok(found),
    };
    // Who may only read can use tables that are there.
    let found = checked(version(link)?)?;
    if found == known {
        return Ok(());
    }
    if found > 0 {
        tracing::info!(database = shown, from = found, to = known, "migrating the tables, which may take minutes");
    }
    let migrated = link.transaction("BEGIN", &mut |link| {
        link.batch(PATIENT)?;
        link.batch(LOCK)?;
        let found = checked(version(link)?)?;
        if found == known {
            return Ok(());
        }
        for migration in &MIGRATIONS[found as usize..] {
            link.batch(migration)?;
        }
        if (1..3).contains(&found) {
            fill_recent(link)?;
        }
        if found == 0 {
            link.batch("CREATE TABLE conceptwatch_schema (version bigint NOT NULL); INSERT INTO conceptwatch_schema VALUES (0)")?;
        }
        link.execute("UPDATE conceptwatch_schema SET version = $1", &[&known])?;
        Ok(())
    });
    migrated.map_err(|error| match error {
        HistoryError::Storage(why) => HistoryError::Migration { path: PathBuf::from(shown), found, known, why },
        error => error,
    })
}

/// 0 where there are no tables.
fn version(link: &mut Link) -> Result<i64, HistoryError> {
    // Not by `to_regclass`, which may remember from before the lock that there is none.
    let found = link.query_one(
        "SELECT EXISTS (SELECT FROM pg_tables WHERE tablename = 'conceptwatch_schema' \
         AND schemaname = ANY (current_schemas(false)))",
        &[],
    )?;
    if !found.get::<_, bool>(0) {
        return Ok(0);
    }
    Ok(link.query_one("SELECT version FROM conceptwatch_schema", &[])?.get(0))
}
