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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_by_either_scheme_in_any_case() {
        for (header, token) in [
            ("Bearer s3cret", Some("s3cret")),
            ("bEARER s3cret", Some("s3cret")),
            // conceptwatch:s3cret, and other:s3cret
            ("basic Y29uY2VwdHdhdGNoOnMzY3JldA==", Some("s3cret")),
            ("Basic b3RoZXI6czNjcmV0", None),
            ("Basic s3cret", None),
            ("Bearer", None),
            ("s3cret", None),
        ] {
            assert_eq!(presented(header.as_bytes()).as_deref(), token.map(str::as_bytes), "{header}");
        }
        assert!(is_same(b"s3cret", b"s3cret"));
        assert!(!is_same(b"s3cret", b"s3cret2") && !is_same(b"s3cret", b"S3cret"));
    }
}
