//! Disks whose syncs take long: nobody waits for them but those who ask for that.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use conceptwatch::history::{Identity, Recorded, Sqlite, Store};
use conceptwatch::sample::Attempt;

use crate::points::{LIMITS, point, run};
use crate::vfs::Watch;

const CONCEPTS: usize = 6;
const DELAY: Duration = Duration::from_secs(1);
/// A small part of it.
const SHORT: Duration = Duration::from_millis(300);

/// Calls and returns what it returns. Panics where that takes long.
fn at_once<T>(what: &str, call: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let found = call();
    assert!(began.elapsed() < SHORT, "{what} took {:?}", began.elapsed());
    found
}

#[test]
fn readers_and_writers_go_on_while_a_sync_takes_a_second() {
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    let history = Arc::new(Sqlite::open(Some(directory.path()), LIMITS).unwrap());
    history.record_run(&run("r", CONCEPTS), &Identity::default(), 1.0).unwrap();
    watch.slow(DELAY);
    let (mut settled, mut longest) = (Vec::new(), Duration::ZERO);
    for step in 0..10 {
        let point = point("r", "val", step, CONCEPTS);
        let recorded = at_once("a point", || history.record_point(&point, Some(Attempt::default()))).unwrap();
        assert_eq!(recorded, Recorded::Waiting);
        let next = format!("next {step}");
        at_once("a run", || history.record_run(&run(&next, 2), &Identity::default(), 2.0)).unwrap();
        assert_eq!(at_once("the runs", || history.runs()).unwrap().len() as u64, step + 2);
        assert_eq!(at_once("the newest point", || history.point("r", "val", None, true)).unwrap(), Some(point));
        assert!(at_once("the size", || history.usage()).unwrap().bytes > 0);
        let waiting = at_once("what waits", || history.waiting());
        assert_eq!(waiting.why, None, "it is slow, but can be written");
        longest = longest.max(waiting.unwritten);
        settled.extend(at_once("a look", || history.write_waiting()));
        sleep(SHORT / 2);
    }
    assert!(longest > DELAY / 2, "{longest:?}");
    let slowness = history.waiting().slowness().unwrap();
    assert!(slowness.contains("the disk is slow"), "{slowness}");
    // Who asks whether something is on the disk waits for that.
    assert!(history.has_complete_point("r", "val", 9, Attempt::default(), Default::default()).unwrap());
    assert_eq!(history.waiting().unwritten, Duration::ZERO);
    settled.extend(history.write_waiting());
    assert_eq!(settled.iter().map(|written| written.step).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
}

#[test]
fn what_waits_for_a_slow_disk_is_there_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.record_run(&run("r", CONCEPTS), &Identity::default(), 1.0).unwrap();
    watch.slow(DELAY);
    watch.record();
    assert_eq!(history.record_point(&point("r", "val", 1, CONCEPTS), None).unwrap(), Recorded::Waiting);
    assert!(watch.events().iter().all(|event| !matches!(event, crate::vfs::Event::Sync { .. })), "not yet");
    history.write_at_last().unwrap();
    assert!(watch.events().iter().any(|event| matches!(event, crate::vfs::Event::Sync { .. })));
    assert_eq!(history.write_waiting().len(), 1);
}
