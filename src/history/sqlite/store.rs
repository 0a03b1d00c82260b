//! The store behind its lock, and the one way in which it is changed.
//!
//! A change is made in a transaction that is durable when it returns. Where the disk does not take it, a *gap* begins:
//! the changes are kept in memory and made in a transaction that stays open, so that readers, who use the same
//! connection, see them. [`Sqlite::write_waiting`](super::Sqlite::write_waiting) tries to commit it; if that fails,
//! the changes are made again, in their order, in the next.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::Instant;

use rusqlite::{Connection, TransactionBehavior};

use super::damage::Damage;
use super::data_file::{FILE_NAME, Place};
use super::fault::is_passing;
use super::open;
use super::outbox;
use super::pending_writes::Gap;
use super::reading::Reading;
use super::write_op::Entry;
use crate::history::error::HistoryError;
use crate::history::settled::Written;
use crate::history::usage::{Dropped, Limits, Waiting};
use crate::lock::lock;

/// Runs and their curve points. Names are always bound as parameters, never formatted into SQL.
pub struct Sqlite {
    store: Mutex<Inner>,
    /// A copy that is read without waiting for the store.
    waiting: Mutex<Waiting>,
    damage: Mutex<Damage>,
    /// Names of unfinished runs that were declared since the history was opened.
    declared: Mutex<HashSet<String>>,
    pub(super) limits: Limits,
}

pub(super) struct Inner {
    pub connection: Connection,
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
    /// Entries of the outbox that were removed before they were sent, and when that was logged last.
    pub unsent: u64,
    pub told_unsent: Option<Instant>,
}

impl Sqlite {
    /// Opens the history in `directory`, which is created if absent; without a directory the history lives in memory.
    /// A new history on a full disk begins in memory and is written when there is room. Errors when the file is in use,
    /// cannot be written, is damaged, is not a history or has a newer schema.
    pub fn open(directory: Option<&Path>, limits: Limits) -> Result<Self, HistoryError> {
        let store = Inner::open(directory)?;
        let (waiting, damage, declared) = Default::default();
        let history = Self { store: Mutex::new(store), waiting, damage, declared, limits };
        {
            let store = history.store();
            history.note(&store);
        }
        Ok(history)
    }

    /// A poisoned lock is safe to use: the transaction of the caller that panicked rolled back when it was dropped.
    pub(super) fn store(&self) -> MutexGuard<'_, Inner> {
        lock(&self.store)
    }

    /// The store, unless it is in use.
    pub(super) fn free_store(&self) -> Option<MutexGuard<'_, Inner>> {
        match self.store.try_lock() {
            Ok(store) => Some(store),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn damage(&self) -> MutexGuard<'_, Damage> {
        lock(&self.damage)
    }

    pub(super) fn declared(&self) -> MutexGuard<'_, HashSet<String>> {
        lock(&self.declared)
    }

    /// Returns the state as of the last change. Waits for no reader or writer.
    pub(super) fn noted(&self) -> Waiting {
        lock(&self.waiting).clone()
    }

    pub(super) fn reading<'a>(&'a self, store: &'a Inner) -> Reading<'a> {
        Reading { connection: &store.connection, noted: &self.damage, open: &self.declared }
    }

    /// Reads while nothing changes.
    pub(super) fn read<T>(
        &self,
        read: impl FnOnce(&Reading<'_>) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let store = self.store();
        read(&self.reading(&store))
    }

    /// Makes a change and applies the size limit. See [`Inner::write`].
    pub(super) fn write<T>(
        &self,
        apply: impl Fn(&Connection) -> Result<T, HistoryError>,
        entry: impl FnOnce() -> Entry,
    ) -> Result<(T, bool), HistoryError> {
        let mut store = self.store();
        let written = store.write(apply, entry);
        if written.as_ref().is_ok_and(|(_, durable)| *durable)
            && let Err(error) = store.retain(&self.limits, &self.declared())
        {
            tracing::error!(%error, "the size limit of the history could not be applied");
        }
        self.note(&store);
        written
    }

    pub(super) fn note(&self, store: &Inner) {
        let gap = store.gap.as_ref();
        let state = Waiting {
            why: gap.map(|gap| gap.why.clone()),
            entries: gap.map_or(0, Gap::len) as u64,
            bytes: gap.map_or(0, Gap::bytes) as u64,
            refused: store.refused,
            ..Waiting::default()
        };
        *lock(&self.waiting) = state;
    }
}

impl Inner {
    fn open(directory: Option<&Path>) -> Result<Self, HistoryError> {
        let (dropped, told) = Default::default();
        let mut store = Self {
            connection: open::memory()?,
            dropped,
            told,
            place: None,
            directory: directory.map(Path::to_owned),
            gap: None,
            refused: 0,
            copy_of: None,
            has_outbox: false,
            unsent: 0,
            told_unsent: None,
        };
        let Some(directory) = directory else { return Ok(store) };
        match open::open(directory) {
            Ok((connection, place)) => (store.connection, store.place) = (connection, Some(place)),
            Err(HistoryError::Full) if open::is_absent(directory) => {
                let why = format!("{} cannot be created: the disk is full", directory.join(FILE_NAME).display());
                tracing::error!("the history goes on in memory: {why}");
                store.gap = Some(Gap::new(why, true));
            }
            Err(error) => return Err(error),
        }
        Ok(store)
    }

    /// Treats the directory as one on a network file system.
    #[cfg(test)]
    pub fn move_to_network(&mut self) {
        self.connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
        self.place.as_mut().unwrap().move_to_network();
    }

    /// Creates the outbox, here and in every file that is opened later. Where the disk does not take it, a gap begins.
    pub fn begin_outbox(&mut self) -> Result<(), HistoryError> {
        self.has_outbox = true;
        if self.gap.is_some() {
            return outbox::create(&self.connection);
        }
        match self.commit(outbox::create) {
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
            None => self.commit(apply),
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
        let entries = self.gap.iter().flat_map(|gap| gap.entries().take(gap.len().saturating_sub(1)));
        entries.filter_map(Entry::point).any(|point| (&*point.run, &*point.split, point.step) == (run, split, step))
    }

    /// Makes a change. Returns what `apply` returns, and whether it is durable; if not, `entry` makes it again later.
    pub fn write<T>(
        &mut self,
        apply: impl Fn(&Connection) -> Result<T, HistoryError>,
        entry: impl FnOnce() -> Entry,
    ) -> Result<(T, bool), HistoryError> {
        if let Some(path) = self.copy_of.clone() {
            return Err(HistoryError::Unwritable { path, source: "this user can only read it here".into() });
        }
        if self.gap.is_none() {
            match self.commit(&apply) {
                Ok(value) => match self.check() {
                    Ok(()) => return Ok((value, true)),
                    Err(detached) => {
                        self.begin_gap(&detached);
                        self.gap_mut().keep(entry());
                        return Ok((value, false));
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
        let value = apply(&savepoint)?;
        savepoint.commit()?;
        self.gap_mut().keep(entry);
        Ok((value, false))
    }

    /// The journal of a transaction that stays open.
    fn open_journal(&self) -> &'static str {
        if self.place.as_ref().is_some_and(|place| place.remote) { "MEMORY" } else { "WAL" }
    }

    fn commit<T>(&mut self, apply: impl Fn(&Connection) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let transaction = self.connection.transaction()?;
        let value = apply(&transaction)?;
        transaction.commit()?;
        if let Some(place) = &mut self.place {
            place.note_log();
        }
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
        for entry in gap.entries() {
            apply_again(&self.connection, entry)?;
        }
        Ok(())
    }

    /// Tries to write what waits, unless that is not due `now`.
    pub(super) fn write_waiting(&mut self, now: Option<Instant>) -> Vec<Written> {
        if self.gap.is_none() {
            match self.check() {
                Ok(()) => return Vec::new(),
                Err(detached) => self.begin_gap(&detached),
            }
        }
        if now.is_some_and(|now| !self.gap_mut().is_due(now)) {
            return Vec::new();
        }
        match self.try_again() {
            Ok(()) => {
                let Some(gap) = self.gap.take() else { return Vec::new() };
                tracing::info!(changes = gap.len(), bytes = gap.bytes(), "the history can be written again");
                gap.written()
            }
            Err(error) => {
                self.gap_mut().put_off(error.to_string());
                // Readers see what waits again; if not even that is possible, the next change tries once more.
                if !self.gap_mut().unopened {
                    let _ = self.begin_again(self.open_journal());
                }
                Vec::new()
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
        if let Some(place) = &mut self.place {
            place.note_log();
        }
        self.check()
    }

    /// Errors unless the open file is the one in its directory.
    fn check(&self) -> Result<(), HistoryError> {
        self.place.as_ref().map_or(Ok(()), Place::check)
    }

    /// Opens the file for the first time and makes all changes in it.
    fn open_at_last(&mut self) -> Result<(), HistoryError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        let (mut connection, mut place) = open::open(directory)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if self.has_outbox {
            outbox::create(&transaction)?;
        }
        for entry in self.gap.iter().flat_map(Gap::entries) {
            apply_again(&transaction, entry)?;
        }
        transaction.commit()?;
        place.note_log();
        (self.connection, self.place) = (connection, Some(place));
        Ok(())
    }
}

/// Makes a change that succeeded before. Errors where it may succeed later; otherwise it is lost alone.
fn apply_again(connection: &Connection, entry: &Entry) -> Result<(), HistoryError> {
    match entry.apply(connection) {
        Err(error) if is_passing(&error) => Err(error),
        Err(error) => {
            tracing::error!(%error, "a change of the history that had to wait could not be made");
            Ok(())
        }
        Ok(()) => Ok(()),
    }
}
