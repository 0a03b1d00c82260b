//! The history after random damage to its files: what is served is right, and the rest can be repaired.
//!
//! `CONCEPTWATCH_CASES` is the number of cases, `CONCEPTWATCH_SEED` the first seed; a case depends on its seed alone.

use std::collections::BTreeMap;
use std::path::Path;

use conceptwatch::history::{FILE_NAME, HistoryError, Identity, Sqlite, Store, examine, repair};
use leakage::point::Outcome;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::points::{LIMITS, point, setting, with_run};
use crate::stored::run;

const RUNS: [(&str, usize); 3] = [("small", 2), ("medium", 12), ("large", 40)];
const SPLITS: [&str; 2] = ["val", "test"];
/// The points up to this step are in the file, the later ones in the log.
const MOVED: u64 = 12;
const STEPS: u64 = 20;
/// Bytes of the header of a file.
const HEADER: usize = 100;

/// The files of a sidecar that was killed: a file, and a log with the last points.
fn written() -> BTreeMap<String, Vec<u8>> {
    let directory = tempfile::tempdir().unwrap();
    let mut history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    for (name, k) in RUNS {
        history.record_run(&run(name, k), &Identity { job: "job", ..Identity::default() }, 1.0).unwrap();
    }
    for step in 0..STEPS {
        if step == MOVED {
            drop(history);
            history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
        }
        for (name, k) in RUNS {
            for split in SPLITS {
                history.record_point(&point(name, split, step, k), None).unwrap();
            }
        }
    }
    let files = std::fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap());
    let files: BTreeMap<_, _> = files
        .map(|file| (file.file_name().into_string().unwrap(), std::fs::read(file.path()).unwrap()))
        .filter(|(name, bytes)| !bytes.is_empty() && !name.ends_with("-shm"))
        .collect();
    assert_eq!(files.len(), 2, "a file and a log");
    files
}

/// Damages one file in one way. Returns what was done.
fn damage(files: &mut BTreeMap<String, Vec<u8>>, random: &mut ChaCha8Rng) -> String {
    let name = files.keys().nth(random.random_range(0..files.len())).unwrap().clone();
    let bytes = files.get_mut(&name).unwrap();
    let page = 4096.min(bytes.len());
    let pages = bytes.len() / page;
    let at = |random: &mut ChaCha8Rng| random.random_range(0..pages) * page;
    let how = match random.random_range(0..7) {
        0 => {
            let flips = random.random_range(1..=16);
            for _ in 0..flips {
                let byte = random.random_range(0..bytes.len());
                bytes[byte] ^= 1 << random.random_range(0..8);
            }
            format!("{flips} bits flipped")
        }
        1 => {
            let length = random.random_range(0..bytes.len());
            bytes.truncate(length);
            format!("cut to {length} bytes")
        }
        2 => {
            let first = at(random);
            bytes[first..first + page].fill(0);
            format!("page at {first} zeroed")
        }
        3 => {
            let (a, b) = (at(random), at(random));
            for i in 0..page {
                bytes.swap(a + i, b + i);
            }
            format!("pages at {a} and {b} swapped")
        }
        4 => {
            let (from, to) = (at(random), at(random));
            bytes.copy_within(from..from + page, to);
            format!("page at {from} copied to {to}")
        }
        5 => {
            let first = random.random_range(0..HEADER);
            let length = random.random_range(1..=HEADER - first);
            random.fill(&mut bytes[first..first + length]);
            format!("{length} bytes at {first} of the header random")
        }
        _ => {
            let length = random.random_range(1..=512.min(bytes.len()));
            let first = random.random_range(0..=bytes.len() - length);
            random.fill(&mut bytes[first..first + length]);
            format!("{length} bytes at {first} random")
        }
    };
    format!("{name}: {how}")
}

/// What one history serves: it panics where a value is wrong. Returns the points that are there, and whether a call said
/// that something is damaged.
fn served(history: &Sqlite, case: &str) -> (usize, bool) {
    let (mut points, mut said) = (0, false);
    for (name, k) in RUNS {
        for split in SPLITS {
            for step in 0..STEPS {
                match history.point(name, split, Some(step), true) {
                    Ok(Some(mut found)) => {
                        let expected = point(name, split, step, k);
                        let without = found.score("icl").is_some_and(|outcome| outcome.matrix().is_none());
                        if let (true, Outcome::Value(value)) = (without, &mut found.scores[1].1) {
                            value.matrix = expected.scores[1].1.matrix().map(<[_]>::to_vec);
                        }
                        assert_eq!(found, expected, "{case}");
                        points += 1;
                    }
                    Ok(None) => {}
                    Err(HistoryError::Damaged(_) | HistoryError::Unknown { .. }) => said = true,
                    Err(error) => panic!("{case}: {error:?}"),
                }
            }
            match history.series(name, split, "icl", Some("concept 1"), 0, None) {
                Ok(series) => {
                    for found in series {
                        assert_eq!(found.value, Some((found.step * 1000 + 1) as f64 / 8.0), "{case}");
                    }
                }
                Err(HistoryError::Damaged(_) | HistoryError::Unknown { .. }) => {}
                Err(error) => panic!("{case}: {error:?}"),
            }
            match history.matrix(name, split, "icl", None) {
                Ok(Some(found)) => {
                    let expected = point(name, split, found.step, k);
                    assert_eq!(Some(found.matrix.as_slice()), expected.scores[1].1.matrix(), "{case}");
                }
                Ok(None) | Err(HistoryError::Damaged(_) | HistoryError::Unknown { .. }) => {}
                Err(error) => panic!("{case}: {error:?}"),
            }
        }
    }
    match history.runs() {
        Ok(runs) => runs.iter().for_each(|stored| {
            let (_, k) = RUNS.iter().find(|(name, _)| *name == stored.run.name).expect(case);
            assert_eq!(stored.run, run(&stored.run.name, *k), "{case}");
        }),
        Err(HistoryError::Damaged(_)) => {}
        Err(error) => panic!("{case}: {error:?}"),
    }
    (points, said)
}

fn put(files: &BTreeMap<String, Vec<u8>>, directory: &Path) {
    for (name, bytes) in files {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

#[test]
fn damage_is_detected_or_harmless_and_can_be_repaired() {
    let whole = written();
    let all = RUNS.len() * SPLITS.len() * STEPS as usize;
    let (cases, first) = (setting("CONCEPTWATCH_CASES", 100), setting("CONCEPTWATCH_SEED", 1));
    let (mut harmless, mut refused, mut partly, mut kept, mut silent) = (0, 0, 0, 0, Vec::new());
    for seed in first..first + cases {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut files = whole.clone();
        let case = format!("seed {seed}, {}", damage(&mut files, &mut random));
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("copy")).unwrap();
        let copy = directory.path().join("copy");
        put(&files, directory.path());
        put(&files, &copy);

        let mut before = 0;
        let mut noticed = true;
        match Sqlite::open(Some(directory.path()), LIMITS) {
            Ok(history) => {
                let (points, said) = served(&history, &case);
                before = points;
                noticed = said || history.usage().map_or(true, |usage| usage.damaged > 0);
                let complete = before == all;
                harmless += u64::from(complete);
                partly += u64::from(!complete);
            }
            Err(HistoryError::Corrupt { path, why }) => {
                refused += 1;
                let message = HistoryError::Corrupt { path, why }.to_string();
                assert!(message.contains("conceptwatch doctor --repair"), "{case}: {message}");
            }
            Err(HistoryError::NotHistory { .. } | HistoryError::OtherSchema { .. }) => refused += 1,
            Err(error) => panic!("{case}: {error:?}"),
        }
        if before < all && !noticed {
            silent.push(case.clone());
        }

        match examine(&copy) {
            Ok(found) => {
                assert!(
                    found.faults.iter().any(|fault| !fault.starts_with("directory")) || before == all || !noticed,
                    "{case}: {found:?}"
                );
                let repaired = repair(&copy).unwrap_or_else(|error| panic!("{case}: {error}"));
                let after = examine(&copy).unwrap();
                assert!(!after.damaged, "{case}: {after:?}");
                assert_eq!(after.intact, repaired.kept, "{case}: what it says it has kept");
                let history = Sqlite::open(Some(&copy), LIMITS).unwrap_or_else(|error| panic!("{case}: {error}"));
                let (points, _) = served(&history, &case);
                assert_eq!(points as u64, repaired.kept.points, "{case}");
                assert!(points >= before, "{case}: {points} points after the repair, {before} before");
                kept += points;
            }
            // No checksum covers the version that stands in the file.
            Err(HistoryError::OtherSchema { .. } | HistoryError::NotHistory { .. }) => {}
            Err(error) => panic!("{case}: {error:?}"),
        }
    }
    println!(
        "{cases} cases: {harmless} harmless, {partly} served in part, {refused} refused; {:.1} % of points kept by repairs; \
         {} lost points without a trace",
        100.0 * kept as f64 / (cases as usize * all) as f64,
        silent.len()
    );
    // A log that ends too early, or is damaged in its last two transactions, is as a power loss may leave it.
    for case in &silent {
        assert!(case.contains("-wal"), "{case}");
    }
}

/// The file of a sidecar that was stopped: it has everything.
fn stopped() -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    put(&written(), directory.path());
    drop(Sqlite::open(Some(directory.path()), LIMITS).unwrap());
    assert!(!directory.path().join(format!("{FILE_NAME}-wal")).exists());
    std::fs::read(directory.path().join(FILE_NAME)).unwrap()
}

/// The points that a repair keeps of these files. They are right, and as many as it says.
fn repaired(files: &BTreeMap<String, Vec<u8>>, case: &str) -> usize {
    let directory = tempfile::tempdir().unwrap();
    put(files, directory.path());
    let error = Sqlite::open(Some(directory.path()), LIMITS).err();
    let refused = matches!(error, Some(HistoryError::Corrupt { .. } | HistoryError::NotHistory { .. }));
    assert!(refused, "{case}: {error:?}");
    let found = examine(directory.path()).unwrap();
    assert!(found.damaged, "{case}: {found:?}");
    for (name, bytes) in files {
        assert_eq!(
            &std::fs::read(directory.path().join(name)).unwrap(),
            bytes,
            "{case}: an examination changes nothing"
        );
    }
    let kept = repair(directory.path()).unwrap().kept;
    for (name, bytes) in files {
        let damaged = directory.path().join(name.replacen(FILE_NAME, &format!("{FILE_NAME}.damaged-1"), 1));
        assert_eq!(&std::fs::read(damaged).unwrap(), bytes, "{case}: the damaged files stay");
    }
    let after = examine(directory.path()).unwrap();
    assert_eq!((after.damaged, after.intact), (false, kept), "{case}");
    let points = served(&Sqlite::open(Some(directory.path()), LIMITS).unwrap(), case).0;
    assert_eq!(points as u64, kept.points, "{case}");
    points
}

#[test]
fn a_repair_keeps_nearly_all_of_a_file_that_was_cut_off() {
    let whole = stopped();
    let all = RUNS.len() * SPLITS.len() * STEPS as usize;
    for (left, least) in [(99, 0.95), (95, 0.9), (90, 0.8)] {
        let cut = whole[..whole.len() * left / 100].to_vec();
        let points = repaired(&BTreeMap::from([(FILE_NAME.into(), cut)]), &format!("{left} %"));
        println!("{left} % of the file: {points} of {all} points");
        assert!(points as f64 >= least * all as f64, "{left} % of the file: {points} of {all} points");
    }
}

/// SQLite would delete its log.
#[test]
fn a_file_that_lost_all_bytes_is_refused_and_set_aside_with_its_log() {
    let (directory, history) = with_run("small", 2);
    history.record_point(&point("small", "val", 1, 2), None).unwrap();
    let log = format!("{FILE_NAME}-wal");
    let bytes = std::fs::read(directory.path().join(&log)).unwrap();
    assert_eq!(repaired(&BTreeMap::from([(FILE_NAME.into(), Vec::new()), (log, bytes)]), "a log alone"), 0);
}
