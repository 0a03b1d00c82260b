//! Disks that are full or fail, from any operation on: the history goes on, says so, and loses nothing.
//!
//! `CONCEPTWATCH_CASES` is the number of cases, spread over kinds of failure and moments.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use conceptwatch::history::{Ending, Identity, Recorded, Sqlite, Store};

use crate::points::{LIMITS, point, setting, stored};
use crate::stored::{run, unscored};
use crate::vfs::{Failing, Watch};

const KINDS: [Failing; 4] = [Failing::Full, Failing::Writes, Failing::Syncs, Failing::All];
const CONCEPTS: usize = 6;
/// Steps before the failure can be healed.
const STEPS: u64 = 12;

/// Returns whether anything failed.
fn fails(kind: Failing, after: u64) -> bool {
    let case = format!("{kind:?} after {after} operations");
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.record_run(&run("r", CONCEPTS), &Identity::default(), 1.0).unwrap();
    watch.fail(after, kind);
    let (mut settled, mut waiting, mut runs) = (Vec::new(), Vec::new(), 0);
    for step in 0..STEPS {
        match history.record_point(&point("r", "val", step, CONCEPTS), None) {
            Ok(Recorded::Stored) => settled.push(step),
            Ok(Recorded::Waiting) => waiting.push(step),
            // Where nothing can be read, nothing can be looked up: the caller hears it, and its client keeps the rows.
            Err(_) if kind == Failing::All => {}
            other => panic!("{case}: {other:?}"),
        }
        let recorded = history.record_unscored(&[unscored("test", step, Ending::Failed)]);
        assert!(recorded.is_ok() || kind == Failing::All, "{case}: {recorded:?}");
        if step % 4 == 3 {
            let started = history.record_run(&run(&format!("next {step}"), 2), &Identity::default(), 2.0);
            assert!(started.is_ok() || kind == Failing::All, "{case}: {started:?}");
            runs += usize::from(started.is_ok());
        }
        if !waiting.is_empty() && kind != Failing::All {
            assert_eq!(stored(&history, "r", "val", step + 1, CONCEPTS, &case).len() as u64, step + 1, "{case}");
        }
        // A sync that takes long on a busy machine has not failed, and ends.
        let patience = Instant::now() + Duration::from_secs(60);
        loop {
            let says_so = history.waiting().why.is_some();
            let written = history.write_waiting();
            settled.extend(written.iter().filter(|written| written.ending.is_none()).map(|written| written.step));
            if says_so || kind == Failing::All || waiting.iter().all(|step| settled.contains(step)) {
                break;
            }
            assert!(Instant::now() < patience, "{case}: it must say so");
            thread::sleep(Duration::from_millis(1));
        }
    }
    let failed = watch.operations().1 > 0;
    watch.heal();
    let patience = Instant::now() + Duration::from_secs(60);
    loop {
        let written = history.write_waiting();
        settled.extend(written.iter().filter(|written| written.ending.is_none()).map(|written| written.step));
        if history.waiting().why.is_none() && waiting.iter().all(|step| settled.contains(step)) {
            break;
        }
        assert!(Instant::now() < patience, "{case}: {:?}, {waiting:?} waited", history.waiting());
        thread::sleep(Duration::from_millis(5));
    }
    let last = history.record_point(&point("r", "val", STEPS, CONCEPTS), None).unwrap();
    history.write_at_last().unwrap_or_else(|error| panic!("{case}: {last:?}, {error}"));
    settled.push(STEPS);
    // As after a kill: what is on the disk, without the end of the process.
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    let found = Sqlite::open(Some(copy.path()), LIMITS).unwrap_or_else(|error| panic!("{case}: {error}"));
    settled.sort_unstable();
    settled.dedup();
    assert_eq!(stored(&found, "r", "val", STEPS + 1, CONCEPTS, &case), settled, "{case}");
    assert_eq!(found.runs().unwrap().len(), 1 + runs, "{case}");
    if kind != Failing::All {
        assert_eq!(settled.len() as u64, STEPS + 1, "{case}");
        assert_eq!(found.unscored("r", "test").unwrap().len() as u64, STEPS, "{case}");
    }
    failed
}

#[test]
fn a_disk_that_fails_from_any_operation_on_costs_nothing() {
    let cases = setting("CONCEPTWATCH_CASES", 64);
    let (next, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        // Most of a case is spent waiting for the next attempt.
        for _ in 0..16 {
            scope.spawn(|| {
                loop {
                    let case = next.fetch_add(1, Ordering::Relaxed);
                    if case >= cases {
                        return;
                    }
                    let kind = KINDS[case as usize % KINDS.len()];
                    failed.fetch_add(u64::from(fails(kind, case / KINDS.len() as u64)), Ordering::Relaxed);
                }
            });
        }
    });
    println!("{cases} cases, {} with a failure", failed.load(Ordering::Relaxed));
}

#[test]
fn a_new_history_on_a_full_disk_begins_in_memory_and_is_written_when_there_is_room() {
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    watch.fail(0, Failing::Full);
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    assert!(history.waiting().why.is_some_and(|why| why.contains("the disk is full")));
    history.record_run(&run("r", CONCEPTS), &Identity::default(), 1.0).unwrap();
    for step in 0..3 {
        let recorded = history.record_point(&point("r", "val", step, CONCEPTS), None).unwrap();
        assert_eq!(recorded, Recorded::Waiting);
    }
    assert_eq!(stored(&history, "r", "val", 3, CONCEPTS, "in memory"), [0, 1, 2]);
    watch.heal();
    let patience = Instant::now() + Duration::from_secs(60);
    let mut written = Vec::new();
    // What is written is reported once it is synced, which may be after the disk is known to take it.
    while history.waiting().why.is_some() || written.is_empty() {
        written.extend(history.write_waiting());
        assert!(Instant::now() < patience, "{:?}", history.waiting());
        thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(written.iter().map(|written| written.step).collect::<Vec<_>>(), [0, 1, 2]);
    drop(history);
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    assert_eq!(stored(&history, "r", "val", 3, CONCEPTS, "on disk"), [0, 1, 2]);
}
