//! A cache that each reading brings up to date: rows say when they changed, and only those that changed since are read.
//!
//! A transaction may commit after a later one, so a reading goes back by [`OVERLAP`]. Rows that are gone show in the number
//! of rows, and a database that was restored in an older newest change; then all is read again.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use postgres::Row;

use super::link::Link;
use crate::history::error::HistoryError;
use leakage::lock::lock;

/// Age at which everything is read again.
const WHOLE: Duration = Duration::from_secs(600);
/// The longest time from a change to its commit that is reckoned with.
const OVERLAP: Duration = Duration::from_secs(10);

/// The cache between two readings.
pub(super) struct Cached<T>(Mutex<Option<(Mark, Arc<T>)>>);

/// The state of the cache.
struct Mark {
    /// The newest change in it.
    newest: SystemTime,
    /// When everything was last read.
    whole: Instant,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone + Default> Cached<T> {
    /// The content as of the snapshot of the link's transaction.
    ///
    /// `state` is a row with the number of rows and the newest change; `add` reads the rows that changed since a time, and
    /// returns the number of rows in the cache.
    pub fn current(
        &self,
        link: &mut Link,
        state: impl Fn(&mut Link) -> Result<Row, HistoryError>,
        add: impl Fn(&mut Link, &mut T, SystemTime) -> Result<usize, HistoryError>,
    ) -> Result<Arc<T>, HistoryError> {
        // Locked while reading, so that snapshots are cached in the order in which they are taken.
        let mut cached = lock(&self.0);
        let row = state(link)?;
        let (count, newest): (i64, Option<SystemTime>) = (row.get(0), row.get(1));
        let newest = newest.unwrap_or(SystemTime::UNIX_EPOCH);
        if let Some((mark, mut known)) = cached.take()
            && mark.whole.elapsed() < WHOLE
            && mark.newest <= newest
        {
            let since = mark.newest.checked_sub(OVERLAP).unwrap_or(SystemTime::UNIX_EPOCH);
            if add(link, Arc::make_mut(&mut known), since)? == count as usize {
                *cached = Some((Mark { newest, ..mark }, Arc::clone(&known)));
                return Ok(known);
            }
        }
        let mut whole = T::default();
        add(link, &mut whole, SystemTime::UNIX_EPOCH)?;
        let whole = Arc::new(whole);
        *cached = Some((Mark { newest, whole: Instant::now() }, Arc::clone(&whole)));
        Ok(whole)
    }
}
