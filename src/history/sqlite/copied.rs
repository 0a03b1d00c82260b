//! Reading a history where nothing can be written: a read-only mount, or the directory of another user.
//!
//! SQLite creates files beside a database even to read it, and without them committed changes in its log are not seen. So
//! the file and its log are copied to a directory that only this process has, and read there.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{Access, access};

use super::data_file::FILE_NAME;
use super::open::ALONE;
use super::store::Sqlite;
use crate::history::error::HistoryError;
use crate::history::usage::Limits;

/// Copies of files that change meanwhile, before it is given up.
const ATTEMPTS: u32 = 5;

impl Sqlite {
    /// Opens the history in `directory` to read it; a copy of it where nothing can be written, which takes as much room in
    /// the directory for temporary files. Errors as [`open`](Self::open), and when a copy cannot be made.
    pub fn open_to_read(directory: &Path) -> Result<Self, HistoryError> {
        let limits = Limits { bytes: u64::MAX };
        let Some(copy) = Copy::if_needed(directory)? else { return Self::open_as(directory, &ALONE, limits) };
        let path = directory.join(FILE_NAME);
        let history = Self::open_as(&copy.0, &ALONE, limits).map_err(|error| error.at(path.clone()))?;
        history.store().is_copy_of(path);
        // The copy loses its name here, and the open file stays until it is closed.
        Ok(history)
    }
}

/// A directory with a copy of a history. Removed when it is dropped.
pub(super) struct Copy(pub PathBuf);

impl Copy {
    /// `None` where the history itself can be opened.
    pub fn if_needed(directory: &Path) -> Result<Option<Self>, HistoryError> {
        let file = directory.join(FILE_NAME);
        match [directory, &file].into_iter().all(|path| access(path, Access::WRITE_OK).is_ok()) {
            true => Ok(None),
            false => Self::of(directory).map(Some),
        }
    }

    fn of(directory: &Path) -> Result<Self, HistoryError> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("conceptwatch-{}-{number}", std::process::id()));
        let fault = |source| HistoryError::Directory { path: directory.to_owned(), source };
        DirBuilder::new().mode(0o700).create(&path).map_err(fault)?;
        let copy = Self(path);
        for _ in 0..ATTEMPTS {
            let before = state(directory);
            for name in names() {
                match File::open(directory.join(&name)) {
                    Ok(mut from) => {
                        // With a mode of its own: that of a file that can only be read would be copied.
                        let mut options = OpenOptions::new();
                        options.write(true).create(true).truncate(true).mode(0o600);
                        let to = options.open(copy.0.join(&name));
                        to.and_then(|mut to| std::io::copy(&mut from, &mut to)).map_err(fault)?;
                    }
                    Err(error) if name == FILE_NAME || error.kind() != ErrorKind::NotFound => return Err(fault(error)),
                    Err(_) => {}
                }
            }
            if state(directory) == before {
                return Ok(copy);
            }
        }
        Err(HistoryError::InUse { path: directory.join(FILE_NAME) })
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn names() -> [String; 3] {
    ["", "-wal", "-journal"].map(|end| format!("{FILE_NAME}{end}"))
}

/// Lengths and times of the last changes, by which a copy is known to be of one moment.
fn state(directory: &Path) -> [Option<(u64, i64, i64)>; 3] {
    let of = |found: Metadata| (found.len(), found.mtime(), found.mtime_nsec());
    names().map(|name| std::fs::metadata(directory.join(name)).ok().map(of))
}
