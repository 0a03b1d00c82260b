//! Connections that are kept for the next call.

use std::ops::{Deref, DerefMut};
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

/// A connection, which goes back to the pool when it is dropped, unless it is broken.
pub(super) struct Borrowed<'a> {
    pool: &'a Pool,
    link: Option<Link>,
}

impl Pool {
    pub fn new(connector: Connector) -> Self {
        Self { connector, kept: Mutex::default(), returned: Condvar::new() }
    }

    /// Closes the idle connections: one of them has broken, and the others are as old.
    pub fn clear(&self) {
        lock(&self.kept).idle.clear();
    }

    /// An idle connection, or a new one. Errors say why there is none.
    pub fn link(&self) -> Result<Borrowed<'_>, HistoryError> {
        let kept = lock(&self.kept);
        let waited = self.returned.wait_timeout_while(kept, PATIENCE, |kept| kept.used >= MOST);
        let (mut kept, timeout) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
        if timeout.timed_out() {
            let why = format!("its {MOST} connections have been in use for {} s", PATIENCE.as_secs());
            return Err(HistoryError::Unreachable { why });
        }
        kept.used += 1;
        kept.idle.retain(|(_, since)| since.elapsed() < IDLE);
        let link = kept.idle.pop().map(|(link, _)| link);
        drop(kept);
        // Given back also where the connection fails.
        let mut borrowed = Borrowed { pool: self, link };
        if borrowed.link.is_none() {
            borrowed.link = Some(self.connector.link()?);
        }
        Ok(borrowed)
    }
}

impl Deref for Borrowed<'_> {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("a connection is taken when it is dropped")
    }
}

impl DerefMut for Borrowed<'_> {
    fn deref_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("a connection is taken when it is dropped")
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        let mut kept = lock(&self.pool.kept);
        kept.used -= 1;
        if let Some(link) = self.link.take().filter(|link| !link.is_broken()) {
            kept.idle.push((link, Instant::now()));
        }
        self.pool.returned.notify_one();
    }
}
