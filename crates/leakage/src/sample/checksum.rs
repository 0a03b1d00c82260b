//! Checksums of the formats in which samples leave memory.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use crate::tensor::TensorName;

/// The checksum of one format, which content of another does not match.
#[derive(Clone, Copy)]
pub struct Checksum(u64);

impl Checksum {
    pub const PART: Self = Self(0x7061_7274_0000_0000);
    pub const WINDOW: Self = Self(0x7769_6e64_6f77_7300);

    pub fn of(self, bytes: &[u8]) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(0x636f_6e63_6570_7477, self.0);
        hasher.write(bytes);
        hasher.finish()
    }

    /// Returns the checksum of the table of tensors: content of a program that has other tensors cannot be read.
    pub fn of_tensors(self) -> u64 {
        self.of(TensorName::ALL.iter().map(|name| name.text()).collect::<Vec<_>>().join(" ").as_bytes())
    }
}
