//! Wrong tokens: counted, logged and answered late, by peer, in bounded memory.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::connection_limit::Visit;
use super::listener::Peer;
use crate::lock::lock;

/// Delay after the first wrong token of a peer; it doubles with each further one.
const FIRST: Duration = Duration::from_millis(20);
/// Time without a wrong token after which a peer starts again.
const FORGET: Duration = Duration::from_secs(60);
/// Peers that are remembered, and answers that wait, at a time.
const PEERS: usize = 1024;
const WAITING: usize = 64;

/// The wrong tokens that a port has been given lately.
pub struct Attempts {
    longest: Duration,
    /// Number of wrong tokens, and when the last one came.
    failed: Mutex<HashMap<Origin, (u32, Instant)>>,
    waiting: Semaphore,
    count: IntCounter,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Origin {
    Address(IpAddr),
    User(Option<u32>),
    /// All peers for whom there is no room.
    Others,
}

impl Attempts {
    /// `longest` is the longest delay; `count` counts wrong tokens.
    pub fn new(longest: Duration, count: IntCounter) -> Self {
        Self { longest, failed: Mutex::default(), waiting: Semaphore::new(WAITING), count }
    }

    /// Notes a wrong token, and completes when it may be answered. Where too many answers wait already, the connection
    /// ends instead.
    pub async fn failed(&self, visit: Option<&Visit>) {
        self.count.inc();
        let Some(visit) = visit else { return };
        tracing::warn!(peer = %visit.peer(), "a request with a wrong token was refused");
        let delay = self.delay(visit.peer(), Instant::now());
        match self.waiting.try_acquire() {
            Ok(_place) => sleep(delay).await,
            Err(_) => visit.dismiss(),
        }
    }

    fn delay(&self, peer: &Peer, now: Instant) -> Duration {
        let origin = match peer {
            Peer::Tcp(address) => Origin::Address(address.ip()),
            Peer::Unix(user) => Origin::User(*user),
        };
        let mut failed = lock(&self.failed);
        if failed.len() >= PEERS && !failed.contains_key(&origin) {
            failed.retain(|_, (_, last)| now.duration_since(*last) < FORGET);
        }
        let origin = if failed.len() < PEERS || failed.contains_key(&origin) { origin } else { Origin::Others };
        let (count, last) = failed.entry(origin).or_insert((0, now));
        if now.duration_since(*last) >= FORGET {
            *count = 0;
        }
        let delay = FIRST.saturating_mul(1 << (*count).min(16)).min(self.longest);
        (*count, *last) = (*count + 1, now);
        delay
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wrong_token_of_a_peer_is_answered_later_than_the_one_before() {
        let longest = Duration::from_secs(1);
        let attempts = Attempts::new(longest, IntCounter::new("count", "wrong tokens").unwrap());
        let (one, other) = (Peer::Tcp(([10, 0, 0, 1], 1).into()), Peer::Unix(Some(7)));
        let now = Instant::now();
        let delays: Vec<_> = (0..8).map(|_| attempts.delay(&one, now)).collect();
        assert!(delays[0] == FIRST && delays[1] == 2 * FIRST && delays[7] == longest, "{delays:?}");
        assert_eq!(attempts.delay(&other, now), FIRST);
        assert_eq!(attempts.delay(&one, now + FORGET), FIRST);
        // Many peers share what is left.
        for number in 0..10_000_u32 {
            attempts.delay(&Peer::Tcp((std::net::Ipv4Addr::from(number), 1).into()), now + FORGET);
        }
        assert!(lock(&attempts.failed).len() <= PEERS + 1);
        assert_eq!(attempts.delay(&Peer::Unix(Some(9)), now + FORGET), longest);
    }
}
