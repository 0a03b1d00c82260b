//! What a score takes, as constants of its row: bytes are c · (its inputs as 64-bit numbers) + p · k² + what threads need. c and
//! p were measured with a counting allocator over N = 64 to 4,096 and k = 16 to 1,000, and raised by half;
//! `tests/scoring_memory.rs` compares them with what scores take.

/// The constants of a score.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Memory {
    /// c: times the bytes of its inputs.
    pub inputs: f64,
    /// p: bytes for each pair of concepts.
    pub pairs: usize,
    /// The part of p that stays until the sample is scored: the result, and what later scores use.
    pub kept: usize,
}

impl Memory {
    /// Of scores that go through their inputs once.
    pub const LINEAR: Self = Self { inputs: 4.0, pairs: 0, kept: 0 };
    /// Of scores with a value for each pair.
    pub const PAIRS: Self = Self { inputs: 2.0, pairs: 160, kept: 72 };
}
