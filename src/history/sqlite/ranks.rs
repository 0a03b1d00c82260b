//! The ranks of a run's launches, so that a restarted sidecar knows whom to expect.

use rusqlite::{Connection, OptionalExtension, params};

use super::insert::{end, run_id};
use super::read::Reading;
use crate::history::error::HistoryError;
use crate::history::outcome::RunOutcome;
use crate::history::point::finite;
use crate::history::run::{Identity, RESTARTS_KEPT, StoredLaunch, StoredRank};
use leakage::sample::{Attempt, Seen};

pub(super) fn finish_rank(
    connection: &Connection,
    run: &str,
    attempt: Attempt,
    rank: u32,
    finished: f64,
    outcome: &RunOutcome,
) -> Result<(), HistoryError> {
    finite("rank.finished", finished)?;
    let run = run_id(connection, run)?;
    let launch: Option<i64> = connection
        .prepare_cached("SELECT id FROM launch WHERE run = ?1 ORDER BY id LIMIT 1 OFFSET ?2")?
        .query_row(params![run, attempt.launch], |row| row.get(0))
        .optional()?;
    let known = connection
        .prepare_cached("UPDATE rank SET finished = ?4 WHERE launch = ?1 AND rank = ?2 AND restart = ?3")?
        .execute(params![launch, rank, attempt.restart, finished])?;
    if launch.is_none() || known > 0 { end(connection, run, None, outcome) } else { Ok(()) }
}

/// Stores a rank's declaration. One of an older restart does not replace that of a newer. Returns whether anything changed.
pub(super) fn declare_rank(
    connection: &Connection,
    launch: i64,
    restart: u32,
    identity: &Identity<'_>,
) -> Result<bool, HistoryError> {
    let (rank, client) = (identity.rank.get(), identity.client);
    connection
        .prepare_cached("DELETE FROM rank WHERE launch = ?1 AND restart < ?2")?
        .execute(params![launch, restart])?;
    let newer: bool = connection
        .prepare_cached("SELECT EXISTS (SELECT 1 FROM rank WHERE launch = ?1 AND restart > ?2)")?
        .query_row(params![launch, restart], |row| row.get(0))?;
    let known = connection
        .prepare_cached(
            "SELECT 1 FROM rank WHERE launch = ?1 AND rank = ?2 AND restart = ?3 AND client = ?4 AND finished IS NULL",
        )?
        .exists(params![launch, rank, restart, client])?;
    if !newer {
        // A rank that declares itself again goes on with the run.
        connection
            .prepare_cached("INSERT OR REPLACE INTO rank (launch, rank, restart, client) VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![launch, rank, restart, client])?;
    }
    Ok(!newer && !known)
}

/// Returns what is known of a launch, whose newest restart is `newest`, when a process declares itself.
pub(super) fn seen(
    connection: &Connection,
    launch: i64,
    newest: u32,
    identity: &Identity<'_>,
) -> Result<Seen, HistoryError> {
    if identity.process.is_empty() {
        return Ok(Seen::default());
    }
    let own = connection
        .prepare_cached("SELECT restart FROM process WHERE launch = ?1 AND name = ?2")?
        .query_row(params![launch, identity.process], |row| row.get(0))
        .optional()?;
    let is_taken = connection
        .prepare_cached("SELECT 1 FROM process WHERE launch = ?1 AND restart = ?2 AND rank = ?3 AND name <> ?4")?
        .exists(params![launch, newest, identity.rank.get(), identity.process])?;
    let world_size = connection
        .prepare_cached("SELECT world_size FROM process WHERE launch = ?1 AND restart = ?2 LIMIT 1")?
        .query_row(params![launch, newest], |row| row.get(0))
        .optional()?;
    Ok(Seen { newest: Some(newest), own, is_taken, world_size })
}

/// Stores which process declared itself, if it is named, and forgets those of restarts long past.
pub(super) fn declare_process(
    connection: &Connection,
    launch: i64,
    restart: u32,
    world_size: u32,
    identity: &Identity<'_>,
) -> Result<(), HistoryError> {
    if identity.process.is_empty() {
        return Ok(());
    }
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO process (launch, name, restart, rank, world_size) VALUES (?1, ?2, ?3, ?4, ?5)",
        )?
        .execute(params![launch, identity.process, restart, identity.rank.get(), world_size])?;
    connection
        .prepare_cached("DELETE FROM process WHERE launch = ?1 AND restart < ?2")?
        .execute(params![launch, restart.saturating_sub(RESTARTS_KEPT)])?;
    Ok(())
}

impl Reading<'_> {
    pub fn ranks(&self, run: &str) -> Result<Vec<StoredRank>, HistoryError> {
        let run = run_id(self.connection, run)?;
        let mut statement = self.connection.prepare_cached(
            "SELECT (SELECT count(*) FROM launch earlier WHERE earlier.run = launch.run AND earlier.id < launch.id), \
         restart, rank, client, rank.finished IS NOT NULL \
         FROM rank JOIN launch ON launch.id = rank.launch WHERE launch.run = ?1 ORDER BY launch.id, rank",
        )?;
        let rows = statement.query_map([run], |row| {
            let attempt = Attempt { launch: row.get(0)?, restart: row.get(1)? };
            Ok(StoredRank { attempt, rank: row.get(2)?, client: row.get(3)?, finished: row.get(4)? })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    pub fn launches(&self, run: &str) -> Result<Vec<StoredLaunch>, HistoryError> {
        let run = run_id(self.connection, run)?;
        let mut statement =
            self.connection.prepare_cached("SELECT job, restarts FROM launch WHERE run = ?1 ORDER BY id")?;
        let rows = statement.query_map([run], |row| Ok(StoredLaunch { job: row.get(0)?, restarts: row.get(1)? }))?;
        Ok(rows.collect::<Result<_, _>>()?)
    }
}
