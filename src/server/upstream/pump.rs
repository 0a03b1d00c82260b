//! The choice of when to send, to which hub, and how much, as plain state without clock or socket.
//!
//! One request is in flight at a time. A hub that cannot be reached is left for the next one at once; when all have
//! failed there is a pause, which doubles up to [`LONGEST`]. A request that a hub can never take is halved until the entry
//! at fault is alone.

use std::time::Duration;

use crate::server::grpc::hub::client::Failure;

/// The first pause after every hub has failed.
const FIRST: Duration = Duration::from_millis(250);
/// The longest pause: a hub that is back is called within this time.
const LONGEST: Duration = Duration::from_secs(10);

/// Bytes of a request at most, unless a single entry has more.
pub const MOST_BYTES: usize = 1 << 20;

/// The next thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Send to the hub of this index.
    Now {
        hub: usize,
    },
    Wait(Duration),
}

/// The meaning of an answer for the entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Entries up to this number can be forgotten.
    UpTo(u64),
    /// The hub has numbers of this source that this outbox never sent: it is an older copy of one that went on, and its
    /// entries need numbers above this one.
    Behind(u64),
    /// None was applied.
    Nothing,
}

#[derive(Clone, Debug)]
pub struct Pump {
    hubs: usize,
    hub: usize,
    /// Failures since the last answer.
    failures: u32,
    /// Hubs that failed since the last pause.
    tried: usize,
    pause: Option<Duration>,
    bytes: usize,
    /// The highest number that may have been sent.
    sent: u64,
}

impl Pump {
    /// Begins with `hubs` addresses and an outbox that has given out numbers up to `newest` in the past.
    pub fn new(hubs: usize, newest: u64) -> Self {
        Self { hubs: hubs.max(1), hub: 0, failures: 0, tried: 0, pause: None, bytes: MOST_BYTES, sent: newest }
    }

    /// Bytes that the next request may have.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    pub fn next(&mut self) -> Next {
        self.pause.take().map_or(Next::Now { hub: self.hub }, Next::Wait)
    }

    /// Notes that entries up to `last` are about to be sent, or are known to have been.
    pub fn sends(&mut self, last: u64) {
        self.sent = self.sent.max(last);
    }

    /// The hub has answered that it applied, or will never apply, all entries up to `applied`. `sent` are the first and the
    /// last number of the request; `None` for one without entries. `jitter` is in [0, 1].
    pub fn answered(&mut self, applied: u64, sent: Option<(u64, u64)>, jitter: f64) -> Settled {
        if applied > self.sent {
            self.succeed();
            return Settled::Behind(applied);
        }
        match sent {
            Some((first, _)) if applied < first => {
                // Else the same request would be sent without end.
                self.failed(&Failure::Unreachable { pause: None }, jitter);
                Settled::Nothing
            }
            _ => {
                self.succeed();
                Settled::UpTo(applied)
            }
        }
    }

    fn succeed(&mut self) {
        (self.failures, self.tried, self.pause) = (0, 0, None);
        self.bytes = (2 * self.bytes).min(MOST_BYTES);
    }

    /// Notes that the present hub has not answered. `jitter` in [0, 1] spreads the pauses of many sidecars.
    pub fn failed(&mut self, failure: &Failure, jitter: f64) {
        if *failure == Failure::Unfit {
            self.bytes = (self.bytes / 2).max(1);
            return;
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const LOST: Failure = Failure::Unreachable { pause: None };

    /// The pauses after failures, one after the other.
    fn pauses(pump: &mut Pump, failure: &Failure, rounds: usize) -> Vec<u128> {
        let paused = |next| match next {
            Next::Wait(pause) => Some(pause.as_millis()),
            Next::Now { .. } => None,
        };
        let mut pauses = Vec::new();
        while pauses.len() < rounds {
            pump.failed(failure, 1.0);
            pauses.extend(paused(pump.next()));
        }
        pauses
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_start_over_after_an_answer() {
        let mut pump = Pump::new(1, 0);
        assert_eq!(pauses(&mut pump, &LOST, 8), [250, 500, 1000, 2000, 4000, 8000, 10_000, 10_000]);
        pump.sends(3);
        assert_eq!(pump.answered(3, Some((1, 3)), 0.0), Settled::UpTo(3));
        assert_eq!(pauses(&mut pump, &LOST, 2), [250, 500]);
        assert_eq!(pauses(&mut Pump::new(1, 0), &Failure::Refused, 2), [10_000, 10_000]);
        let asked = Failure::Unreachable { pause: Some(Duration::from_secs(3600)) };
        assert_eq!(pauses(&mut Pump::new(1, 0), &asked, 1), [10_000]);
        for (jitter, least) in [(0.0, 125), (0.5, 187), (1.0, 250)] {
            let mut pump = Pump::new(1, 0);
            pump.failed(&LOST, jitter);
            let Next::Wait(pause) = pump.next() else { panic!("no pause") };
            assert_eq!(pause.as_millis(), least);
        }
    }

    #[test]
    fn each_hub_is_tried_before_a_pause_and_the_one_that_answers_is_kept() {
        let mut pump = Pump::new(3, 0);
        let mut order = Vec::new();
        for _ in 0..4 {
            match pump.next() {
                Next::Now { hub } => {
                    order.push(hub);
                    pump.failed(&LOST, 1.0);
                }
                Next::Wait(_) => order.push(9),
            }
        }
        assert_eq!(order, [0, 1, 2, 9]);
        pump.failed(&LOST, 1.0);
        assert_eq!(pump.next(), Next::Now { hub: 1 });
        pump.sends(1);
        assert_eq!(pump.answered(1, Some((1, 1)), 0.0), Settled::UpTo(1));
        assert_eq!(pump.next(), Next::Now { hub: 1 });
    }

    #[test]
    fn only_what_a_hub_has_applied_is_forgotten() {
        let mut pump = Pump::new(1, 0);
        pump.sends(5);
        assert_eq!(pump.answered(3, Some((1, 5)), 0.0), Settled::UpTo(3));
        assert_eq!(pump.next(), Next::Now { hub: 0 });
        // An answer that applies nothing is followed by a pause.
        assert_eq!(pump.answered(3, Some((4, 5)), 0.0), Settled::Nothing);
        assert!(matches!(pump.next(), Next::Wait(_)));
        // A request sent again whose first answer was lost.
        assert_eq!(pump.answered(5, Some((4, 5)), 0.0), Settled::UpTo(5));
        // A greeting.
        assert_eq!(pump.answered(0, None, 0.0), Settled::UpTo(0));
    }

    #[test]
    fn an_outbox_that_was_restored_from_a_copy_is_told_so() {
        let mut pump = Pump::new(1, 90);
        assert_eq!(pump.answered(90, None, 0.0), Settled::UpTo(90), "what an earlier process has sent");
        assert_eq!(pump.answered(100, None, 0.0), Settled::Behind(100));
        assert_eq!(pump.answered(100, None, 0.0), Settled::Behind(100), "until the entries have other numbers");
        pump.sends(100);
        assert_eq!(pump.answered(100, None, 0.0), Settled::UpTo(100));
        pump.sends(104);
        assert_eq!(pump.answered(104, Some((101, 104)), 0.0), Settled::UpTo(104));
    }

    #[test]
    fn a_request_that_no_hub_takes_is_halved_until_an_entry_is_alone() {
        let mut pump = Pump::new(1, 0);
        for _ in 0..30 {
            pump.failed(&Failure::Unfit, 0.0);
            assert_eq!(pump.next(), Next::Now { hub: 0 }, "at once");
        }
        assert_eq!(pump.bytes(), 1);
        for _ in 0..30 {
            pump.answered(0, None, 0.0);
        }
        assert_eq!(pump.bytes(), MOST_BYTES);
    }
}
