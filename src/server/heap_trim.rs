//! Decides when to return memory to the system: when nothing is read or scored for a moment, and now and then while there
//! is. The allocator would otherwise keep what a burst needed.

use std::time::{Duration, Instant};

/// Time without work after which memory is returned.
const REST: Duration = Duration::from_secs(2);
/// Time of work after which it is returned all the same.
const LONGEST: Duration = Duration::from_secs(30);

/// Tracks when there was last work.
#[derive(Default)]
pub struct Release {
    work: u64,
    /// The first and the last check that saw new work; `None` once memory has been returned since.
    busy: Option<(Instant, Instant)>,
}

impl Release {
    /// Whether to return memory now: there was work, but none for [`REST`], or for [`LONGEST`]. `work` is a running total
    /// of anything that allocates.
    pub fn is_due(&mut self, work: u64, now: Instant) -> bool {
        if work != self.work {
            self.work = work;
            let first = self.busy.map_or(now, |(first, _)| first);
            self.busy = Some((first, now));
        }
        let is_due = |(first, last): &mut (Instant, Instant)| {
            now.duration_since(*last) >= REST || now.duration_since(*first) >= LONGEST
        };
        self.busy.take_if(is_due).is_some()
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

    #[test]
    fn memory_is_returned_now_and_then_while_work_goes_on() {
        let start = Instant::now();
        let mut release = Release::default();
        let due: Vec<u64> = (1..=100).filter(|at| release.is_due(*at, start + Duration::from_secs(*at))).collect();
        assert_eq!(due, [31, 62, 93]);
    }
}
