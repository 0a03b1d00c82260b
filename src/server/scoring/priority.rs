//! Operating-system calls for scoring threads: lowering their priority, and reading their CPU time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Adds `niceness` (0 to 19) to that of the calling thread. At 19 the thread also gets `SCHED_IDLE`, and with it only
/// otherwise idle cores: a nice thread would keep its core for about a millisecond after a training thread wakes up on
/// it. A failure is only logged, because the CPU share still limits the thread.
#[cfg(target_os = "linux")]
pub fn lower(niceness: i32) {
    let parameter = libc::sched_param { sched_priority: 0 };
    // SAFETY: setpriority takes and returns plain numbers; sched_setscheduler reads a valid parameter.
    let failed = unsafe {
        // On Linux each thread has its own priority, and 0 is the calling thread. (gettid would need glibc 2.30.)
        libc::setpriority(libc::PRIO_PROCESS, 0, niceness) != 0
            || (niceness == 19 && libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const parameter) != 0)
    };
    if failed {
        tracing::debug!("the priority of a scoring thread could not be lowered");
    }
}

/// Does nothing: other systems have no per-thread priority that is set in this way.
#[cfg(not(target_os = "linux"))]
pub fn lower(_niceness: i32) {}

/// CPU time of the calling thread.
pub fn thread_cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
