//! The runs that a follower shows: open ones, and those active within a given time.

use std::time::Duration;

use super::runs::is_open;
use super::store::Postgres;
use crate::history::error::HistoryError;

/// When a run was last active: at its end or, until it ends, when a job last spoke.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Jobs may send to it.
    Open,
    /// Active within the given time.
    Lately,
    /// Active before that.
    LongAgo,
}

impl Postgres {
    /// All runs by name, the oldest start first.
    pub fn heard(&self, within: Duration) -> Result<Vec<(String, Heard)>, HistoryError> {
        let rows = self.read(|link| {
            link.query(
                concat!(
                    "SELECT name, ",
                    is_open!(),
                    ", coalesce(finished, extract(epoch FROM touched)::float8) >= extract(epoch FROM now())::float8 - $1 \
                     FROM run ORDER BY started, id"
                ),
                &[&within.as_secs_f64()],
            )
        })?;
        let heard = rows.iter().map(|row| match (row.get(1), row.get(2)) {
            (true, _) => (row.get(0), Heard::Open),
            (false, true) => (row.get(0), Heard::Lately),
            (false, false) => (row.get(0), Heard::LongAgo),
        });
        Ok(heard.collect())
    }

    /// Returns those of `runs` that have not ended and were silent for `time`.
    pub fn silent(&self, runs: &[&str], time: Duration) -> Result<Vec<String>, HistoryError> {
        let rows = self.read(|link| {
            link.query(
                "SELECT name FROM run WHERE name = ANY($1) AND finished IS NULL AND touched < now() - make_interval(secs => $2)",
                &[&runs, &time.as_secs_f64()],
            )
        })?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }
}
