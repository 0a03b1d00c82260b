//! An open file of a local file system: one connection writes it, others read it, and a thread brings commits to the disk.
//!
//! A commit is in the write-ahead log, where readers see it, before it is on the disk. Nobody holds a lock during a sync,
//! and one sync serves all commits that were made before it began: they wait for it together, but not for long. A commit
//! that is still not on the disk by then is reported later, once it is.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};

use super::tables::STATEMENTS;
use crate::history::error::HistoryError;
use crate::history::settled::Written;
use crate::history::usage::{SLOW, Waiting};
use leakage::lock::lock;

/// How long a change waits for the disk before its caller goes on.
pub(super) const BRIEFLY: Duration = Duration::from_millis(100);
/// How long those wait that must know.
pub(super) const LONG: Duration = Duration::from_secs(5);

/// Connections that are kept for the next readers.
const KEPT: usize = 4;

/// Bytes of the log above which it is moved into the file, while changes go on.
pub(super) const MOVED_ABOVE: u64 = 4 << 20;
/// Bytes above which changes wait until it has been moved.
const LONGEST: u64 = 16 << 20;

/// Pause between a sync that failed and the next.
const RETRY: Duration = Duration::from_secs(1);

/// How long a slow sync is remembered.
const REMEMBERED: Duration = Duration::from_secs(30);

/// See the [module](self).
pub(super) struct Wal {
    file: PathBuf,
    log: File,
    idle: Mutex<Vec<Connection>>,
    state: Mutex<State>,
    /// Notified at each commit, and after each sync.
    changed: Condvar,
    syncer: Mutex<Option<JoinHandle<()>>>,
    /// Holds the directory's lock, which keeps other processes out.
    _directory: File,
}

#[derive(Default)]
struct State {
    /// Commits so far: each has a number.
    made: u64,
    /// Commits that are on the disk.
    synced: u64,
    /// The others, oldest first.
    behind: VecDeque<Commit>,
    /// The reports of commits that have reached the disk after their callers went on.
    written: Vec<Written>,
    /// How long the last sync took, and when it ended.
    last: Option<(Duration, Instant)>,
    failed: Option<Failed>,
    stopping: bool,
}

struct Commit {
    number: u64,
    at: Instant,
    reports: Vec<Written>,
    /// Its caller waits, and needs no report.
    awaited: bool,
}

/// A sync that failed.
struct Failed {
    why: String,
    at: Instant,
    /// It is to be tried again.
    again: bool,
}

impl Wal {
    /// Starts to bring the commits of an open file to the disk. What an earlier process has left in its log is there when
    /// this returns. `directory` holds the lock.
    pub fn start(file: PathBuf, directory: File) -> Result<Arc<Self>, HistoryError> {
        let fault = |source| HistoryError::Directory { path: file.clone(), source };
        let log = OpenOptions::new().read(true).write(true).open(log_of(&file)).map_err(fault)?;
        log.sync_data().map_err(fault)?;
        let checkpointer = checkpointer(&file)?;
        let (idle, state, changed, syncer) = Default::default();
        let wal = Arc::new(Self { file: file.clone(), log, idle, state, changed, syncer, _directory: directory });
        let syncing = Arc::clone(&wal);
        let syncer = thread::Builder::new().name("history".into()).spawn(move || syncing.sync(&checkpointer));
        *lock(&wal.syncer) = Some(syncer.map_err(fault)?);
        Ok(wal)
    }

    /// Calls `read` with a connection of its own. Never waits for a sync.
    pub fn read<T>(&self, read: impl FnOnce(&Connection) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let idle = lock(&self.idle).pop();
        let connection = idle.map_or_else(|| reader(&self.file), Ok)?;
        // Everything that one call reads is of one moment.
        let transaction = connection.unchecked_transaction()?;
        let found = read(&transaction);
        drop(transaction);
        let mut idle = lock(&self.idle);
        if idle.len() < KEPT {
            idle.push(connection);
        }
        found
    }

    /// Notes a commit and what to report of it if its caller does not [wait](Self::wait). Returns its number.
    pub fn committed(&self, reports: Vec<Written>, awaited: bool) -> u64 {
        let mut state = lock(&self.state);
        state.made += 1;
        let number = state.made;
        state.behind.push_back(Commit { number, at: Instant::now(), reports, awaited });
        self.changed.notify_all();
        number
    }

    /// Waits until a commit is on the disk, until the oldest that is not has waited for `patience`. Returns whether it is;
    /// if not, it is reported later.
    pub fn wait(&self, number: u64, patience: Duration) -> bool {
        if self.reaches(number, patience) {
            return true;
        }
        let mut state = lock(&self.state);
        if let Some(commit) = state.behind.iter_mut().find(|commit| commit.number == number) {
            commit.awaited = false;
        }
        state.synced >= number
    }

    /// Waits until all commits so far are on the disk. Returns whether they are.
    pub fn all_reach(&self, patience: Duration) -> bool {
        let number = lock(&self.state).made;
        self.reaches(number, patience)
    }

    fn reaches(&self, number: u64, patience: Duration) -> bool {
        let mut state = lock(&self.state);
        loop {
            let Some(oldest) = state.behind.front().filter(|oldest| oldest.number <= number) else { return true };
            let left = patience.saturating_sub(oldest.at.elapsed());
            if left.is_zero() || state.failed.is_some() {
                return false;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The commits that have reached the disk after their callers went on.
    pub fn take_written(&self) -> Vec<Written> {
        std::mem::take(&mut lock(&self.state).written)
    }

    /// Adds what waits here.
    pub fn add_to(&self, waiting: &mut Waiting) {
        let state = lock(&self.state);
        if let Some(oldest) = state.behind.front() {
            waiting.unwritten = waiting.unwritten.max(oldest.at.elapsed());
        }
        let recent = state.last.filter(|(_, at)| at.elapsed() < REMEMBERED).map_or(Duration::ZERO, |(took, _)| took);
        waiting.slow = Some(waiting.unwritten.max(recent)).filter(|slow| *slow >= SLOW);
        if let Some(failed) = &state.failed {
            waiting.why.get_or_insert_with(|| failed.why.clone());
            waiting.entries += state.behind.len() as u64;
        }
    }

    /// Tries a failed sync again, unless that is not due. Nothing may be committed meanwhile.
    pub fn retry(&self, at_once: bool) {
        let mut state = lock(&self.state);
        let Some(failed) = state.failed.as_mut().filter(|failed| at_once || failed.at.elapsed() >= RETRY) else {
            return;
        };
        // The system may have dropped what it could not write, or take it for written: it gets all of it once more.
        failed.again = self.rewrite().map_err(|error| failed.why = error.to_string()).is_ok();
        failed.at = Instant::now();
        self.changed.notify_all();
    }

    fn rewrite(&self) -> std::io::Result<()> {
        let mut bytes = vec![0; self.log.metadata()?.len() as usize];
        self.log.read_exact_at(&mut bytes, 0)?;
        self.log.write_all_at(&bytes, 0)
    }

    /// Ends the thread after a last sync.
    pub fn stop(&self) {
        lock(&self.state).stopping = true;
        self.changed.notify_all();
        if let Some(syncer) = lock(&self.syncer).take() {
            // Fails only if it panicked.
            let _ = syncer.join();
        }
        lock(&self.idle).clear();
    }

    /// Brings commits to the disk until the file is closed.
    fn sync(&self, checkpointer: &Connection) {
        let mut moved = 0;
        while let Some(number) = self.next() {
            let began = Instant::now();
            let synced = self.log.sync_data();
            let mut state = lock(&self.state);
            state.last = Some((began.elapsed(), Instant::now()));
            match synced {
                Ok(()) => state.reach(number),
                Err(error) => {
                    let why = format!("history {}: cannot be written: {error}", self.file.display());
                    if state.failed.is_none() {
                        tracing::error!("{why}");
                    }
                    state.failed = Some(Failed { why, at: Instant::now(), again: false });
                }
            }
            self.changed.notify_all();
            drop(state);
            let length = self.log.metadata().map_or(0, |log| log.len());
            if length > MOVED_ABOVE && length != moved {
                moved = length;
                // The log alone is as durable, and grows until the next attempt.
                let how = if length > LONGEST { "RESTART" } else { "PASSIVE" };
                let _ = checkpointer.query_row(&format!("PRAGMA wal_checkpoint({how})"), [], |_| Ok(()));
            }
        }
    }

    /// Waits for commits to sync. Returns the number of the newest; `None` where no more come.
    fn next(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        loop {
            if state.synced < state.made && state.failed.as_ref().is_none_or(|failed| failed.again) {
                return Some(state.made);
            }
            if state.stopping {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl State {
    /// The commits up to a number are on the disk.
    fn reach(&mut self, number: u64) {
        if self.failed.take().is_some() {
            tracing::info!("the history can be written again");
        }
        self.synced = number;
        let reached = self.behind.partition_point(|commit| commit.number <= number);
        let left = self.behind.drain(..reached).filter(|commit| !commit.awaited);
        self.written.extend(left.flat_map(|commit| commit.reports));
    }
}

/// The path of a file's write-ahead log.
fn log_of(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push("-wal");
    path.into()
}

/// Opens a connection that reads beside the one that writes.
fn reader(file: &Path) -> Result<Connection, HistoryError> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    Ok(connection)
}

/// Opens a connection that moves the log into the file.
fn checkpointer(file: &Path) -> Result<Connection, HistoryError> {
    let connection = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.busy_timeout(BRIEFLY)?;
    Ok(connection)
}
