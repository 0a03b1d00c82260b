//! Points as the history takes and returns them.

use serde::Serialize;

use super::error::HistoryError;
use leakage::point::{LeftOut, Point};
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// The outcome of [`Store::record_point`](super::Store::record_point).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recorded {
    Stored,
    /// The history cannot be written at the moment. The point is kept in memory, readers see it, and
    /// [`Store::write_waiting`](super::Store::write_waiting) reports when it is stored.
    Waiting,
    /// The history holds a more complete point of the same branch, split and step, and keeps it.
    Outranked {
        /// Seconds since 1970-01-01 UTC at which the sample of the kept point was closed.
        time: f64,
    },
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
    /// The error of the score's mean; absent for a single concept.
    pub standard_error: Option<f64>,
    /// Why there is no value.
    pub undefined: Option<String>,
    pub rows: u64,
    /// Share of activations that equal another in their column, 0 to 1.
    pub tie_fraction: f64,
    pub provisional: bool,
    pub incomplete: bool,
    /// The concepts or pairs that the score's mean leaves out; absent where there are none, and for a single concept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left_out: Option<LeftOut>,
    /// The p-value of the score as a whole; absent for a single concept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p_value: Option<f64>,
    /// A later attempt has made a point at this step or an earlier one, or a later pass one of this step.
    #[serde(skip_serializing_if = "is_false")]
    pub superseded: bool,
    /// The launch and its restart that made the point; absent where it is unknown.
    #[serde(skip)]
    pub attempt: (Option<u32>, Option<u32>),
    /// The number of the pass among those of its step; absent for the first.
    #[serde(skip_serializing_if = "Ordinal::is_first")]
    pub ordinal: Ordinal,
}

fn is_false(value: &bool) -> bool {
    !value
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

/// A point with what the history knows of its making.
#[derive(Clone, Debug, PartialEq)]
pub struct WholePoint {
    pub point: Point,
    /// Absent for launches that name no job.
    pub attempt: Option<Attempt>,
    /// As in [`SeriesPoint`](super::SeriesPoint).
    pub superseded: bool,
}

/// Orders points of one step. Complete points are equal whatever their rows, so the newer one replaces the older.
pub(super) fn completeness(provisional: bool, incomplete: bool, rows_seen: u64) -> (bool, bool, u64) {
    (!provisional, !incomplete, if provisional || incomplete { rows_seen } else { 0 })
}

/// Errors unless there are k counts, or none.
pub(super) fn concept_rows(rows: &[u64], k: usize) -> Result<(), HistoryError> {
    if rows.is_empty() || rows.len() == k {
        return Ok(());
    }
    let message = format!("got {} counts, expected one for each of {k} concepts, or none", rows.len());
    Err(HistoryError::invalid("point.concept_rows", message))
}

pub(super) fn finite(field: &str, value: f64) -> Result<(), HistoryError> {
    match value.is_finite() {
        true => Ok(()),
        false => Err(HistoryError::invalid(field, format!("got {value}, expected a finite number"))),
    }
}

/// The value as a signed integer, the only kind that SQLite has.
pub(super) fn integer(field: &str, value: u64) -> Result<i64, HistoryError> {
    i64::try_from(value)
        .map_err(|_| HistoryError::invalid(field, format!("got {value}, expected at most {}", i64::MAX)))
}
