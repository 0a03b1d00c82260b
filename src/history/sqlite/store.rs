//! The store behind its lock, and the one way in which it is changed.
//!
//! A change is made in a transaction, whose commit takes milliseconds: the lock is not held while the log is synced (see
//! [`Wal`]). Where the disk does not take it, a *gap* begins: the changes are kept in memory and made in a transaction that
//! stays open, so that readers, who use the same connection then, see them.
//! [`Sqlite::write_waiting`](super::Sqlite::write_waiting) tries to commit it; if that fails, the changes are made again,
//! in their order, in the next.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::data_file::{FILE_NAME, Place};
use super::fault::is_passing;
use super::open::{self, Mode, Opened};
use super::outbox;
use super::pending_writes::{Gap, PendingWrite};
use super::tables::used;
use super::wal::{BRIEFLY, Wal};
use crate::history::damage::{Damage, Session};
use crate::history::db::Db;
use crate::history::error::HistoryError;
use crate::history::read::Reading;
use crate::history::settled::Written;
use crate::history::usage::{Dropped, Limits, SLOW, Waiting};
use leakage::lock::lock;

/// Runs and their curve points. Names are always bound as parameters, never formatted into SQL.
pub struct Sqlite {
    store: Mutex<Inner>,
    /// Readers of the open file; without it they use the connection of the store.
    pub(super) wal: OnceLock<Arc<Wal>>,
    /// A copy that is read without waiting for the store.
    noted: Mutex<Noted>,
    session: Session,
    pub(super) limits: Limits,
}

/// The state of the store after the last change.
#[derive(Clone, Default)]
pub(super) struct Noted {
    pub waiting: Waiting,
    /// Readers use the connection of the store, which alone has what waits.
    in_gap: bool,
    pub gap_since: Option<Instant>,
    pub bytes: u64,
    pub dropped: Dropped,
}

/// Where a change is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Durable,
    /// In the log, as the commit of this number.
    Logged(u64),
    /// In memory.
    Waiting,
}

pub(super) struct Inner {
    pub connection: Connection,
    wal: Option<Arc<Wal>>,
    /// How long the last commit took, which a file without a [`Wal`] waits for.
    last_commit: Duration,
    pub dropped: Dropped,
    /// The value of `dropped` that was logged last, and when.
    pub told: (Dropped, Option<Instant>),
    place: Option<Place>,
    /// Where to open the history if it could not be opened yet.
    directory: Option<PathBuf>,
    gap: Option<Gap>,
    refused: u64,
    /// The file that is read in a copy, and cannot be changed.
    copy_of: Option<PathBuf>,
    /// Every file that is opened from now on has an outbox.
    has_outbox: bool,
}

impl Sqlite {
    /// Opens the history in `directory`, which is created if absent; without a directory the history lives in memory.
    /// A new history on a full disk begins in memory and is written when there is room. Errors when the file is in use,
    /// cannot be written, is damaged, is not a history or has a newer schema.
    pub fn open(directory: Option<&Path>, limits: Limits) -> Result<Self, HistoryError> {
        Self::of(Inner::open(directory, None)?, limits)
    }

    /// Opens the history in `directory` in one mode, whatever its file system.
    pub(super) fn open_as(directory: &Path, mode: &'static Mode, limits: Limits) -> Result<Self, HistoryError> {
        Self::of(Inner::open(Some(directory), Some(mode))?, limits)
    }

    fn of(store: Inner, limits: Limits) -> Result<Self, HistoryError> {
        let (wal, noted, session) = Default::default();
        let history = Self { store: Mutex::new(store), wal, noted, session, limits };
        history.note(&history.store());
        Ok(history)
    }

    /// A poisoned lock is safe to use: the transaction of the caller that panicked rolled back when it was dropped.
    pub(super) fn store(&self) -> MutexGuard<'_, Inner> {
        lock(&self.store)
    }

    pub(super) fn damage(&self) -> MutexGuard<'_, Damage> {
        lock(&self.session.damage)
    }

    pub(super) fn declared(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.session.declared)
    }

    /// Returns the state as of the last change. Waits for no reader or writer.
    pub(super) fn noted(&self) -> Noted {
        lock(&self.noted).clone()
    }

    /// Whether all that readers see is on the disk within `patience`.
    pub(super) fn is_durable(&self, patience: Duration) -> bool {
        self.wal.get().is_none_or(|wal| wal.all_reach(patience))
    }

    pub(super) fn reading_of<'a>(&'a self, connection: &'a Connection) -> Reading<'a> {
        Reading { db: Db::Sqlite(connection), session: &self.session }
    }

    /// Reads what is there at one moment.
    pub(super) fn reading<T>(
        &self,
        read: impl FnOnce(&mut Reading<'_>) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        match self.wal.get() {
            Some(wal) if !lock(&self.noted).in_gap => wal.read(|connection| read(&mut self.reading_of(connection))),
            _ => read(&mut self.reading_of(&self.store().connection)),
        }
    }

    /// Makes a change and applies the size limit. Returns what `apply` returns, and whether the change is durable. If not,
    /// [`write_waiting`](super::Store::write_waiting) returns `reports` once it is. Waits [briefly](BRIEFLY) for the disk.
    pub(super) fn write<T>(
        &self,
        apply: impl Fn(&mut Db<'_>) -> Result<T, HistoryError>,
        entry: impl FnOnce() -> PendingWrite,
        reports: Vec<Written>,
    ) -> Result<(T, bool), HistoryError> {
        let (written, wal) = {
            let mut store = self.store();
            let written = store.write(apply, entry, reports);
            if written.as_ref().is_ok_and(|(_, made)| *made != Made::Waiting)
                && let Err(error) = store.retain(&self.limits, &self.declared())
            {
                tracing::error!(%error, "the size limit of the history could not be applied");
            }
            self.note(&store);
            (written, store.wal.clone())
        };
        let (value, made) = written?;
        let durable = match (made, wal) {
            (Made::Logged(number), Some(wal)) => wal.wait(number, BRIEFLY),
            (made, _) => made == Made::Durable,
        };
        Ok((value, durable))
    }

    /// Makes a change that owns the little that it needs.
    pub(super) fn write_small(
        &self,
        change: impl Fn(&mut Db<'_>) -> Result<(), HistoryError> + Clone + Send + 'static,
    ) -> Result<(), HistoryError> {
        self.write(&change, || PendingWrite::of(0, change.clone()), Vec::new()).map(drop)
    }

    pub(super) fn note(&self, store: &Inner) {
        if let Some(wal) = &store.wal {
            self.wal.get_or_init(|| Arc::clone(wal));
        }
        let gap = store.gap.as_ref();
        let slow = Some(store.last_commit).filter(|took| *took >= SLOW);
        let waiting = Waiting {
            why: gap.map(|gap| gap.why.clone()),
            entries: gap.map_or(0, |gap| gap.entries.len()) as u64,
            bytes: gap.map_or(0, |gap| gap.bytes) as u64,
            refused: store.refused,
            slow,
            ..Waiting::default()
        };
        let mut noted = lock(&self.noted);
        let bytes = used(&store.connection).unwrap_or(noted.bytes);
        let gap_since = gap.filter(|gap| !gap.entries.is_empty()).map(|gap| gap.since);
        *noted = Noted { waiting, in_gap: gap.is_some(), gap_since, bytes, dropped: store.dropped };
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        if let Some(wal) = self.wal.get() {
            wal.stop();
        }
    }
}

impl Inner {
    fn open(directory: Option<&Path>, mode: Option<&Mode>) -> Result<Self, HistoryError> {
        let (dropped, told) = Default::default();
        let mut store = Self {
            connection: open::memory()?,
            wal: None,
            last_commit: Duration::ZERO,
            dropped,
            told,
            place: None,
            directory: directory.map(Path::to_owned),
            gap: None,
            refused: 0,
            copy_of: None,
            has_outbox: false,
        };
        let Some(directory) = directory else { return Ok(store) };
        match open::open(directory, mode) {
            Ok(opened) => store.take(opened),
            Err(HistoryError::Full) if open::is_absent(directory) => {
                let why = format!("{} cannot be created: the disk is full", directory.join(FILE_NAME).display());
                tracing::error!("the history goes on in memory: {why}");
                store.gap = Some(Gap::new(why, true));
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    fn take(&mut self, Opened { connection, place, wal }: Opened) {
        (self.connection, self.place, self.wal) = (connection, Some(place), wal);
    }

    /// Creates the outbox, here and in every file that is opened later. Where the disk does not take it, a gap begins.
    pub fn begin_outbox(&mut self) -> Result<(), HistoryError> {
        self.has_outbox = true;
        if self.gap.is_some() {
            return outbox::create(&self.connection);
        }
        match self.commit_alone(outbox::create) {
            Err(error) if self.place.is_some() && is_passing(&error) => {
                self.begin_gap(&error);
                self.begin_again(self.open_journal())
            }
            created => created,
        }
    }

    /// Changes the outbox alone. It is no change of the history, so nothing waits for a disk that does not take it.
    pub fn commit_outbox<T>(
        &mut self,
        apply: impl Fn(&Connection) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        match &self.gap {
            Some(gap) => Err(HistoryError::Unwritten { why: gap.why.clone() }),
            None => self.commit_alone(apply),
        }
    }

    /// Refuses every change from now on.
    pub fn is_copy_of(&mut self, path: PathBuf) {
        self.copy_of = Some(path);
    }

    pub fn is_waiting(&self) -> bool {
        self.gap.is_some()
    }

    /// Whether a point of this step is among the changes that wait, other than the newest change.
    pub fn has_waiting(&self, run: &str, split: &str, step: u64) -> bool {
        self.gap.as_ref().is_some_and(|gap| gap.has(run, split, step))
    }

    /// Makes a change. Returns what `apply` returns, and where the change is. If it waits, `entry` makes it again later.
    pub fn write<T>(
        &mut self,
        apply: impl Fn(&mut Db<'_>) -> Result<T, HistoryError>,
        entry: impl FnOnce() -> PendingWrite,
        reports: Vec<Written>,
    ) -> Result<(T, Made), HistoryError> {
        if let Some(path) = self.copy_of.clone() {
            return Err(HistoryError::Unwritable { path, source: "this user can only read it here".into() });
        }
        if self.gap.is_none() {
            match self.commit(|connection| apply(&mut Db::Sqlite(connection))) {
                Ok(value) => match self.check() {
                    Ok(()) => return Ok((value, self.logged(reports, true))),
                    Err(detached) => {
                        self.begin_gap(&detached);
                        self.gap_mut().keep(entry(), reports);
                        return Ok((value, Made::Waiting));
                    }
                },
                Err(error) if self.place.is_none() || !is_passing(&error) => return Err(error),
                Err(error) => self.begin_gap(&error),
            }
        }
        let entry = entry();
        if !self.gap_mut().has_room_for(&entry) {
            self.refused += 1;
            return Err(HistoryError::Unwritten { why: self.gap_mut().why.clone() });
        }
        if !self.gap_mut().unopened && self.connection.is_autocommit() {
            self.begin_again(self.open_journal())?;
        }
        let savepoint = self.connection.savepoint()?;
        let value = apply(&mut Db::Sqlite(&savepoint))?;
        savepoint.commit()?;
        self.gap_mut().keep(entry, reports);
        Ok((value, Made::Waiting))
    }

    /// Notes that a change was committed, whose caller waits for it or not.
    fn logged(&self, reports: Vec<Written>, awaited: bool) -> Made {
        self.wal.as_ref().map_or(Made::Durable, |wal| Made::Logged(wal.committed(reports, awaited)))
    }

    /// Makes a change that nobody waits for.
    pub fn commit_alone<T>(
        &mut self,
        apply: impl Fn(&Connection) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let value = self.commit(apply)?;
        self.logged(Vec::new(), false);
        Ok(value)
    }

    /// The journal of a transaction that stays open.
    fn open_journal(&self) -> &'static str {
        if self.place.as_ref().is_some_and(|place| place.remote) { "MEMORY" } else { "WAL" }
    }

    /// Begins a transaction that changes something. It waits here for the log to be moved: one that had read before it
    /// changes would be refused at once.
    pub(super) fn changing(&mut self) -> Result<Transaction<'_>, HistoryError> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    fn commit<T>(&mut self, apply: impl Fn(&Connection) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let transaction = self.changing()?;
        let value = apply(&transaction)?;
        let began = Instant::now();
        transaction.commit()?;
        self.last_commit = began.elapsed();
        Ok(value)
    }

    fn gap_mut(&mut self) -> &mut Gap {
        self.gap.get_or_insert_with(|| Gap::new(String::new(), false))
    }

    fn begin_gap(&mut self, error: &HistoryError) {
        tracing::error!(%error, "the history cannot be written: it goes on in memory");
        self.gap = Some(Gap::new(error.to_string(), false));
    }

    /// Opens a transaction and makes all changes that wait in it. `journal` is one of SQLite's modes.
    fn begin_again(&mut self, journal: &str) -> Result<(), HistoryError> {
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        // Nothing of the open transaction may reach the disk before its commit, which is what fails.
        self.connection.execute_batch("PRAGMA cache_spill = OFF")?;
        self.connection.pragma_update(None, "journal_mode", journal)?;
        self.connection.execute_batch("BEGIN IMMEDIATE")?;
        if self.has_outbox {
            outbox::create(&self.connection)?;
        }
        let Some(gap) = &self.gap else { return Ok(()) };
        for entry in &gap.entries {
            apply_again(&self.connection, entry)?;
        }
        Ok(())
    }

    /// Tries to write what waits, unless that is not due `now`. Returns what is durable, but for what the log reports.
    pub(super) fn write_waiting(&mut self, now: Option<Instant>) -> Vec<Written> {
        if let Some(wal) = &self.wal {
            wal.retry(now.is_none());
        }
        let Some(written) = self.close_gap(now) else { return Vec::new() };
        match &self.wal {
            Some(wal) => {
                wal.committed(written, false);
                Vec::new()
            }
            None => written,
        }
    }

    /// Commits what waits in a gap. Returns the reports of it; `None` where nothing was committed.
    fn close_gap(&mut self, now: Option<Instant>) -> Option<Vec<Written>> {
        if self.gap.is_none() {
            match self.check() {
                Ok(()) => return None,
                Err(detached) => self.begin_gap(&detached),
            }
        }
        if now.is_some_and(|now| !self.gap_mut().is_due(now)) {
            return None;
        }
        match self.try_again() {
            Ok(()) => {
                let gap = self.gap.take()?;
                tracing::info!(changes = gap.entries.len(), bytes = gap.bytes, "the history can be written again");
                Some(gap.reports)
            }
            Err(error) => {
                self.gap_mut().put_off(error.to_string());
                // Readers see what waits again; if not even that is possible, the next change tries once more.
                if !self.gap_mut().unopened {
                    let _ = self.begin_again(self.open_journal());
                }
                None
            }
        }
    }

    fn try_again(&mut self) -> Result<(), HistoryError> {
        if self.gap_mut().unopened {
            return self.open_at_last();
        }
        self.check()?;
        // A rollback journal must be on the disk before what it protects.
        if self.place.as_ref().is_some_and(|place| place.remote) {
            self.begin_again("DELETE")?;
        } else if self.connection.is_autocommit() {
            self.begin_again("WAL")?;
        }
        if let Err(error) = self.connection.execute_batch("COMMIT") {
            if !self.connection.is_autocommit() {
                self.connection.execute_batch("ROLLBACK")?;
            }
            return Err(error.into());
        }
        self.connection.execute_batch("PRAGMA cache_spill = ON")?;
        self.check()
    }

    /// Errors unless the open file is the one in its directory.
    fn check(&self) -> Result<(), HistoryError> {
        self.place.as_ref().map_or(Ok(()), Place::check)
    }

    /// Opens the file for the first time and makes all changes in it.
    fn open_at_last(&mut self) -> Result<(), HistoryError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let mut opened = open::open(directory, None)?;
        let transaction = opened.connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if self.has_outbox {
            outbox::create(&transaction)?;
        }
        for entry in self.gap.iter().flat_map(|gap| &gap.entries) {
            apply_again(&transaction, entry)?;
        }
        transaction.commit()?;
        self.take(opened);
        Ok(())
    }
}

/// Makes a change that succeeded before. Errors where it may succeed later; otherwise it is lost alone.
fn apply_again(connection: &Connection, entry: &PendingWrite) -> Result<(), HistoryError> {
    match (entry.apply)(&mut Db::Sqlite(connection)) {
        Err(error) if is_passing(&error) => Err(error),
        Err(error) => {
            tracing::error!(%error, "a change of the history that had to wait could not be made");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
