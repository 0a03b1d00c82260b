//! Disks whose syncs take long: nobody waits for them but those who ask for that.

use conceptwatch::history::{Identity, Recorded, Sqlite, Store};
use leakage::sample::Attempt;

use crate::points::{LIMITS, point};
use crate::stored::run;
use crate::vfs::{Event, Watch};

const CONCEPTS: usize = 6;
const STEPS: u64 = 10;

#[test]
fn readers_and_writers_go_on_while_a_sync_does_not_end() {
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.record_run(&run("r", CONCEPTS), &Identity::default(), 1.0).unwrap();
    history.write_at_last().unwrap();
    watch.hold();
    for step in 0..STEPS {
        let point = point("r", "val", step, CONCEPTS);
        assert_eq!(history.record_point(&point, Some(Attempt::default())).unwrap(), Recorded::Waiting);
        history.record_run(&run(&format!("next {step}"), 2), &Identity::default(), 2.0).unwrap();
        assert_eq!(history.runs().unwrap().len() as u64, step + 2);
        assert_eq!(history.point("r", "val", None, true).unwrap(), Some(point));
        assert!(history.usage().unwrap().bytes > 0);
        assert_eq!(history.write_waiting(), [], "nothing is on the disk");
    }
    let slowness = loop {
        let waiting = history.waiting();
        assert_eq!(waiting.why, None, "it is slow, but can be written");
        if let Some(slowness) = waiting.slowness() {
            break slowness;
        }
    };
    assert!(slowness.contains("the disk is slow"), "{slowness}");
    std::thread::scope(|scope| {
        let asks = || history.has_complete_point("r", "val", 9, Attempt::default(), Default::default()).unwrap();
        let asked = scope.spawn(asks);
        watch.release();
        assert!(asked.join().unwrap(), "who asks whether a point is on the disk waits for that");
    });
    history.write_at_last().unwrap();
    let steps: Vec<u64> = history.write_waiting().iter().map(|written| written.step).collect();
    assert_eq!(steps, (0..STEPS).collect::<Vec<_>>());
    assert!(history.waiting().unwritten.is_zero());
}

#[test]
fn what_waits_for_a_slow_disk_is_there_at_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let watch = Watch::over(directory.path());
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.record_run(&run("r", CONCEPTS), &Identity::default(), 1.0).unwrap();
    history.write_at_last().unwrap();
    watch.hold();
    watch.record();
    assert_eq!(history.record_point(&point("r", "val", 1, CONCEPTS), None).unwrap(), Recorded::Waiting);
    std::thread::scope(|scope| {
        let written = scope.spawn(|| history.write_at_last());
        watch.release();
        written.join().unwrap().unwrap();
    });
    assert!(matches!(watch.events().last(), Some(Event::Sync { .. })));
    assert_eq!(history.write_waiting().len(), 1);
}
