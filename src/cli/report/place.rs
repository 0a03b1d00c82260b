//! The file of a report: written whole, or not at all. A device or a pipe is written in place.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file that is written: a new one beside the one that it becomes, or what stands there if that is no regular file.
pub struct Page {
    path: PathBuf,
    /// `None` where it is written in place.
    partial: Option<PathBuf>,
    file: File,
}

impl Page {
    /// Errors when the place cannot be written.
    pub fn create(path: &Path) -> Result<Self, String> {
        let fault = |why: String| format!("--html: {} cannot be written: {why}", path.display());
        if path.file_name().is_none() || path.is_dir() {
            return Err(fault("is a directory".to_owned()));
        }
        // The target of a link is replaced, and not the link.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let in_place = std::fs::metadata(&path).is_ok_and(|found| !found.is_file());
        // With a name of its own, since that of the page may be as long as names can be.
        let partial = (!in_place).then(|| path.with_file_name(format!(".conceptwatch-report.{}", std::process::id())));
        let mut options = OpenOptions::new();
        options.write(true).create_new(!in_place);
        let file = options.open(partial.as_ref().unwrap_or(&path)).map_err(|e| fault(e.to_string()))?;
        Ok(Self { path, partial, file })
    }

    pub fn write(mut self, text: &str) -> Result<(), String> {
        let mut write = || {
            self.file.write_all(text.as_bytes())?;
            let Some(partial) = &self.partial else { return Ok(()) };
            self.file.sync_all()?;
            std::fs::rename(partial, &self.path)
        };
        write().map_err(|e| format!("--html: {} cannot be written: {e}", self.path.display()))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It has its final name already, or there is nothing left to do about it.
        if let Some(partial) = &self.partial {
            let _ = std::fs::remove_file(partial);
        }
    }
}
