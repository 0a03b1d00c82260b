//! What the operating system is told about scoring threads: let training go first, and how much CPU time they took.

use std::time::Duration;

/// Adds `niceness` (0 to 19) to the calling thread's, which at 19 gets only cores that nobody else wants (`SCHED_IDLE`).
/// Niceness alone is not enough: a nice thread that has begun is let run on for a millisecond or so when a training
/// thread wakes up on its core. Failing to is no fault: the CPU share still holds.
#[cfg(target_os = "linux")]
pub fn lower(niceness: i32) {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: gettid and setpriority take and return plain numbers; sched_setscheduler reads a valid parameter. 0 is the
    // calling thread.
    let failed = unsafe {
        // Linux threads have priorities of their own, named by their thread id.
        let thread = libc::gettid().cast_unsigned();
        libc::setpriority(libc::PRIO_PROCESS, thread, niceness) != 0
            || (niceness == 19 && libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) != 0)
    };
    if failed {
        tracing::debug!("the priority of a scoring thread could not be lowered");
    }
}

/// Elsewhere a thread has no priority of its own that can be set in the same way.
#[cfg(not(target_os = "linux"))]
pub fn lower(_niceness: i32) {}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the answer, and the clock exists on every supported system.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) != 0 };
    if failed { Duration::ZERO } else { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) }
}
