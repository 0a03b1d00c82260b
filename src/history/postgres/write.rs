//! Changes of a run other than its points, within a transaction of the caller.

use super::link::Link;
use super::runs::{is_open, outcome as outcome_in, run_to_change, unknown};
use crate::history::error::HistoryError;
use crate::history::outcome::RunOutcome;
use crate::history::point::finite;
use crate::history::run::Remark;

/// Notes how a rank of a run has ended: the last one where the run has `finished`.
pub(super) fn end(link: &mut Link, run: &str, finished: Option<f64>, outcome: &RunOutcome) -> Result<(), HistoryError> {
    finished.map_or(Ok(()), |finished| finite("run.finished", finished))?;
    let id = run_to_change(link, run)?;
    if finished.is_none() && *outcome == RunOutcome::Finished {
        return Ok(());
    }
    let row = link.query_one("SELECT outcome FROM run WHERE id = $1", &[&id])?;
    let joined = outcome_in(&row, 0)?.unwrap_or_default().joined(outcome.clone());
    let statement =
        "UPDATE run SET finished = coalesce($2, finished), outcome = $3, changed = clock_timestamp() WHERE id = $1";
    link.execute(statement, &[&id, &finished, &serde_json::to_string(&joined)?]).map(drop)
}

pub(super) fn set_remark(link: &mut Link, run: &str, remark: &Remark) -> Result<(), HistoryError> {
    remark.check().map_err(|fault| HistoryError::invalid(fault.field, fault.message))?;
    let row = link.query_opt("SELECT id, title, note FROM run WHERE name = $1 FOR NO KEY UPDATE", &[&run])?;
    let row = row.ok_or_else(|| unknown(run))?;
    let (title, note) = remark.applied(run, row.get(1), row.get(2));
    let statement = "UPDATE run SET title = $2, note = $3, changed = clock_timestamp() WHERE id = $1";
    link.execute(statement, &[&row.get::<_, i64>(0), &title, &note]).map(drop)
}

/// Errors where jobs may still send to the run: it has not finished, and one has sent within the last hour.
pub(super) fn remove_run(link: &mut Link, run: &str) -> Result<(), HistoryError> {
    let row = link.query_opt(concat!("SELECT id, ", is_open!(), " FROM run WHERE name = $1 FOR UPDATE"), &[&run])?;
    let row = row.ok_or_else(|| unknown(run))?;
    if row.get(1) {
        return Err(HistoryError::Open { run: run.to_owned() });
    }
    link.execute("DELETE FROM run WHERE id = $1", &[&row.get::<_, i64>(0)]).map(drop)
}

/// Nobody sends to the run any more.
pub(super) fn forget_run(link: &mut Link, run: &str) -> Result<(), HistoryError> {
    link.execute("UPDATE run SET touched = '-infinity' WHERE name = $1", &[&run]).map(drop)
}
