//! Samples that are degenerate but valid, scored by the whole catalogue: no panic, and no number that is not finite.

#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/leakage/tests/scores/drawn.rs"]
mod drawn;

fuzz_target!(|bytes: &[u8]| drawn::score(bytes, true));
