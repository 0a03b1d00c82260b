//! Declaring runs, within a transaction of the caller: decides which run a declaration starts, joins or resumes.

use rusqlite::{Connection, OptionalExtension, params};

use super::insert::outcome_of;
use super::outbox;
use super::ranks::{declare_process, declare_rank, seen};
use super::row_checksum::{RUN, RUN_COLUMNS, Seal, seal_run};
use crate::history::declaration::{named, numbered, same_declaration};
use crate::history::error::HistoryError;
use crate::history::point::finite;
use crate::history::run::{Identity, RunRecord};
use leakage::run::Run;
use leakage::sample::Attempt;

/// See [`Store::record_run`](crate::history::Store::record_run).
pub(super) fn declare_run(
    connection: &Connection,
    run: &Run,
    identity: &Identity<'_>,
    started: f64,
) -> Result<RunRecord, HistoryError> {
    finite("run.started", started)?;
    let declared = run;
    let run = named(declared, own_name(connection, &declared.name, identity)?)?;
    let declared_name = Some(&declared.name).filter(|name| **name != run.name);
    let declaration = serde_json::to_string(&run)?;
    let known: Option<(i64, String, f64, bool)> = connection
        .query_row(
            "SELECT id, declaration, started, finished IS NOT NULL FROM run WHERE name = ?1",
            [&run.name],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)),
        )
        .optional()?;
    let mut is_news = true;
    let (id, resumed, started, was_finished) = match known {
        Some((id, stored, started, finished)) => {
            is_news = finished || stored != declaration;
            if stored != declaration {
                same_declaration(&run.name, &stored, &declaration)?;
            }
            connection
                .execute("UPDATE run SET finished = NULL, declaration = ?2 WHERE id = ?1", params![id, declaration])?;
            (id, true, started, finished)
        }
        None => {
            connection.execute(
                "INSERT INTO run (name, declaration, started, declared_name) VALUES (?1, ?2, ?3, ?4)",
                params![run.name, declaration, started, declared_name],
            )?;
            (connection.last_insert_rowid(), false, started, false)
        }
    };
    let (attempt, known_attempt) = match identity.job {
        "" => (None, resumed),
        job => {
            let (attempt, known, changed) = launch(connection, id, job, identity, run.world_size)?;
            is_news |= changed;
            (Some(attempt), known)
        }
    };
    let goes_on = known_attempt && !(was_finished && identity.job.is_empty());
    let outcome = outcome_of(connection, id)?.filter(|outcome| goes_on && outcome.outlives(identity));
    let outcome = outcome.map(|outcome| serde_json::to_string(&outcome)).transpose()?;
    connection.execute("UPDATE run SET outcome = ?2 WHERE id = ?1", params![id, outcome])?;
    seal_run(connection, id)?;
    let record = RunRecord { run, resumed, started, attempt, continues: known_attempt && !was_finished };
    outbox::note_run(connection, id, identity, &record, is_news)?;
    Ok(record)
}

/// The name of the run that a declaration under the name `declared` refers to.
fn own_name(connection: &Connection, declared: &str, identity: &Identity<'_>) -> Result<String, HistoryError> {
    if identity.job.is_empty() {
        return if is_intact(connection, declared)? {
            Ok(declared.to_owned())
        } else {
            next_free(connection, declared)
        };
    }
    let of_launch: Option<String> = connection
        .prepare_cached(
            "SELECT name FROM run JOIN launch ON launch.run = run.id \
             WHERE job = ?2 AND ?1 IN (name, declared_name) ORDER BY launch.id DESC LIMIT 1",
        )?
        .query_row([declared, identity.job], |row| row.get(0))
        .optional()?;
    if let Some(name) = of_launch
        && is_intact(connection, &name)?
    {
        return Ok(name);
    }
    let taken = connection.prepare_cached("SELECT 1 FROM run WHERE name = ?1")?.exists([declared])?;
    if !taken || (identity.resume && is_intact(connection, declared)?) {
        return Ok(declared.to_owned());
    }
    next_free(connection, declared)
}

/// Whether the run matches its checksum, or there is none of that name. A damaged run is never continued: its concepts
/// may not be those that were declared.
fn is_intact(connection: &Connection, name: &str) -> Result<bool, HistoryError> {
    let intact = connection
        .prepare_cached(&format!("SELECT {RUN}, checksum FROM run WHERE name = ?1"))?
        .query_row([name], |row| Ok(Seal::new().matching(row, 0, RUN_COLUMNS)?.is_some()))
        .optional()?;
    Ok(intact.unwrap_or(true))
}

fn next_free(connection: &Connection, declared: &str) -> Result<String, HistoryError> {
    let mut taken = connection.prepare_cached("SELECT 1 FROM run WHERE name = ?1")?;
    for number in 2_u64.. {
        let name = numbered(declared, number);
        if !taken.exists([&name])? {
            return Ok(name);
        }
    }
    unreachable!("a history holds fewer runs than there are numbers")
}

/// Records a launch of the run. Returns its attempt, whether that attempt was already known, and whether anything changed.
fn launch(
    connection: &Connection,
    run: i64,
    job: &str,
    identity: &Identity<'_>,
    world_size: u32,
) -> Result<(Attempt, bool, bool), HistoryError> {
    let known: Option<(i64, u32)> = connection
        .prepare_cached("SELECT id, restarts FROM launch WHERE run = ?1 AND job = ?2")?
        .query_row(params![run, job], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let seen = known.map(|(id, newest)| seen(connection, id, newest, identity)).transpose()?;
    let restart = identity.restart_of(world_size, seen.unwrap_or_default());
    let id = match known {
        Some((id, _)) => {
            connection.execute("UPDATE launch SET restarts = max(restarts, ?2) WHERE id = ?1", params![id, restart])?;
            id
        }
        None => {
            connection
                .execute("INSERT INTO launch (run, job, restarts) VALUES (?1, ?2, ?3)", params![run, job, restart])?;
            connection.last_insert_rowid()
        }
    };
    let changed = declare_rank(connection, id, restart, identity)?;
    declare_process(connection, id, restart, world_size, identity)?;
    let launch = connection
        .prepare_cached("SELECT count(*) FROM launch WHERE run = ?1 AND id < ?2")?
        .query_row([run, id], |row| row.get(0))?;
    Ok((Attempt { launch, restart }, known.is_some_and(|(_, restarts)| restart <= restarts), changed))
}
