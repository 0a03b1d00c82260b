//! Degenerate but valid samples: no score panics or gives a number that is not finite.

use std::panic::catch_unwind;

use rand::RngExt;

use super::drawn;

/// CONCEPTWATCH_CASES sets how many, and CONCEPTWATCH_SEED which.
#[test]
fn every_score_of_any_sample_is_finite_or_undefined_with_a_reason() {
    let variable = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let (cases, seed) = (variable("CONCEPTWATCH_CASES").unwrap_or(300), variable("CONCEPTWATCH_SEED").unwrap_or(1));
    let mut failed = 0;
    for case in 0..cases {
        let mut random = super::random(seed.wrapping_mul(1 << 32).wrapping_add(case));
        let bytes: Vec<u8> = (0..64).map(|_| random.random()).collect();
        if catch_unwind(|| drawn::score(&bytes, case % 4 == 0)).is_err() {
            println!("case {case} of seed {seed}: {bytes:?}");
            failed += 1;
        }
    }
    assert_eq!(failed, 0, "of {cases} samples");
}
