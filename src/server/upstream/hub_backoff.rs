//! The choice of the next hub and the time of its call, as plain state without clock or socket.
//!
//! After a hub that cannot be reached the next one follows at once; when all have failed there is a pause, which doubles up
//! to [`LONGEST`].

use std::time::Duration;

use crate::server::grpc::hub::client::Failure;

/// The first pause after every hub has failed.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause: a hub that is back is called within this time.
const LONGEST: Duration = Duration::from_secs(10);

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send to the hub of this index.
    Now {
        hub: usize,
    },
    Wait(Duration),
}

#[derive(Clone, Debug)]
pub struct Turn {
    hubs: usize,
    hub: usize,
    /// Failures since the last answer.
    failures: u32,
    /// Hubs that failed since the last pause.
    tried: usize,
    pause: Option<Duration>,
}

impl Turn {
    pub fn new(hubs: usize) -> Self {
        Self { hubs: hubs.max(1), hub: 0, failures: 0, tried: 0, pause: None }
    }

    pub fn next(&mut self) -> Next {
        match self.pause.take() {
            Some(pause) => Next::Wait(pause),
            None => Next::Now { hub: self.hub },
        }
    }

    pub fn answered(&mut self) {
        (self.failures, self.tried, self.pause) = (0, 0, None);
    }

    /// Notes that the current hub has not answered. `jitter` in [0, 1] spreads the pauses of many sidecars.
    pub fn failed(&mut self, failure: &Failure, jitter: f64) {
        self.failures = self.failures.saturating_add(1);
        self.tried += 1;
        self.hub = (self.hub + 1) % self.hubs;
        if self.tried < self.hubs {
            return;
        }
        self.tried = 0;
        let pause = match failure {
            // Retrying does not help before someone mends it.
            Failure::Refused => LONGEST,
            Failure::Unreachable { pause: Some(pause) } => (*pause).clamp(FIRST, LONGEST),
            _ => {
                let rounds = (self.failures / self.hubs as u32).clamp(1, 16);
                FIRST.saturating_mul(1 << (rounds - 1)).min(LONGEST)
            }
        };
        self.pause = Some(pause.mul_f64(0.5 + 0.5 * jitter.clamp(0.0, 1.0)));
    }
}
