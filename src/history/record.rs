//! Writing runs and points.

use rusqlite::{OptionalExtension, Transaction, named_params, params};
use serde_json::Value;

use super::{History, HistoryError, blob};
use crate::fault::in_short;
use crate::point::{Outcome, Point};
use crate::run::Run;

/// What came of declaring a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunRecord {
    /// The run was known, with the same declaration. If it was finished, it is open again.
    pub resumed: bool,
    /// Seconds since 1970-01-01 UTC of its first start.
    pub started: f64,
}

impl History {
    /// Declares a run at `started`, in seconds since 1970-01-01 UTC, or resumes it.
    pub fn record_run(&self, run: &Run, started: f64) -> Result<RunRecord, HistoryError> {
        finite("run.started", started)?;
        let declaration = serde_json::to_string(run)?;
        let mut store = self.store();
        let transaction = store.connection.transaction()?;
        let known: Option<(String, f64)> = transaction
            .query_row("SELECT declaration, started FROM run WHERE name = ?1", [&run.name], |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .optional()?;
        let record = match known {
            Some((stored, started)) => {
                if stored != declaration {
                    same_declaration(&run.name, &stored, &declaration)?;
                }
                transaction.execute(
                    "UPDATE run SET finished = NULL, declaration = ?2 WHERE name = ?1",
                    params![run.name, declaration],
                )?;
                RunRecord { resumed: true, started }
            }
            None => {
                transaction.execute(
                    "INSERT INTO run (name, declaration, started) VALUES (?1, ?2, ?3)",
                    params![run.name, declaration, started],
                )?;
                RunRecord { resumed: false, started }
            }
        };
        transaction.commit()?;
        store.retain(&self.limits)?;
        Ok(record)
    }

    /// Marks a run as finished at `finished`, in seconds since 1970-01-01 UTC.
    pub fn finish_run(&self, run: &str, finished: f64) -> Result<(), HistoryError> {
        finite("run.finished", finished)?;
        let store = self.store();
        match store.connection.execute("UPDATE run SET finished = ?2 WHERE name = ?1", params![run, finished])? {
            0 => Err(HistoryError::Unknown { what: "run", name: run.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Stores a point with all its scores, or nothing of it. A point of the same run, split and step is replaced.
    /// Numbers that are not finite become absent: a value with its reason, an error, a cell.
    pub fn record_point(&self, point: &Point) -> Result<(), HistoryError> {
        let mut store = self.store();
        let transaction = store.connection.transaction()?;
        insert_point(&transaction, point)?;
        transaction.commit()?;
        store.retain(&self.limits)
    }
}

fn insert_point(transaction: &Transaction<'_>, point: &Point) -> Result<(), HistoryError> {
    let (run, k): (i64, i64) = transaction
        .prepare_cached("SELECT id, json_array_length(declaration, '$.concepts') FROM run WHERE name = ?1")?
        .query_row([&*point.run], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?
        .ok_or_else(|| HistoryError::Unknown { what: "run", name: point.run.to_string() })?;
    finite("point.time", point.time)?;
    finite("point.tie_fraction", point.tie_fraction)?;
    finite("point.seconds", point.seconds)?;
    let step = integer("point.step", point.step)?;
    // One that is not finite would be no number in JSON.
    let change_errors: Vec<_> = point.change_errors.iter().filter(|(_, error)| error.is_finite()).collect();

    transaction.prepare_cached("DELETE FROM point WHERE run = ?1 AND split = ?2 AND step = ?3")?.execute(params![
        run,
        &*point.split,
        step
    ])?;
    transaction
        .prepare_cached(
            "INSERT INTO point (run, split, step, epoch, time, rows, rows_seen, provisional, incomplete, \
             tie_fraction, warnings, estimator, neighbours, seed, catalogue_version, seconds, change_errors) \
             VALUES (:run, :split, :step, :epoch, :time, :rows, :rows_seen, :provisional, :incomplete, \
             :tie_fraction, :warnings, :estimator, :neighbours, :seed, :catalogue_version, :seconds, :change_errors)",
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
        })?;
    let id = transaction.last_insert_rowid();
    for (position, (score, outcome)) in point.scores.iter().enumerate() {
        insert_score(transaction, id, position, score, outcome, k as usize)?;
    }
    Ok(())
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
    let per_concept = outcome.per_concept();
    if let Some(values) = per_concept
        && values.len() != k
    {
        let message = format!("{} values came, expected one for each of {k} concepts", values.len());
        return Err(HistoryError::invalid(format!("scores.{score}.per_concept"), message));
    }
    transaction
        .prepare_cached(
            "INSERT INTO value (point, position, score, value, standard_error, undefined, per_concept, curve, age) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
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
        ])?;
    if let Some(rows) = outcome.matrix() {
        square(score, "matrix", rows, k)?;
        if let Some(ages) = outcome.ages() {
            square(score, "ages", ages, k)?;
        }
        let ages = outcome.ages().map(|ages| ages.iter().flatten().map(|age| Some(*age)).collect::<Vec<_>>());
        transaction.prepare_cached("INSERT INTO matrix (point, score, cells, ages) VALUES (?1, ?2, ?3, ?4)")?.execute(
            params![point, score, blob::pack_f32(rows.iter().flatten()), ages.map(|ages| blob::pack_f32(ages.iter())),],
        )?;
    }
    Ok(())
}

/// Checks that there are k rows of k.
fn square<T>(score: &str, what: &str, rows: &[Vec<T>], k: usize) -> Result<(), HistoryError> {
    if rows.len() == k && rows.iter().all(|row| row.len() == k) {
        return Ok(());
    }
    let message = format!("{} rows came, expected {k} rows of {k} values", rows.len());
    Err(HistoryError::invalid(format!("scores.{score}.{what}"), message))
}

fn finite(field: &str, value: f64) -> Result<(), HistoryError> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(HistoryError::invalid(field, format!("{value} came, expected a finite number"))),
    }
}

/// SQLite's integers are signed.
fn integer(field: &str, value: u64) -> Result<i64, HistoryError> {
    i64::try_from(value)
        .map_err(|_| HistoryError::invalid(field, format!("{value} came, expected at most {}", i64::MAX)))
}

/// Errors at the first difference but for `world_size`. Both texts are read back by one parser, so that equal numbers stay equal.
fn same_declaration(run: &str, stored: &str, came: &str) -> Result<(), HistoryError> {
    let (mut stored, mut came): (Value, Value) = (serde_json::from_str(stored)?, serde_json::from_str(came)?);
    // A job may come back with more or fewer ranks; everything else would make another curve.
    for declaration in [&mut stored, &mut came] {
        declaration.as_object_mut().and_then(|fields| fields.remove("world_size"));
    }
    match first_difference("run", &stored, &came) {
        None => Ok(()),
        Some((field, stored, came)) => {
            Err(HistoryError::DeclarationDiffers { run: run.to_owned(), field, stored, came })
        }
    }
}

/// Path of the first field that differs, with both values as short texts.
fn first_difference(path: &str, stored: &Value, came: &Value) -> Option<(String, String, String)> {
    match (stored, came) {
        (a, b) if a == b => None,
        (Value::Object(a), Value::Object(b)) => {
            let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            keys.into_iter().find_map(|key| {
                let side = |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                first_difference(&format!("{path}.{key}"), &side(a), &side(b))
            })
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            a.iter().zip(b).enumerate().find_map(|(i, (a, b))| first_difference(&format!("{path}[{i}]"), a, b))
        }
        (a, b) => Some((path.to_owned(), described(a), described(b))),
    }
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Array(items) => format!("{} items", items.len()),
        Value::Object(fields) => format!("{} fields", fields.len()),
        other => in_short(&other.to_string()),
    }
}
