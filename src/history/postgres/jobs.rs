//! Jobs: what is to be computed of closed passes, by any of many workers.
//!
//! A job is leased, and its result is stored only while the lease holds, in the transaction that ends the job: it is
//! computed at least once and stored once. Whoever changes a job's pass locks the row of the run first.

use std::time::Duration;

use super::insert::insert_point;
use super::link::Link;
use super::parts::PassKey;
use super::read::of_attempt;
use super::runs::{number, run_to_change};
use super::store::Postgres;
use super::unscored::insert_unscored;
use crate::estimate::Settings;
use crate::fault::Fault;
use crate::history::error::HistoryError;
use crate::history::point::Recorded;
use crate::history::settled::{Ending, Unscored};
use crate::point::Point;
use crate::run::Run;
use crate::sample::{Attempt, Part};
use crate::score::Influences;

/// The kind of the job that computes the point of a pass. Others follow from it.
pub const FAST: &str = "fast";

/// A job that a worker has leased.
#[derive(Clone, Debug, PartialEq)]
pub struct LeasedJob {
    pub id: i64,
    pub pass: PassKey,
    /// [`FAST`], or one that a fast job named.
    pub kind: String,
    /// Distinguishes this lease from all others.
    pub lease: String,
    /// Earlier tries that failed or whose worker disappeared.
    pub failures: u32,
}

/// What a job is computed from.
#[derive(Clone, Debug)]
pub struct JobMaterial {
    pub run: Run,
    /// Seconds since 1970-01-01 UTC at which the pass was closed.
    pub time: f64,
    /// Those of most ranks first. Empty where they are lost.
    pub parts: Result<Vec<Part>, Fault>,
    /// Of the split's evaluation before.
    pub earlier: Option<Influences>,
    /// How the point was made that the result joins; `None` where the job computes the point.
    pub point: Option<MadeWith>,
}

/// How the scores of a point were estimated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MadeWith {
    pub estimator: String,
    pub neighbours: u32,
    pub seed: u64,
}

/// A point with what its next evaluation and the slow scores need.
#[derive(Clone, Debug)]
pub struct FirstPoint<'a> {
    pub point: &'a Point,
    pub influences: Option<&'a Influences>,
    /// Where the parts of the next pass may be cut.
    pub next_cutoff: Option<u64>,
    /// The kinds of the jobs whose results join the point.
    pub following: &'a [String],
}

/// How much there is to do.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JobQueue {
    /// Jobs that a worker could claim now, those whose lease has ended included.
    pub waiting: u64,
    pub leased: u64,
    /// Seconds for which the one that has waited longest has waited; 0 for none.
    pub oldest_seconds: f64,
}

/// Jobs that can be claimed: of closed passes, not leased; of the points of a split only the first, because the error of a
/// change needs the evaluation before.
macro_rules! claimable {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " FROM job JOIN pass ON pass.id = job.pass WHERE NOT job.done AND pass.closed IS NOT NULL \
             AND (lease IS NULL OR lease_until < now()) AND (kind <> 'fast' OR NOT EXISTS (SELECT 1 FROM job AS other \
             JOIN pass AS earlier ON earlier.id = other.pass WHERE NOT other.done AND other.kind = 'fast' \
             AND earlier.closed IS NOT NULL AND earlier.run = pass.run AND earlier.split = pass.split \
             AND (other.lease_until >= now() OR (earlier.launch, earlier.restart, earlier.step) \
             < (pass.launch, pass.restart, pass.step)))) ",
            $after
        )
    };
}

impl Postgres {
    /// States how all workers compute.
    pub fn state_settings(&self, settings: &Settings) -> Result<(), HistoryError> {
        let settings = serde_json::to_string(settings)?;
        let statement =
            "INSERT INTO computing (settings) VALUES ($1) ON CONFLICT (only_row) DO UPDATE SET settings = $1";
        self.write(|link| link.execute(statement, &[&settings]).map(drop))
    }

    /// How all workers compute; `None` until a hub has stated it.
    pub fn stated_settings(&self) -> Result<Option<Settings>, HistoryError> {
        let row = self.read(|link| link.query_opt("SELECT settings FROM computing", &[]))?;
        row.map(|row| Ok(serde_json::from_str(row.get(0))?)).transpose()
    }

    /// Leases a job: a point before slow scores, and then the one that has waited longest. `None` if none waits. A job whose
    /// lease has ended waits again, and counts one failure more.
    pub fn claim_job(&self, worker: &str, lease: Duration) -> Result<Option<LeasedJob>, HistoryError> {
        self.write(|link| {
            let found = link.query_opt(
                claimable!("SELECT job.id", "ORDER BY kind <> 'fast', waiting, job.id LIMIT 1 FOR UPDATE OF job SKIP LOCKED"),
                &[],
            )?;
            let Some(found) = found else { return Ok(None) };
            let row = link.query_one(
                "UPDATE job SET lease = gen_random_uuid()::text, lease_until = now() + make_interval(secs => $2), worker = $3, \
                 failures = failures + (lease IS NOT NULL)::int FROM pass JOIN run ON run.id = pass.run WHERE job.id = $1 AND pass.id = job.pass \
                 RETURNING job.id, run.name, split, launch, restart, step, kind, lease, failures",
                &[&found.get::<_, i64>(0), &lease.as_secs_f64(), &worker],
            )?;
            let attempt = Attempt { launch: number(&row, 3)?, restart: number(&row, 4)? };
            let step = row.get::<_, i64>(5).cast_unsigned();
            Ok(Some(LeasedJob {
                id: row.get(0),
                pass: PassKey { run: row.get(1), split: row.get(2), attempt, step },
                kind: row.get(6),
                lease: row.get(7),
                failures: row.get::<_, i32>(8).cast_unsigned(),
            }))
        })
    }

    /// Whether the lease still holds; if so it lasts this long from now on.
    pub fn renew_job(&self, job: &LeasedJob, lease: Duration) -> Result<bool, HistoryError> {
        let statement = "UPDATE job SET lease_until = now() + make_interval(secs => $3) \
                         WHERE id = $1 AND lease = $2 AND NOT done";
        Ok(self.write(|link| link.execute(statement, &[&job.id, &job.lease, &lease.as_secs_f64()]))? > 0)
    }

    pub fn job_material(&self, job: &LeasedJob) -> Result<JobMaterial, HistoryError> {
        self.read(|link| {
            let row = link.query_opt(
                "SELECT pass.id, declaration, coalesce(extract(epoch FROM closed), 0)::float8, run.id, split, kind FROM pass \
                 JOIN job ON job.pass = pass.id JOIN run ON run.id = pass.run WHERE job.id = $1",
                &[&job.id],
            )?;
            let row = row.ok_or_else(|| HistoryError::Unknown { what: "job", name: job.id.to_string() })?;
            let (pass, run, split): (i64, i64, &str) = (row.get(0), row.get(3), row.get(4));
            let point = match row.get::<_, &str>(5) {
                FAST => None,
                _ => made_with(link, pass)?,
            };
            // Of parts that overlap, the union takes the counts of the largest.
            let bodies = "SELECT body FROM part WHERE pass = $1 ORDER BY cardinality(ended) DESC, source";
            let parts = link.query(bodies, &[&pass])?.iter().map(|row| Part::from_bytes(row.get(0))).collect();
            let earlier =
                link.query_opt("SELECT body FROM influence WHERE run = $1 AND split = $2", &[&run, &split])?;
            let earlier = earlier.and_then(|row| row.get::<_, Option<&[u8]>>(0).map(<[u8]>::to_vec));
            // Those of another release are of no use.
            let earlier = earlier.and_then(|bytes| postcard::from_bytes(&bytes).ok());
            Ok(JobMaterial { run: serde_json::from_str(row.get(1))?, time: row.get(2), parts, earlier, point })
        })
    }

    /// Lets another worker compute a job. Returns false if the lease does not hold any more.
    pub fn return_job(&self, job: &LeasedJob) -> Result<bool, HistoryError> {
        self.held(job, |link, _| release(link, job, 0))
    }

    /// As [`return_job`](Self::return_job), where the parts are lost or cut too short: the pass is open again until sidecars
    /// have sent whole ones, or its deadline is over. A job that joins the point ends without a result: the pass is settled,
    /// so sidecars have no rows of it any more.
    pub fn reopen_pass(&self, job: &LeasedJob) -> Result<bool, HistoryError> {
        self.held(job, |link, pass| {
            if job.kind != FAST {
                return end(link, job, pass);
            }
            release(link, job, 0)?;
            let statement =
                "UPDATE pass SET closed = NULL, needs_whole = true, opened = clock_timestamp() WHERE id = $1";
            link.execute(statement, &[&pass]).map(drop)
        })
    }

    /// Notes that a job could not be computed, and lets a worker try again. Returns false if the lease does not hold any
    /// more.
    pub fn fail_job(&self, job: &LeasedJob) -> Result<bool, HistoryError> {
        self.held(job, |link, _| release(link, job, 1))
    }

    /// Stores the point of a pass, and the jobs that follow from it. Returns false, and stores nothing, if the lease does not
    /// hold any more.
    pub fn finish_first(&self, job: &LeasedJob, first: &FirstPoint<'_>) -> Result<bool, HistoryError> {
        let influences = first.influences.map(postcard::to_stdvec).transpose();
        let influences = influences.map_err(|error| HistoryError::Storage(error.into()))?;
        self.held(job, |link, pass| {
            let recorded = insert_point(link, first.point, Some(job.pass.attempt))?;
            link.execute(
                "INSERT INTO influence (run, split, body, next_cutoff) SELECT run, split, $2, $3 FROM pass WHERE id = $1 \
                 ON CONFLICT (run, split) DO UPDATE SET (body, next_cutoff) = (excluded.body, excluded.next_cutoff)",
                &[&pass, &influences, &first.next_cutoff.map(u64::cast_signed)],
            )?;
            if recorded == Recorded::Stored {
                let statement = "INSERT INTO job (pass, kind) SELECT $1, kind FROM unnest($2::text[]) AS kind \
                                 ON CONFLICT (pass, kind) DO NOTHING";
                link.execute(statement, &[&pass, &first.following])?;
            }
            end(link, job, pass)
        })
    }

    /// Stores rows that a score is made of. With the last of the jobs whose kind begins like `alike`, a job of the kind `then`
    /// follows, which finds them in [`job_rows`](Self::job_rows). Returns false, and stores nothing, if the lease does not
    /// hold any more.
    pub fn finish_rows(&self, job: &LeasedJob, rows: &[u8], alike: &str, then: &str) -> Result<bool, HistoryError> {
        self.held(job, |link, pass| {
            link.execute("UPDATE job SET done = true, result = $2 WHERE id = $1", &[&job.id, &rows])?;
            link.execute(
                "INSERT INTO job (pass, kind) SELECT $1, $2 WHERE NOT EXISTS \
                 (SELECT FROM job WHERE pass = $1 AND NOT done AND starts_with(kind, $3)) ON CONFLICT (pass, kind) DO NOTHING",
                &[&pass, &then, &alike],
            )?;
            end(link, job, pass)
        })
    }

    /// What jobs of the same pass gave whose kind begins like `alike`.
    pub fn job_rows(&self, job: &LeasedJob, alike: &str) -> Result<Vec<Vec<u8>>, HistoryError> {
        let statement = "SELECT other.result FROM job JOIN job AS other ON other.pass = job.pass \
                         WHERE job.id = $1 AND other.result IS NOT NULL AND starts_with(other.kind, $2) ORDER BY other.id";
        let rows = self.read(|link| link.query(statement, &[&job.id, &alike]))?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Stores the point of a pass as `join` returns it from the one that is stored. Nothing is stored if the point of its step
    /// is another by now: its time is not that at which the pass was closed.
    pub fn finish_late(&self, job: &LeasedJob, join: impl Fn(&Point) -> Point) -> Result<bool, HistoryError> {
        self.held(job, |link, pass| {
            let step = job.pass.step.cast_signed();
            let closed = "SELECT coalesce(extract(epoch FROM closed), 0)::float8 FROM pass WHERE id = $1";
            let time: f64 = link.query_one(closed, &[&pass])?.get(0);
            let point = of_attempt(link, &job.pass.run, &job.pass.split, step, job.pass.attempt, true)?;
            if let Some(point) = point.filter(|point| point.time == time) {
                insert_point(link, &join(&point), Some(job.pass.attempt))?;
            }
            end(link, job, pass)
        })
    }

    /// Records that a pass has no point.
    pub fn finish_unscored(&self, job: &LeasedJob, reason: &str, rows_seen: u64) -> Result<bool, HistoryError> {
        self.held(job, |link, pass| {
            let now = "SELECT extract(epoch FROM clock_timestamp())::float8";
            let unscored = Unscored {
                run: job.pass.run.clone(),
                split: job.pass.split.clone(),
                step: job.pass.step,
                ordinal: crate::step::Ordinal::default(),
                time: link.query_one(now, &[])?.get(0),
                outcome: Ending::Failed,
                reason: reason.to_owned(),
                rows_seen,
                attempt: Some(job.pass.attempt),
            };
            insert_unscored(link, &[unscored])?;
            end(link, job, pass)
        })
    }

    /// How much there is to do: what an autoscaler needs.
    pub fn job_queue(&self) -> Result<JobQueue, HistoryError> {
        self.read(|link| {
            let free = claimable!("SELECT count(*), coalesce(extract(epoch FROM now() - min(waiting)), 0)::float8", "");
            let row = link.query_one(free, &[])?;
            let leased = "SELECT count(*) FROM job WHERE NOT done AND lease IS NOT NULL AND lease_until >= now()";
            Ok(JobQueue {
                waiting: row.get::<_, i64>(0).cast_unsigned(),
                leased: link.query_one(leased, &[])?.get::<_, i64>(0).cast_unsigned(),
                oldest_seconds: row.get(1),
            })
        })
    }

    /// Makes a change while a lease holds, with the number of the pass; false, without a change, if it does not.
    fn held(
        &self,
        job: &LeasedJob,
        mut change: impl FnMut(&mut Link, i64) -> Result<(), HistoryError>,
    ) -> Result<bool, HistoryError> {
        self.write(|link| {
            match run_to_change(link, &job.pass.run) {
                Err(HistoryError::Unknown { .. }) => return Ok(false),
                locked => locked?,
            };
            let statement = "SELECT pass FROM job WHERE id = $1 AND lease = $2 AND NOT done FOR UPDATE";
            let Some(row) = link.query_opt(statement, &[&job.id, &job.lease])? else { return Ok(false) };
            change(link, row.get(0))?;
            Ok(true)
        })
    }
}

/// Of the point that was computed of a pass.
fn made_with(link: &mut Link, pass: i64) -> Result<Option<MadeWith>, HistoryError> {
    let row = link.query_opt(
        "SELECT estimator, neighbours, seed FROM point JOIN pass USING (run, split, step, launch, restart) \
         WHERE pass.id = $1 ORDER BY superseded LIMIT 1",
        &[&pass],
    )?;
    let read = |row: postgres::Row| {
        let seed = row.get::<_, i64>(2).cast_unsigned();
        Ok(MadeWith { estimator: row.get(0), neighbours: number(&row, 1)?, seed })
    };
    row.map(read).transpose()
}

fn release(link: &mut Link, job: &LeasedJob, failures: i32) -> Result<(), HistoryError> {
    let statement = "UPDATE job SET lease = NULL, lease_until = NULL, waiting = clock_timestamp(), failures = failures + $2 \
                     WHERE id = $1";
    link.execute(statement, &[&job.id, &failures]).map(drop)
}

/// Ends a job, and its pass with the last of them.
fn end(link: &mut Link, job: &LeasedJob, pass: i64) -> Result<(), HistoryError> {
    link.execute("UPDATE job SET done = true WHERE id = $1", &[&job.id])?;
    let last = "UPDATE pass SET done = clock_timestamp() WHERE id = $1 \
                AND NOT EXISTS (SELECT 1 FROM job WHERE pass = $1 AND NOT done)";
    if link.execute(last, &[&pass])? > 0 {
        link.execute("DELETE FROM part WHERE pass = $1", &[&pass])?;
        link.execute("DELETE FROM job WHERE pass = $1", &[&pass])?;
    }
    Ok(())
}
