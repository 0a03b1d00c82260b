//! Writing points, and marking runs as finished.

use rusqlite::{OptionalExtension, Transaction, named_params, params};

use super::blob;
use super::error::HistoryError;
use super::store::History;
use crate::point::{Outcome, Point};

/// The outcome of [`History::record_point`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recorded {
    Stored,
    /// The history holds a more complete point of the same run, split and step, and keeps it.
    Outranked {
        /// Seconds since 1970-01-01 UTC at which the sample of the kept point was closed.
        time: f64,
    },
}

impl History {
    /// Marks a run as finished at `finished`, in seconds since 1970-01-01 UTC. Errors when the run is unknown.
    pub fn finish_run(&self, run: &str, finished: f64) -> Result<(), HistoryError> {
        finite("run.finished", finished)?;
        let store = self.store();
        match store.connection.execute("UPDATE run SET finished = ?2 WHERE name = ?1", params![run, finished])? {
            0 => Err(HistoryError::Unknown { what: "run", name: run.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Stores a point with all its scores, atomically. It replaces a point of the same run, split and step unless that
    /// one is more complete: a provisional or incomplete point never replaces a complete one, nor an incomplete point one
    /// with more rows. Scores, errors and cells that are not finite are stored as absent.
    pub fn record_point(&self, point: &Point) -> Result<Recorded, HistoryError> {
        let mut store = self.store();
        let transaction = store.connection.transaction()?;
        let recorded = insert_point(&transaction, point)?;
        transaction.commit()?;
        store.retain(&self.limits)?;
        Ok(recorded)
    }
}

fn insert_point(transaction: &Transaction<'_>, point: &Point) -> Result<Recorded, HistoryError> {
    let (run, k): (i64, i64) = transaction
        .prepare_cached("SELECT id, json_array_length(declaration, '$.concepts') FROM run WHERE name = ?1")?
        .query_row([&*point.run], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| HistoryError::Unknown { what: "run", name: point.run.to_string() })?;
    finite("point.time", point.time)?;
    finite("point.tie_fraction", point.tie_fraction)?;
    finite("point.seconds", point.seconds)?;
    let step = integer("point.step", point.step)?;
    // JSON has no representation for numbers that are not finite.
    let change_errors: Vec<_> = point.change_errors.iter().filter(|(_, error)| error.is_finite()).collect();

    if let Some(time) = outranking(transaction, run, point, step)? {
        return Ok(Recorded::Outranked { time });
    }
    transaction.prepare_cached("DELETE FROM point WHERE run = ?1 AND split = ?2 AND step = ?3")?.execute(params![
        run,
        &*point.split,
        step
    ])?;
    transaction
        .prepare_cached(
            "INSERT INTO point (run, split, step, epoch, time, rows, rows_seen, provisional, incomplete, \
             tie_fraction, warnings, estimator, neighbours, seed, catalogue_version, seconds, change_errors, \
             concept_rows) VALUES (:run, :split, :step, :epoch, :time, :rows, :rows_seen, :provisional, :incomplete, \
             :tie_fraction, :warnings, :estimator, :neighbours, :seed, :catalogue_version, :seconds, :change_errors, \
             :concept_rows)",
        )?
        .execute(named_params! {
            ":run": run,
            ":split": &*point.split,
            ":step": step,
            ":epoch": point.epoch.filter(|epoch| epoch.is_finite()),
            ":time": point.time,
            ":rows": integer("point.rows", point.rows)?,
            ":rows_seen": integer("point.rows_seen", point.rows_seen)?,
            ":provisional": point.provisional,
            ":incomplete": point.incomplete,
            ":tie_fraction": point.tie_fraction,
            ":warnings": serde_json::to_string(&point.warnings)?,
            ":estimator": point.estimator,
            ":neighbours": point.neighbours,
            ":seed": point.seed.cast_signed(),
            ":catalogue_version": point.catalogue_version,
            ":seconds": point.seconds,
            ":change_errors": serde_json::to_string(&change_errors)?,
            ":concept_rows": serde_json::to_string(&point.concept_rows)?,
        })?;
    let id = transaction.last_insert_rowid();
    for (position, (score, outcome)) in point.scores.iter().enumerate() {
        insert_score(transaction, id, position, score, outcome, k as usize)?;
    }
    Ok(Recorded::Stored)
}

/// The time, in seconds since 1970-01-01 UTC, of a stored point of this step that is more complete than `point`.
fn outranking(transaction: &Transaction<'_>, run: i64, point: &Point, step: i64) -> Result<Option<f64>, HistoryError> {
    let stored = transaction
        .prepare_cached(
            "SELECT provisional, incomplete, rows_seen, time FROM point WHERE run = ?1 AND split = ?2 AND step = ?3",
        )?
        .query_row(params![run, &*point.split, step], |row| {
            let (provisional, incomplete, rows_seen): (bool, bool, i64) = (row.get(0)?, row.get(1)?, row.get(2)?);
            Ok((completeness(provisional, incomplete, rows_seen.cast_unsigned()), row.get(3)?))
        })
        .optional()?;
    let new = completeness(point.provisional, point.incomplete, point.rows_seen);
    Ok(stored.filter(|(stored, _)| *stored > new).map(|(_, time)| time))
}

/// Orders points of one step. Complete points are equal whatever their rows, so the newer one replaces the older.
fn completeness(provisional: bool, incomplete: bool, rows_seen: u64) -> (bool, bool, u64) {
    (!provisional, !incomplete, if provisional || incomplete { rows_seen } else { 0 })
}

fn insert_score(
    transaction: &Transaction<'_>,
    point: i64,
    position: usize,
    score: &str,
    outcome: &Outcome,
    k: usize,
) -> Result<(), HistoryError> {
    let (value, standard_error, undefined) = match outcome {
        Outcome::Undefined(undefined) => (None, None, Some(undefined.why.as_str())),
        Outcome::Value(value) if value.value.is_finite() => (Some(value.value), value.standard_error, None),
        Outcome::Value(_) => (None, None, Some("the value is not finite")),
    };
    let (per_concept, per_concept_q) = (outcome.per_concept(), outcome.per_concept_q());
    for (what, values) in [("per_concept", per_concept), ("per_concept_q", per_concept_q)] {
        if let Some(values) = values
            && values.len() != k
        {
            let message = format!("got {} values, expected one for each of {k} concepts", values.len());
            return Err(HistoryError::invalid(format!("scores.{score}.{what}"), message));
        }
    }
    transaction
        .prepare_cached(
            "INSERT INTO value (point, position, score, value, standard_error, undefined, per_concept, curve, age, \
             left_out, p_value, per_concept_q) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(params![
            point,
            position as i64,
            score,
            value,
            standard_error.filter(|error| error.is_finite()),
            undefined,
            per_concept.map(blob::pack_f64),
            outcome.value().and_then(|value| value.curve.as_deref()).map(blob::pack_curve),
            outcome.age().filter(|age| age.is_finite()),
            outcome.left_out().map(serde_json::to_string).transpose()?,
            outcome.p_value().filter(|p| p.is_finite()),
            per_concept_q.map(blob::pack_f64),
        ])?;
    if let Some(rows) = outcome.matrix() {
        square(score, "matrix", rows, k)?;
        if let Some(ages) = outcome.ages() {
            square(score, "ages", ages, k)?;
        }
        if let Some(rows) = outcome.matrix_q() {
            square(score, "matrix_q", rows, k)?;
        }
        let ages = outcome.ages().map(|ages| ages.iter().flatten().map(|age| Some(*age)).collect::<Vec<_>>());
        transaction
            .prepare_cached("INSERT INTO matrix (point, score, cells, ages, cells_q) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![
                point,
                score,
                blob::pack_f32(rows.iter().flatten()),
                ages.map(|ages| blob::pack_f32(ages.iter())),
                outcome.matrix_q().map(|rows| blob::pack_f32(rows.iter().flatten())),
            ])?;
    }
    Ok(())
}

/// Checks that there are k rows of k.
fn square<T>(score: &str, what: &str, rows: &[Vec<T>], k: usize) -> Result<(), HistoryError> {
    if rows.len() == k && rows.iter().all(|row| row.len() == k) {
        return Ok(());
    }
    let message = format!("got {} rows, expected {k} rows of {k} values", rows.len());
    Err(HistoryError::invalid(format!("scores.{score}.{what}"), message))
}

pub(super) fn finite(field: &str, value: f64) -> Result<(), HistoryError> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(HistoryError::invalid(field, format!("got {value}, expected a finite number"))),
    }
}

/// The value as a signed integer, the only kind that SQLite has.
fn integer(field: &str, value: u64) -> Result<i64, HistoryError> {
    i64::try_from(value)
        .map_err(|_| HistoryError::invalid(field, format!("got {value}, expected at most {}", i64::MAX)))
}
