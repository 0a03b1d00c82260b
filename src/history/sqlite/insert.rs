//! Inserting points and noting how runs end, within a transaction of the caller.

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, params};

use super::branch::Split;
use super::outbox;
use super::row_checksum::{Seal, insert, seal_run};
use crate::history::branch::{Fate, UNNUMBERED, make_way};
use crate::history::error::HistoryError;
use crate::history::outcome::RunOutcome;
use crate::history::point::{Recorded, concept_rows, finite, integer};
use crate::history::stored::packed;
use leakage::point::{Outcome, Point};
use leakage::sample::Attempt;

/// Notes how a rank of a run has ended: the last one where the run has `finished`.
pub(super) fn end(
    connection: &Connection,
    run: i64,
    finished: Option<f64>,
    outcome: &RunOutcome,
) -> Result<(), HistoryError> {
    if finished.is_none() && *outcome == RunOutcome::Finished {
        return Ok(());
    }
    let known = outcome_of(connection, run)?.unwrap_or_default();
    let joined = serde_json::to_string(&known.joined(outcome.clone()))?;
    connection
        .prepare_cached("UPDATE run SET finished = coalesce(?2, finished), outcome = ?3 WHERE id = ?1")?
        .execute(params![run, finished, joined])?;
    seal_run(connection, run)?;
    outbox::note_finish(connection, run, finished, outcome)
}

pub(super) fn outcome_of(connection: &Connection, run: i64) -> Result<Option<RunOutcome>, HistoryError> {
    let stored: Option<String> =
        connection.prepare_cached("SELECT outcome FROM run WHERE id = ?1")?.query_row([run], |row| row.get(0))?;
    Ok(stored.as_deref().map(serde_json::from_str).transpose()?)
}

/// Errors when the run is unknown.
pub(super) fn run_id(connection: &Connection, run: &str) -> Result<i64, HistoryError> {
    connection
        .prepare_cached("SELECT id FROM run WHERE name = ?1")?
        .query_row([run], |row| row.get(0))
        .optional()?
        .ok_or_else(|| HistoryError::Unknown { what: "run", name: run.to_owned() })
}

pub(super) fn insert_point(
    connection: &Connection,
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Recorded, HistoryError> {
    let (run, k): (i64, i64) = connection
        .prepare_cached("SELECT id, json_array_length(declaration, '$.concepts') FROM run WHERE name = ?1")?
        .query_row([&*point.run], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| HistoryError::Unknown { what: "run", name: point.run.to_string() })?;
    finite("point.time", point.time)?;
    finite("point.tie_fraction", point.tie_fraction)?;
    finite("point.seconds", point.seconds)?;
    concept_rows(&point.concept_rows, k as usize)?;
    let step = integer("point.step", point.step)?;
    // JSON has no representation for numbers that are not finite.
    let change_errors: Vec<_> = point.change_errors.iter().filter(|(_, error)| error.is_finite()).collect();

    let mut at =
        Split { connection, run, split: &point.split, step, attempt, ordinal: point.ordinal, time: point.time };
    let sent = outbox::sent_point(connection, run, point, attempt)?;
    let fate = make_way(&mut at, point, attempt)?;
    if let Fate::Outranked { time } = fate {
        return Ok(Recorded::Outranked { time });
    }
    if fate == Fate::Current && !point.provisional {
        connection
            .prepare_cached("DELETE FROM unscored WHERE run = ?1 AND split = ?2 AND step = ?3")?
            .execute(params![run, &*point.split, step])?;
    }
    let row = [
        Value::from(point.run.to_string()),
        Value::from(point.split.to_string()),
        Value::from(step),
        Value::from(point.epoch.filter(|epoch| epoch.is_finite())),
        Value::from(point.time),
        Value::from(integer("point.rows", point.rows)?),
        Value::from(integer("point.rows_seen", point.rows_seen)?),
        Value::from(point.provisional),
        Value::from(point.incomplete),
        Value::from(point.tie_fraction),
        Value::from(serde_json::to_string(&point.warnings)?),
        Value::from(point.estimator.clone()),
        Value::from(point.neighbours),
        Value::from(point.seed.cast_signed()),
        Value::from(point.catalogue_version),
        Value::from(point.seconds),
        Value::from(serde_json::to_string(&change_errors)?),
        Value::from(serde_json::to_string(&point.concept_rows)?),
        Value::from(attempt.map(|attempt| attempt.launch)),
        Value::from(attempt.map(|attempt| attempt.restart)),
        Value::from(point.scores.len() as i64),
    ];
    let head = Seal::new().of(&row);
    let statement = "INSERT INTO point (run, superseded, ordinal, repeated_rows, split, step, epoch, time, rows, rows_seen, \
                     provisional, incomplete, tie_fraction, warnings, estimator, neighbours, seed, catalogue_version, \
                     seconds, change_errors, concept_rows, launch, restart, scores, checksum) VALUES (?1, ?2, ?3, ?4, \
                     ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25)";
    // The first column is the run's name, which the table has as a reference.
    let superseded = if fate == Fate::Current { 0 } else { UNNUMBERED };
    let repeated = integer("point.repeated_rows", point.repeated_rows)?;
    let of = [run.into(), superseded.into(), point.ordinal.get().into(), repeated.into()];
    insert(connection, statement, &of, &row[1..], head)?;
    let key = Key { point: connection.last_insert_rowid(), head, k: k as usize };
    if fate == Fate::Superseded {
        connection.prepare_cached("UPDATE point SET superseded = id WHERE id = ?1")?.execute([key.point])?;
    }
    for (position, (score, outcome)) in point.scores.iter().enumerate() {
        insert_score(connection, &key, position, score, outcome)?;
    }
    outbox::note_point(connection, run, key.point, point, sent)?;
    Ok(Recorded::Stored)
}

/// The values that the rows of a point have in common.
struct Key {
    point: i64,
    /// The point's checksum.
    head: i64,
    k: usize,
}

fn insert_score(
    connection: &Connection,
    &Key { point, head, k }: &Key,
    position: usize,
    score: &str,
    outcome: &Outcome,
) -> Result<(), HistoryError> {
    let (stored, matrix) = packed(score, outcome, k)?;
    let row = [
        Value::from(score.to_owned()),
        Value::from(position as i64),
        Value::from(stored.value),
        Value::from(stored.standard_error),
        Value::from(stored.undefined),
        Value::from(stored.per_concept),
        Value::from(stored.curve),
        Value::from(stored.age),
        Value::from(stored.left_out),
        Value::from(stored.p_value),
        Value::from(stored.per_concept_q),
    ];
    let statement = "INSERT INTO value (point, score, position, value, standard_error, undefined, per_concept, curve, \
                     age, left_out, p_value, per_concept_q, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, \
                     ?10, ?11, ?12, ?13)";
    insert(connection, statement, &[Value::from(point)], &row, Seal::under(head).of(&row))?;
    let Some(matrix) = matrix else { return Ok(()) };
    let row = [
        Value::from(score.to_owned()),
        Value::from(matrix.cells),
        Value::from(matrix.ages),
        Value::from(matrix.cells_q),
    ];
    let statement = "INSERT INTO matrix (point, score, cells, ages, cells_q, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
    insert(connection, statement, &[Value::from(point)], &row, Seal::under(head).of(&row))
}
