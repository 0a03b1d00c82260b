//! The pool of connections, and the two ways in which it is used: to read and to change.

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use r2d2::{Pool, PooledConnection};

use super::cache::Cached;
use super::connect::{Address, Connector};
use super::directory::Directory;
use super::fault::is_passing;
use super::link::Link;
use super::recent::Newest;
use super::schema;
use crate::history::error::HistoryError;
use crate::history::usage::Dropped;
use crate::lock::lock;

/// The project of runs whose token names none.
pub const DEFAULT_PROJECT: &str = "default";

/// Connections of one process: they are the scarcest thing that a server shares.
const MOST_CONNECTIONS: u32 = 10;
/// How long a call waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// An idle connection is closed after this long.
const IDLE: Duration = Duration::from_secs(300);

/// Runs and their curve points in a database of PostgreSQL.
pub struct Postgres {
    pool: Pool<Connector>,
    /// Why the last call could not reach the database.
    unreachable: Mutex<Option<String>>,
    /// The counts of what this process has removed.
    dropped: Mutex<Dropped>,
    /// The project of runs that no source declares.
    project: String,
    pub(super) runs: Cached<Directory>,
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
        let connector = Connector::new(&address)?;
        // The first connection says best what is wrong, and a pool would try again until its patience ends.
        schema::create(&mut connector.link()?, &address.shown)?;
        let pool = Pool::builder()
            .max_size(MOST_CONNECTIONS)
            .min_idle(Some(0))
            .idle_timeout(Some(IDLE))
            .connection_timeout(PATIENCE)
            .test_on_check_out(false)
            .error_handler(Box::new(r2d2::NopErrorHandler))
            .build_unchecked(connector);
        let project = DEFAULT_PROJECT.to_owned();
        let (unreachable, dropped, runs, newest) = Default::default();
        Ok(Self { pool, unreachable, dropped, project, runs, newest })
    }

    /// Declares runs for this project; without it, for [`DEFAULT_PROJECT`].
    pub fn in_project(self, project: &str) -> Self {
        Self { project: project.to_owned(), ..self }
    }

    pub(super) fn project(&self) -> &str {
        &self.project
    }

    /// Reads in one snapshot.
    pub(super) fn read<T>(
        &self,
        mut read: impl FnMut(&mut Link) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        self.twice(|link| link.transaction("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", &mut read))
    }

    /// Makes a change, in a transaction that is durable when this returns. A change that fails for a passing reason is made
    /// again, once, so it must not matter whether it was made before.
    pub(super) fn write<T>(
        &self,
        mut change: impl FnMut(&mut Link) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        self.twice(|link| link.transaction("BEGIN", &mut change))
    }

    fn twice<T>(&self, mut call: impl FnMut(&mut Link) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let first = self.link().and_then(|mut link| call(&mut link));
        let result = match first {
            Err(error) if is_passing(&error) => self.link().and_then(|mut link| call(&mut link)),
            first => first,
        };
        let why = result.as_ref().err().filter(|error| is_passing(error)).map(ToString::to_string);
        *lock(&self.unreachable) = why;
        result
    }

    fn link(&self) -> Result<PooledConnection<Connector>, HistoryError> {
        self.pool.get().map_err(|timeout| self.pool_error(&timeout))
    }

    fn pool_error(&self, timeout: &r2d2::Error) -> HistoryError {
        HistoryError::Unreachable { why: timeout.to_string() }
    }

    /// Returns the counts of what this process has removed because there was too much of it.
    pub(super) fn dropped(&self) -> MutexGuard<'_, Dropped> {
        lock(&self.dropped)
    }

    /// Why the database could not be reached when it was last asked.
    pub(super) fn unreachable(&self) -> Option<String> {
        lock(&self.unreachable).clone()
    }
}
