//! The directories of curves, and the sidecars that use them.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::history::{ADDRESS_FILE, FILE_NAME, HistoryError, Sqlite, Store, histories, user_home};
use crate::server::peers::Remote;
use leakage::field_error::FieldError;

use super::failure::Failure;

/// How long a sidecar that ends may hold its curves after its ports are closed, and the pause between two attempts.
const ENDING: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_millis(100);

/// A directory of curves.
pub struct DataDir {
    pub directory: PathBuf,
    /// The gRPC and the HTTP port of the sidecar that uses it, unless it has gone without a word.
    pub stated: Option<[Remote; 2]>,
}

impl DataDir {
    pub fn at(directory: PathBuf) -> Self {
        let text = std::fs::read_to_string(directory.join(ADDRESS_FILE)).unwrap_or_default();
        let stated: Vec<Remote> = text.split_whitespace().filter_map(|address| address.parse().ok()).collect();
        Self { directory, stated: stated.try_into().ok() }
    }

    /// Opens the curves to read them, also while the sidecar that wrote them ends.
    pub fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let began = Instant::now();
        loop {
            match Sqlite::open_to_read(&self.directory) {
                Ok(history) => return Ok(Arc::new(history)),
                Err(HistoryError::InUse { .. }) if began.elapsed() < ENDING => thread::sleep(AGAIN),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// All directories in the user's data directory, the one written last first.
pub fn data_dirs() -> Vec<DataDir> {
    let directories = user_home().map(|home| histories(&home)).unwrap_or_default();
    directories.into_iter().map(DataDir::at).collect()
}

/// Errors unless the directory that an option names has curves.
pub fn check_curves(option: &str, directory: &Path) -> Result<(), FieldError> {
    match directory.join(FILE_NAME).is_file() {
        true => Ok(()),
        false => Err(FieldError::new(option, format!("{} has no {FILE_NAME}", directory.display()))),
    }
}

/// Returns the message for where neither a sidecar runs nor curves are kept.
pub fn nowhere() -> String {
    let home = user_home().map_or_else(|| "the user's data directory".to_owned(), |home| home.display().to_string());
    format!("no curves are kept below {home} (see --data-dir)")
}
