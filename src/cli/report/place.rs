//! The file of a report: written whole, or not at all.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A new file beside the one that it becomes.
pub struct Page {
    path: PathBuf,
    partial: PathBuf,
    file: File,
}

impl Page {
    /// Errors when the place cannot be written.
    pub fn create(path: &Path) -> Result<Self, String> {
        let fault = |why: String| format!("--html: {} cannot be written: {why}", path.display());
        if path.file_name().is_none() || path.is_dir() {
            return Err(fault("is a directory".to_owned()));
        }
        // Of its own, since the name of the page may be as long as names can be.
        let partial = path.with_file_name(format!(".conceptwatch-report.{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&partial).map_err(|e| fault(e.to_string()))?;
        Ok(Self { path: path.to_owned(), partial, file })
    }

    pub fn write(mut self, text: &str) -> Result<(), String> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        let written = written.and_then(|()| std::fs::rename(&self.partial, &self.path));
        written.map_err(|e| format!("--html: {} cannot be written: {e}", self.path.display()))
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // It has its final name already, or there is nothing left to do about it.
        let _ = std::fs::remove_file(&self.partial);
    }
}
