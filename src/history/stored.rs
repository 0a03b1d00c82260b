//! The fields of a point as every engine stores them: those that statements name in columns, the rest in a few blobs as
//! postcard writes them. Numbers that are not finite are stored as absent.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::HistoryError;
use leakage::point::{Brief, LeftOut, Outcome, Point, ScoreValue};

/// Columns under the checksum of a row, in the order of its values; `checksum` follows. A run's row.
pub(super) const RUN: &str =
    "name, project, declared_name, declaration, labels, concepts, started, finished, title, note, outcome";
pub(super) const RUN_COLUMNS: usize = 11;
/// The columns of a point, of `run` and `point` joined.
pub(super) const POINT: &str = "run.name, split, step, ordinal, time, launch, restart, rows_seen, provisional, incomplete, \
    point.body";
pub(super) const POINT_COLUMNS: usize = 11;
pub(super) const VALUE: &str = "value.score, value, standard_error, undefined, value.body, lists";
pub(super) const VALUE_COLUMNS: usize = 6;
pub(super) const MATRIX: &str = "matrix.score, cells";
pub(super) const MATRIX_COLUMNS: usize = 2;
/// The columns of an unscored pass, of `run` and `unscored` joined.
pub(super) const UNSCORED: &str =
    "run.name, split, step, ordinal, time, unscored.outcome, reason, rows_seen, launch, restart";
pub(super) const UNSCORED_COLUMNS: usize = 10;

pub(super) fn encode(fields: &impl Serialize) -> Result<Vec<u8>, HistoryError> {
    postcard::to_stdvec(fields).map_err(|error| HistoryError::Storage(error.into()))
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, HistoryError> {
    postcard::from_bytes(bytes).map_err(|error| HistoryError::Damaged(error.into()))
}

/// The fields of a point that no statement names.
#[derive(Serialize, Deserialize)]
pub(super) struct Head {
    epoch: Option<f64>,
    rows: u64,
    repeated_rows: u64,
    tie_fraction: f64,
    seconds: f64,
    seed: u64,
    neighbours: u32,
    catalogue_version: u32,
    estimator: String,
    warnings: Vec<String>,
    concept_rows: Vec<u64>,
    change_errors: Vec<(String, f64)>,
    /// The number of its scores, but for those that join it later.
    pub scores: u32,
}

impl Head {
    pub fn of(point: &Point) -> Self {
        Self {
            epoch: finite(point.epoch),
            rows: point.rows,
            repeated_rows: point.repeated_rows,
            tie_fraction: point.tie_fraction,
            seconds: point.seconds,
            seed: point.seed,
            neighbours: point.neighbours,
            catalogue_version: point.catalogue_version,
            estimator: point.estimator.clone(),
            warnings: point.warnings.clone(),
            concept_rows: point.concept_rows.clone(),
            change_errors: point.change_errors.iter().filter(|(_, error)| error.is_finite()).cloned().collect(),
            scores: point.scores.len() as u32,
        }
    }

    /// The head of a point that late scores join.
    pub fn joined(self, late: &Point) -> Self {
        let Self { seconds, warnings, change_errors, .. } = Self::of(late);
        Self { seconds, warnings, change_errors, ..self }
    }

    /// An evaluation without its scores, which are this many.
    pub fn brief(self, scores: usize) -> Brief {
        Brief {
            rows: self.rows,
            estimator: self.estimator,
            neighbours: self.neighbours,
            catalogue_version: self.catalogue_version,
            scores: vec![None; scores],
        }
    }

    /// A point without the fields that are columns.
    pub fn point(self) -> Point {
        Point {
            epoch: self.epoch,
            rows: self.rows,
            repeated_rows: self.repeated_rows,
            tie_fraction: self.tie_fraction,
            seconds: self.seconds,
            seed: self.seed,
            neighbours: self.neighbours,
            catalogue_version: self.catalogue_version,
            estimator: self.estimator,
            warnings: self.warnings,
            concept_rows: self.concept_rows,
            change_errors: self.change_errors,
            ..Point::default()
        }
    }
}

/// The row of a score, also of one of several tasks. Either `value` or `undefined` is set.
#[derive(Serialize, Deserialize)]
pub(super) struct StoredValue {
    pub value: Option<f64>,
    pub standard_error: Option<f64>,
    pub undefined: Option<String>,
    /// A [`Rest`].
    pub body: Vec<u8>,
    /// [`Lists`].
    pub lists: Option<Vec<u8>>,
}

/// The fields of a score as a whole that no statement names.
#[derive(Serialize, Deserialize)]
pub(super) struct Rest {
    age: Option<f64>,
    /// The fields of [`LeftOut`], which serde writes for JSON alone.
    left_out: Option<(Vec<u32>, u64, u32, String)>,
    pub p_value: Option<f64>,
}

impl Rest {
    pub fn left_out(&self) -> Option<LeftOut> {
        let (concepts, pairs, of, why) = self.left_out.clone()?;
        Some(LeftOut { concepts, pairs, of, why })
    }
}

/// The fields of a score with something of each concept or task.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Lists {
    pub per_concept: Option<Vec<Option<f64>>>,
    curve: Option<Vec<(f64, Option<f64>)>>,
    pub per_concept_q: Option<Vec<Option<f64>>>,
    per_task: Option<Vec<StoredValue>>,
}

/// The fields of a score with something of each pair, row by row; absent cells are NaN.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Matrices {
    cells: Option<Vec<f32>>,
    ages: Option<Vec<f32>>,
    cells_q: Option<Vec<f32>>,
}

/// The matrices of a score.
#[derive(Default)]
pub(super) struct Squares {
    pub matrix: Option<Vec<Vec<Option<f64>>>>,
    pub ages: Option<Vec<Vec<f64>>>,
    pub matrix_q: Option<Vec<Vec<Option<f64>>>>,
}

fn finite(value: Option<f64>) -> Option<f64> {
    value.filter(|value| value.is_finite())
}

/// Errors where a list or a matrix is not one for `k` concepts.
fn check(score: &str, outcome: &Outcome, k: usize) -> Result<(), HistoryError> {
    for (what, values) in [("per_concept", outcome.per_concept()), ("per_concept_q", outcome.per_concept_q())] {
        if let Some(values) = values.filter(|values| values.len() != k) {
            let message = format!("got {} values, expected one for each of {k} concepts", values.len());
            return Err(HistoryError::invalid(format!("scores.{score}.{what}"), message));
        }
    }
    fn rows<T>(rows: Option<&[Vec<T>]>) -> Option<Vec<usize>> {
        rows.map(|rows| rows.iter().map(Vec::len).collect())
    }
    let matrices =
        [("matrix", rows(outcome.matrix())), ("ages", rows(outcome.ages())), ("matrix_q", rows(outcome.matrix_q()))];
    for (what, rows) in matrices {
        if let Some(rows) = rows.filter(|rows| rows.len() != k || rows.iter().any(|length| *length != k)) {
            let message = format!("got {} rows, expected {k} rows of {k} values", rows.len());
            return Err(HistoryError::invalid(format!("scores.{score}.{what}"), message));
        }
    }
    Ok(())
}

/// Returns the row of a score, and its [`Matrices`] if it has any. Errors where a list or a matrix is not one for `k`
/// concepts.
pub(super) fn packed(score: &str, outcome: &Outcome, k: usize) -> Result<(StoredValue, Option<Vec<u8>>), HistoryError> {
    check(score, outcome, k)?;
    let whole = outcome.value().filter(|whole| whole.value.is_finite());
    let undefined = whole.is_none().then(|| outcome.why().unwrap_or("the value is not finite").to_owned());
    let left_out = outcome.left_out().cloned();
    let rest = Rest {
        age: finite(outcome.age()),
        left_out: left_out.map(|LeftOut { concepts, pairs, of, why }| (concepts, pairs, of, why)),
        p_value: finite(outcome.p_value()),
    };
    let list = |values: &[Option<f64>]| values.iter().map(|value| finite(*value)).collect();
    let curve = outcome.value().and_then(|value| value.curve.as_deref());
    let on_curve = |(at, value): &(f64, Option<f64>)| Some((finite(Some(*at))?, finite(*value)));
    let lists = Lists {
        per_concept: outcome.per_concept().map(list),
        curve: curve.map(|curve| curve.iter().filter_map(on_curve).collect()),
        per_concept_q: outcome.per_concept_q().map(list),
        per_task: outcome
            .per_task()
            .map(|of_tasks| of_tasks.iter().map(|of_task| packed(score, of_task, k).map(|(row, _)| row)).collect())
            .transpose()?,
    };
    let has_lists = lists.per_concept.is_some() || lists.curve.is_some() || lists.per_concept_q.is_some();
    let has_lists = has_lists || lists.per_task.is_some();
    let stored = StoredValue {
        value: whole.map(|whole| whole.value),
        standard_error: whole.and_then(|whole| finite(whole.standard_error)),
        undefined,
        body: encode(&rest)?,
        lists: has_lists.then(|| encode(&lists)).transpose()?,
    };
    let Some(matrix) = outcome.matrix() else { return Ok((stored, None)) };
    let cells = |rows: &[Vec<Option<f64>>]| rows.iter().flatten().map(|cell| cell.unwrap_or(f64::NAN) as f32).collect();
    let matrices = Matrices {
        cells: Some(cells(matrix)),
        ages: outcome.ages().map(|ages| ages.iter().flatten().map(|age| *age as f32).collect()),
        cells_q: outcome.matrix_q().map(cells),
    };
    Ok((stored, Some(encode(&matrices)?)))
}

/// Reads [`Matrices`].
pub(super) fn squares(bytes: &[u8]) -> Result<Squares, HistoryError> {
    let Matrices { cells, ages, cells_q } = decode(bytes)?;
    let cell = |cell: &f32| finite(Some(f64::from(*cell)));
    Ok(Squares {
        matrix: cells.map(|cells| square(&cells, cell)),
        ages: ages.map(|ages| square(&ages, |age| cell(age).unwrap_or_default())),
        matrix_q: cells_q.map(|cells| square(&cells, cell)),
    })
}

fn square<T>(cells: &[f32], cell: impl Fn(&f32) -> T) -> Vec<Vec<T>> {
    cells.chunks(cells.len().isqrt().max(1)).map(|row| row.iter().map(&cell).collect()).collect()
}

/// Whether a score has the result of a test.
pub(super) fn is_tested(body: &[u8], lists: Option<&[u8]>) -> Result<bool, HistoryError> {
    let (rest, lists) = (decode::<Rest>(body)?, lists.map(decode::<Lists>).transpose()?);
    Ok(rest.p_value.is_some() || lists.is_some_and(|lists| lists.per_concept_q.is_some()))
}

impl StoredValue {
    pub fn outcome(self, squares: Squares) -> Result<Outcome, HistoryError> {
        let rest: Rest = decode(&self.body)?;
        let Lists { per_concept, curve, per_concept_q, per_task } =
            self.lists.as_deref().map(decode).transpose()?.unwrap_or_default();
        let of_tasks = per_task.unwrap_or_default().into_iter();
        let of_tasks = of_tasks.map(|of_task| of_task.outcome(Squares::default()));
        let of_tasks = of_tasks.collect::<Result<Vec<_>, _>>()?;
        let undefined = self.undefined.or_else(|| self.value.is_none().then(String::new));
        let Squares { matrix, ages, matrix_q } = squares;
        let value = ScoreValue {
            value: self.value.unwrap_or_default(),
            standard_error: self.standard_error,
            per_concept,
            matrix,
            curve,
            age: rest.age,
            ages,
            left_out: rest.left_out(),
            p_value: rest.p_value,
            per_concept_q,
            matrix_q,
            per_task: (!of_tasks.is_empty()).then_some(of_tasks),
        };
        Ok(Outcome::of(undefined, value))
    }

    /// The value of one concept, or why it has none.
    pub fn of_concept(self, place: usize) -> Result<(Option<f64>, Option<String>), HistoryError> {
        let lists: Lists = self.lists.as_deref().map(decode).transpose()?.unwrap_or_default();
        let value = lists.per_concept.as_ref().and_then(|values| values.get(place).copied().flatten());
        let reason = match (value, self.undefined) {
            (Some(_), _) => None,
            (None, Some(reason)) => Some(reason),
            (None, None) if lists.per_concept.is_none() => Some("the score has no value per concept".to_owned()),
            (None, None) => Some("undefined for this concept".to_owned()),
        };
        Ok((value, reason))
    }
}
