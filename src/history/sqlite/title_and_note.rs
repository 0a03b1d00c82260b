//! Titles and notes of runs, and the removal of runs: changes that no job makes, within a transaction of the caller.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::insert::run_id;
use super::outbox;
use super::row_checksum::{REMARK, REMARK_COLUMNS, Seal, insert};
use crate::history::error::HistoryError;
use crate::history::run::Remark;

pub(super) fn set_remark(connection: &Connection, run: &str, remark: &Remark) -> Result<(), HistoryError> {
    let id = run_id(connection, run)?;
    let known = connection
        .prepare_cached(&format!(
            "SELECT {REMARK}, remark.checksum FROM run JOIN remark ON remark.run = run.id WHERE run.id = ?1"
        ))?
        .query_row([id], |row| match Seal::new().matching(row, 0, REMARK_COLUMNS)? {
            Some(_) => Ok((row.get(1)?, row.get(2)?)),
            None => Ok((None, None)),
        })
        .optional()?;
    let (title, note): (Option<String>, Option<String>) = known.unwrap_or_default();
    let (title, note) = remark.applied(run, title, note);
    connection.prepare_cached("DELETE FROM remark WHERE run = ?1")?.execute([id])?;
    outbox::note_remark(connection, id)?;
    if title.is_none() && note.is_none() {
        return Ok(());
    }
    let row = [Value::from(run.to_owned()), Value::from(title), Value::from(note)];
    let statement = "INSERT INTO remark (run, title, note, checksum) VALUES (?1, ?2, ?3, ?4)";
    insert(connection, statement, &[Value::from(id)], &row[1..], Seal::new().of(&row))
}

/// Whether jobs may send to a run. `declared` are the names of those that were declared since the history was opened.
pub(super) fn is_open(finished: bool, run: &str, declared: &HashSet<String>) -> bool {
    !finished && declared.contains(run)
}

/// Errors when the run is open.
pub(super) fn remove(connection: &Connection, run: &str, declared: &HashSet<String>) -> Result<(), HistoryError> {
    let id = run_id(connection, run)?;
    let finished: bool = connection
        .prepare_cached("SELECT finished IS NOT NULL FROM run WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    if is_open(finished, run, declared) {
        return Err(HistoryError::Open { run: run.to_owned() });
    }
    outbox::note_removal(connection, id, run)?;
    connection.prepare_cached("DELETE FROM run WHERE id = ?1")?.execute([id])?;
    Ok(())
}
