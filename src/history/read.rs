//! Reading runs, points, series and matrices.

use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;

use super::blob;
use super::error::HistoryError;
use super::store::History;
use crate::point::{LeftOut, Outcome, Point, ScoreValue, Undefined};
use crate::run::Run;
use crate::sample::Attempt;

/// A run as declared.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRun {
    pub run: Run,
    /// Seconds since 1970-01-01 UTC.
    pub started: f64,
    /// Seconds since 1970-01-01 UTC; absent until the run finishes.
    pub finished: Option<f64>,
}

/// What the history holds of one split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSplit {
    pub split: String,
    pub points: u64,
    /// The highest step of a point.
    pub last_step: u64,
}

/// One score, or one concept of it, at one curve point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SeriesPoint {
    pub step: u64,
    pub epoch: Option<f64>,
    /// Seconds since 1970-01-01 UTC.
    pub time: f64,
    /// Absent when undefined.
    pub value: Option<f64>,
    /// Of the score's mean; absent for a single concept.
    pub standard_error: Option<f64>,
    /// Why there is no value.
    pub undefined: Option<String>,
    pub rows: u64,
    /// Share of activations that equal another in their column, 0 to 1.
    pub tie_fraction: f64,
    pub provisional: bool,
    pub incomplete: bool,
    /// What the score's mean leaves out; absent where that is nothing, and for a single concept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// Of the score as a whole; absent for a single concept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
}

/// A k × k matrix over pairs of concepts; cell (i, j) is the value from concept i to concept j.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScoreMatrix {
    pub step: u64,
    pub concepts: Vec<String>,
    pub matrix: Vec<Vec<Option<f64>>>,
    /// Age of each pair in seconds: the time from the sample it was computed on to the point's own sample. Absent when
    /// all pairs were computed on the point's sample.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ages: Option<Vec<Vec<f64>>>,
    /// Adjusted p-value of each pair, for a score that is tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matrix_q: Option<Vec<Vec<Option<f64>>>>,
}

impl History {
    /// All runs, newest start first.
    pub fn runs(&self) -> Result<Vec<StoredRun>, HistoryError> {
        let store = self.store();
        let mut statement = store
            .connection
            .prepare_cached("SELECT declaration, started, finished FROM run ORDER BY started DESC, id DESC")?;
        let rows = statement.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, f64>(1)?, row.get::<_, Option<f64>>(2)?))
        })?;
        rows.map(|row| {
            let (declaration, started, finished) = row?;
            Ok(StoredRun { run: serde_json::from_str(&declaration)?, started, finished })
        })
        .collect()
    }

    /// The splits of a run that have points, by name.
    pub fn splits(&self, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
        let store = self.store();
        let (run, _) = find_run(&store.connection, run)?;
        let mut statement = store.connection.prepare_cached(
            "SELECT split, count(*), max(step) FROM point WHERE run = ?1 GROUP BY split ORDER BY split",
        )?;
        let rows = statement.query_map([run], |row| {
            let (points, last_step): (i64, i64) = (row.get(1)?, row.get(2)?);
            Ok(StoredSplit { split: row.get(0)?, points: points.cast_unsigned(), last_step: last_step.cast_unsigned() })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The points of one score, or of one concept of it, from `first_step` to `last_step` inclusive, in ascending order.
    /// Errors when the run or the concept is unknown.
    pub fn series(
        &self,
        run: &str,
        split: &str,
        score: &str,
        concept: Option<&str>,
        first_step: u64,
        last_step: Option<u64>,
    ) -> Result<Vec<SeriesPoint>, HistoryError> {
        let store = self.store();
        let (run, declared) = find_run(&store.connection, run)?;
        let place = match concept {
            Some(name) => {
                let place = declared.concepts.iter().position(|concept| concept.name == name);
                Some(place.ok_or_else(|| HistoryError::Unknown { what: "concept", name: name.to_owned() })?)
            }
            None => None,
        };
        // Stored steps are signed integers, so no stored step is larger.
        let bound = |step: u64| i64::try_from(step).unwrap_or(i64::MAX);
        let mut statement = store.connection.prepare_cached(
            "SELECT step, epoch, time, rows, tie_fraction, provisional, incomplete, value, standard_error, undefined, \
             substr(per_concept, 1 + 8 * ?6, 8), per_concept IS NULL, left_out, p_value \
             FROM point JOIN value ON value.point = point.id \
             WHERE run = ?1 AND split = ?2 AND score = ?3 AND step BETWEEN ?4 AND ?5 ORDER BY step",
        )?;
        let last = last_step.map_or(i64::MAX, bound);
        let offset = place.unwrap_or(0) as i64;
        let rows = statement.query_map(params![run, split, score, bound(first_step), last, offset], |row| {
            let (value, standard_error, undefined) = match place {
                None => (row.get(7)?, row.get(8)?, row.get(9)?),
                Some(_) => concept_value(row)?,
            };
            Ok(SeriesPoint {
                step: row.get::<_, i64>(0)?.cast_unsigned(),
                epoch: row.get(1)?,
                time: row.get(2)?,
                rows: row.get::<_, i64>(3)?.cast_unsigned(),
                tie_fraction: row.get(4)?,
                provisional: row.get(5)?,
                incomplete: row.get(6)?,
                value,
                standard_error,
                undefined,
                left_out: if place.is_none() { left_out(row, 12)? } else { None },
                p_value: if place.is_none() { row.get(13)? } else { None },
            })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Steps of a split's newest points, at most `most`, in ascending order. Empty for a split without points.
    pub fn newest_steps(&self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        let store = self.store();
        let (id, _) = find_run(&store.connection, run)?;
        let mut statement = store.connection.prepare_cached(
            "SELECT step FROM (SELECT step FROM point WHERE run = ?1 AND split = ?2 ORDER BY step DESC LIMIT ?3) \
             ORDER BY step",
        )?;
        let steps = statement.query_map(params![id, split, most as i64], |row| row.get::<_, i64>(0))?;
        Ok(steps.map(|step| step.map(i64::cast_unsigned)).collect::<Result<_, _>>()?)
    }

    /// A split's newest finished evaluations, at most `most`, oldest first, without matrices. Empty for a split without
    /// points.
    pub fn evaluations(&self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
        let steps: Vec<u64> = {
            let store = self.store();
            let (id, _) = find_run(&store.connection, run)?;
            let mut statement = store.connection.prepare_cached(
                "SELECT step FROM (SELECT step FROM point WHERE run = ?1 AND split = ?2 AND NOT provisional \
                 ORDER BY step DESC LIMIT ?3) ORDER BY step",
            )?;
            let most = i64::try_from(most).unwrap_or(i64::MAX);
            let steps = statement.query_map(params![id, split, most], |row| row.get::<_, i64>(0))?;
            steps.map(|step| step.map(i64::cast_unsigned)).collect::<Result<_, _>>()?
        };
        let points = steps.into_iter().map(|step| self.point(run, split, Some(step), false));
        // The size limit may have removed a point since the steps were read.
        points.filter_map(Result::transpose).collect()
    }

    /// The newest steps at which both splits have a finished evaluation, at most `most`, in ascending order.
    pub fn common_steps(&self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        let store = self.store();
        let (id, _) = find_run(&store.connection, run)?;
        let mut statement = store.connection.prepare_cached(
            "SELECT step FROM (SELECT a.step FROM point a JOIN point b ON b.run = a.run AND b.step = a.step \
             WHERE a.run = ?1 AND a.split = ?2 AND b.split = ?3 AND NOT a.provisional AND NOT b.provisional \
             ORDER BY a.step DESC LIMIT ?4) ORDER BY step",
        )?;
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let steps = statement.query_map(params![id, a, b, most], |row| row.get::<_, i64>(0))?;
        Ok(steps.map(|step| step.map(i64::cast_unsigned)).collect::<Result<_, _>>()?)
    }

    /// The point at `step`, or the newest; `None` if there is none. With `matrices`, it includes the matrices that the
    /// size limit has not removed.
    pub fn point(
        &self,
        run: &str,
        split: &str,
        step: Option<u64>,
        matrices: bool,
    ) -> Result<Option<Point>, HistoryError> {
        let store = self.store();
        let connection = &store.connection;
        let (id, declared) = find_run(connection, run)?;
        let mut statement = connection.prepare_cached(
            "SELECT id, step, epoch, time, rows, rows_seen, provisional, incomplete, tie_fraction, warnings, \
             estimator, neighbours, seed, catalogue_version, seconds, change_errors, concept_rows FROM point \
             WHERE run = ?1 AND split = ?2 AND (?3 IS NULL OR step = ?3) ORDER BY step DESC LIMIT 1",
        )?;
        let Ok(step) = step.map(i64::try_from).transpose() else { return Ok(None) };
        let found = statement.query_row(params![id, split, step], |row| {
            Ok((
                row.get::<_, i64>(0)?,
                [row.get::<_, String>(9)?, row.get(15)?, row.get(16)?],
                Point {
                    run: run.into(),
                    split: split.into(),
                    step: row.get::<_, i64>(1)?.cast_unsigned(),
                    epoch: row.get(2)?,
                    time: row.get(3)?,
                    rows: row.get::<_, i64>(4)?.cast_unsigned(),
                    concept_rows: Vec::new(),
                    rows_seen: row.get::<_, i64>(5)?.cast_unsigned(),
                    provisional: row.get(6)?,
                    incomplete: row.get(7)?,
                    tie_fraction: row.get(8)?,
                    warnings: Vec::new(),
                    estimator: row.get(10)?,
                    neighbours: row.get(11)?,
                    seed: row.get::<_, i64>(12)?.cast_unsigned(),
                    catalogue_version: row.get(13)?,
                    seconds: row.get(14)?,
                    scores: Vec::new(),
                    change_errors: Vec::new(),
                },
            ))
        });
        let Some((id, [warnings, change_errors, concept_rows], mut point)) = found.optional()? else { return Ok(None) };
        point.warnings = serde_json::from_str(&warnings)?;
        point.change_errors = serde_json::from_str(&change_errors)?;
        point.concept_rows = serde_json::from_str(&concept_rows)?;
        point.scores = scores(connection, id, matrices, declared.concept_count())?;
        Ok(Some(point))
    }

    /// Whether the history has a complete point of this step that `attempt` made: neither provisional nor incomplete.
    /// Errors when the run is unknown.
    pub fn has_complete_point(
        &self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
    ) -> Result<bool, HistoryError> {
        let store = self.store();
        let (run, _) = find_run(&store.connection, run)?;
        let Ok(step) = i64::try_from(step) else { return Ok(false) };
        let found = store
            .connection
            .prepare_cached(
                "SELECT 1 FROM point WHERE run = ?1 AND split = ?2 AND step = ?3 AND launch = ?4 AND restart = ?5 \
                 AND NOT provisional AND NOT incomplete",
            )?
            .exists(params![run, split, step, attempt.launch, attempt.restart])?;
        Ok(found)
    }

    /// A score's k × k matrix at `step`, or at the newest step that has one; `None` if there is none.
    pub fn matrix(
        &self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError> {
        let store = self.store();
        let (id, declared) = find_run(&store.connection, run)?;
        let Ok(step) = step.map(i64::try_from).transpose() else { return Ok(None) };
        type Cells = Option<Vec<u8>>;
        let found: Option<(i64, Vec<u8>, Cells, Cells)> = store
            .connection
            .prepare_cached(
                "SELECT step, cells, ages, cells_q FROM point JOIN matrix ON matrix.point = point.id \
                 WHERE run = ?1 AND split = ?2 AND score = ?3 AND (?4 IS NULL OR step = ?4) ORDER BY step DESC LIMIT 1",
            )?
            .query_row(params![id, split, score, step], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
            .optional()?;
        let k = declared.concept_count();
        Ok(found.map(|(step, cells, ages, cells_q)| ScoreMatrix {
            step: step.cast_unsigned(),
            concepts: declared.concepts.iter().map(|concept| concept.name.clone()).collect(),
            matrix: square(&cells, k),
            ages: ages.map(|ages| ages_of(&ages, k)),
            matrix_q: cells_q.map(|cells| square(&cells, k)),
        }))
    }
}

fn find_run(connection: &Connection, name: &str) -> Result<(i64, Run), HistoryError> {
    let found: Option<(i64, String)> = connection
        .prepare_cached("SELECT id, declaration FROM run WHERE name = ?1")?
        .query_row([name], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    let (id, declaration) = found.ok_or_else(|| HistoryError::Unknown { what: "run", name: name.to_owned() })?;
    Ok((id, serde_json::from_str(&declaration)?))
}

/// Value, standard error and reason of a single concept.
fn concept_value(row: &Row<'_>) -> rusqlite::Result<(Option<f64>, Option<f64>, Option<String>)> {
    let cell: Option<Vec<u8>> = row.get(10)?;
    let value = cell.and_then(|bytes| blob::unpack_f64(&bytes).first().copied().flatten());
    let reason = match (value, row.get::<_, Option<String>>(9)?, row.get::<_, bool>(11)?) {
        (Some(_), ..) => None,
        (None, Some(reason), _) => Some(reason),
        (None, None, true) => Some("the score has no value per concept".to_owned()),
        (None, None, false) => Some("undefined for this concept".to_owned()),
    };
    Ok((value, None, reason))
}

fn scores(
    connection: &Connection,
    point: i64,
    matrices: bool,
    k: usize,
) -> Result<Vec<(String, Outcome)>, HistoryError> {
    let mut statement = connection.prepare_cached(
        "SELECT v.score, v.value, v.standard_error, v.undefined, v.per_concept, \
         m.cells, v.curve, v.age, m.ages, v.left_out, v.p_value, v.per_concept_q, m.cells_q \
         FROM value v LEFT JOIN matrix m ON ?2 AND m.point = v.point AND m.score = v.score \
         WHERE v.point = ?1 ORDER BY v.position",
    )?;
    let rows = statement.query_map(params![point, matrices], |row| {
        let matrix = row.get::<_, Option<Vec<u8>>>(5)?.map(|cells| square(&cells, k));
        let (age, ages) = (row.get(7)?, row.get::<_, Option<Vec<u8>>>(8)?.map(|ages| ages_of(&ages, k)));
        let left_out = left_out(row, 9)?;
        let per_concept_q = row.get::<_, Option<Vec<u8>>>(11)?.map(|bytes| blob::unpack_f64(&bytes));
        let matrix_q = row.get::<_, Option<Vec<u8>>>(12)?.map(|cells| square(&cells, k));
        let outcome = match (row.get::<_, Option<String>>(3)?, row.get::<_, Option<f64>>(1)?) {
            (None, Some(value)) => Outcome::Value(ScoreValue {
                value,
                standard_error: row.get(2)?,
                per_concept: row.get::<_, Option<Vec<u8>>>(4)?.map(|bytes| blob::unpack_f64(&bytes)),
                matrix,
                curve: row.get::<_, Option<Vec<u8>>>(6)?.map(|bytes| blob::unpack_curve(&bytes)),
                age,
                ages,
                left_out,
                p_value: row.get(10)?,
                per_concept_q,
                matrix_q,
            }),
            (reason, _) => Outcome::Undefined(Undefined {
                why: reason.unwrap_or_default(),
                per_concept: row.get::<_, Option<Vec<u8>>>(4)?.map(|bytes| blob::unpack_f64(&bytes)),
                matrix,
                age,
                ages,
                left_out,
                per_concept_q,
                matrix_q,
            }),
        };
        Ok((row.get(0)?, outcome))
    })?;
    Ok(rows.collect::<Result<_, _>>()?)
}

fn left_out(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<LeftOut>> {
    let text: Option<String> = row.get(column)?;
    let parsed = text.map(|text| serde_json::from_str(&text)).transpose();
    parsed.map_err(|error| rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into()))
}

fn square(cells: &[u8], k: usize) -> Vec<Vec<Option<f64>>> {
    blob::unpack_f32(cells).chunks(k).map(<[_]>::to_vec).collect()
}

fn ages_of(cells: &[u8], k: usize) -> Vec<Vec<f64>> {
    let seconds = |row: Vec<Option<f64>>| row.into_iter().map(Option::unwrap_or_default).collect();
    square(cells, k).into_iter().map(seconds).collect()
}
