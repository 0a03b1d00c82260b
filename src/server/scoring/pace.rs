//! CPU time that a thread has used and not yet charged to the schedule.

use std::cell::Cell;
use std::time::Duration;

use super::priority::thread_cpu_time;

thread_local! {
    static PAID: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time of the calling thread that has not been charged.
pub fn unpaid() -> Duration {
    thread_cpu_time().saturating_sub(PAID.get())
}

/// Returns [`unpaid`] and marks it as charged.
pub fn pay() -> Duration {
    let now = thread_cpu_time();
    now.saturating_sub(PAID.replace(now))
}
