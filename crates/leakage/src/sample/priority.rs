//! Row identities and the hash that orders rows.
//!
//! A job may compute the same numbers to leave out rows that no sample can hold, so every byte is specified:
//!
//! - **Priority** of a row: SipHash-1-3 with key (k0, k1) = (seed, 0) over the row id as 8 little-endian bytes, taken
//!   as an unsigned 64-bit number. Among rows of one split and step, those with the N smallest (priority, id) are
//!   the only ones that a sample of N rows can hold, in every window.
//! - **Row id**: the row's `sample_ids` value where the job sends it, otherwise SipHash-1-3 with key (0, 1) over the
//!   24 bytes (client, sequence, row), each a little-endian u64.
//! - **Client** in the row id: SipHash-1-3 with key (0, 1) over the client's name in UTF-8.
//!
//! SipHash: Aumasson & Bernstein 2012, doi:10.1007/978-3-642-34931-7_28, with c = 1 and d = 3 rounds.

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

/// The key of identities differs from every key of priorities, so the two hashes are independent.
const IDENTITY_KEY: (u64, u64) = (0, 1);

/// The source of an arrival of a row. Of two arrivals of one row at one step, the values of the smaller origin are
/// kept in either order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Origin {
    /// [`client_hash`] of the client's name.
    pub client: u64,
    /// Sequence number of the batch, counted by the client.
    pub sequence: u64,
    /// Row number within the batch as logged.
    pub row: u64,
}

impl Origin {
    /// The row id of a row sent without `sample_ids`.
    pub fn row_id(self) -> u64 {
        let mut message = [0; 24];
        message[..8].copy_from_slice(&self.client.to_le_bytes());
        message[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        message[16..].copy_from_slice(&self.row.to_le_bytes());
        hash(IDENTITY_KEY, &message)
    }
}

/// The hash of a client's name, which identifies the client in row ids.
pub fn client_hash(name: &str) -> u64 {
    hash(IDENTITY_KEY, name.as_bytes())
}

/// A row's priority, uniform over all u64; the smallest are kept.
pub fn priority(seed: u64, id: u64) -> u64 {
    hash((seed, 0), &id.to_le_bytes())
}

fn hash((k0, k1): (u64, u64), message: &[u8]) -> u64 {
    SipHasher13::new_with_keys(k0, k1).hash(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SipHash-1-3 from the paper, independent of the crate.
    fn reference(k0: u64, k1: u64, message: &[u8]) -> u64 {
        fn round(v: &mut [u64; 4]) {
            v[0] = v[0].wrapping_add(v[1]);
            v[2] = v[2].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(13) ^ v[0];
            v[3] = v[3].rotate_left(16) ^ v[2];
            v[0] = v[0].rotate_left(32);
            v[2] = v[2].wrapping_add(v[1]);
            v[0] = v[0].wrapping_add(v[3]);
            v[1] = v[1].rotate_left(17) ^ v[2];
            v[3] = v[3].rotate_left(21) ^ v[0];
            v[2] = v[2].rotate_left(32);
        }
        let start = *b"somepseudorandomlygeneratedbytes";
        let word = |i: usize| u64::from_be_bytes(start[8 * i..8 * i + 8].try_into().unwrap());
        let mut v = [k0 ^ word(0), k1 ^ word(1), k0 ^ word(2), k1 ^ word(3)];
        let mut padded = message.to_vec();
        padded.resize(message.len() / 8 * 8 + 7, 0);
        padded.push(message.len() as u8);
        for m in padded.chunks(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())) {
            v[3] ^= m;
            round(&mut v);
            v[0] ^= m;
        }
        v[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }

    #[test]
    fn priorities_of_seed_0_equal_hashes_of_cpython() {
        // CPython 3.11.7 with PYTHONHASHSEED=0, whose hash of bytes is SipHash-1-3 with key (0, 0):
        // hash(id.to_bytes(8, "little")) % 2**64
        let known = [
            (0, 0xbd60_acb6_58c7_9e45),
            (1, 0x1e9f_7341_61d6_2dd9),
            (255, 0xfdac_8a69_8572_a86d),
            (u64::MAX, 0x2f20_5be2_fec8_e38d),
        ];
        for (id, expected) in known {
            assert_eq!(priority(0, id), expected, "id {id}");
        }
    }

    #[test]
    fn hashes_are_siphash_1_3_of_little_endian_words() {
        for (seed, id) in [(0, 0), (0, 1), (7, 255), (u64::MAX, u64::MAX), (42, 1 << 40), (1, 0x0102_0304_0506_0708)] {
            assert_eq!(priority(seed, id), reference(seed, 0, &u64::to_le_bytes(id)));
        }
        for name in ["", "a", "rank-0", "8 bytes.", "a name of more than one word"] {
            assert_eq!(client_hash(name), reference(0, 1, name.as_bytes()));
        }
        let origin = Origin { client: 3, sequence: 1 << 33, row: 500 };
        let words = [origin.client, origin.sequence, origin.row];
        assert_eq!(origin.row_id(), reference(0, 1, &words.map(u64::to_le_bytes).concat()));
    }
}
