//! Examines the history of a stopped sidecar, which is not changed.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::statvfs;
use rustix::process::geteuid;

use super::copied::Copy;
use super::data_file::{FILE_NAME, emptied};
use super::fault::is_busy;
use super::intact::{Contents, for_each_intact};
use super::open;
use super::tables;
use crate::history::error::HistoryError;

/// Free bytes below which a history may soon not be written.
const LITTLE_ROOM: u64 = 64 << 20;

/// The result of an examination.
#[derive(Clone, Debug)]
pub struct Examination {
    pub path: PathBuf,
    pub schema: i64,
    pub bytes: u64,
    /// Free bytes of the file system.
    pub free: u64,
    /// Rows that can be read and match their checksum.
    pub intact: Contents,
    /// In words; none for a healthy history.
    pub faults: Vec<String>,
    /// Whether a repair changes more than permissions.
    pub damaged: bool,
}

/// Examines the history in `directory`, which is not changed. Errors when there is none, another process has it open, or
/// a newer program wrote it.
pub fn examine(directory: &Path) -> Result<Examination, HistoryError> {
    let path = directory.join(FILE_NAME);
    let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
    let place = std::fs::metadata(directory).map_err(fault)?;
    let file = std::fs::metadata(&path).map_err(fault)?;
    let mut faults = Vec::new();
    let mode = place.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        faults.push(format!("directory: got mode {mode:04o}, expected 0700: other users can enter it"));
    }
    let user = geteuid().as_raw();
    if place.uid() != user || file.uid() != user {
        faults.push(format!("owner: got user {} for the file, expected {user}", file.uid()));
    }
    let room = statvfs(directory).map_err(|error| fault(error.into()))?;
    let free = room.f_bavail * room.f_frsize;
    if free < LITTLE_ROOM {
        faults.push(format!("free space: got {} MiB, expected at least {} MiB", free >> 20, LITTLE_ROOM >> 20));
    }
    let before = faults.len();
    let mut examination =
        Examination { path, schema: 0, bytes: file.len(), free, intact: Contents::default(), faults, damaged: false };
    if file.len() == 0 {
        let why = emptied(directory).unwrap_or_else(|| {
            "the file has 0 bytes: it was never written, or all of it is lost. A sidecar begins a new history in it"
                .into()
        });
        examination.faults.push(format!("file: {why}"));
        examination.damaged = true;
        return Ok(examination);
    }
    let copy = Copy::if_needed(directory)?;
    let readable = copy.as_ref().map_or_else(|| examination.path.clone(), |copy| copy.0.join(FILE_NAME));
    for part in [check, count] {
        match part(&mut examination, &readable) {
            Ok(()) => {}
            Err(HistoryError::Damaged(error)) => {
                let fault = format!("file: {error}");
                if !examination.faults.contains(&fault) {
                    examination.faults.push(fault);
                }
            }
            Err(HistoryError::Storage(error)) if is_busy(&error) => {
                return Err(HistoryError::InUse { path: examination.path });
            }
            Err(error) => return Err(error),
        }
    }
    examination.damaged = examination.faults.len() > before;
    Ok(examination)
}

/// Reads the schema, and adds the faults of the tables and those that SQLite finds.
fn check(examination: &mut Examination, readable: &Path) -> Result<(), HistoryError> {
    let connection = open::unchanged(readable)?;
    examination.schema = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    tables::recognise(&connection, &examination.path)?;
    let mut check = connection.prepare("PRAGMA integrity_check(20)")?;
    let found: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    examination.faults.extend(found.into_iter().filter(|line| line != "ok").map(|line| format!("file: {line}")));
    examination.faults.extend(tables::altered(&connection)?.map(|fault| format!("file: {fault}")));
    Ok(())
}

/// Counts the rows that a repair would keep.
fn count(examination: &mut Examination, readable: &Path) -> Result<(), HistoryError> {
    let connection = open::salvaged(readable)?;
    tables::recognise(&connection, &examination.path)?;
    let mut lost = Contents::default();
    for_each_intact(&connection, &mut examination.intact, &mut lost, |_, _| Ok(true))?;
    if lost != Contents::default() {
        examination.faults.push(format!("checksums: {lost} cannot be read or do not match"));
    }
    Ok(())
}
