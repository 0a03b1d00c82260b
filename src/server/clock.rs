//! The clocks of the server, and its way to lock a mutex.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::sample::Now;

/// Reads the time since its start together with the time since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Instant);

impl Clock {
    pub fn start() -> Self {
        Self(Instant::now())
    }

    pub fn now(self) -> Now {
        Now { elapsed: self.0.elapsed(), unix: unix_time() }
    }
}

/// Seconds since 1970-01-01 UTC.
#[expect(clippy::disallowed_methods, reason = "the one function that asks the system")]
pub fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Locks a mutex even if it is poisoned: the state behind the server's locks is consistent after every statement, so a
/// panic leaves it usable.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
