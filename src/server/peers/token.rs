//! Tokens as requests carry them.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// The user name of clients that have a name and a password; the token is the password.
const USER: &str = "conceptwatch";

/// Returns the token of an `Authorization` header: `Bearer TOKEN`, or Basic with the user `conceptwatch`. Schemes are
/// case-insensitive.
pub fn presented(authorization: &[u8]) -> Option<Vec<u8>> {
    let (scheme, given) = std::str::from_utf8(authorization).ok()?.split_once(' ')?;
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(given.into());
    }
    let given = scheme.eq_ignore_ascii_case("basic").then(|| BASE64_STANDARD.decode(given).ok())??;
    given.strip_prefix(USER.as_bytes())?.strip_prefix(b":").map(<[u8]>::to_vec)
}

/// Compares secrets in constant time: the duration reveals the length but not where the bytes differ.
pub fn is_same(expected: &[u8], got: &[u8]) -> bool {
    let difference = expected.iter().zip(got).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    expected.len() == got.len() && difference == 0
}
