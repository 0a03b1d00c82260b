//! Decides when to return memory to the system: when ingest is idle. The allocator would otherwise keep what a burst of
//! batches needed.

use std::time::{Duration, Instant};

/// Time without a batch after which memory is returned.
const REST: Duration = Duration::from_secs(2);

/// Tracks when ingest last received bytes.
#[derive(Default)]
pub struct Release {
    received_bytes: u64,
    /// The last check that saw new bytes; `None` once memory has been returned since.
    busy: Option<Instant>,
}

impl Release {
    /// Whether to return memory now: batches were received, but none for [`REST`]. `received_bytes` is a running total.
    pub fn is_due(&mut self, received_bytes: u64, now: Instant) -> bool {
        if received_bytes != self.received_bytes {
            self.received_bytes = received_bytes;
            self.busy = Some(now);
        }
        self.busy.take_if(|busy| now.duration_since(*busy) >= REST).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_returned_once_after_each_burst() {
        let start = Instant::now();
        let at = |seconds: f64| start + Duration::from_secs_f64(seconds);
        let mut release = Release::default();
        assert!(!release.is_due(0, at(10.0)));
        assert!(!release.is_due(100, at(11.0)));
        assert!(!release.is_due(200, at(12.5)));
        assert!(!release.is_due(200, at(14.0)));
        assert!(release.is_due(200, at(14.5)));
        assert!(!release.is_due(200, at(20.0)));
        assert!(!release.is_due(300, at(21.0)));
        assert!(release.is_due(300, at(23.0)));
    }
}
