//! Salvages what is readable of a damaged history.
//!
//! A repair writes every row that can be read and matches its checksum to a new file, which takes the place of the
//! damaged one in one step. The damaged file stays beside it.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};

use super::data_file::{FILE_NAME, emptied, sync};
use super::fault::is_busy;
use super::intact::{Contents, Found, for_each_intact};
use super::open;
use super::tables;
use crate::history::error::HistoryError;

/// The outcome of a repair: the rows that it kept and lost.
#[derive(Clone, Debug)]
pub struct Repair {
    /// Where the damaged file is now.
    pub damaged: PathBuf,
    pub kept: Contents,
    /// Rows that are known to have existed. Those of pages that cannot be read at all are not known.
    pub lost: Contents,
}

/// Writes what is readable of the history in `directory` to a new file, which takes its place. Errors as [`examine`](super::examine)
/// does, and when there is no room.
pub fn repair(directory: &Path) -> Result<Repair, HistoryError> {
    let path = directory.join(FILE_NAME);
    let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
    let unfinished = directory.join(format!("{FILE_NAME}.repaired"));
    let _ = std::fs::remove_file(&unfinished);
    let (mut kept, mut lost) = (Contents::default(), Contents::default());
    {
        let new = open::create(&unfinished)?;
        let copied = match emptied(directory) {
            None => open::salvaged(&path).and_then(|old| copy(&old, &new, &path, &mut lost)),
            // SQLite would delete the log, which stays beside the file.
            Some(_) => Ok(()),
        };
        match copied {
            Ok(()) | Err(HistoryError::Damaged(_)) => {}
            Err(HistoryError::Storage(error)) if is_busy(&error) => return Err(HistoryError::InUse { path }),
            Err(error) => return Err(error),
        }
        // Counts the rows that are there now, not those found: damaged trees can have a row twice.
        for_each_intact(&new, &mut kept, &mut Contents::default(), |_, _| Ok(true))?;
        new.close().map_err(|(_, error)| error)?;
    }
    std::fs::File::open(&unfinished).and_then(|file| file.sync_all()).map_err(fault)?;
    let damaged = |number: u32, suffix: &str| directory.join(format!("{FILE_NAME}.damaged-{number}{suffix}"));
    let number = (1..).find(|number| !damaged(*number, "").exists()).unwrap_or(u32::MAX);
    std::fs::hard_link(&path, damaged(number, "")).map_err(fault)?;
    // A log belongs to the file beside which it was written, and to no other.
    for suffix in ["-wal", "-journal"] {
        let log = directory.join(format!("{FILE_NAME}{suffix}"));
        if log.exists() {
            std::fs::rename(&log, damaged(number, suffix)).map_err(fault)?;
        }
    }
    sync(directory).map_err(fault)?;
    std::fs::rename(&unfinished, &path).and_then(|()| sync(directory)).map_err(fault)?;
    Ok(Repair { damaged: damaged(number, ""), kept, lost })
}

/// Lets only its owner enter the directory.
pub fn make_private(directory: &Path) -> Result<(), HistoryError> {
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700))
        .map_err(|source| HistoryError::Directory { path: directory.to_owned(), source })
}

fn copy(old: &Connection, new: &Connection, path: &Path, lost: &mut Contents) -> Result<(), HistoryError> {
    tables::recognise(old, path)?;
    new.execute_batch("BEGIN")?;
    for_each_intact(old, &mut Contents::default(), lost, |old, found| copy_together(old, new, found))?;
    new.execute_batch("COMMIT")?;
    Ok(())
}

/// Copies all of these rows or none. Returns whether they could be read.
fn copy_together(old: &Connection, new: &Connection, found: &[Found<'_>]) -> Result<bool, HistoryError> {
    new.prepare_cached("SAVEPOINT together")?.execute([])?;
    let copied = found.iter().try_for_each(|rows| copy_rows(old, new, rows));
    if copied.is_err() {
        new.prepare_cached("ROLLBACK TO together")?.execute([])?;
    }
    new.prepare_cached("RELEASE together")?.execute([])?;
    match copied {
        Ok(()) => Ok(true),
        Err(HistoryError::Damaged(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

fn copy_rows(old: &Connection, new: &Connection, found: &Found<'_>) -> Result<(), HistoryError> {
    let Found { table, condition, key } = found;
    let mut select = old.prepare_cached(&format!("SELECT * FROM {table} WHERE {condition}"))?;
    let columns: Vec<String> = select.column_names().map(str::to_owned).collect();
    let places = vec!["?"; columns.len()].join(", ");
    let insert = format!("INSERT OR IGNORE INTO {table} ({}) VALUES ({places})", columns.join(", "));
    for (index, value) in (1..).zip(*key) {
        select.raw_bind_parameter(index, value.sqlite())?;
    }
    let mut rows = select.raw_query();
    while let Some(row) = rows.next()? {
        let values: Vec<Value> = (0..columns.len()).map(|column| row.get(column)).collect::<Result<_, _>>()?;
        new.prepare_cached(&insert)?.execute(params_from_iter(values))?;
    }
    Ok(())
}
