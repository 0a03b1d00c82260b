//! Histories for which nobody chose a directory: one for each sidecar of a machine, in the user's data directory.
//!
//! A directory is `HOST-N`, where N is the first number that no running sidecar uses, so the one that starts next goes on
//! with the history of the one before. In a directory that is in use stands how its sidecar is reached.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use super::data_file::FILE_NAME;
use super::store::Sqlite;
use crate::history::error::HistoryError;
use crate::history::usage::Limits;

/// The file that names the addresses of the sidecar that uses a directory, as `GRPC HTTP`.
pub const ADDRESS_FILE: &str = "address";

/// Sidecars of one machine and user that keep their curves.
const MOST: usize = 64;

/// How long a directory is waited for whose sidecar is about to stop or has just started.
const BRIEFLY: Duration = Duration::from_secs(8);
const PAUSE: Duration = Duration::from_millis(50);

/// `$XDG_DATA_HOME/conceptwatch`, or the system's place for a user's data; `None` without a home directory.
pub fn user_home() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let places = if cfg!(target_os = "macos") { "Library/Application Support" } else { ".local/share" };
    let data = absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(places)))?;
    Some(data.join("conceptwatch"))
}

/// The directories with a history below `home`, the one written last first.
pub fn histories(home: &Path) -> Vec<PathBuf> {
    let written = |directory: &Path| {
        let times =
            ["", "-wal"].map(|end| directory.join(format!("{FILE_NAME}{end}")).metadata().ok()?.modified().ok());
        times.into_iter().flatten().max().unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let entries = std::fs::read_dir(home).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<_> = entries.filter(|path| path.join(FILE_NAME).is_file()).collect();
    found.sort_by_cached_key(|path| (std::cmp::Reverse(written(path)), path.clone()));
    found
}

impl Sqlite {
    /// Opens the history in the first directory below `home` that no other process uses, and returns that directory. A
    /// history that cannot be read is passed over and left as it is.
    pub fn open_in(home: &Path, limits: Limits) -> Result<(Self, PathBuf), HistoryError> {
        let host = host();
        let began = Instant::now();
        let mut number = 1;
        loop {
            let directory = home.join(format!("{host}-{number}"));
            match Self::open(Some(&directory), limits) {
                Ok(history) => return Ok((history, directory)),
                Err(HistoryError::InUse { .. })
                    if !directory.join(ADDRESS_FILE).exists() && began.elapsed() < BRIEFLY =>
                {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Err(HistoryError::InUse { .. }) if number < MOST => {}
                Err(
                    error @ (HistoryError::Corrupt { .. }
                    | HistoryError::NotHistory { .. }
                    | HistoryError::OtherSchema { .. }),
                ) if number < MOST => tracing::error!(%error, "the curves go to another directory"),
                Err(error) => return Err(error),
            }
            number += 1;
        }
    }
}

/// The machine's name, as part of a file name.
fn host() -> String {
    let plain = |byte: u8| if byte.is_ascii_alphanumeric() || b"-_".contains(&byte) { char::from(byte) } else { '_' };
    match sysinfo::System::host_name() {
        Some(name) if !name.is_empty() => name.bytes().take(64).map(plain).collect(),
        _ => "localhost".to_owned(),
    }
}
