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

    #[test]
    fn hashes_are_siphash_1_3_of_little_endian_words() {
        // Of seed 0: hash(id.to_bytes(8, "little")) % 2**64 of CPython 3.11.7 with PYTHONHASHSEED=0, whose hash of bytes is
        // SipHash-1-3 with key (0, 0). All others: the rounds of the paper, written in Python, which gives these, too.
        for (seed, id, expected) in [
            (0, 0, 0xbd60_acb6_58c7_9e45),
            (0, 1, 0x1e9f_7341_61d6_2dd9),
            (0, 255, 0xfdac_8a69_8572_a86d),
            (0, u64::MAX, 0x2f20_5be2_fec8_e38d),
            (7, 255, 0xfd6a_de02_fc37_877b),
            (u64::MAX, u64::MAX, 0xc4d7_726f_ff5e_65a0),
            (1, 0x0102_0304_0506_0708, 0xb0b2_e3dc_5498_79f5),
        ] {
            assert_eq!(priority(seed, id), expected, "seed {seed}, id {id}");
        }
        assert_eq!(client_hash(""), 0x7221_4e94_c57f_b49a);
        assert_eq!(client_hash("rank-0"), 0x8c9a_b588_783f_b356);
        assert_eq!(client_hash("a name of more than one word"), 0x1784_b6d3_a96b_21bf);
        assert_eq!(Origin { client: 3, sequence: 1 << 33, row: 500 }.row_id(), 0xed1c_edb8_538c_f4e4);
    }
}
