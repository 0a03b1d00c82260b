//! The header of a history's file, and a copy of a file in which a damaged one is restored.
//!
//! The first 100 bytes say how to read all others, and SQLite reads nothing where they are wrong, though nearly all of them
//! are the same in every history. Format: <https://www.sqlite.org/fileformat2.html#the_database_header>.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::place::FILE_NAME;
use super::tables::SCHEMA;

const LENGTH: usize = 100;
/// Bytes of a page of every history.
const PAGE: u64 = 4096;

/// Where a field stands, what it has in every history, and whether it may also be zero: SQLite sets some fields of the file
/// only when it moves the first page of the log there.
const FIELDS: [(usize, &[u8], bool); 8] = [
    (0, b"SQLite format 3\0", false),
    (16, &(PAGE as u16).to_be_bytes(), false),
    // Unused bytes of a page, and fractions of it that a row may take.
    (20, &[0, 64, 32, 32], false),
    // The format of the tables' declarations.
    (44, &4_u32.to_be_bytes(), true),
    // No automatic vacuum, which would mean other pages.
    (52, &[0; 4], false),
    // UTF-8.
    (56, &1_u32.to_be_bytes(), true),
    // No incremental vacuum.
    (64, &[0; 4], false),
    // Reserved.
    (72, &[0; 20], false),
];
/// The versions of the format: 1 with a rollback journal, 2 with a write-ahead log.
const FORMATS: [usize; 2] = [18, 19];
/// The number of pages. Zero: as many as the file has.
const PAGES: usize = 28;
const USER_VERSION: usize = 60;

/// What is wrong with the header of a file, in words. A file that is too short to have one has no damaged one.
pub(super) fn fault(path: &Path) -> std::io::Result<Option<&'static str>> {
    let mut header = [0; LENGTH];
    match File::open(path)?.read_exact(&mut header) {
        Ok(()) => Ok(restored(&header).map(|_| "the file's header is damaged: a repair restores it in a copy")),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error),
    }
}

/// Says that a file has no bytes although its log has, which SQLite would delete. Without a log such a file is one that was
/// never written.
pub(super) fn emptied(directory: &Path) -> Option<String> {
    let length = |name: &str| std::fs::metadata(directory.join(name)).map(|file| file.len()).ok();
    match (length(FILE_NAME), length(&format!("{FILE_NAME}-wal"))) {
        (Some(0), Some(log @ 1..)) => Some(format!("the file has 0 bytes, its log {log}")),
        _ => None,
    }
}

/// The header as it was, as far as that matters; `None` if it needs no change.
fn restored(header: &[u8; LENGTH]) -> Option<[u8; LENGTH]> {
    let mut whole = *header;
    for (at, bytes, may_be_zero) in FIELDS {
        let field = &mut whole[at..at + bytes.len()];
        if !(may_be_zero && field.iter().all(|byte| *byte == 0)) {
            field.copy_from_slice(bytes);
        }
    }
    for at in FORMATS {
        if !(1..=2).contains(&whole[at]) {
            whole[at] = 2;
        }
    }
    if whole == *header {
        return None;
    }
    for (at, bytes, _) in FIELDS {
        whole[at..at + bytes.len()].copy_from_slice(bytes);
    }
    whole[PAGES..PAGES + 4].fill(0);
    whole[USER_VERSION..USER_VERSION + 4].copy_from_slice(&(SCHEMA as i32).to_be_bytes());
    Some(whole)
}

/// A copy of a history, with its log, whose header is whole. Removed when it is dropped.
pub(super) struct Mended(PathBuf);

impl Mended {
    /// `None` where the header needs no change. The copy takes as much room as the history.
    pub fn of(directory: &Path) -> std::io::Result<Option<Self>> {
        let path = directory.join(FILE_NAME);
        if fault(&path)?.is_none() && emptied(directory).is_none() {
            return Ok(None);
        }
        let copy = Self(directory.join(format!("{FILE_NAME}.mended")));
        copy.remove();
        for log in ["", "-wal", "-journal"] {
            match std::fs::copy(with(&path, log), with(&copy.0, log)) {
                Err(error) if log.is_empty() || error.kind() != ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let file = OpenOptions::new().read(true).write(true).open(&copy.0)?;
        // The log may have the first page, but SQLite deletes the log of a file without one.
        file.set_len(file.metadata()?.len().max(PAGE))?;
        let mut header = [0; LENGTH];
        file.read_exact_at(&mut header, 0)?;
        file.write_all_at(&restored(&header).unwrap_or(header), 0)?;
        Ok(Some(copy))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    fn remove(&self) {
        for log in ["", "-wal", "-journal"] {
            let _ = std::fs::remove_file(with(&self.0, log));
        }
    }
}

impl Drop for Mended {
    fn drop(&mut self) {
        self.remove();
    }
}

/// A path with something at its end.
fn with(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}
