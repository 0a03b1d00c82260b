//! How a sidecar proves to the process that started it that it is the one it started.
//!
//! Both know a secret. The client sends a nonce; the answer carries HMAC-SHA256(secret, nonce, a line feed, address), where
//! the address is that of the gRPC port as the port file has it. A process that only sits on the port has no secret, and
//! one that relays the nonce to the true sidecar gets a proof of the true sidecar's address.

use std::fmt;

use ring::hmac;

use super::address::Endpoint;

/// Bytes of a secret, and of a nonce.
const SECRET: std::ops::RangeInclusive<usize> = 16..=1024;
const NONCE: std::ops::RangeInclusive<usize> = 16..=128;

/// The secret that the starting process shares with its sidecar.
#[derive(Clone)]
pub struct Secret(hmac::Key);

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret")
    }
}

impl Secret {
    /// A secret of 16 to 1,024 bytes; `None` for any other number.
    pub fn new(bytes: &[u8]) -> Option<Self> {
        SECRET.contains(&bytes.len()).then(|| Self(hmac::Key::new(hmac::HMAC_SHA256, bytes)))
    }

    /// The proof for a nonce, as 64 lower-case hexadecimal digits; `None` unless the nonce is 16 to 128 bytes of printable
    /// ASCII without spaces.
    pub fn prove(&self, nonce: &[u8], grpc: &Endpoint) -> Option<String> {
        if !NONCE.contains(&nonce.len()) || !nonce.iter().all(u8::is_ascii_graphic) {
            return None;
        }
        let mut context = hmac::Context::with_key(&self.0);
        context.update(nonce);
        context.update(b"\n");
        context.update(grpc.to_string().as_bytes());
        Some(context.sign().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Compares secrets in constant time: the duration reveals the length but not where the bytes differ.
pub fn same_secret(expected: &[u8], got: &[u8]) -> bool {
    let difference = expected.iter().zip(got).fold(0, |all, (a, b)| std::hint::black_box(all | (a ^ b)));
    expected.len() == got.len() && difference == 0
}

/// The value of an `Authorization` header with the scheme as RFC 9110 writes it: schemes are case-insensitive.
pub fn with_scheme(given: &[u8]) -> Vec<u8> {
    let mut given = given.to_vec();
    for scheme in ["Bearer ", "Basic "] {
        if let Some(start) = given.get_mut(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme.as_bytes()))
        {
            start.copy_from_slice(scheme.as_bytes());
        }
    }
    given
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_the_hmac_of_the_nonce_and_the_address() {
        let secret = Secret::new(&[b'k'; 32]).unwrap();
        let address = "127.0.0.1:7800".parse().unwrap();
        // python3 -c "import hmac; print(hmac.new(b'k' * 32, b'0123456789abcdef\n127.0.0.1:7800', 'sha256').hexdigest())"
        let expected = "634b852774976d0def01d0186d812a908182e570d39df0881b844a317051488a";
        assert_eq!(secret.prove(b"0123456789abcdef", &address).unwrap(), expected);
        assert_ne!(secret.prove(b"0123456789abcdef", &"127.0.0.1:7801".parse().unwrap()).unwrap(), expected);
        assert_ne!(Secret::new(&[b'l'; 32]).unwrap().prove(b"0123456789abcdef", &address).unwrap(), expected);
        for nonce in [&b"short"[..], &[b'x'; 129], b"0123456789abcde f", b"0123456789abcde\n"] {
            assert_eq!(secret.prove(nonce, &address), None);
        }
        assert!(Secret::new(&[0; 15]).is_none() && Secret::new(&[0; 1025]).is_none());
    }
}
