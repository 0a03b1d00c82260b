//! The places of curves: the sidecars that run, and the directories of those that do not.

use std::path::PathBuf;
use std::sync::Arc;

use crate::history::{ADDRESS_FILE, Sqlite, Store, histories, user_home};
use crate::server::peers::Remote;

use super::failure::Failure;

/// A directory in the user's data directory.
pub struct Place {
    pub directory: PathBuf,
    /// The gRPC and the HTTP port of the sidecar that uses it, unless it has gone without a word.
    pub stated: Option<[Remote; 2]>,
}

impl Place {
    pub fn open(&self) -> Result<Arc<dyn Store>, Failure> {
        let opened = Sqlite::open_to_read(&self.directory);
        Ok(Arc::new(opened.map_err(Failure::running)?))
    }
}

/// All directories of the user, the one written last first.
pub fn places() -> Vec<Place> {
    let directories = user_home().map(|home| histories(&home)).unwrap_or_default();
    directories.into_iter().map(place_of).collect()
}

pub fn place_of(directory: PathBuf) -> Place {
    let text = std::fs::read_to_string(directory.join(ADDRESS_FILE)).unwrap_or_default();
    let stated: Vec<Remote> = text.split_whitespace().filter_map(|address| address.parse().ok()).collect();
    Place { directory, stated: stated.try_into().ok() }
}

/// Returns the message for where neither a sidecar runs nor curves are kept.
pub fn nowhere() -> String {
    let home = user_home().map_or_else(|| "the user's data directory".to_owned(), |home| home.display().to_string());
    format!("no curves are kept below {home} (see --data-dir)")
}
