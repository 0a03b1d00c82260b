//! A wish to stop, which threads can wait for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::lock::lock;

/// Clones share the wish.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<(Mutex<bool>, Condvar)>);

impl Stop {
    pub fn stop(&self) {
        *lock(&self.0.0) = true;
        self.0.1.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        *lock(&self.0.0)
    }

    /// Waits for this long, or until it is to stop. Returns whether it is.
    pub fn wait(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        let mut stopping = lock(&self.0.0);
        while !*stopping {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            stopping = self.0.1.wait_timeout(stopping, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}
