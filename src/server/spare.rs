//! How many cores nobody wants, so that scoring can keep out of the way of training: priorities alone do not do that.
//! They end at the borders of containers and sessions, and even a thread of the lowest takes gaps that are too short to
//! be free: beside PyTorch with two threads on two cores, a loop at `SCHED_IDLE` got 0.12 of a core and epochs took
//! about as much longer.
//!
//! What scoring itself uses is not counted as free, for the same reason: it may have been taken from training. A share
//! that follows the idle cores so settles at half of what is free.

use std::time::{Duration, Instant};

use sysinfo::{Cpu, CpuRefreshKind, RefreshKind, System};

/// From one look to the next at the earliest; shorter ones see too few clock ticks.
const PERIOD: Duration = Duration::from_secs(1);

/// Idle time that is not free: gaps of training between its parallel sections.
const GAPS: f64 = 0.5;

/// Weight of the newest period: two to three periods are remembered, so that a pause between two epochs is no reason to
/// begin.
const NEWEST: f64 = 0.4;

/// What is known about free cores.
pub struct Spare {
    system: System,
    before: Option<Instant>,
    cores: Option<f64>,
}

impl Default for Spare {
    fn default() -> Self {
        let cpu = CpuRefreshKind::nothing().with_cpu_usage();
        Self { system: System::new_with_specifics(RefreshKind::nothing().with_cpu(cpu)), before: None, cores: None }
    }
}

impl Spare {
    /// Idle cores of those that this process may run on, less half a core for gaps: a mean of the last seconds. `None`
    /// where a period has not passed since the last answer, and where the system does not tell.
    pub fn look(&mut self, now: Instant) -> Option<f64> {
        if self.before.is_some_and(|before| now.duration_since(before) < PERIOD) {
            return None;
        }
        self.system.refresh_cpu_usage();
        self.before.replace(now)?;
        if self.system.cpus().is_empty() {
            return None;
        }
        let allowed = allowed();
        let idle = |cpu: &Cpu| if allowed(cpu) { 1.0 - f64::from(cpu.cpu_usage()) / 100.0 } else { 0.0 };
        let idle: f64 = self.system.cpus().iter().map(idle).sum();
        self.cores = Some(free(self.cores, idle));
        self.cores
    }
}

/// Free cores, from those found before and the idle ones of the newest period.
fn free(before: Option<f64>, idle: f64) -> f64 {
    let newest = (idle - GAPS).max(0.0);
    before.map_or(newest, |before| before + NEWEST * (newest - before))
}

/// Whether this process was given a core: on a cluster a job has some of a machine's, and the others are not its own.
#[cfg(target_os = "linux")]
fn allowed() -> impl Fn(&Cpu) -> bool {
    let mut allowed = std::mem::MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: the set is valid all zeros and is as long as is said.
    let (failed, allowed) = unsafe {
        let failed = libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), allowed.as_mut_ptr()) != 0;
        (failed, allowed.assume_init())
    };
    move |cpu| {
        let Some(core) = cpu.name().strip_prefix("cpu").and_then(|number| number.parse::<usize>().ok()) else {
            return true;
        };
        // SAFETY: the set holds every core below CPU_SETSIZE.
        failed || core >= libc::CPU_SETSIZE as usize || unsafe { libc::CPU_ISSET(core, &allowed) }
    }
}

/// Elsewhere a process may run on every core.
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
    fn the_cores_of_this_process_are_as_many_as_it_has() {
        let mut spare = Spare::default();
        spare.system.refresh_cpu_usage();
        let may_run_on = allowed();
        let allowed = spare.system.cpus().iter().filter(|cpu| may_run_on(cpu)).count();
        assert!(allowed >= std::thread::available_parallelism().unwrap().get());
    }
}
