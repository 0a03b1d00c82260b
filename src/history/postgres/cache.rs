//! A cache that each reading brings up to date with its own snapshot.
//!
//! A reading is one snapshot of the database. Writes of transactions older than every transaction open at the previous
//! reading are in the cache already; for all other writes the table `change` names the runs, and only these are read again.
//! So the cache equals the snapshot, even where transactions commit in another order than they began.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::change::Changed;
use super::link::Link;
use crate::history::error::HistoryError;
use crate::lock::lock;

/// Age at which everything is read again. Changes are kept for an hour.
const WHOLE: Duration = Duration::from_secs(600);
/// Number of changed runs from which one pass over the whole table is cheaper.
const MANY: usize = 2000;

/// The cache between two readings.
pub(super) struct Cached<T>(Mutex<Option<(Mark, Arc<T>)>>);

/// The cache holds every write of transactions before `oldest`.
struct Mark {
    database: Database,
    oldest: i64,
    /// When everything was last read.
    whole: Instant,
}

/// Cluster, timeline and database; a restored database has others.
type Database = (i64, i32, u32);

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Cached<T> {
    /// The content as of the snapshot of the link's transaction. Call it before any other query of the transaction, so that
    /// the snapshot is never older than the cache.
    ///
    /// `whole` reads everything; `again` rereads the named runs, some of which may be gone: those with a change of these
    /// `kinds`, in this `split` if the change names one.
    pub fn current(
        &self,
        link: &mut Link,
        (kinds, split): (&[Changed], &str),
        whole: impl FnOnce(&mut Link) -> Result<T, HistoryError>,
        again: impl FnOnce(&mut Link, &mut T, &[String]) -> Result<(), HistoryError>,
    ) -> Result<Arc<T>, HistoryError> {
        // Locked while reading, so that snapshots are cached in the order in which they are taken.
        let mut cached = lock(&self.0);
        let row = link.query_one(
            "SELECT system_identifier, timeline_id, (SELECT oid FROM pg_database WHERE datname = current_database()), \
             pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM pg_control_system(), pg_control_checkpoint()",
            &[],
        )?;
        let (database, oldest): (Database, i64) = ((row.get(0), row.get(1), row.get(2)), row.get(3));
        let usable = |mark: &Mark| mark.database == database && mark.oldest <= oldest && mark.whole.elapsed() < WHOLE;
        // Taken out, so that a reading that fails half-way leaves no cache behind.
        if let Some((mark, mut known)) = cached.take().filter(|(mark, _)| usable(mark)) {
            let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
            let rows = link.query(
                "SELECT DISTINCT run FROM change WHERE xid >= $1::bigint::text::xid8 AND kind = ANY($2) \
                 AND (split IS NULL OR split = $3)",
                &[&mark.oldest, &kinds, &split],
            )?;
            if rows.len() < MANY {
                if !rows.is_empty() {
                    let names: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
                    again(link, Arc::make_mut(&mut known), &names)?;
                }
                *cached = Some((Mark { oldest, ..mark }, Arc::clone(&known)));
                return Ok(known);
            }
        }
        let known = Arc::new(whole(link)?);
        *cached = Some((Mark { database, oldest, whole: Instant::now() }, Arc::clone(&known)));
        Ok(known)
    }
}
