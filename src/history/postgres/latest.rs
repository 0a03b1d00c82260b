//! The newest value of each score, so that a list of many runs is one reading.

use super::link::Link;
use super::store::Postgres;
use crate::history::error::HistoryError;

/// The newest value of a score in a split of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct LatestValue {
    pub run: String,
    pub split: String,
    pub score: String,
    pub step: u64,
    pub epoch: Option<f64>,
    /// Seconds since 1970-01-01 UTC.
    pub time: f64,
    pub provisional: bool,
    pub incomplete: bool,
    /// Absent when undefined.
    pub value: Option<f64>,
    pub standard_error: Option<f64>,
    /// Why there is no value.
    pub undefined: Option<String>,
}

/// Takes over the values of a point that has just been stored, unless there are those of a later step.
pub(super) fn set_latest(link: &mut Link, run: i64, split: &str, point: i64) -> Result<(), HistoryError> {
    link.execute(
        "INSERT INTO latest (run, split, score, step, epoch, time, provisional, incomplete, value, standard_error, \
         undefined) SELECT $1, $2, score, step, epoch, time, provisional, incomplete, value, standard_error, undefined \
         FROM value JOIN point ON point.id = value.point WHERE point.id = $3 \
         ON CONFLICT (run, split, score) DO UPDATE SET (step, epoch, time, provisional, incomplete, value, \
         standard_error, undefined) = (excluded.step, excluded.epoch, excluded.time, excluded.provisional, \
         excluded.incomplete, excluded.value, excluded.standard_error, excluded.undefined) \
         WHERE latest.step <= excluded.step",
        &[&run, &split, &point],
    )?;
    Ok(())
}

impl Postgres {
    /// The newest values of these runs, by run, split and score. Runs that are unknown have none.
    pub fn latest_values(&self, runs: &[&str]) -> Result<Vec<LatestValue>, HistoryError> {
        let rows = self.read(|link| {
            link.query(
                "SELECT name, split, score, step, epoch, time, provisional, incomplete, value, standard_error, undefined \
                 FROM latest JOIN run ON run.id = latest.run WHERE name = ANY($1) ORDER BY name, split, score",
                &[&runs],
            )
        })?;
        let value = |row: &postgres::Row| LatestValue {
            run: row.get(0),
            split: row.get(1),
            score: row.get(2),
            step: row.get::<_, i64>(3).cast_unsigned(),
            epoch: row.get(4),
            time: row.get(5),
            provisional: row.get(6),
            incomplete: row.get(7),
            value: row.get(8),
            standard_error: row.get(9),
            undefined: row.get(10),
        };
        Ok(rows.iter().map(value).collect())
    }
}
