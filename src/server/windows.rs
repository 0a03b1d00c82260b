//! Rolling windows in the data directory, so that a restarted sidecar continues them exactly.
//!
//! Each window is a file of its own: a checksum, and the sample as postcard writes it. It is written beside the one before and
//! renamed, and both the file and its directory are synced. What cannot be read is ignored, and counted. Files hold rows of
//! the job's data: only their owner can read them.

use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::history::Store;
use leakage::run::SplitKey;
use leakage::sample::{Checksum, SavedWindow, client_hash};

use super::metrics::Metrics;

/// Changes whenever a saved sample has another form.
const FORMAT: u32 = 1;
/// The folder in the data directory.
const FOLDER: &str = "windows";

/// The windows of one data directory; without one, nothing is saved.
#[derive(Clone)]
pub struct Windows {
    folder: Option<PathBuf>,
    metrics: Metrics,
}

/// The content of a file.
#[derive(Serialize, Deserialize)]
struct Saved<W> {
    format: u32,
    /// The names of all tensors: columns are stored by their place in the table.
    tensors: u64,
    run: String,
    split: String,
    window: W,
}

impl Windows {
    pub fn new(data_dir: Option<&Path>, metrics: Metrics) -> Self {
        Self { folder: data_dir.map(|directory| directory.join(FOLDER)), metrics }
    }

    pub fn are_saved(&self) -> bool {
        self.folder.is_some()
    }

    /// Replaces the file of a split. Blocks.
    pub fn save(&self, key: &SplitKey, window: &SavedWindow) {
        let Some(folder) = self.of_run(&key.run) else { return };
        let (run, split) = (key.run.to_string(), key.split.to_string());
        let written = encode(&Saved { format: FORMAT, tensors: Checksum::WINDOW.of_tensors(), run, split, window })
            .and_then(|bytes| replace(&folder, &name(&key.split), &bytes));
        match written {
            // The run ended meanwhile, and its folder was removed.
            Err(error) if is_removed(&folder, &error) => {}
            // No point is lost: the next window is saved as a whole.
            Err(error) => {
                tracing::warn!(run = %key.run, split = %key.split, %error, "a rolling window could not be saved");
            }
            Ok(()) => {}
        }
    }

    /// The saved windows of a run, by split. Blocks.
    pub fn load(&self, run: &str) -> Vec<(String, SavedWindow)> {
        let Some(files) = self.of_run(run).and_then(|folder| fs::read_dir(folder).ok()) else { return Vec::new() };
        let mut windows = Vec::new();
        for file in files.filter_map(Result::ok).map(|entry| entry.path()) {
            if file.extension().is_none_or(|extension| extension != "window") {
                continue;
            }
            match fs::read(&file).map_err(|error| error.to_string()).and_then(|bytes| decode(&bytes)) {
                Ok(Saved { run: of, split, window, .. }) if of == run => windows.push((split, window)),
                Ok(Saved { run: of, .. }) => self.ignored(&file, &format!("it is of run '{of}'")),
                Err(why) => self.ignored(&file, &why),
            }
        }
        windows
    }

    /// Counts a window that is not used.
    pub fn ignored(&self, file: &Path, why: &str) {
        self.metrics.windows_ignored.inc();
        tracing::warn!(file = %file.display(), why, "a saved rolling window was ignored");
    }

    /// Removes the windows of a run. Blocks.
    pub fn remove(&self, run: &str) {
        if let Some(folder) = self.of_run(run)
            && let Err(error) = fs::remove_dir_all(&folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(folder = %folder.display(), %error, "saved rolling windows could not be removed");
        }
    }

    /// Removes the windows that no run will continue: those of runs that are finished or not in the history, and those that
    /// were not written for `patience` and whose run nobody has declared since this process started. Blocks.
    pub fn remove_left(&self, history: &dyn Store, is_open: impl Fn(&str) -> bool, patience: Duration) {
        // Before the runs: the run of a window that is saved from now on may not be among them.
        let folders = self.folders();
        if folders.is_empty() {
            return;
        }
        let runs = match history.runs() {
            Ok(runs) => runs,
            Err(error) => {
                tracing::warn!(%error, "saved rolling windows cannot be compared with the runs of the history");
                return;
            }
        };
        let of: HashMap<String, _> = runs.iter().map(|stored| (folder_name(&stored.run.name), stored)).collect();
        for folder in folders {
            let stored = folder.file_name().and_then(|name| of.get(name.to_str()?));
            let run = stored.map_or("", |stored| &stored.run.name);
            let why = match stored {
                None => "its run is not in the history",
                Some(_) if is_open(run) => continue,
                Some(stored) if stored.finished.is_some() => "its run has finished",
                Some(_) if silence(&folder) > patience => "nobody has sent to its run for too long",
                Some(_) => continue,
            };
            match fs::remove_dir_all(&folder) {
                Ok(()) => tracing::info!(run, folder = %folder.display(), why, "saved rolling windows were removed"),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(run, folder = %folder.display(), %error, "saved rolling windows could not be removed");
                }
            }
        }
    }

    /// The folders of all runs.
    fn folders(&self) -> Vec<PathBuf> {
        let entries = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
        let is_name = |name: &str| name.len() == 16 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        let ours = entries.filter(|entry| entry.file_name().to_str().is_some_and(is_name));
        ours.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
    }

    /// Names are data, never paths.
    fn of_run(&self, run: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(folder_name(run)))
    }
}

fn folder_name(run: &str) -> String {
    format!("{:016x}", client_hash(run))
}

/// Time since a file of the folder was written. None where the clock was set back.
fn silence(folder: &Path) -> Duration {
    let written = |path: &Path| fs::metadata(path).and_then(|metadata| metadata.modified()).ok();
    let files = fs::read_dir(folder).into_iter().flatten().flatten().filter_map(|entry| written(&entry.path()));
    let newest = files.max().or_else(|| written(folder));
    newest.and_then(|newest| newest.elapsed().ok()).unwrap_or_default()
}

fn name(split: &str) -> String {
    format!("{:016x}.window", client_hash(split))
}

fn encode<W: Serialize>(saved: &Saved<W>) -> io::Result<Vec<u8>> {
    let content = postcard::to_stdvec(saved).map_err(io::Error::other)?;
    Ok([&Checksum::WINDOW.of(&content).to_le_bytes()[..], &content].concat())
}

fn decode(bytes: &[u8]) -> Result<Saved<SavedWindow>, String> {
    let (sum, content) = bytes.split_at_checked(size_of::<u64>()).ok_or("it is cut off")?;
    if sum != Checksum::WINDOW.of(content).to_le_bytes() {
        return Err("it does not match its checksum".into());
    }
    let saved: Saved<SavedWindow> = postcard::from_bytes(content).map_err(|error| error.to_string())?;
    if (saved.format, saved.tensors) != (FORMAT, Checksum::WINDOW.of_tensors()) {
        return Err("it was written by a release with another format or other tensors".into());
    }
    Ok(saved)
}

/// Writes a file so that after a crash there is the old one or the new one. The data directory, two levels above the file,
/// is never created: it may be the mount point of a volume that comes back.
fn replace(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    for directory in [folder.parent(), Some(folder)].into_iter().flatten() {
        create_private(directory)?;
    }
    let unfinished = folder.join(format!("{name}.unfinished"));
    // One that a killed process left may have another mode.
    let _ = fs::remove_file(&unfinished);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&unfinished, folder.join(name))?;
    sync(folder)
}

/// Whether a folder was being removed while a file was written in it. The folder of all windows is still there.
fn is_removed(folder: &Path, error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound && folder.parent().is_some_and(Path::is_dir)
}

/// Creates a directory, if it is absent, in one that exists. Its entry is durable when this returns.
fn create_private(directory: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(directory) {
        Ok(()) => directory.parent().map_or(Ok(()), sync),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_window_whose_run_ends_while_it_is_saved_is_told_from_one_that_cannot_be_saved() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join(FOLDER).join("run");
        let (is_done, mut removals) = (AtomicBool::new(false), Vec::new());
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    let _ = fs::remove_dir_all(&folder);
                }
            });
            for _ in 0..2000 {
                if let Err(error) = replace(&folder, "split", b"rows") {
                    removals.push((is_removed(&folder, &error), error));
                }
            }
            is_done.store(true, Ordering::Relaxed);
        });
        assert!(!removals.is_empty() && removals.iter().all(|(is_told, _)| *is_told), "{removals:?}");
        // The place of all windows is gone, as of a volume that is no longer there.
        fs::remove_dir_all(directory.path()).unwrap();
        let error = replace(&folder, "split", b"rows").unwrap_err();
        assert!(!is_removed(&folder, &error) && !directory.path().exists(), "{error}");
    }
}
