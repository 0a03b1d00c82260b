//! Noting changes, each within the transaction that makes it.

use rusqlite::{Connection, params};

use super::table::{By, DECLARE, FINISH, FINISH_RANK, FinishedRank, REMARK, REMOVE, exists, launch, process_of};
use crate::history::change::Launch;
use crate::history::error::HistoryError;
use crate::history::run::{Identity, RunRecord};
use crate::sample::Attempt;

/// Whether changes of a run are noted.
fn follows(connection: &Connection, run: i64) -> Result<bool, HistoryError> {
    Ok(exists(connection)? && connection.prepare_cached("SELECT 1 FROM outbox_run WHERE run = ?1")?.exists([run])?)
}

fn add(connection: &Connection, kind: &str, run: Option<i64>, body: Option<String>) -> Result<(), HistoryError> {
    connection
        .prepare_cached("INSERT INTO outbox (kind, run, body) VALUES (?1, ?2, ?3)")?
        .execute(params![kind, run, body])?;
    Ok(())
}

/// A run was declared. `is_news` tells whether that changed anything.
pub fn note_run(
    connection: &Connection,
    run: i64,
    identity: &Identity<'_>,
    record: &RunRecord,
    is_news: bool,
) -> Result<(), HistoryError> {
    if !exists(connection)? {
        return Ok(());
    }
    let followed = follows(connection, run)?;
    if !followed {
        connection.execute("INSERT INTO outbox_run (run) VALUES (?1)", [run])?;
        note_earlier_launches(connection, run, identity, record)?;
    }
    if !followed || is_news {
        let Attempt { launch: number, restart } = record.attempt.unwrap_or_default();
        let launch = Launch { job: identity.job.to_owned(), restart, number };
        let (rank, world_size, client) = (identity.rank.get(), record.run.world_size, identity.client.to_owned());
        let process = identity.process.to_owned();
        declare(connection, run, By { launch, rank, world_size, client, process, resume: identity.resume })?;
    }
    if !followed {
        for what in [
            "INSERT INTO outbox (kind, run, point) SELECT 'point', run, id FROM point WHERE run = ?1 ORDER BY id",
            "INSERT INTO outbox (kind, run, unscored) SELECT 'unscored', run, id FROM unscored WHERE run = ?1 ORDER BY id",
            "INSERT INTO outbox (kind, run) SELECT 'remark', run FROM remark WHERE run = ?1",
        ] {
            connection.execute(what, [run])?;
        }
    }
    Ok(())
}

fn declare(connection: &Connection, run: i64, by: By) -> Result<(), HistoryError> {
    add(connection, DECLARE, Some(run), Some(serde_json::to_string(&by)?))
}

/// The launches before the one that declares the run now, in their order: their numbers follow from it.
fn note_earlier_launches(
    connection: &Connection,
    run: i64,
    identity: &Identity<'_>,
    record: &RunRecord,
) -> Result<(), HistoryError> {
    let launches: Vec<(String, u32)> = connection
        .prepare_cached("SELECT job, restarts FROM launch WHERE run = ?1 ORDER BY id")?
        .query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let own = record.attempt.map(|attempt| attempt.launch);
    for (number, (job, restart)) in (0..).zip(launches).take_while(|(number, _)| Some(*number) != own) {
        let launch = Launch { job, restart, number };
        let (world_size, client) = (record.run.world_size, identity.client.to_owned());
        declare(
            connection,
            run,
            By { launch, rank: 0, world_size, client, process: String::new(), resume: number > 0 },
        )?;
    }
    Ok(())
}

/// A point was stored. The entry of the one that it replaced went with it.
pub fn note_point(connection: &Connection, run: i64, point: i64) -> Result<(), HistoryError> {
    if follows(connection, run)? {
        connection
            .prepare_cached("INSERT INTO outbox (kind, run, point) VALUES ('point', ?1, ?2)")?
            .execute([run, point])?;
    }
    Ok(())
}

pub fn note_unscored(connection: &Connection, run: i64, unscored: i64) -> Result<(), HistoryError> {
    if follows(connection, run)? {
        connection
            .prepare_cached("INSERT INTO outbox (kind, run, unscored) VALUES ('unscored', ?1, ?2)")?
            .execute([run, unscored])?;
    }
    Ok(())
}

/// A rank has finished.
pub fn note_finish_rank(
    connection: &Connection,
    run: i64,
    attempt: Attempt,
    rank: u32,
    finished: f64,
) -> Result<(), HistoryError> {
    if !follows(connection, run)? {
        return Ok(());
    }
    let process = process_of(connection, run, attempt, rank)?;
    let launch = launch(connection, Some(run), attempt)?;
    let body = serde_json::to_string(&FinishedRank { launch, rank, process, finished })?;
    add(connection, FINISH_RANK, Some(run), Some(body))
}

/// A run has finished.
pub fn note_finish(connection: &Connection, run: i64, finished: f64) -> Result<(), HistoryError> {
    match follows(connection, run)? {
        true => add(connection, FINISH, Some(run), Some(serde_json::to_string(&finished)?)),
        false => Ok(()),
    }
}

/// A title or note was changed. Only what it is in the end is sent.
pub fn note_remark(connection: &Connection, run: i64) -> Result<(), HistoryError> {
    if !follows(connection, run)? {
        return Ok(());
    }
    connection.prepare_cached("DELETE FROM outbox WHERE kind = 'remark' AND run = ?1")?.execute([run])?;
    add(connection, REMARK, Some(run), None)
}

/// A person removes a run, which is about to happen. What waited of it is not sent.
pub fn note_removal(connection: &Connection, run: i64, name: &str) -> Result<(), HistoryError> {
    match follows(connection, run)? {
        true => add(connection, REMOVE, None, Some(serde_json::to_string(name)?)),
        false => Ok(()),
    }
}
