//! The shell's clocks, and its locks.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::sample::Now;

/// Time since the process started, beside that of the world.
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

/// State behind these locks is whole between any two statements, so a panic elsewhere does not spoil it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
