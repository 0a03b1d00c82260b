//! A worker: one job at a time, in a pool of threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::estimate::Settings;
use crate::history::HistoryError;
use crate::server::scoring::pool::pool;

use super::compute::{Computed, compute};
use super::jobs::{Claim, Finished, Jobs, Return};
use super::lease::Lease;
use super::stop::Stop;

/// How often a job may fail before what it would have given is recorded as missing.
const TRIES: u32 = 3;
/// Workers that may die or be cut off while they compute a job. More than failures, because schedulers kill workers for
/// many reasons.
const DEATHS: u32 = 10;

/// How long a worker waits before it asks again for a job, and at most: many may be idle.
const FIRST_POLL: Duration = Duration::from_millis(125);
const LONGEST_POLL: Duration = Duration::from_secs(1);

/// How long it waits after the first failure to reach the store, and at most.
const FIRST_WAIT: Duration = Duration::from_millis(250);
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// How long it tries to store one result. The job is computed again by whoever has its lease then.
const PATIENCE: Duration = Duration::from_secs(600);

/// How a worker works.
#[derive(Clone, Copy, Debug)]
pub struct WorkOptions {
    pub threads: usize,
    /// Added to the threads' niceness, 0 to 19.
    pub niceness: i32,
    /// Time after which another worker may take a job of this one, if this one is not heard of.
    pub lease: Duration,
    /// Jobs after which it ends; `None`: any number.
    pub jobs: Option<u64>,
    /// Time without a job after which it ends; `None`: never.
    pub idle_exit: Option<Duration>,
}

/// Jobs of a worker, by how they ended.
#[derive(Debug, Default)]
pub struct Counts {
    pub done: AtomicU64,
    /// Given back: the worker stopped, or parts were missing or cut too short.
    pub returned: AtomicU64,
    /// Panicked.
    pub failed: AtomicU64,
    /// Taken over by another worker.
    pub lost: AtomicU64,
}

impl Counts {
    fn ended(&self) -> u64 {
        self.done.load(Ordering::Relaxed) + self.failed.load(Ordering::Relaxed)
    }
}

pub struct Worker {
    pub jobs: Arc<dyn Jobs>,
    pub options: WorkOptions,
    pub counts: Arc<Counts>,
    pub stop: Stop,
}

impl Worker {
    /// Claims and computes until it is to end. Errors when a thread cannot be started.
    pub fn work(&self) -> std::io::Result<()> {
        let pool = pool("work", self.options.threads, self.options.niceness)?;
        let (mut idle, mut poll, mut wait) = (Instant::now(), FIRST_POLL, FIRST_WAIT);
        while !self.stop.is_stopping() && self.options.jobs.is_none_or(|most| self.counts.ended() < most) {
            match self.next() {
                Ok(Some((settings, claim))) => {
                    self.job(&pool, settings, &claim)?;
                    (idle, poll, wait) = (Instant::now(), FIRST_POLL, FIRST_WAIT);
                }
                Ok(None) if self.options.idle_exit.is_some_and(|most| idle.elapsed() >= most) => break,
                Ok(None) => {
                    self.stop.wait(poll);
                    (poll, wait) = ((2 * poll).min(LONGEST_POLL), FIRST_WAIT);
                }
                Err(error) => {
                    tracing::warn!(%error, seconds = wait.as_secs_f64(), "no job could be claimed; trying again");
                    self.stop.wait(wait);
                    wait = (2 * wait).min(LONGEST_WAIT);
                }
            }
        }
        Ok(())
    }

    fn next(&self) -> Result<Option<(Settings, Claim)>, HistoryError> {
        let Some(claim) = self.jobs.claim(self.options.lease)? else { return Ok(None) };
        match self.jobs.settings() {
            Ok(Some(settings)) => Ok(Some((settings, claim))),
            // A hub states them before it takes the first part.
            unknown => {
                self.jobs.give_back(&claim, Return::Stopped)?;
                unknown.map(|_| None)
            }
        }
    }

    fn job(&self, pool: &rayon::ThreadPool, settings: Settings, claim: &Claim) -> std::io::Result<()> {
        let started = Instant::now();
        let lost = AtomicBool::new(false);
        let end = std::thread::scope(|scope| {
            let lease = Lease::keep(scope, &*self.jobs, claim, self.options.lease, &lost)?;
            let halts = || self.stop.is_stopping() || lost.load(Ordering::Acquire);
            let computed = if claim.failures >= DEATHS {
                let failures = claim.failures;
                Computed::Failed(format!(
                    "it was given up: {failures} workers failed or died at it, perhaps for want of memory"
                ))
            } else {
                match self.patiently(claim, &halts, || self.jobs.material(claim)) {
                    Ok(material) => match material.settings(settings) {
                        Ok(settings) => compute(pool, settings, claim, material, &halts),
                        Err(why) => Computed::Failed(why),
                    },
                    Err(NotNow::Halted) => Computed::Halted,
                    Err(NotNow::Refused(error)) => Computed::Failed(error.to_string()),
                }
            };
            let end = match computed {
                Computed::Halted if lost.load(Ordering::Acquire) => End::Lost,
                computed => self.commit(claim, computed, &halts),
            };
            lease.end();
            Ok::<_, std::io::Error>(end)
        })?;
        let (count, what) = match end {
            End::Done => (&self.counts.done, "done"),
            End::Returned => (&self.counts.returned, "given back"),
            End::Failed => (&self.counts.failed, "failed"),
            End::Lost => (&self.counts.lost, "lost to another worker"),
        };
        count.fetch_add(1, Ordering::Relaxed);
        tracing::info!(job = %claim, seconds = started.elapsed().as_secs_f64(), "{what}");
        Ok(())
    }

    /// Stores what was computed, or lets others compute it.
    fn commit(&self, claim: &Claim, computed: Computed, halts: &dyn Fn() -> bool) -> End {
        match computed {
            Computed::Finished(finished) => self.finish(claim, &finished, halts),
            Computed::GiveBack(why) => self.give_back(claim, why),
            Computed::Halted => self.give_back(claim, Return::Stopped),
            Computed::Failed(reason) => self.fail(claim, &reason, halts),
        }
    }

    fn finish(&self, claim: &Claim, finished: &Finished, halts: &dyn Fn() -> bool) -> End {
        if let Finished::Unscored { reason, .. } = finished {
            tracing::warn!(job = %claim, reason, "an evaluation has no point");
        }
        match self.patiently(claim, halts, || self.jobs.finish(claim, finished)) {
            Ok(true) => End::Done,
            Ok(false) => End::Lost,
            // It cannot be reached; the lease will end.
            Err(NotNow::Halted) => self.give_back(claim, Return::Stopped),
            Err(NotNow::Refused(error)) => self.fail(claim, &error.to_string(), halts),
        }
    }

    fn fail(&self, claim: &Claim, reason: &str, halts: &dyn Fn() -> bool) -> End {
        tracing::error!(job = %claim, tries = claim.failures + 1, reason, "a job failed");
        let stored = if claim.failures + 1 < TRIES {
            self.patiently(claim, halts, || self.jobs.fail(claim, reason))
        } else {
            let without = claim.without(reason, 0);
            self.patiently(claim, halts, || self.jobs.finish(claim, &without))
        };
        if let Err(NotNow::Refused(error)) = stored {
            tracing::error!(job = %claim, %error, "what failed could not be recorded");
        }
        End::Failed
    }

    fn give_back(&self, claim: &Claim, why: Return) -> End {
        if let Err(error) = self.jobs.give_back(claim, why) {
            tracing::warn!(job = %claim, %error, "a job could not be given back: it waits for the end of its lease");
        }
        End::Returned
    }

    /// Calls until it succeeds, unless trying again cannot help.
    fn patiently<T>(
        &self,
        claim: &Claim,
        halts: &dyn Fn() -> bool,
        call: impl Fn() -> Result<T, HistoryError>,
    ) -> Result<T, NotNow> {
        let (begun, mut wait) = (Instant::now(), FIRST_WAIT);
        loop {
            match call() {
                Ok(value) => return Ok(value),
                Err(error) if is_final(&error) => return Err(NotNow::Refused(error)),
                Err(error) => tracing::warn!(job = %claim, %error, seconds = wait.as_secs_f64(), "trying again"),
            }
            if halts() || begun.elapsed() >= PATIENCE || self.stop.wait(wait) {
                return Err(NotNow::Halted);
            }
            wait = (2 * wait).min(LONGEST_WAIT);
        }
    }
}

/// Why a call to the store had no result.
enum NotNow {
    /// The worker is to halt, or has tried for long.
    Halted,
    Refused(HistoryError),
}

/// Whether the same call would have the same error again.
fn is_final(error: &HistoryError) -> bool {
    use HistoryError::{DeclarationDiffers, Invalid, Json, Unknown};
    matches!(error, DeclarationDiffers { .. } | Invalid { .. } | Json(_) | Unknown { .. })
}

/// How a job ended for this worker.
enum End {
    Done,
    Returned,
    Failed,
    Lost,
}
