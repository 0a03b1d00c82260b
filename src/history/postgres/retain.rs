//! The removal of old runs and matrices, by one of the processes that share the database.

use std::time::{Duration, Instant};

use super::link::Link;
use super::store::Postgres;
use crate::history::error::HistoryError;
use crate::history::usage::Dropped;

/// Held by the process that removes. The number has no meaning.
const LOCK: &str = "SELECT pg_try_advisory_xact_lock(7220211870110003)";

/// Newest points of a split whose matrices are all kept.
const NEWEST: i64 = 5;
/// Points whose matrices are looked at in one transaction.
const AT_ONCE: i64 = 1000;
/// Runs that are removed in one transaction.
const RUNS_AT_ONCE: i64 = 20;

impl Postgres {
    /// Removes runs of which nothing was heard for `age`, and matrices other than those of each split's newest points and of
    /// the points whose index in the newest branch of their split is a power of two: those that have come since the last
    /// call, in as many transactions as they take, unless `most` has passed. Each process calls it once a minute; one does
    /// the work.
    pub fn retain(&self, age: Option<Duration>, most: Duration) -> Result<Dropped, HistoryError> {
        let (began, mut removed) = (Instant::now(), Dropped::default());
        while let Some(age) = age {
            let Some(runs) = self.alone(|link| remove_old_runs(link, age))? else { return Ok(removed) };
            removed.runs += runs;
            self.dropped().runs += runs;
            if runs < RUNS_AT_ONCE as u64 || began.elapsed() >= most {
                break;
            }
        }
        for thin in [thin_newest_branch, thin_older_branches] {
            loop {
                // Another process is at it.
                let Some((looked, matrices)) = self.alone(thin)? else { return Ok(removed) };
                removed.matrices += matrices;
                if looked < AT_ONCE || began.elapsed() >= most {
                    break;
                }
            }
        }
        Ok(removed)
    }

    /// Makes a change unless another process is making one of these; `None` then.
    fn alone<T>(
        &self,
        mut change: impl FnMut(&mut Link) -> Result<T, HistoryError>,
    ) -> Result<Option<T>, HistoryError> {
        self.write(|link| match link.query_one(LOCK, &[])?.get(0) {
            true => change(link).map(Some),
            false => Ok(None),
        })
    }
}

/// An imported run was never heard of, so its own times count.
fn remove_old_runs(link: &mut Link, age: Duration) -> Result<u64, HistoryError> {
    link.execute(
        "DELETE FROM run WHERE id IN (SELECT id FROM run \
         WHERE greatest(touched, to_timestamp(coalesce(finished, started))) < now() - make_interval(secs => $1) \
         ORDER BY id LIMIT $2)",
        &[&age.as_secs_f64(), &RUNS_AT_ONCE],
    )
}

/// Returns how many points were looked at, and how many matrices were removed.
///
/// Places count from 1 in the order of steps. A point is looked at once: later ones do not move it, and one that comes before
/// it moves it by a place, which only changes which of many old matrices are kept.
fn thin_newest_branch(link: &mut Link) -> Result<(i64, u64), HistoryError> {
    let row = link.query_one(
        "WITH placed AS (SELECT id, thinned, row_number() OVER (PARTITION BY run, split ORDER BY step) AS place, \
         row_number() OVER (PARTITION BY run, split ORDER BY step DESC) AS age FROM point \
         WHERE superseded = 0 AND (run, split) IN (SELECT run, split FROM point WHERE NOT thinned GROUP BY run, split HAVING count(*) > $1)), \
         due AS (SELECT id, place FROM placed WHERE NOT thinned AND age > $1 LIMIT $2), \
         looked AS (UPDATE point SET thinned = true WHERE id IN (SELECT id FROM due)), \
         removed AS (DELETE FROM matrix WHERE point IN (SELECT id FROM due WHERE (place & (place - 1)) <> 0) RETURNING 1) \
         SELECT (SELECT count(*) FROM due), (SELECT count(*) FROM removed)",
        &[&NEWEST, &AT_ONCE],
    )?;
    Ok((row.get(0), row.get::<_, i64>(1).cast_unsigned()))
}

fn thin_older_branches(link: &mut Link) -> Result<(i64, u64), HistoryError> {
    let row = link.query_one(
        "WITH due AS (SELECT id FROM point WHERE superseded > 0 AND NOT thinned LIMIT $1), \
         looked AS (UPDATE point SET thinned = true WHERE id IN (SELECT id FROM due)), \
         removed AS (DELETE FROM matrix WHERE point IN (SELECT id FROM due) RETURNING 1) \
         SELECT (SELECT count(*) FROM due), (SELECT count(*) FROM removed)",
        &[&AT_ONCE],
    )?;
    Ok((row.get(0), row.get::<_, i64>(1).cast_unsigned()))
}
