//! The feed of changes for followers: in the order of transactions, without a gap.
//!
//! Transactions commit in any order, so a follower that remembers the largest number seen misses those that commit
//! later with a smaller one. It therefore reads only the writes of transactions that are older than all still at work:
//! nothing can appear before those. It lags by the longest change at work on the server, which is milliseconds for
//! ours.

use super::change::Changed;
use super::store::Postgres;
use crate::history::error::HistoryError;

/// The position of a follower: after this transaction and row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeCursor {
    /// Identifier of the database's cluster, and its timeline: a cluster that is restored or promoted begins another.
    cluster: (i64, i32),
    xid: i64,
    id: i64,
}

/// The state of the database that a follower sees before it reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Looked {
    /// It is another database than that of the cursor, or was restored to a time before it: what a follower has read may no
    /// longer be there.
    pub is_restored: bool,
    /// The time of its clock, in seconds since 1970-01-01 UTC.
    pub time: f64,
    /// All transactions before this one have ended, so a follower can read what they changed.
    pub oldest: i64,
    /// This transaction, and all after it, had not begun.
    pub next: i64,
}

/// A change of a run. By the time it is read the run may have changed again, or be gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunChange {
    pub run: String,
    pub kind: Changed,
    /// The split of a point or an unscored pass.
    pub split: Option<String>,
    pub step: Option<u64>,
}

/// The database at one moment; the fields are those of [`ChangeCursor`] and [`Looked`]. `oldest` never decreases.
struct Clock {
    cluster: (i64, i32),
    oldest: i64,
    next: i64,
    time: f64,
}

impl Postgres {
    /// Returns the position from which to follow so that every change is seen that a reading after this call does not
    /// show. Some changes that it shows may come as well.
    pub fn newest_change(&self) -> Result<ChangeCursor, HistoryError> {
        let Clock { cluster, oldest, .. } = self.clock()?;
        Ok(ChangeCursor { cluster, xid: oldest - 1, id: i64::MAX })
    }

    /// Checks that the database is still that of a cursor, and reads its clock.
    pub fn look(&self, cursor: ChangeCursor) -> Result<Looked, HistoryError> {
        let Clock { cluster, oldest, next, time } = self.clock()?;
        Ok(Looked { is_restored: cluster != cursor.cluster || oldest <= cursor.xid, time, oldest, next })
    }

    fn clock(&self) -> Result<Clock, HistoryError> {
        let row = self.read(|link| {
            link.query_one(
                "SELECT system_identifier, timeline_id, pg_snapshot_xmin(pg_current_snapshot())::text::bigint, \
                 pg_snapshot_xmax(pg_current_snapshot())::text::bigint, extract(epoch FROM clock_timestamp())::float8 FROM pg_control_system(), pg_control_checkpoint()",
                &[],
            )
        })?;
        Ok(Clock { cluster: (row.get(0), row.get(1)), oldest: row.get(2), next: row.get(3), time: row.get(4) })
    }

    /// The changes after a place, at most `most`, in their order, and the place to ask from next. Changes are kept for an
    /// hour, and until a follower can read them. One that was away longer, or held back for longer by a transaction at work,
    /// reads everything again.
    pub fn changes_after(
        &self,
        cursor: ChangeCursor,
        most: usize,
    ) -> Result<(Vec<RunChange>, ChangeCursor), HistoryError> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = self.read(|link| {
            link.query(
                "SELECT xid::text::bigint, id, run, kind, split, step FROM change \
                 WHERE (xid, id) > ($1::bigint::text::xid8, $2) AND xid < pg_snapshot_xmin(pg_current_snapshot()) \
                 ORDER BY change.xid, id LIMIT $3",
                &[&cursor.xid, &cursor.id, &most],
            )
        })?;
        let next = rows.last().map_or(cursor, |row| ChangeCursor { xid: row.get(0), id: row.get(1), ..cursor });
        let changes = rows.iter().filter_map(|row| {
            let name: &str = row.get(3);
            let kind = Changed::ALL.into_iter().find(|kind| kind.name() == name)?;
            let step: Option<i64> = row.get(5);
            Some(RunChange { run: row.get(2), kind, split: row.get(4), step: step.map(i64::cast_unsigned) })
        });
        Ok((changes.collect(), next))
    }
}
