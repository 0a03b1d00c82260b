//! Connections that are kept for the next call.

use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use super::connect::Connector;
use super::link::Link;
use crate::history::error::HistoryError;
use leakage::lock::lock;

/// Connections of one process: they are the scarcest thing that a server shares.
const MOST: usize = 10;
/// How long a call waits for a connection.
const PATIENCE: Duration = Duration::from_secs(10);
/// An idle connection is closed after this long.
const IDLE: Duration = Duration::from_secs(300);

pub(super) struct Pool {
    connector: Connector,
    kept: Mutex<Kept>,
    returned: Condvar,
}

#[derive(Default)]
struct Kept {
    /// The most recently used last.
    idle: Vec<(Link, Instant)>,
    /// Connections that calls use.
    used: usize,
}

/// A place among the connections that calls use, which is free again when it is dropped, also if the call panics.
struct Place<'a>(&'a Pool);

impl Pool {
    pub fn new(connector: Connector) -> Self {
        Self { connector, kept: Mutex::default(), returned: Condvar::new() }
    }

    /// Closes the idle connections: one of them has broken, and the others are as old.
    pub fn clear(&self) {
        lock(&self.kept).idle.clear();
    }

    /// Calls `call` with an idle connection, or a new one. Errors also say why there is none.
    pub fn with<T>(&self, call: impl FnOnce(&mut Link) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        let (_place, idle) = self.take()?;
        let mut link = idle.map_or_else(|| self.connector.link(), Ok)?;
        let answer = call(&mut link);
        if !link.is_broken() {
            lock(&self.kept).idle.push((link, Instant::now()));
        }
        answer
    }

    /// Waits for a place among the connections. Returns it, and an idle connection if there is one.
    fn take(&self) -> Result<(Place<'_>, Option<Link>), HistoryError> {
        let kept = lock(&self.kept);
        let waited = self.returned.wait_timeout_while(kept, PATIENCE, |kept| kept.used >= MOST);
        let (mut kept, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if timeout.timed_out() {
            let why = format!("its {MOST} connections have been in use for {} s", PATIENCE.as_secs());
            return Err(HistoryError::Unreachable { why });
        }
        kept.used += 1;
        kept.idle.retain(|(_, since)| since.elapsed() < IDLE);
        Ok((Place(self), kept.idle.pop().map(|(link, _)| link)))
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        lock(&self.0.kept).used -= 1;
        self.0.returned.notify_one();
    }
}
