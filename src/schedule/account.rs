//! The CPU account: scoring runs beside training and may take a share of CPU time, not more.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;

/// CPU time that scoring may take.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// CPU-seconds per second, above 0; above 1 where several threads may score.
    pub cpu_share: f64,
    /// CPU time saved up at most in quiet times, so that short jobs after them run at once.
    pub burst: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { cpu_share: 0.25, burst: Duration::from_secs(2) }
    }
}

/// Part of the CPU share that slow scores may take.
const SLOW_PART: f64 = 0.2;

impl Budget {
    /// What fast scores and slow scores may take, each by a schedule of its own: together no more than the whole. A
    /// slow score is paid for out of its part alone, so that no fast one waits for it.
    pub fn parts(self) -> [Budget; 2] {
        [1.0 - SLOW_PART, SLOW_PART]
            .map(|part| Budget { cpu_share: part * self.cpu_share, burst: self.burst.mul_f64(part) })
    }

    /// Errors naming what is out of range.
    pub fn check(&self) -> Result<(), Fault> {
        if self.cpu_share.is_finite() && self.cpu_share >= 1e-6 {
            return Ok(());
        }
        Err(Fault::new("cpu_share", format!("{} came, expected a finite number from 0.000001 on", self.cpu_share)))
    }
}

/// Refills at the share, up to the burst; a job may overdraw it, and the next one starts when that is paid back.
/// Over any stretch of time T jobs so take at most share · T + burst + the CPU time of one job.
#[derive(Clone, Debug)]
pub(super) struct Account {
    budget: Budget,
    /// CPU-seconds; below 0 while a debt is being paid.
    balance: f64,
    at: Duration,
}

impl Account {
    pub fn new(budget: Budget, now: Duration) -> Self {
        Self { budget, balance: budget.burst.as_secs_f64(), at: now }
    }

    /// From when on a job may start.
    pub fn free_at(&self) -> Duration {
        if self.balance >= 0.0 {
            return self.at;
        }
        let wait = -self.balance / self.budget.cpu_share;
        self.at.saturating_add(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// Takes the CPU time of a job that ended `now`.
    pub fn charge(&mut self, cpu: Duration, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let refilled = self.balance + passed * self.budget.cpu_share;
        self.balance = refilled.min(self.budget.burst.as_secs_f64()) - cpu.as_secs_f64();
        self.at = self.at.max(now);
    }
}
