//! How many cores nobody else wants, so that scoring can keep out of the way of training: priorities alone do not do
//! that. They end at the borders of containers and sessions, and a thread of low priority that got a core keeps it for
//! a millisecond or so while a training thread, awake again, waits; all others then wait for that one at their barrier.

use std::time::{Duration, Instant};

use sysinfo::{Cpu, CpuRefreshKind, RefreshKind, System};

/// From one look to the next at the earliest; shorter ones see too few clock ticks.
const PERIOD: Duration = Duration::from_secs(1);

/// Weight of the newest period: two to three periods are remembered, so that a pause between two epochs is no reason to
/// begin.
const NEWEST: f64 = 0.4;

/// What is known about free cores.
pub struct Spare {
    system: System,
    before: Option<Look>,
    cores: Option<f64>,
}

#[derive(Clone, Copy)]
struct Look {
    at: Instant,
    /// CPU time of this process.
    own: Duration,
}

impl Default for Spare {
    fn default() -> Self {
        let cpu = CpuRefreshKind::nothing().with_cpu_usage();
        Self { system: System::new_with_specifics(RefreshKind::nothing().with_cpu(cpu)), before: None, cores: None }
    }
}

impl Spare {
    /// Cores that are idle or taken by this process, of those it may run on: a mean of the last seconds. `None` where a
    /// period has not passed since the last answer, and where the system does not tell.
    pub fn look(&mut self, now: Instant) -> Option<f64> {
        if self.before.as_ref().is_some_and(|before| now.duration_since(before.at) < PERIOD) {
            return None;
        }
        self.system.refresh_cpu_usage();
        let look = Look { at: now, own: process_cpu_time() };
        let before = self.before.replace(look)?;
        if self.system.cpus().is_empty() {
            return None;
        }
        let allowed = allowed();
        let idle = |cpu: &Cpu| if allowed(cpu) { 1.0 - f64::from(cpu.cpu_usage()) / 100.0 } else { 0.0 };
        let idle: f64 = self.system.cpus().iter().map(idle).sum();
        let own = look.own.saturating_sub(before.own).as_secs_f64() / now.duration_since(before.at).as_secs_f64();
        let newest = idle.max(0.0) + own;
        let cores = self.cores.map_or(newest, |cores| cores + NEWEST * (newest - cores));
        self.cores = Some(cores);
        Some(cores)
    }
}

/// CPU time of all threads of this process.
fn process_cpu_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is a valid place for the answer, and all zeros are a valid one where there is none.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Duration::from_secs_f64((seconds(usage.ru_utime) + seconds(usage.ru_stime)).max(0.0))
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

    fn after_a_period(spare: &mut Spare, work: impl Fn()) -> f64 {
        let end = Instant::now() + PERIOD;
        while Instant::now() < end {
            work();
        }
        spare.look(Instant::now()).unwrap()
    }

    #[test]
    fn work_of_this_process_is_counted_as_free_and_there_are_no_more_cores_than_the_machine_has() {
        let mut spare = Spare::default();
        assert_eq!(spare.look(Instant::now()), None);
        let cores = std::thread::available_parallelism().unwrap().get() as f64;
        // This test's own thread is busy, and no other need be idle: at least most of a core is this process's, unless
        // the machine is crowded.
        let found = after_a_period(&mut spare, || {
            std::hint::black_box((0..1000).sum::<u64>());
        });
        assert!(found > 0.05 && found < 1.3 * cores + 0.5, "{found} of {cores}");
        assert_eq!(spare.look(Instant::now()), None);
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
