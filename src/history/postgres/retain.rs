//! What is removed with time, by one process of all that share the database.

use super::store::Postgres;
use crate::history::error::HistoryError;

/// Held by who removes. The number has no meaning.
const LOCK: &str = "SELECT pg_try_advisory_xact_lock(7220211870110003)";

/// Newest points of a split whose matrices are all kept.
const NEWEST: i64 = 5;
/// Points whose matrices are looked at in one transaction.
const AT_ONCE: i64 = 1000;

/// What was removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Removed {
    pub changes: u64,
    pub matrices: u64,
}

impl Postgres {
    /// Removes changes older than an hour that followers can have read, and matrices other than those of each split's newest points and of the points
    /// whose index in the newest branch of their split is a power of two. Each process calls it once a minute; one does
    /// the work.
    pub fn retain(&self) -> Result<Removed, HistoryError> {
        self.write(|link| {
            if !link.query_one(LOCK, &[])?.get::<_, bool>(0) {
                return Ok(Removed::default());
            }
            // A change that is not older than every transaction at work cannot have been read: see `change.rs`.
            let changes = link.execute(
                "DELETE FROM change WHERE at < now() - interval '1 hour' AND xid < pg_snapshot_xmin(pg_current_snapshot())",
                &[],
            )?;
            // Places count from 1 in the order of steps. A point is looked at once: later ones do not move it, and one that
            // comes before it moves it by a place, which only changes which of many old matrices are kept.
            let matrices = link.execute(
                "WITH placed AS (SELECT id, thinned, row_number() OVER (PARTITION BY run, split ORDER BY step) AS place, \
                 row_number() OVER (PARTITION BY run, split ORDER BY step DESC) AS age FROM point \
                 WHERE superseded = 0 AND (run, split) IN (SELECT run, split FROM point WHERE NOT thinned GROUP BY run, split HAVING count(*) > $1)), \
                 due AS (SELECT id, place FROM placed WHERE NOT thinned AND age > $1 LIMIT $2), \
                 looked AS (UPDATE point SET thinned = true WHERE id IN (SELECT id FROM due)) \
                 DELETE FROM matrix WHERE point IN (SELECT id FROM due WHERE (place & (place - 1)) <> 0)",
                &[&NEWEST, &AT_ONCE],
            )?;
            let of_older_branches = link.execute(
                "WITH due AS (SELECT id FROM point WHERE superseded > 0 AND NOT thinned LIMIT $1), \
                 looked AS (UPDATE point SET thinned = true WHERE id IN (SELECT id FROM due)) \
                 DELETE FROM matrix WHERE point IN (SELECT id FROM due)",
                &[&AT_ONCE],
            )?;
            Ok(Removed { changes, matrices: matrices + of_older_branches })
        })
    }
}
