//! Changes of a run other than its points, within a transaction of the caller.

use super::change::Change;
use super::db::Db;
use super::error::HistoryError;
use super::outcome::RunOutcome;
use super::point::finite;
use super::run::Remark;
use super::sqlite::outbox;
use super::stored::{RUN, RUN_COLUMNS};

pub(super) fn unknown(run: &str) -> HistoryError {
    HistoryError::Unknown { what: "run", name: run.to_owned() }
}

/// The number of a run that is about to change, and that of its concepts. Errors when it is unknown.
pub(super) fn run_to_change(db: &mut Db<'_>, run: &str) -> Result<(i64, usize), HistoryError> {
    let statement = format!("SELECT id, concepts FROM run WHERE name = $1{}", db.to_change());
    let found = db.one(&statement, &[&run], |row| Ok((row.get(0)?, row.get::<i64>(1)? as usize)))?;
    found.ok_or_else(|| unknown(run))
}

/// As [`run_to_change`], for a change of the row itself: its new checksum must not cover damage.
fn row_to_change(db: &mut Db<'_>, run: &str) -> Result<i64, HistoryError> {
    let statement = format!("SELECT {RUN}, checksum, id FROM run WHERE name = $1{}", db.to_change());
    let found = db.one(&statement, &[&run], |row| {
        let intact = row.checksum(None, 0..RUN_COLUMNS)?;
        intact.map(|_| row.get(RUN_COLUMNS + 1)).transpose()
    })?;
    found.flatten().ok_or_else(|| unknown(run))
}

/// Notes that the row of a run has changed.
pub(super) fn run_changed(db: &mut Db<'_>, id: i64) -> Result<(), HistoryError> {
    if let Db::Postgres(link) = db {
        return link.execute("UPDATE run SET changed = clock_timestamp() WHERE id = $1", &[&id]).map(drop);
    }
    let checksum = db.one(&format!("SELECT {RUN} FROM run WHERE id = $1"), &[&id], |row| row.sealed(0..RUN_COLUMNS))?;
    db.execute("UPDATE run SET checksum = $2 WHERE id = $1", &[&id, &checksum]).map(drop)
}

/// Notes how a rank of a run has ended: the last one where the run has `finished`.
pub(super) fn finish_run(
    db: &mut Db<'_>,
    run: &str,
    finished: Option<f64>,
    outcome: &RunOutcome,
) -> Result<(), HistoryError> {
    if finished.is_none() && *outcome == RunOutcome::Finished {
        return Ok(());
    }
    finished.map_or(Ok(()), |finished| finite("run.finished", finished))?;
    let id = row_to_change(db, run)?;
    let known = db.one("SELECT outcome FROM run WHERE id = $1", &[&id], |row| RunOutcome::stored(row, 0))?.flatten();
    let joined = serde_json::to_string(&known.unwrap_or_default().joined(outcome.clone()))?;
    let statement = "UPDATE run SET finished = coalesce($2, finished), outcome = $3 WHERE id = $1";
    db.execute(statement, &[&id, &finished, &joined])?;
    run_changed(db, id)?;
    let change = Change::FinishRun { run: run.to_owned(), finished, outcome: outcome.clone() };
    outbox::note(db, id, None, &change)
}

pub(super) fn set_remark(db: &mut Db<'_>, run: &str, remark: &Remark) -> Result<(), HistoryError> {
    remark.check().map_err(|fault| HistoryError::invalid(fault.field, fault.message))?;
    let id = row_to_change(db, run)?;
    let known = db.one("SELECT title, note FROM run WHERE id = $1", &[&id], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (title, note) = known.unwrap_or_default();
    let (title, note) = remark.applied(run, title, note);
    db.execute("UPDATE run SET title = $2, note = $3 WHERE id = $1", &[&id, &title, &note])?;
    run_changed(db, id)?;
    outbox::note(db, id, Some(outbox::REMARK), &Change::said(run, title, note))
}

/// Errors when jobs may still send to the run. `is_declared` tells whether one has declared it here.
pub(super) fn remove_run(db: &mut Db<'_>, run: &str, is_declared: impl Fn(&str) -> bool) -> Result<(), HistoryError> {
    let (id, _) = run_to_change(db, run)?;
    let is_open = format!("SELECT {} FROM run WHERE id = $1", db.is_open());
    if db.one(&is_open, &[&id], |row| row.get(0))? == Some(true) && is_declared(run) {
        return Err(HistoryError::Open { run: run.to_owned() });
    }
    outbox::note_removal(db, id, run)?;
    db.execute("DELETE FROM run WHERE id = $1", &[&id]).map(drop)
}
