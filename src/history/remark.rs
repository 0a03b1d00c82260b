//! What people say about runs, and removing them: changes that no job makes, within a transaction of the caller.

use std::collections::HashSet;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension};

use super::error::HistoryError;
use super::insert::run_id;
use super::seal::{REMARK, REMARK_COLUMNS, Seal, insert};
use crate::fault::Fault;
use crate::name::check_name;

/// Most characters of a note.
pub const MAX_NOTE: usize = 10_000;

/// A change of what is said about a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remark {
    /// Shown in place of the run's name, which stays; empty: the name again. `None` leaves the title as it is.
    pub title: Option<String>,
    /// Empty: none. `None` leaves the note as it is.
    pub note: Option<String>,
}

impl Remark {
    pub(super) fn check(&self) -> Result<(), Fault> {
        if let Some(title) = self.title.as_deref().filter(|title| !title.is_empty()) {
            check_name("title", title)?;
        }
        let note = self.note.as_deref().unwrap_or_default();
        let characters = note.chars().count();
        if characters > MAX_NOTE {
            return Err(Fault::new("note", format!("got {characters} characters, expected at most {MAX_NOTE}")));
        }
        match note.chars().find(|one| one.is_control() && !"\n\t".contains(*one)) {
            Some(one) => {
                let message = format!("has the character {}, expected text in lines", one.escape_unicode());
                Err(Fault::new("note", message))
            }
            None => Ok(()),
        }
    }
}

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
    let changed = |known: Option<String>, given: &Option<String>| match given {
        Some(given) => Some(given.clone()).filter(|given| !given.is_empty()),
        None => known,
    };
    let title = changed(title, &remark.title).filter(|title| title != run);
    let note = changed(note, &remark.note);
    connection.prepare_cached("DELETE FROM remark WHERE run = ?1")?.execute([id])?;
    if title.is_none() && note.is_none() {
        return Ok(());
    }
    let row = [Value::from(run.to_owned()), Value::from(title), Value::from(note)];
    let statement = "INSERT INTO remark (run, title, note, checksum) VALUES (?1, ?2, ?3, ?4)";
    insert(connection, statement, &[Value::from(id)], &row[1..], Seal::new().of(&row))
}

/// `open` are names of runs to which jobs may send.
pub(super) fn remove(connection: &Connection, run: &str, open: &HashSet<String>) -> Result<(), HistoryError> {
    let id = run_id(connection, run)?;
    let finished: bool = connection
        .prepare_cached("SELECT finished IS NOT NULL FROM run WHERE id = ?1")?
        .query_row([id], |row| row.get(0))?;
    if !finished && open.contains(run) {
        return Err(HistoryError::Open { run: run.to_owned() });
    }
    connection.prepare_cached("DELETE FROM run WHERE id = ?1")?.execute([id])?;
    Ok(())
}
