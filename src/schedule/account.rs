//! The CPU account: scoring runs beside training and is limited to a share of CPU time.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use leakage::field_error::FieldError;

/// Limits on the CPU time of scoring.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// CPU-seconds per second, above 0; above 1 where several threads may score.
    pub cpu_share: f64,
    /// The share while other work keeps every core busy, above 0; capped at `cpu_share`.
    pub busy_cpu_share: f64,
    /// Idle periods save up at most this much time at the share, so that short jobs after them start at once.
    pub burst: Duration,
}

impl Default for Budget {
    fn default() -> Self {
        Self { cpu_share: 0.25, busy_cpu_share: 0.03, burst: Duration::from_secs(4) }
    }
}

/// The fractions of the CPU share for the first points of passes, fast scores, and slow ones.
const PARTS: [f64; 3] = [0.9, 0.8, 0.2];

impl Budget {
    /// The budgets of the first points of passes, which have the cheap scores, of fast and of slow scores. Each has a
    /// schedule, so that no score waits until the CPU time of one of a higher cost is paid. The last two add up to this
    /// one and also pay for the first, [in these parts](Self::PAID).
    pub fn parts(self) -> [Budget; 3] {
        PARTS.map(|part| self.part(part))
    }

    /// The parts of the CPU time of first points that the budgets of fast and of slow scores pay. These keep a twentieth of
    /// the whole share each where first points take all that they may.
    pub const PAID: [f64; 2] = [5.0 / 6.0, 1.0 / 6.0];

    fn part(self, part: f64) -> Self {
        Budget { cpu_share: part * self.cpu_share, busy_cpu_share: part * self.busy_cpu_share, burst: self.burst }
    }

    /// Errors with the name of a field that is out of range.
    pub fn check(&self) -> Result<(), FieldError> {
        for (name, share) in [("cpu_share", self.cpu_share), ("busy_cpu_share", self.busy_cpu_share)] {
            if !(share.is_finite() && share >= 1e-6) {
                return Err(FieldError::new(
                    name,
                    format!("got {share}, expected a finite number of at least 0.000001"),
                ));
            }
        }
        Ok(())
    }

    /// Maximum CPU-seconds saved up at `share`.
    fn saved_up(&self, share: f64) -> f64 {
        share * self.burst.as_secs_f64()
    }

    /// The share when `cores` are idle.
    fn with_spare(&self, cores: f64) -> f64 {
        cores.max(self.busy_cpu_share).min(self.cpu_share)
    }
}

/// A token bucket that refills at the share, up to the burst. A job may overdraw it; the next job starts when the debt
/// is paid, or when it has itself waited for as long as its own run's part of the share takes to pay for it. Over any time
/// T, jobs take at most share · (T + burst) + the CPU time of one job of each run.
#[derive(Clone, Debug)]
pub(super) struct Account {
    budget: Budget,
    /// Idle cores; infinite until they are known.
    spare: f64,
    /// Balance in CPU-seconds; negative while a debt is being paid.
    balance: f64,
    at: Duration,
}

impl Account {
    pub fn new(budget: Budget, now: Duration) -> Self {
        Self { budget, spare: f64::INFINITY, balance: budget.saved_up(budget.cpu_share), at: now }
    }

    /// The earliest time at which the next job may start.
    pub fn free_at(&self) -> Duration {
        if self.balance >= 0.0 {
            return self.at;
        }
        let wait = -self.balance / self.share();
        self.at.saturating_add(Duration::try_from_secs_f64(wait).unwrap_or(Duration::MAX))
    }

    /// Sets the number of idle cores from `now` on.
    pub fn spare(&mut self, cores: f64, now: Duration) {
        self.charge(Duration::ZERO, now);
        self.spare = cores;
    }

    /// The current share.
    pub fn share(&self) -> f64 {
        self.budget.with_spare(self.spare)
    }

    pub fn pace(&self) -> f64 {
        self.spare.max(self.budget.busy_cpu_share)
    }

    /// Charges the CPU time that a job used by `now`.
    pub fn charge(&mut self, cpu: Duration, now: Duration) {
        let passed = now.saturating_sub(self.at).as_secs_f64();
        let share = self.share();
        let refilled = self.balance + passed * share;
        self.balance = refilled.min(self.budget.saved_up(share)) - cpu.as_secs_f64();
        self.at = self.at.max(now);
    }
}
