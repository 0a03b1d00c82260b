//! Sessions of browsers that have shown the token.
//!
//! The cookie is the session: when it ends and a random number, with an HMAC-SHA256 under a key derived from the token. No
//! process has to remember it, so it holds at every hub with the same token, whichever a balancer chooses, and after a
//! restart. Another token is another key, and ends all sessions.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::lock::lock;

/// How long a session lasts.
pub const LASTS: Duration = Duration::from_secs(12 * 3600);
/// Sessions that are remembered as ended before their time; beyond that the one that ends first is forgotten.
const MOST: usize = 256;

/// The sessions of a token. Times are in seconds since 1970-01-01 UTC.
pub struct Sessions {
    key: hmac::Key,
    /// Sessions that were ended here before their time, by their end. Other processes do not know of them: the browser
    /// ends a session everywhere, by deleting the cookie.
    ended: Mutex<BTreeSet<(u64, String)>>,
}

impl Sessions {
    pub fn new(token: &str) -> Self {
        let token = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        let key = hmac::sign(&token, b"conceptwatch: sessions of browsers");
        Self { key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()), ended: Mutex::default() }
    }

    /// Eight hexadecimal digits that are the same for every process with this token.
    pub fn name(&self) -> String {
        hex(&hmac::sign(&self.key, b"name").as_ref()[..4])
    }

    /// The text of a new session; `None` if the system has no random numbers.
    pub fn begin(&self, now: u64) -> Option<String> {
        let mut number = [0; 16];
        SystemRandom::new().fill(&mut number).ok()?;
        let said = format!("{}.{}", now + LASTS.as_secs(), hex(&number));
        let proof = hex(hmac::sign(&self.key, said.as_bytes()).as_ref());
        Some(format!("{said}.{proof}"))
    }

    pub fn is_open(&self, session: &str, now: u64) -> bool {
        self.read(session, now).is_some_and(|known| !lock(&self.ended).contains(&known))
    }

    /// Ends a session in this process.
    pub fn end(&self, session: &str, now: u64) {
        let Some(known) = self.read(session, now) else { return };
        let mut ended = lock(&self.ended);
        ended.insert(known);
        while ended.len() > MOST || ended.first().is_some_and(|(end, _)| *end <= now) {
            ended.pop_first();
        }
    }

    /// The end and the number of a session that is not over. Verified in constant time before anything of it is read.
    fn read(&self, session: &str, now: u64) -> Option<(u64, String)> {
        let (said, proof) = session.rsplit_once('.')?;
        hmac::verify(&self.key, said.as_bytes(), &bytes(proof)?).ok()?;
        let (end, number) = said.split_once('.')?;
        let end = end.parse().ok()?;
        (now < end).then(|| (end, number.to_owned()))
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Decodes hexadecimal digits; `None` for text that [`hex`] does not write.
fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digits = hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    let pairs = hex.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).ok());
    (digits && hex.len().is_multiple_of(2)).then_some(())?;
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    #[test]
    fn a_session_holds_in_every_process_with_the_token_until_its_end() {
        let (here, there) = (Sessions::new("s3cret"), Sessions::new("s3cret"));
        let session = here.begin(NOW).unwrap();
        assert_ne!(session, here.begin(NOW).unwrap());
        assert_eq!(here.name(), there.name());
        for sessions in [&here, &there] {
            assert!(sessions.is_open(&session, NOW) && sessions.is_open(&session, NOW + LASTS.as_secs() - 1));
            assert!(!sessions.is_open(&session, NOW + LASTS.as_secs()));
        }
        let other = Sessions::new("s3cret2");
        assert!(!other.is_open(&session, NOW) && other.name() != here.name());
    }

    #[test]
    fn a_session_that_was_changed_is_none() {
        let sessions = Sessions::new("s3cret");
        let session = sessions.begin(NOW).unwrap();
        for at in 0..session.len() {
            let other = if session.as_bytes()[at] == b'1' { "2" } else { "1" };
            let changed = format!("{}{other}{}", &session[..at], &session[at + 1..]);
            assert!(!sessions.is_open(&changed, NOW), "{changed}");
            assert!(!sessions.is_open(&session[..at], NOW) && !sessions.is_open(&session[at + 1..], NOW));
        }
        for changed in [session.to_uppercase(), format!("{session}0"), format!("0{session}"), ".".into(), "é.é".into()]
        {
            assert!(!sessions.is_open(&changed, NOW), "{changed}");
        }
    }

    #[test]
    fn what_is_ended_is_remembered_within_bounds() {
        let sessions = Sessions::new("s3cret");
        let [first, second] = [0; 2].map(|_| sessions.begin(NOW).unwrap());
        sessions.end(&first, NOW);
        assert!(!sessions.is_open(&first, NOW) && sessions.is_open(&second, NOW));
        sessions.end("1.2.3", NOW);
        assert_eq!(lock(&sessions.ended).len(), 1);
        let later = NOW + LASTS.as_secs();
        for _ in 0..2 * MOST {
            sessions.end(&sessions.begin(later).unwrap(), later);
        }
        assert_eq!(lock(&sessions.ended).len(), MOST);
    }
}
