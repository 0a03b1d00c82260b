//! Changes that wait: the file was removed or replaced while in use.

use conceptwatch::history::{FILE_NAME, HistoryError, Identity, MOST_WAITING, Recorded, Sqlite, Store};

use crate::points::{LIMITS, point, with_run};
use crate::stored::{run, steps};

#[test]
fn a_history_that_was_removed_is_an_error_and_what_comes_later_waits() {
    for log_alone in [false, true] {
        let (directory, history) = with_run("r", 2);
        history.record_point(&point("r", "val", 1, 2), None).unwrap();
        history.write_at_last().unwrap();
        history.write_waiting();
        let removed = if log_alone { format!("{FILE_NAME}-wal") } else { FILE_NAME.to_owned() };
        std::fs::remove_file(directory.path().join(removed)).unwrap();
        assert_eq!(history.record_point(&point("r", "val", 2, 2), None).unwrap(), Recorded::Waiting);
        let waiting = history.waiting();
        assert!(waiting.why.as_ref().is_some_and(|why| why.contains("removed")), "{waiting:?}");
        assert_eq!((waiting.entries, waiting.refused), (1, 0));
        assert_eq!(steps(&history, "r", "val"), [1, 2], "readers see both");
        for _ in 0..3 {
            assert!(history.write_waiting().is_empty());
            assert!(history.waiting().why.is_some());
        }
    }
}

#[test]
fn a_history_that_was_replaced_is_not_overwritten() {
    let (directory, history) = with_run("r", 2);
    let file = directory.path().join(FILE_NAME);
    std::fs::remove_file(&file).unwrap();
    std::fs::write(&file, "of another").unwrap();
    assert_eq!(history.record_point(&point("r", "val", 1, 2), None).unwrap(), Recorded::Waiting);
    let tries = |history: &Sqlite| history.waiting().why.unwrap_or_default();
    for _ in 0..3 {
        assert!(history.write_waiting().is_empty());
        assert!(tries(&history).contains("replaced by another file"), "{}", tries(&history));
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "of another");
}

#[test]
fn what_waits_is_bounded_and_runs_still_start() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let history = Sqlite::open(Some(&directory), LIMITS).unwrap();
    history.record_run(&run("r", 200), &Identity::default(), 0.0).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let refused = (0..).find_map(|step| history.record_point(&point("r", "val", step, 200), None).err()).unwrap();
    assert!(matches!(refused, HistoryError::Unwritten { .. }), "{refused}");
    let waiting = history.waiting();
    assert!(
        waiting.bytes as usize <= MOST_WAITING && waiting.bytes as usize > MOST_WAITING / 2 && waiting.refused == 1
    );
    assert!(history.record_run(&run("next", 2), &Identity::default(), 0.0).is_ok());
    assert_eq!(steps(&history, "r", "val").len() as u64, waiting.entries);
}
