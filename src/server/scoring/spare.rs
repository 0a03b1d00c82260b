//! Estimates how many cores are idle, so that scoring does not slow down training. Priorities alone do not achieve that:
//! they do not extend beyond a container or session, and even a thread of the lowest priority uses gaps between parallel
//! sections that training needs. Beside PyTorch with two threads on two cores, a loop at `SCHED_IDLE` got 0.12 of a core
//! and epochs took about as much longer.
//!
//! CPU time used by scoring does not count as idle, because it may have been taken from training. A share that follows
//! the idle cores therefore settles at half of what is free.

use std::time::{Duration, Instant};

use sysinfo::{Cpu, CpuRefreshKind, RefreshKind, System};

use super::cpu_quota::CpuQuota;

/// Minimum time between two measurements; shorter periods contain too few clock ticks.
const PERIOD: Duration = Duration::from_secs(1);

/// Idle cores that are not free: gaps between the parallel sections of training.
const GAPS: f64 = 0.5;

/// Weight of the newest period in the moving average. It covers two to three periods, so that scoring does not start in
/// a pause between two epochs.
const NEWEST: f64 = 0.4;

/// A moving average of the free cores.
pub struct Spare {
    system: System,
    quota: CpuQuota,
    before: Option<Instant>,
    cores: Option<f64>,
}

impl Default for Spare {
    fn default() -> Self {
        let cpu = CpuRefreshKind::nothing().with_cpu_usage();
        let system = System::new_with_specifics(RefreshKind::nothing().with_cpu(cpu));
        Self { system, quota: CpuQuota::default(), before: None, cores: None }
    }
}

impl Spare {
    /// The free cores among those that this process may run on: idle cores, or what its control group has left of its
    /// quota, less half a core for gaps, averaged over the last seconds. `None` less than a period after the last measurement, and if the system does not report CPU usage.
    pub fn look(&mut self, now: Instant) -> Option<f64> {
        if self.before.is_some_and(|before| now.duration_since(before) < PERIOD) {
            return None;
        }
        self.system.refresh_cpu_usage();
        let before = self.before.replace(now);
        let left = self.quota.look(before.map_or(PERIOD, |before| now.duration_since(before)).as_secs_f64());
        before?;
        if self.system.cpus().is_empty() {
            return None;
        }
        let allowed = allowed();
        let idle = |cpu: &Cpu| if allowed(cpu) { 1.0 - f64::from(cpu.cpu_usage()) / 100.0 } else { 0.0 };
        let idle: f64 = self.system.cpus().iter().map(idle).sum();
        self.cores = Some(free(self.cores, left.map_or(idle, |left| left.min(idle))));
        self.cores
    }
}

/// Updates the average of free cores with the idle cores of the newest period.
fn free(before: Option<f64>, idle: f64) -> f64 {
    let newest = (idle - GAPS).max(0.0);
    before.map_or(newest, |before| before + NEWEST * (newest - before))
}

/// Whether this process may run on a core: on a cluster, a job may have only some of a machine's cores.
#[cfg(target_os = "linux")]
fn allowed() -> impl Fn(&Cpu) -> bool {
    use rustix::thread::{CpuSet, sched_getaffinity};
    let allowed = sched_getaffinity(None).ok();
    move |cpu| {
        let core = cpu.name().strip_prefix("cpu").and_then(|number| number.parse().ok());
        let core = core.filter(|core| *core < CpuSet::MAX_CPU);
        core.zip(allowed.as_ref()).is_none_or(|(core, allowed)| allowed.is_set(core))
    }
}

/// Every core: other systems have no such limit.
#[cfg(not(target_os = "linux"))]
fn allowed() -> impl Fn(&Cpu) -> bool {
    |_| true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_cores_follow_the_idle_ones_within_a_few_periods() {
        assert_eq!(free(None, 2.0), 1.5, "less the gaps");
        assert_eq!(free(None, 0.2), 0.0, "gaps alone are not free");
        let pause = free(Some(0.0), 2.0);
        assert!(pause < 0.75, "one idle period is mostly a pause: {pause}");
        let idle = (0..8).fold(0.0, |cores, _| free(Some(cores), 2.0));
        assert!((1.4..1.5).contains(&idle), "{idle}");
    }

    #[test]
    fn there_are_no_more_free_cores_than_the_machine_has() {
        let mut spare = Spare::default();
        let started = Instant::now();
        assert_eq!(spare.look(started), None, "nothing is known before a period has passed");
        let found = spare.look(started + PERIOD).unwrap();
        assert!((0.0..=spare.system.cpus().len() as f64).contains(&found), "{found}");
        assert_eq!(spare.look(started + PERIOD), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_allowed_cores_cover_the_available_parallelism() {
        let mut spare = Spare::default();
        spare.system.refresh_cpu_usage();
        let may_run_on = allowed();
        let allowed = spare.system.cpus().iter().filter(|cpu| may_run_on(cpu)).count();
        assert!(allowed >= std::thread::available_parallelism().unwrap().get());
    }
}
