//! Sessions of browsers that have shown the token: random, bounded in number and time, and ended by whoever has them.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom, SystemRandom};

use crate::server::clock::lock;

/// How long a session lasts.
pub const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Sessions at a time; the oldest ends for a new one.
const MOST: usize = 256;

/// The sessions of a port. They are kept by the hash of their number, so that looking one up takes no time that depends
/// on how much of a guess is right.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<[u8; 32], Instant>>);

impl Sessions {
    /// The number of a new session, 64 hexadecimal digits; `None` if the system has no random numbers.
    pub fn begin(&self, now: Instant) -> Option<String> {
        let mut number = [0; 32];
        SystemRandom::new().fill(&mut number).ok()?;
        let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut begun = lock(&self.0);
        begun.retain(|_, since| now.duration_since(*since) < LASTS);
        if begun.len() >= MOST
            && let Some(oldest) = begun.iter().min_by_key(|(_, since)| **since).map(|(key, _)| *key)
        {
            begun.remove(&oldest);
        }
        begun.insert(key(&number), now);
        Some(number)
    }

    pub fn is_open(&self, number: &str, now: Instant) -> bool {
        lock(&self.0).get(&key(number)).is_some_and(|since| now.duration_since(*since) < LASTS)
    }

    pub fn end(&self, number: &str) {
        lock(&self.0).remove(&key(number));
    }
}

fn key(number: &str) -> [u8; 32] {
    let mut key = [0; 32];
    key.copy_from_slice(digest(&SHA256, number.as_bytes()).as_ref());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_in_time_and_number() {
        let (sessions, now) = (Sessions::default(), Instant::now());
        let first = sessions.begin(now).unwrap();
        assert!(first.len() == 64 && sessions.is_open(&first, now) && !sessions.is_open(&first[1..], now));
        assert!(!sessions.is_open(&first, now + LASTS));
        sessions.end(&first);
        assert!(!sessions.is_open(&first, now));
        let early = sessions.begin(now).unwrap();
        let later = now + Duration::from_secs(1);
        let many: Vec<_> = (0..MOST).map(|_| sessions.begin(later).unwrap()).collect();
        assert!(!sessions.is_open(&early, later) && many.iter().all(|number| sessions.is_open(number, later)));
        assert_eq!(lock(&sessions.0).len(), MOST);
    }
}
