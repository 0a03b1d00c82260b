//! What a thread has used of the CPU since it last paid for it.

use std::cell::Cell;
use std::time::Duration;

use super::priority::thread_cpu_time;

thread_local! {
    static PAID: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

/// CPU time of the calling thread that it has not paid for.
pub fn unpaid() -> Duration {
    thread_cpu_time().saturating_sub(PAID.get())
}

/// [`unpaid`], which is paid with this.
pub fn pay() -> Duration {
    let now = thread_cpu_time();
    now.saturating_sub(PAID.replace(now))
}
