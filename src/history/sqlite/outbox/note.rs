//! Noting changes, each within the transaction that makes it.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};

use super::table::{ALERT, By, DECLARE, FINISH, LATE, POINT, REMARK, REMOVE, VERDICT, exists};
use crate::history::change::{Judgement, Launch};
use crate::history::error::HistoryError;
use crate::history::outcome::RunOutcome;
use crate::history::run::{Identity, RunRecord};
use leakage::point::Point;
use leakage::sample::Attempt;

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
        declare(connection, run, By { launch, rank, world_size, client, resume: identity.resume })?;
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
        declare(connection, run, By { launch, rank: 0, world_size, client, resume: number > 0 })?;
    }
    Ok(())
}

/// A point that was sent, and that another of the same evaluation is about to replace: late scores join it.
pub struct Sent {
    /// Whether each score is tested, by its id.
    scores: BTreeMap<String, bool>,
    /// Scores that joined it before, and were not sent.
    late: Vec<String>,
}

/// The point of the evaluation of `point`, if it was sent.
pub fn sent_point(
    connection: &Connection,
    run: i64,
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Option<Sent>, HistoryError> {
    if !follows(connection, run)? {
        return Ok(None);
    }
    let (launch, restart) = attempt.map(|attempt| (attempt.launch, attempt.restart)).unzip();
    let known: Option<i64> = connection
        .prepare_cached(
            "SELECT id FROM point WHERE run = ?1 AND split = ?2 AND step = ?3 AND time = ?4 AND ordinal = ?5 \
             AND launch IS ?6 AND restart IS ?7",
        )?
        .query_row(
            params![run, &*point.split, point.step.cast_signed(), point.time, point.ordinal.get(), launch, restart],
            |row| row.get(0),
        )
        .optional()?;
    let Some(known) = known else { return Ok(None) };
    let mut late = Vec::new();
    let mut entries = connection.prepare_cached("SELECT kind, body FROM outbox WHERE point = ?1")?;
    for entry in entries.query_map([known], |row| Ok((row.get::<_, String>(0)?, row.get::<_, Option<String>>(1)?)))? {
        let (kind, body) = entry?;
        if kind == POINT {
            return Ok(None);
        }
        late.extend(serde_json::from_str::<Vec<String>>(&body.unwrap_or_default())?);
    }
    let scores = connection
        .prepare_cached("SELECT score, p_value IS NOT NULL OR per_concept_q IS NOT NULL FROM value WHERE point = ?1")?
        .query_map([known], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    Ok(Some(Sent { scores, late }))
}

/// A point was stored. The entries of the one that it replaced went with it; where that was `sent`, only the scores that
/// joined it are noted.
pub fn note_point(
    connection: &Connection,
    run: i64,
    id: i64,
    point: &Point,
    sent: Option<Sent>,
) -> Result<(), HistoryError> {
    if !follows(connection, run)? {
        return Ok(());
    }
    let (kind, body) = match sent {
        None => (POINT, None),
        Some(Sent { scores, late }) => {
            let tested = |(score, outcome): &(String, leakage::point::Outcome)| {
                (score.clone(), outcome.p_value().is_some() || outcome.per_concept_q().is_some())
            };
            let joined = point.scores.iter().map(tested).filter(|(score, is_tested)| {
                late.contains(score) || scores.get(score).is_none_or(|was_tested| *is_tested && !was_tested)
            });
            (LATE, Some(serde_json::to_string(&joined.map(|(score, _)| score).collect::<Vec<_>>())?))
        }
    };
    connection
        .prepare_cached("INSERT INTO outbox (kind, run, point, body) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![kind, run, id, body])?;
    Ok(())
}

/// Something of a run was judged. Of the verdicts on a split only the last is sent.
pub fn note_judgement(connection: &Connection, judgement: &Judgement) -> Result<(), HistoryError> {
    let run: Option<i64> = connection
        .prepare_cached("SELECT id FROM run WHERE name = ?1")?
        .query_row([&judgement.run], |row| row.get(0))
        .optional()?;
    let Some(run) = run else { return Ok(()) };
    if !follows(connection, run)? {
        return Ok(());
    }
    let kind = if judgement.rule.is_some() { ALERT } else { VERDICT };
    if kind == VERDICT {
        let statement = "DELETE FROM outbox WHERE kind = 'verdict' AND run = ?1 AND body ->> 'split' = ?2";
        connection.prepare_cached(statement)?.execute(params![run, judgement.split])?;
    }
    add(connection, kind, Some(run), Some(serde_json::to_string(judgement)?))
}

pub fn note_unscored(connection: &Connection, run: i64, unscored: i64) -> Result<(), HistoryError> {
    if follows(connection, run)? {
        connection
            .prepare_cached("INSERT INTO outbox (kind, run, unscored) VALUES ('unscored', ?1, ?2)")?
            .execute([run, unscored])?;
    }
    Ok(())
}

/// A rank of a run has ended: the last one where the run has `finished`.
pub fn note_finish(
    connection: &Connection,
    run: i64,
    finished: Option<f64>,
    outcome: &RunOutcome,
) -> Result<(), HistoryError> {
    match follows(connection, run)? {
        true => add(connection, FINISH, Some(run), Some(serde_json::to_string(&(finished, outcome))?)),
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
