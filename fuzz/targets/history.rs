//! A history file with any damage: refused when it is opened, or no value is read that was not written.

#![no_main]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use conceptwatch::history::{FILE_NAME, Limits, Sqlite, Store};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

const WRITTEN: &[u8] = include_bytes!("../corpus/history/written");
const LIMITS: Limits = Limits { bytes: 1 << 26 };

static FOLDER: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a temporary folder"));

type Values = BTreeMap<(String, String, u64, String), Option<u64>>;

/// All scores of all points, by run, split, step and score: the bits of their values.
fn values(history: &Sqlite) -> Values {
    let mut found = Values::new();
    for run in history.runs().unwrap_or_default() {
        let name = run.run.name.clone();
        for split in history.splits(&name).unwrap_or_default() {
            for point in history.evaluations(&name, &split.split, 100).unwrap_or_default() {
                for (score, outcome) in &point.scores {
                    let value = outcome.value().map(|value| value.value.to_bits());
                    found.insert((name.clone(), split.split.clone(), point.step, score.clone()), value);
                }
                let _ = history.matrix(&name, &split.split, "icl", Some(point.step));
            }
            let _ = history.unscored(&name, &split.split);
        }
        let _ = history.ranks(&name);
    }
    found
}

fn read(bytes: &[u8]) -> Option<Values> {
    let folder: &Path = FOLDER.path();
    for entry in std::fs::read_dir(folder).expect("the folder exists").flatten() {
        let _ = std::fs::remove_file(entry.path());
    }
    std::fs::write(folder.join(FILE_NAME), bytes).expect("room in memory");
    Sqlite::open(Some(folder), LIMITS).ok().map(|history| values(&history))
}

static KNOWN: LazyLock<Values> = LazyLock::new(|| read(WRITTEN).expect("the history as it was written"));

fuzz_target!(|bytes: &[u8]| {
    let known = &*KNOWN;
    for ((run, split, step, score), value) in read(bytes).unwrap_or_default() {
        let written = known.iter().any(|((_, _, at, id), known)| (*at, id, known) == (step, &score, &value));
        assert!(written, "{run}, {split}, step {step}: {score} reads {:?}", value.map(f64::from_bits));
    }
});
