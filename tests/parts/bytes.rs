//! Bytes that are no part, or one that lies, are refused without a panic and without much memory.

use std::cell::Cell;
use std::hash::Hasher;

use conceptwatch::sample::{Part, Union, union};
use conceptwatch::tensor::TensorName;
use proptest::prelude::*;
use siphasher::sip::SipHasher13;

use crate::counting::Counting;
use crate::job::{Job, step};

thread_local! {
    /// What this thread has allocated, whether or not it was freed.
    static TAKEN: Cell<usize> = const { Cell::new(0) };
}

fn add(bytes: isize) {
    // Fails when the thread ends.
    let _ = TAKEN.try_with(|taken| taken.set(taken.get() + bytes.max(0) as usize));
}

#[global_allocator]
static ALLOCATOR: Counting = Counting(add);

const HEAD: usize = 16;

fn small() -> (Job, Vec<u8>) {
    let job = Job { batch_rows: 4, ..Job::new(4, 24, 16, 1) };
    let splits = job.in_processes(2, &job.batches(1));
    let bytes = splits[0].part(step(7), Some(u64::MAX / 2)).unwrap().to_bytes();
    (job, bytes)
}

/// The bytes with the checksum that belongs to their content.
fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.len() >= HEAD {
        let mut hasher = SipHasher13::new_with_keys(0x636f_6e63_6570_7477, 0x7061_7274_0000_0000);
        hasher.write(&bytes[HEAD..]);
        bytes[HEAD - 8..HEAD].copy_from_slice(&hasher.finish().to_le_bytes());
    }
    bytes
}

#[test]
fn a_changed_bit_and_a_missing_end_are_refused() {
    let (_, bytes) = small();
    assert_eq!(sealed(bytes.clone()), bytes);
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[at] ^= 1 << bit;
            let fault = Part::from_bytes(&changed).unwrap_err();
            let field = ["part", "part.format", "part.checksum"][usize::from(at >= 6) + usize::from(at >= 8)];
            assert_eq!(fault.field, field, "byte {at}");
        }
        assert!(Part::from_bytes(&bytes[..at]).is_err());
        assert!(Part::from_bytes(&sealed(bytes[..at].to_vec())).is_err(), "{at} bytes");
    }
    let more = Part::from_bytes(&sealed([&bytes[..], &[0]].concat())).unwrap_err();
    assert_eq!(more.to_string(), "part: got 1 bytes beyond its end");
}

/// Reads bytes that may lie, and makes what a worker would make of them.
fn read(job: &Job, honest: &[u8], bytes: &[u8]) {
    TAKEN.set(0);
    let part = Part::from_bytes(bytes);
    let taken = TAKEN.get();
    assert!(taken <= 64 * bytes.len() + (1 << 16), "{taken} bytes for {}", bytes.len());
    let Ok(part) = part else { return };
    let again = part.to_bytes();
    assert!(Part::from_bytes(&again).unwrap().to_bytes() == again);
    if let Ok(Union::Exact { evaluation, .. }) = union([part, Part::from_bytes(honest).unwrap()], job.pass()) {
        let classes = evaluation.sample.column(TensorName::TaskLabels).and_then(|column| column.integers(0));
        assert!(classes.into_iter().flatten().all(|class| (0..65_536).contains(&class)));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn whatever_a_part_says_it_takes_little_memory_and_breaks_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        more in prop::collection::vec(any::<u8>(), 0..12),
        at in any::<prop::sample::Index>(),
    ) {
        thread_local!(static SMALL: (Job, Vec<u8>) = small());
        SMALL.with(|(job, honest)| {
            let mut bytes = honest.clone();
            for (place, byte) in changes {
                let place = HEAD + place.index(bytes.len() - HEAD);
                bytes[place] = byte;
            }
            read(job, honest, &sealed(bytes.clone()));
            // Bytes in between, where lengths are.
            let place = HEAD + at.index(200);
            bytes.splice(place..place, more);
            read(job, honest, &sealed(bytes));
        });
    }
}

#[test]
fn lengths_are_compared_with_what_is_there() {
    let (job, honest) = small();
    // The largest numbers that there are, in place of any byte.
    for at in HEAD..honest.len() {
        for number in [&[0xff; 9][..], &[0xff, 0xff, 0xff, 0xff, 7], &[0x80, 0x80, 0x80, 0x80, 8]] {
            let number = [number, &[1]].concat();
            for kept in [0, 1] {
                let mut bytes = honest.clone();
                bytes.splice(at..at + kept, number.iter().copied());
                read(&job, &honest, &sealed(bytes));
            }
        }
    }
}
