//! The clocks of the server.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use leakage::sample::Now;

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
