//! What is kept in memory from one reading to the next, and brought up to date in the snapshot of each.
//!
//! A reading is one snapshot of the database. What transactions wrote that are older than all that were at work at the reading
//! before is kept from then; of what others have written, the table `change` says which runs it concerns, and these alone are
//! read again. So what is kept is what the snapshot holds, also where transactions commit in another order than they began.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::change::Changed;
use super::link::Link;
use crate::history::error::HistoryError;

/// After this long all is read again. Changes are kept for an hour.
const WHOLE: Duration = Duration::from_secs(600);
/// From so many changed runs on, all are read: that is one pass over the table.
const MANY: usize = 2000;

/// What a reading keeps for the next one.
pub(super) struct Kept<T>(Mutex<Option<(Mark, Arc<T>)>>);

/// What is kept holds all that transactions before `oldest` have written.
struct Mark {
    database: Database,
    oldest: i64,
    /// When all was read.
    whole: Instant,
}

/// Cluster, timeline and database: what is restored is another.
type Database = (i64, i32, u32);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T: Clone> Kept<T> {
    /// What the snapshot of the link's transaction holds. To be asked before anything else in a transaction, so that a
    /// snapshot is never older than what is kept.
    ///
    /// `whole` reads all; `again` reads runs of these names again, of which some may be gone: those with a change of these
    /// `kinds`, in this `split` where the change is of one.
    pub fn current(
        &self,
        link: &mut Link,
        (kinds, split): (&[Changed], &str),
        whole: impl FnOnce(&mut Link) -> Result<T, HistoryError>,
        again: impl FnOnce(&mut Link, &mut T, &[String]) -> Result<(), HistoryError>,
    ) -> Result<Arc<T>, HistoryError> {
        // Held while it is read, so that snapshots are taken in the order in which they are kept.
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let row = link.query_one(
            "SELECT system_identifier, timeline_id, (SELECT oid FROM pg_database WHERE datname = current_database()), \
             pg_snapshot_xmin(pg_current_snapshot())::text::bigint FROM pg_control_system(), pg_control_checkpoint()",
            &[],
        )?;
        let (database, oldest): (Database, i64) = ((row.get(0), row.get(1), row.get(2)), row.get(3));
        let usable = |mark: &Mark| mark.database == database && mark.oldest <= oldest && mark.whole.elapsed() < WHOLE;
        // Taken out: what fails half way is not kept.
        if let Some((mark, mut known)) = kept.take().filter(|(mark, _)| usable(mark)) {
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
                *kept = Some((Mark { oldest, ..mark }, Arc::clone(&known)));
                return Ok(known);
            }
        }
        let known = Arc::new(whole(link)?);
        *kept = Some((Mark { database, oldest, whole: Instant::now() }, Arc::clone(&known)));
        Ok(known)
    }
}
