//! Reading runs: what was declared, when, and what people say about it.

use postgres::Row;

use super::link::Link;
use crate::history::error::HistoryError;
use crate::history::outcome::RunOutcome;
use crate::history::run::{StoredLaunch, StoredRank, StoredRun};
use leakage::run::Run;
use leakage::sample::Attempt;

/// Whether jobs may send to a run: it has not finished, and something of it came in the last hour.
macro_rules! is_open {
    () => {
        "finished IS NULL AND touched > now() - interval '1 hour'"
    };
}
pub(super) use is_open;

/// The columns that [`stored`] reads, of the runs of a condition.
macro_rules! runs {
    ($condition:literal) => {
        concat!(
            "SELECT declaration, started, finished, title, note, id, ",
            crate::history::postgres::runs::is_open!(),
            ", outcome FROM run ",
            $condition
        )
    };
}
pub(super) use runs;

pub(super) fn stored(row: &Row) -> Result<StoredRun, HistoryError> {
    Ok(StoredRun {
        run: serde_json::from_str(row.get(0))?,
        started: row.get(1),
        finished: row.get(2),
        outcome: outcome(row, 7)?,
        open: row.get(6),
        title: row.get(3),
        note: row.get(4),
    })
}

/// The outcome in a column.
pub(super) fn outcome(row: &Row, column: usize) -> Result<Option<RunOutcome>, HistoryError> {
    Ok(row.get::<_, Option<&str>>(column).map(serde_json::from_str).transpose()?)
}

pub(super) fn unknown(name: &str) -> HistoryError {
    HistoryError::Unknown { what: "run", name: name.to_owned() }
}

/// The number of a run.
pub(super) fn run_id(link: &mut Link, name: &str) -> Result<i64, HistoryError> {
    let row = link.query_opt("SELECT id FROM run WHERE name = $1", &[&name])?;
    Ok(row.ok_or_else(|| unknown(name))?.get(0))
}

/// The number of a run that is about to change: others who change it wait for the end of the transaction.
pub(super) fn run_to_change(link: &mut Link, name: &str) -> Result<i64, HistoryError> {
    let row = link.query_opt("SELECT id FROM run WHERE name = $1 FOR NO KEY UPDATE", &[&name])?;
    Ok(row.ok_or_else(|| unknown(name))?.get(0))
}

/// The number of a run, and the run.
pub(super) fn one_run(link: &mut Link, name: &str) -> Result<(i64, StoredRun), HistoryError> {
    let row = link.query_opt(runs!("WHERE name = $1"), &[&name])?.ok_or_else(|| unknown(name))?;
    Ok((row.get(5), stored(&row)?))
}

/// The number and declaration of a run.
pub(super) fn find_run(link: &mut Link, name: &str) -> Result<(i64, Run), HistoryError> {
    one_run(link, name).map(|(id, stored)| (id, stored.run))
}

pub(super) fn all_runs(link: &mut Link) -> Result<Vec<StoredRun>, HistoryError> {
    link.query(runs!("ORDER BY started DESC, id DESC"), &[])?.iter().map(stored).collect()
}

pub(super) fn ranks(link: &mut Link, run: &str) -> Result<Vec<StoredRank>, HistoryError> {
    let run = run_id(link, run)?;
    let rows = link.query(
        "SELECT (SELECT count(*) FROM launch earlier WHERE earlier.run = launch.run AND earlier.id < launch.id), \
         restart, rank, client, rank.finished IS NOT NULL \
         FROM rank JOIN launch ON launch.id = rank.launch WHERE launch.run = $1 ORDER BY launch.id, rank",
        &[&run],
    )?;
    let rank = |row: &Row| {
        let attempt = Attempt { launch: number(row, 0)?, restart: number(row, 1)? };
        Ok(StoredRank { attempt, rank: number(row, 2)?, client: row.get(3), finished: row.get(4) })
    };
    rows.iter().map(rank).collect()
}

pub(super) fn launches(link: &mut Link, run: &str) -> Result<Vec<StoredLaunch>, HistoryError> {
    let run = run_id(link, run)?;
    let rows = link.query("SELECT restarts, job FROM launch WHERE run = $1 ORDER BY id", &[&run])?;
    rows.iter().map(|row| Ok(StoredLaunch { job: row.get(1), restarts: number(row, 0)? })).collect()
}

pub(super) fn known_splits(link: &mut Link, run: &str) -> Result<Vec<String>, HistoryError> {
    let run = run_id(link, run)?;
    let statement = "SELECT split FROM point WHERE run = $1 UNION SELECT split FROM unscored WHERE run = $1 ORDER BY 1";
    Ok(link.query(statement, &[&run])?.iter().map(|row| row.get(0)).collect())
}

/// A column that holds a number of 32 bits.
pub(super) fn number(row: &Row, column: usize) -> Result<u32, HistoryError> {
    let stored: i64 = row.get(column);
    u32::try_from(stored).map_err(|error| HistoryError::Storage(error.into()))
}

/// The attempt in two columns; absent where unknown.
pub(super) fn attempt(row: &Row, column: usize) -> Result<Option<Attempt>, HistoryError> {
    let stored: (Option<i64>, Option<i64>) = (row.get(column), row.get(column + 1));
    match stored {
        (Some(_), Some(_)) => Ok(Some(Attempt { launch: number(row, column)?, restart: number(row, column + 1)? })),
        _ => Ok(None),
    }
}
