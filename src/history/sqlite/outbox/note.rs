//! Noting changes, each within the transaction that makes it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::table::exists;
use crate::history::branch::same_evaluation;
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
fn follows(db: &mut Db<'_>, run: i64) -> Result<bool, HistoryError> {
    Ok(exists(db)? && db.exists("SELECT 1 FROM outbox_run WHERE run = $1", &[&run])?)
}

/// Adds an entry. Of a removed run it is about none.
fn add(
    db: &mut Db<'_>,
    run: Option<i64>,
    point: Option<i64>,
    topic: Option<&str>,
    body: &impl Serialize,
) -> Result<(), HistoryError> {
    let body = serde_json::to_string(body)?;
    let checksum = db.checksum(None, &[&body])?;
    let statement = "INSERT INTO outbox (run, point, topic, body, checksum) VALUES ($1, $2, $3, $4, $5)";
    db.execute(statement, &[&run, &point, &topic, &body, &checksum]).map(drop)
}

/// Notes a change of a run. Where it has a topic, an earlier one on it that waits is not sent.
pub fn note(db: &mut Db<'_>, run: i64, topic: Option<&str>, change: &Change) -> Result<(), HistoryError> {
    if !follows(db, run)? {
        return Ok(());
    }
    if topic.is_some() {
        db.execute("DELETE FROM outbox WHERE run = $1 AND topic = $2", &[&run, &topic])?;
    }
    add(db, Some(run), None, topic, change)
}

/// A run was declared. `is_news` tells whether that changed anything.
pub fn note_run(
    db: &mut Db<'_>,
    run: i64,
    identity: &Identity<'_>,
    record: &RunRecord,
    is_news: bool,
) -> Result<(), HistoryError> {
    if !exists(db)? {
        return Ok(());
    }
    let followed = follows(db, run)?;
    let said = "SELECT declared_name, title, note FROM run WHERE id = $1";
    let said = db.one(said, &[&run], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    let (declared_name, title, note): (Option<String>, Option<String>, Option<String>) = said.unwrap_or_default();
    let declare = |db: &mut Db<'_>, launch, rank, resume| {
        let declared = Declared {
            run: record.run.clone(),
            declared_name: declared_name.clone(),
            launch,
            rank,
            client: identity.client.to_owned(),
            resume,
            scheduler_job: identity.scheduler_job.to_owned(),
            host: identity.host.to_owned(),
            started: record.started,
        };
        add(db, Some(run), None, None, &Change::Declare(declared.into()))
    };
    if !followed {
        db.execute("INSERT INTO outbox_run (run) VALUES ($1)", &[&run])?;
        // The launches before, in their order: their numbers follow from it.
        let launches = "SELECT job, restarts FROM launch WHERE run = $1 ORDER BY id";
        let launches = db.all(launches, &[&run], |row| Ok((row.get(0)?, row.number(1)?)))?;
        let own = record.attempt.map(|attempt| attempt.launch);
        for (number, (job, restart)) in (0..).zip(launches).take_while(|(number, _)| Some(*number) != own) {
            declare(db, Launch { job, restart, number }, Rank::default(), number > 0)?;
        }
    }
    if !followed || is_news {
        let Attempt { launch: number, restart } = record.attempt.unwrap_or_default();
        declare(db, Launch { job: identity.job.to_owned(), restart, number }, identity.rank, identity.resume)?;
    }
    if !followed {
        for what in ["point", "unscored"] {
            let all = format!("INSERT INTO outbox (run, {what}) SELECT run, id FROM {what} WHERE run = $1 ORDER BY id");
            db.execute(&all, &[&run])?;
        }
        if title.is_some() || note.is_some() {
            add(db, Some(run), None, Some(REMARK), &Change::said(&record.run.name, title, note))?;
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
    db: &mut Db<'_>,
    run: i64,
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Option<Sent>, HistoryError> {
    if !follows(db, run)? {
        return Ok(None);
    }
    let Some(known) = same_evaluation(db, run, point, attempt)? else { return Ok(None) };
    let mut late = Vec::new();
    for body in db.all("SELECT body FROM outbox WHERE point = $1", &[&known], |row| row.get::<Option<String>>(0))? {
        let Some(body) = body else { return Ok(None) };
        late.extend(serde_json::from_str::<Vec<String>>(&body)?);
    }
    let mut scores = BTreeMap::new();
    db.each("SELECT score, body, lists FROM value WHERE point = $1", &[&known], |row| {
        let (body, lists): (Vec<u8>, Option<Vec<u8>>) = (row.get(1)?, row.get(2)?);
        scores.insert(row.get(0)?, is_tested(&body, lists.as_deref())?);
        Ok(())
    })?;
    Ok(Some(Sent { scores, late }))
}

/// A point was stored. The entries of the one that it replaced went with it; where that was `sent`, only the scores that
/// joined it are noted.
pub fn note_point(db: &mut Db<'_>, run: i64, id: i64, point: &Point, sent: Option<Sent>) -> Result<(), HistoryError> {
    if !follows(db, run)? {
        return Ok(());
    }
    let Some(Sent { scores, late }) = sent else {
        return db.execute("INSERT INTO outbox (run, point) VALUES ($1, $2)", &[&run, &id]).map(drop);
    };
    let joined = point.scores.iter().filter(|(score, outcome)| {
        let is_tested = outcome.p_value().is_some() || outcome.per_concept_q().is_some();
        late.contains(score) || scores.get(score).is_none_or(|was_tested| is_tested && !was_tested)
    });
    let joined: Vec<&str> = joined.map(|(score, _)| score.as_str()).collect();
    add(db, Some(run), Some(id), None, &joined)
}

/// Something of a run was judged. Of the verdicts on a split only the last is sent.
pub fn note_judgement(db: &mut Db<'_>, judgement: &Judgement) -> Result<(), HistoryError> {
    let run = db.one("SELECT id FROM run WHERE name = $1", &[&judgement.run], |row| row.get(0))?;
    let Some(run) = run else { return Ok(()) };
    let topic = judgement.rule.is_none().then(|| format!("verdict on {}", judgement.split));
    note(db, run, topic.as_deref(), &Change::Judged(judgement.clone()))
}

pub fn note_unscored(db: &mut Db<'_>, run: i64, unscored: i64) -> Result<(), HistoryError> {
    match follows(db, run)? {
        true => db.execute("INSERT INTO outbox (run, unscored) VALUES ($1, $2)", &[&run, &unscored]).map(drop),
        false => Ok(()),
    }
}

/// A person removes a run, which is about to happen. What waited of it is not sent.
pub fn note_removal(db: &mut Db<'_>, run: i64, name: &str) -> Result<(), HistoryError> {
    match follows(db, run)? {
        true => add(db, None, None, None, &Change::RemoveRun(name.to_owned())),
        false => Ok(()),
    }
}
