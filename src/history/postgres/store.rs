//! The database as it is used: to read and to change.

use std::sync::{Mutex, MutexGuard};

use super::connect::{Address, Connector};
use super::directory::Directory;
use super::fault::{is_passing, unwritable};
use super::link::Link;
use super::pool::Pool;
use super::recent::Newest;
use super::schema;
use crate::history::damage::Session;
use crate::history::db::Db;
use crate::history::error::HistoryError;
use crate::history::read::Reading;
use crate::history::run::DEFAULT_PROJECT;
use crate::history::store::Store;
use crate::history::usage::{Dropped, Unwritable, Waiting};
use leakage::lock::lock;

/// Runs and their curve points in a database of PostgreSQL.
pub struct Postgres {
    pool: Pool,
    /// Whether the last change was made, and why not.
    pub(super) health: Mutex<Waiting>,
    /// The counts of what this process has removed.
    dropped: Mutex<Dropped>,
    /// The project of runs that no source declares.
    pub(super) project: String,
    session: Session,
    pub(super) runs: Directory,
    pub(super) newest: Newest,
}

impl Postgres {
    /// Opens the database at `postgres://USER@HOST:PORT/DATABASE`, and creates its tables where there are none.
    ///
    /// The password comes from `PGPASSWORD`, or from the file that `PGPASSFILE` names or `~/.pgpass`; one in the address is
    /// refused. `sslmode` is `verify-full` or `disable`; the default is `verify-full` for hosts other than this one.
    /// `sslrootcert` names a file of certificates to trust in place of the system's.
    pub fn open(url: &str) -> Result<Self, HistoryError> {
        let address = Address::parse(url)?;
        let pool = Pool::new(Connector::new(&address)?);
        pool.with(|link| {
            link.check_settings()?;
            schema::create(link, &address.shown)
        })?;
        let project = DEFAULT_PROJECT.to_owned();
        let (health, dropped, session, runs, newest) = Default::default();
        Ok(Self { pool, health, dropped, project, session, runs, newest })
    }

    /// Declares runs for this project; without it, for [`DEFAULT_PROJECT`].
    pub fn in_project(self, project: &str) -> Self {
        Self { project: project.to_owned(), ..self }
    }

    /// Reads in one snapshot.
    pub(super) fn read<T>(
        &self,
        mut read: impl FnMut(&mut Link) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let found = self.twice(|link| link.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &mut read));
        if let Err(error @ (HistoryError::Unreachable { .. } | HistoryError::Denied { .. })) = &found {
            self.note(Some(error));
        }
        found
    }

    /// As [`read`](Self::read), with what reads both engines.
    pub(super) fn reading<T>(
        &self,
        mut read: impl FnMut(&mut Reading<'_>) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        self.read(|link| read(&mut Reading { db: Db::Postgres(link), session: &self.session }))
    }

    /// Makes a change, in a transaction that is durable when this returns. A change that fails for a passing reason is made
    /// again, once, so it must not matter whether it was made before.
    pub(super) fn write<T>(
        &self,
        mut change: impl FnMut(&mut Link) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        let made = self.twice(|link| link.transaction("BEGIN", &mut change));
        match &made {
            Ok(_) => self.note(None),
            Err(error) if unwritable(error).is_some() => self.note(Some(error)),
            // The change is at fault.
            Err(_) => {}
        }
        made
    }

    fn twice<T>(&self, mut call: impl FnMut(&mut Link) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        match self.pool.with(&mut call) {
            Err(error) if is_passing(&error) => {
                self.pool.clear();
                self.pool.with(call)
            }
            first => first,
        }
    }

    /// Writes something, so that [`waiting`](Store::waiting) is that of this moment.
    pub fn probe(&self) {
        let waiting = self.waiting();
        if waiting.kind == Unwritable::Full && waiting.why.is_some() {
            // A row may find room in a page that is there; this needs pages that are not.
            let mut room = |link: &mut Link| {
                link.batch(
                    "CREATE TABLE conceptwatch_room (filler bytea); ALTER TABLE conceptwatch_room ALTER filler SET STORAGE \
                     EXTERNAL; INSERT INTO conceptwatch_room VALUES (convert_to(repeat('x', 1048576), 'UTF8')); \
                     DROP TABLE conceptwatch_room",
                )
            };
            if let Err(error) = self.twice(|link| link.transaction("BEGIN", &mut room)) {
                return self.note(Some(&error));
            }
        }
        let written = self.write(|link| {
            link.execute(
                "INSERT INTO probe (id, filler) VALUES (1, convert_to(repeat('x', 4000), 'UTF8')) \
                 ON CONFLICT (id) DO UPDATE SET at = now()",
                &[],
            )
        });
        if let Err(error) = written {
            self.note(Some(&error));
        }
    }

    fn note(&self, error: Option<&HistoryError>) {
        let mut health = lock(&self.health);
        health.why = error.map(ToString::to_string);
        health.kind = error.and_then(unwritable).unwrap_or_default();
    }

    /// Returns the counts of what this process has removed because there was too much of it.
    pub(super) fn dropped(&self) -> MutexGuard<'_, Dropped> {
        lock(&self.dropped)
    }
}
