//! Sessions of browsers that have shown the token.
//!
//! The cookie is the session: when it ends, with an HMAC-SHA256 under a key derived from the token. No process has to
//! remember it, so it holds at every hub with the same token, whichever a balancer chooses, and after a restart. Another
//! token is another key, and ends all sessions.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use ring::hmac;

/// How long a session lasts.
pub const LASTS: Duration = Duration::from_secs(12 * 3600);

/// The sessions of a token. Times are in seconds since 1970-01-01 UTC.
pub struct Sessions(hmac::Key);

impl Sessions {
    pub fn new(token: &str) -> Self {
        let token = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        let key = hmac::sign(&token, b"conceptwatch: sessions of browsers");
        Self(hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()))
    }

    /// Returns a short text that is the same for every process with this token.
    pub fn name(&self) -> String {
        BASE64_URL_SAFE_NO_PAD.encode(&hmac::sign(&self.0, b"name").as_ref()[..6])
    }

    /// Returns the text of a new session.
    pub fn begin(&self, now: u64) -> String {
        let end = (now + LASTS.as_secs()).to_string();
        format!("{end}.{}", BASE64_URL_SAFE_NO_PAD.encode(hmac::sign(&self.0, end.as_bytes())))
    }

    /// Whether a session is of this token and not over. Verifies in constant time before anything is read.
    pub fn is_open(&self, session: &str, now: u64) -> bool {
        session.split_once('.').is_some_and(|(end, proof)| {
            let proof = BASE64_URL_SAFE_NO_PAD.decode(proof).unwrap_or_default();
            hmac::verify(&self.0, end.as_bytes(), &proof).is_ok() && end.parse().is_ok_and(|end: u64| now < end)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_700_000_000;

    #[test]
    fn a_session_holds_in_every_process_with_the_token_until_its_end() {
        let (here, there) = (Sessions::new("s3cret"), Sessions::new("s3cret"));
        let session = here.begin(NOW);
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
        let session = sessions.begin(NOW);
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
}
