//! The outcomes of a point in the columns that every engine stores, and back.

use super::blob;
use super::error::HistoryError;
use leakage::point::{LeftOut, Outcome, ScoreValue, Undefined};

/// A score of a point. Either `value` or `undefined` is set.
#[derive(Default)]
pub(super) struct StoredValue {
    pub value: Option<f64>,
    pub standard_error: Option<f64>,
    pub undefined: Option<String>,
    pub per_concept: Option<Vec<u8>>,
    pub curve: Option<Vec<u8>>,
    pub age: Option<f64>,
    /// JSON, as serde writes [`LeftOut`].
    pub left_out: Option<String>,
    pub p_value: Option<f64>,
    pub per_concept_q: Option<Vec<u8>>,
}

/// The matrices of a score, if it has any.
pub(super) struct StoredMatrix {
    pub cells: Vec<u8>,
    pub ages: Option<Vec<u8>>,
    pub cells_q: Option<Vec<u8>>,
}

/// Errors where a list or a matrix is not one for `k` concepts.
pub(super) fn packed(
    score: &str,
    outcome: &Outcome,
    k: usize,
) -> Result<(StoredValue, Option<StoredMatrix>), HistoryError> {
    let (value, standard_error, undefined) = match outcome {
        Outcome::Undefined(undefined) => (None, None, Some(undefined.why.clone())),
        Outcome::Value(value) if value.value.is_finite() => (Some(value.value), value.standard_error, None),
        Outcome::Value(_) => (None, None, Some("the value is not finite".to_owned())),
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
    let stored = StoredValue {
        value,
        standard_error: standard_error.filter(|error| error.is_finite()),
        undefined,
        per_concept: per_concept.map(blob::pack_f64),
        curve: outcome.value().and_then(|value| value.curve.as_deref()).map(blob::pack_curve),
        age: outcome.age().filter(|age| age.is_finite()),
        left_out: outcome.left_out().map(serde_json::to_string).transpose()?,
        p_value: outcome.p_value().filter(|p| p.is_finite()),
        per_concept_q: per_concept_q.map(blob::pack_f64),
    };
    let Some(rows) = outcome.matrix() else { return Ok((stored, None)) };
    square(score, "matrix", rows, k)?;
    if let Some(ages) = outcome.ages() {
        square(score, "ages", ages, k)?;
    }
    if let Some(rows) = outcome.matrix_q() {
        square(score, "matrix_q", rows, k)?;
    }
    let ages = outcome.ages().map(|ages| ages.iter().flatten().map(|age| Some(*age)).collect::<Vec<_>>());
    let matrix = StoredMatrix {
        cells: blob::pack_f32(rows.iter().flatten()),
        ages: ages.map(|ages| blob::pack_f32(ages.iter())),
        cells_q: outcome.matrix_q().map(|rows| blob::pack_f32(rows.iter().flatten())),
    };
    Ok((stored, Some(matrix)))
}

/// Checks that there are k rows of k.
fn square<T>(score: &str, what: &str, rows: &[Vec<T>], k: usize) -> Result<(), HistoryError> {
    if rows.len() == k && rows.iter().all(|row| row.len() == k) {
        return Ok(());
    }
    let message = format!("got {} rows, expected {k} rows of {k} values", rows.len());
    Err(HistoryError::invalid(format!("scores.{score}.{what}"), message))
}

/// The matrices of a score.
#[derive(Default)]
pub(super) struct Matrices {
    pub cells: Option<Vec<Vec<Option<f64>>>>,
    pub ages: Option<Vec<Vec<f64>>>,
    pub cells_q: Option<Vec<Vec<Option<f64>>>>,
}

impl Matrices {
    pub fn unpacked(cells: Option<&[u8]>, ages: Option<&[u8]>, cells_q: Option<&[u8]>, k: usize) -> Self {
        let square = |cells: &[u8]| blob::unpack_f32(cells).chunks(k.max(1)).map(<[_]>::to_vec).collect::<Vec<_>>();
        let seconds = |row: Vec<Option<f64>>| row.into_iter().map(Option::unwrap_or_default).collect();
        Self {
            cells: cells.map(square),
            ages: ages.map(|ages| square(ages).into_iter().map(seconds).collect()),
            cells_q: cells_q.map(square),
        }
    }
}

impl StoredValue {
    pub fn unpacked(self, matrices: Matrices) -> Result<Outcome, HistoryError> {
        let Matrices { cells: matrix, ages, cells_q: matrix_q } = matrices;
        let per_concept = self.per_concept.as_deref().map(blob::unpack_f64);
        let per_concept_q = self.per_concept_q.as_deref().map(blob::unpack_f64);
        let (age, left_out) = (self.age, left_out_of(self.left_out.as_deref())?);
        Ok(match (self.undefined, self.value) {
            (None, Some(value)) => Outcome::Value(ScoreValue {
                value,
                standard_error: self.standard_error,
                per_concept,
                matrix,
                curve: self.curve.as_deref().map(blob::unpack_curve),
                age,
                ages,
                left_out,
                p_value: self.p_value,
                per_concept_q,
                matrix_q,
            }),
            (reason, _) => Outcome::Undefined(Undefined {
                why: reason.unwrap_or_default(),
                per_concept,
                matrix,
                age,
                ages,
                left_out,
                per_concept_q,
                matrix_q,
            }),
        })
    }
}

pub(super) fn left_out_of(json: Option<&str>) -> Result<Option<LeftOut>, HistoryError> {
    Ok(json.map(serde_json::from_str).transpose()?)
}

/// The value of one concept, or why it has none.
pub(super) fn of_concept(
    per_concept: Option<&[u8]>,
    undefined: Option<String>,
    place: usize,
) -> (Option<f64>, Option<String>) {
    let value = per_concept.and_then(|bytes| blob::unpack_f64(bytes).get(place).copied().flatten());
    let reason = match (value, undefined, per_concept.is_none()) {
        (Some(_), ..) => None,
        (None, Some(reason), _) => Some(reason),
        (None, None, true) => Some("the score has no value per concept".to_owned()),
        (None, None, false) => Some("undefined for this concept".to_owned()),
    };
    (value, reason)
}
