//! The history of a sidecar and the directory it is in, which says how this process is reached.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use crate::history::{ADDRESS_FILE, HistoryError, Limits, Sqlite};

use super::blocking::blocking;
use super::options::{Options, ServeError};

/// Opens the history, and notes its absolute directory in the options, also where they only have a home for it.
pub async fn open_history(options: &mut Options) -> Result<Arc<Sqlite>, ServeError> {
    let (directory, home) = (options.data_dir.clone(), options.data_home.clone());
    let limits = Limits { bytes: options.history_bytes };
    let opening = move || match (directory, home) {
        (None, Some(home)) => in_home(&home, limits),
        (directory, _) => Sqlite::open(directory.as_deref(), limits).map(|history| (history, directory)),
    };
    let (history, directory) = blocking(opening).await?;
    // Jobs in other working directories are told this path.
    options.data_dir = directory.map(|path| std::path::absolute(&path).unwrap_or(path));
    Ok(Arc::new(history))
}

/// A history below `home`; in memory where that cannot be written, since the job that started this process chose neither.
fn in_home(home: &Path, limits: Limits) -> Result<(Sqlite, Option<PathBuf>), HistoryError> {
    match Sqlite::open_in(home, limits) {
        Ok((history, directory)) => {
            tracing::info!(directory = %directory.display(), "curves are kept");
            Ok((history, Some(directory)))
        }
        Err(error) => {
            tracing::warn!(%error, "curves are in memory and end with this process");
            Ok((Sqlite::open(None, limits)?, None))
        }
    }
}

/// States in the data directory how this process is reached, for commands that read its curves.
pub fn state_address(directory: &Path, addresses: &str) {
    let path = directory.join(ADDRESS_FILE);
    // A file that a killed process left may be a link.
    let _ = std::fs::remove_file(&path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(addresses.as_bytes())) {
        tracing::warn!(%error, path = %path.display(), "cannot be written: commands do not find this sidecar's curves");
    }
}

/// Takes the statement back.
pub fn remove_address(directory: &Path) {
    // Fails if the directory is gone, and the statement with it.
    let _ = std::fs::remove_file(directory.join(ADDRESS_FILE));
}

/// Writes what waits, and moves the log of the history into its file as far as there is time, so that a copy of the file alone
/// has everything. Errors where changes are lost.
pub async fn close(history: Arc<Sqlite>, deadline: Instant) -> Result<(), HistoryError> {
    let closing = Arc::clone(&history);
    let closing = tokio::task::spawn_blocking(move || {
        closing.write_at_last()?;
        closing.empty_log()
    });
    // A disk that does not answer must not delay the end.
    let closed = match tokio::time::timeout_at(deadline.into(), closing).await {
        Ok(Ok(Ok(true))) => return Ok(()),
        Ok(Ok(Err(error @ HistoryError::Lost { .. }))) => Err(error),
        Ok(Ok(Err(error))) => {
            tracing::warn!(%error, "the log of the history stays beside its file");
            Ok(())
        }
        _ => {
            tracing::info!("the log of the history stays beside its file: there was no time to move it");
            history.all_written()
        }
    };
    // Closing the file would wait for the disk, too.
    std::mem::forget(history);
    closed
}
