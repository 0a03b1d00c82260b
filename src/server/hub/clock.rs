//! The database's clock, by which all hubs judge lateness, because their own clocks may differ.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::server::clock::unix_time;

/// This process's clock, set by the database's.
#[derive(Debug, Default)]
pub struct DatabaseClock {
    /// Seconds that the database is ahead, as the bits of an f64.
    ahead: AtomicU64,
}

impl DatabaseClock {
    /// `time` is the database's, in seconds since 1970-01-01 UTC.
    pub fn set(&self, time: f64) {
        self.ahead.store((time - unix_time()).to_bits(), Ordering::Relaxed);
    }

    /// Seconds since 1970-01-01 UTC.
    pub fn now(&self) -> f64 {
        unix_time() + f64::from_bits(self.ahead.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_goes_on_from_what_the_database_says() {
        let clock = DatabaseClock::default();
        assert!((clock.now() - unix_time()).abs() < 60.0);
        clock.set(unix_time() - 7200.0);
        assert!((clock.now() - unix_time() + 7200.0).abs() < 60.0);
    }
}
