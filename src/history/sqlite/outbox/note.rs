//! Noting changes, each within the transaction that makes it.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, params};
use serde::Serialize;

use super::table::exists;
use crate::history::change::{Change, Declared, Judgement, Launch};
use crate::history::db::Db;
use crate::history::error::HistoryError;
use crate::history::run::{Identity, RunRecord};
use crate::history::stored::is_tested;
use leakage::point::Point;
use leakage::sample::Attempt;
use leakage::step::Rank;

/// The topic of what is said about a run: only what it is in the end is sent.
pub const REMARK: &str = "remark";

/// Whether changes of a run are noted.
fn follows(connection: &Connection, run: i64) -> Result<bool, HistoryError> {
    Ok(exists(connection)? && connection.prepare_cached("SELECT 1 FROM outbox_run WHERE run = ?1")?.exists([run])?)
}

/// Adds an entry. Of a removed run it is about none.
fn add(
    connection: &Connection,
    run: Option<i64>,
    point: Option<i64>,
    topic: Option<&str>,
    body: &impl Serialize,
) -> Result<(), HistoryError> {
    let (mut db, body) = (Db::Sqlite(connection), serde_json::to_string(body)?);
    let checksum = db.checksum(None, &[&body])?;
    let statement = "INSERT INTO outbox (run, point, topic, body, checksum) VALUES ($1, $2, $3, $4, $5)";
    db.execute(statement, &[&run, &point, &topic, &body, &checksum]).map(drop)
}

/// Notes a change of a run. Where it has a topic, an earlier one on it that waits is not sent.
pub fn note(connection: &Connection, run: i64, topic: Option<&str>, change: &Change) -> Result<(), HistoryError> {
    if !follows(connection, run)? {
        return Ok(());
    }
    if topic.is_some() {
        let statement = "DELETE FROM outbox WHERE run = ?1 AND topic = ?2";
        connection.prepare_cached(statement)?.execute(params![run, topic])?;
    }
    add(connection, Some(run), None, topic, change)
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
    let (declared_name, title, note): (Option<String>, Option<String>, Option<String>) = connection
        .prepare_cached("SELECT declared_name, title, note FROM run WHERE id = ?1")?
        .query_row([run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let declare = |launch, rank, resume| {
        let (client, declared_name) = (identity.client.to_owned(), declared_name.clone());
        let (run_declared, started) = (record.run.clone(), record.started);
        let declared = Declared { run: run_declared, declared_name, launch, rank, client, resume, started };
        add(connection, Some(run), None, None, &Change::Declare(declared.into()))
    };
    if !followed {
        connection.execute("INSERT INTO outbox_run (run) VALUES (?1)", [run])?;
        // The launches before, in their order: their numbers follow from it.
        let launches: Vec<(String, u32)> = connection
            .prepare_cached("SELECT job, restarts FROM launch WHERE run = ?1 ORDER BY id")?
            .query_map([run], |row| Ok((row.get(0)?, row.get(1)?)))?
            .collect::<Result<_, _>>()?;
        let own = record.attempt.map(|attempt| attempt.launch);
        for (number, (job, restart)) in (0..).zip(launches).take_while(|(number, _)| Some(*number) != own) {
            declare(Launch { job, restart, number }, Rank::default(), number > 0)?;
        }
    }
    if !followed || is_news {
        let Attempt { launch: number, restart } = record.attempt.unwrap_or_default();
        declare(Launch { job: identity.job.to_owned(), restart, number }, identity.rank, identity.resume)?;
    }
    if !followed {
        for what in ["point", "unscored"] {
            let all = format!("INSERT INTO outbox (run, {what}) SELECT run, id FROM {what} WHERE run = ?1 ORDER BY id");
            connection.execute(&all, [run])?;
        }
        if title.is_some() || note.is_some() {
            add(connection, Some(run), None, Some(REMARK), &Change::said(&record.run.name, title, note))?;
        }
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
    let mut entries = connection.prepare_cached("SELECT body FROM outbox WHERE point = ?1")?;
    for body in entries.query_map([known], |row| row.get::<_, Option<String>>(0))? {
        let Some(body) = body? else { return Ok(None) };
        late.extend(serde_json::from_str::<Vec<String>>(&body)?);
    }
    let stored: Vec<(String, Vec<u8>, Option<Vec<u8>>)> = connection
        .prepare_cached("SELECT score, body, lists FROM value WHERE point = ?1")?
        .query_map([known], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    let tested =
        |(score, body, lists): (String, Vec<u8>, Option<Vec<u8>>)| Ok((score, is_tested(&body, lists.as_deref())?));
    let scores = stored.into_iter().map(tested).collect::<Result<_, HistoryError>>()?;
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
    let Some(Sent { scores, late }) = sent else {
        let statement = "INSERT INTO outbox (run, point) VALUES (?1, ?2)";
        connection.prepare_cached(statement)?.execute([run, id])?;
        return Ok(());
    };
    let joined = point.scores.iter().filter(|(score, outcome)| {
        let is_tested = outcome.p_value().is_some() || outcome.per_concept_q().is_some();
        late.contains(score) || scores.get(score).is_none_or(|was_tested| is_tested && !was_tested)
    });
    let joined: Vec<&str> = joined.map(|(score, _)| score.as_str()).collect();
    add(connection, Some(run), Some(id), None, &joined)
}

/// Something of a run was judged. Of the verdicts on a split only the last is sent.
pub fn note_judgement(connection: &Connection, judgement: &Judgement) -> Result<(), HistoryError> {
    let run = connection
        .prepare_cached("SELECT id FROM run WHERE name = ?1")?
        .query_row([&judgement.run], |row| row.get(0))
        .optional()?;
    let Some(run) = run else { return Ok(()) };
    let topic = judgement.rule.is_none().then(|| format!("verdict on {}", judgement.split));
    note(connection, run, topic.as_deref(), &Change::Judged(judgement.clone()))
}

pub fn note_unscored(connection: &Connection, run: i64, unscored: i64) -> Result<(), HistoryError> {
    if follows(connection, run)? {
        let statement = "INSERT INTO outbox (run, unscored) VALUES (?1, ?2)";
        connection.prepare_cached(statement)?.execute([run, unscored])?;
    }
    Ok(())
}

/// A person removes a run, which is about to happen. What waited of it is not sent.
pub fn note_removal(connection: &Connection, run: i64, name: &str) -> Result<(), HistoryError> {
    match follows(connection, run)? {
        true => add(connection, None, None, None, &Change::RemoveRun(name.to_owned())),
        false => Ok(()),
    }
}
