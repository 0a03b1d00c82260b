//! Inserting points, within a transaction of the caller.

use super::branch::{Fate, UNNUMBERED, make_way, same_evaluation};
use super::db::{Db, Value};
use super::edit::run_to_change;
use super::error::HistoryError;
use super::point::{Recorded, concept_rows, finite, integer};
use super::postgres::insert::{insert_values, touch};
use super::postgres::recent::set_curve;
use super::sqlite::outbox;
use super::stored::{Head, decode, encode, packed};
use leakage::point::Point;
use leakage::sample::Attempt;

pub(super) fn insert_point(db: &mut Db<'_>, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
    let (run, k) = run_to_change(db, &point.run)?;
    finite("point.time", point.time)?;
    finite("point.tie_fraction", point.tie_fraction)?;
    finite("point.seconds", point.seconds)?;
    concept_rows(&point.concept_rows, k)?;
    let (name, split, step) = (&*point.run, &*point.split, integer("point.step", point.step)?);
    let sent = outbox::sent_point(db, run, point, attempt)?;
    let fate = make_way(db, run, point, attempt)?;
    if let Fate::Outranked { time } = fate {
        return Ok(Recorded::Outranked { time });
    }
    let is_current = fate == Fate::Current;
    if is_current && !point.provisional {
        db.execute("DELETE FROM unscored WHERE run = $1 AND split = $2 AND step = $3", &[&run, &split, &step])?;
    }
    let (launch, restart) = attempt.map(|attempt| (i64::from(attempt.launch), i64::from(attempt.restart))).unzip();
    let (ordinal, rows_seen) = (i64::from(point.ordinal.get()), integer("point.rows_seen", point.rows_seen)?);
    let body = encode(&Head::of(point))?;
    let row: [&dyn Value; 11] = [
        &name,
        &split,
        &step,
        &ordinal,
        &point.time,
        &launch,
        &restart,
        &rows_seen,
        &point.provisional,
        &point.incomplete,
        &body,
    ];
    let checksum = db.checksum(None, &row)?;
    let superseded = if is_current { 0 } else { UNNUMBERED };
    let mut values: Vec<&dyn Value> = vec![&run, &superseded, &checksum];
    values.extend_from_slice(&row[1..]);
    let id = db.one(
        "INSERT INTO point (run, superseded, checksum, split, step, ordinal, time, launch, restart, rows_seen, \
         provisional, incomplete, body) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) RETURNING id",
        &values,
        |row| row.get::<i64>(0),
    )?;
    let id = id.unwrap_or_default();
    if !is_current {
        db.execute("UPDATE point SET superseded = id WHERE id = $1", &[&id])?;
    }
    insert_scores(db, id, checksum, point, k)?;
    outbox::note_point(db, run, id, point, sent)?;
    split_changed(db, run, split, is_current)?;
    Ok(Recorded::Stored)
}

/// Adds late scores to the point of their evaluation, and what they change of its other fields. Does nothing where the
/// evaluation has no point here.
pub(super) fn join_point(db: &mut Db<'_>, late: &Point, attempt: Option<Attempt>) -> Result<(), HistoryError> {
    let (run, k) = run_to_change(db, &late.run)?;
    finite("point.seconds", late.seconds)?;
    let Some(id) = same_evaluation(db, run, late, attempt)? else { return Ok(()) };
    let known = db.one("SELECT superseded = 0, body FROM point WHERE id = $1", &[&id], |row| {
        Ok((row.get::<bool>(0)?, row.get::<Vec<u8>>(1)?))
    })?;
    let Some((is_current, body)) = known else { return Ok(()) };
    let body = encode(&decode::<Head>(&body)?.joined(late))?;
    db.execute("UPDATE point SET body = $2 WHERE id = $1", &[&id, &body])?;
    insert_scores(db, id, None, late, k)?;
    split_changed(db, run, &late.split, is_current)
}

/// Notes that a split has changed, where many processes share the database.
fn split_changed(db: &mut Db<'_>, run: i64, split: &str, is_current: bool) -> Result<(), HistoryError> {
    let Db::Postgres(link) = db else { return Ok(()) };
    if is_current {
        set_curve(link, run, split)?;
    }
    touch(link, run)
}

/// `head` is the checksum of the point.
fn insert_scores(db: &mut Db<'_>, id: i64, head: Option<i64>, point: &Point, k: usize) -> Result<(), HistoryError> {
    let scores = point.scores.iter().map(|(score, outcome)| Ok((score.as_str(), packed(score, outcome, k)?)));
    let scores = scores.collect::<Result<Vec<_>, HistoryError>>()?;
    match db {
        Db::Postgres(link) => insert_values(link, id, scores.iter().map(|(score, (value, _))| (*score, value)))?,
        Db::Sqlite(_) => {
            for (score, (value, _)) in &scores {
                let row: [&dyn Value; 6] =
                    [score, &value.value, &value.standard_error, &value.undefined, &value.body, &value.lists];
                let checksum = db.checksum(head, &row)?;
                let mut values: Vec<&dyn Value> = vec![&id, &checksum];
                values.extend_from_slice(&row);
                db.execute(
                    "INSERT INTO value (point, checksum, score, value, standard_error, undefined, body, lists) \
                     VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                    &values,
                )?;
            }
        }
    }
    for (score, (_, matrices)) in &scores {
        if let Some(matrices) = matrices {
            let checksum = db.checksum(head, &[score, matrices])?;
            db.execute(
                "INSERT INTO matrix (point, score, cells, checksum) VALUES ($1, $2, $3, $4) \
                 ON CONFLICT (point, score) DO UPDATE SET cells = excluded.cells, checksum = excluded.checksum",
                &[&id, score, matrices, &checksum],
            )?;
        }
    }
    Ok(())
}
