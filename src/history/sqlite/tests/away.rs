//! Files that are removed or replaced while they are in use.

use super::*;

/// Calls until what waits is written.
fn written(history: &Sqlite) -> Vec<Written> {
    let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let written = history.write_waiting();
        if history.waiting().why.is_none() {
            return written;
        }
        assert!(std::time::Instant::now() < patience, "{:?}", history.waiting());
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_removed_directory_is_noticed_and_everything_is_in_it_again_once_it_is_back() {
    remove_and_bring_back(false);
    remove_and_bring_back(true);
}

fn remove_and_bring_back(on_network: bool) {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    let history = Sqlite::open(Some(&directory), ROOMY).unwrap();
    if on_network {
        history.store().move_to_network();
    }
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    assert_eq!(history.record_point(&point("r", "val", 1, 2), None).unwrap(), Recorded::Stored);
    std::fs::remove_dir_all(&directory).unwrap();

    let attempt = Some(Attempt { launch: 0, restart: 3 });
    assert_eq!(history.record_point(&point("r", "val", 2, 2), attempt).unwrap(), Recorded::Waiting);
    history.record_run(&run("late", 2), &Identity { job: "j", ..Identity::default() }, 5.0).unwrap();
    assert_eq!(history.record_point(&point("late", "val", 3, 2), None).unwrap(), Recorded::Waiting);
    assert!(!history.record_unscored(&[unscored("val", 9, Ending::Failed)]).unwrap());
    history.finish_run("late", 6.0).unwrap();
    assert_eq!(history.point("late", "val", None, true).unwrap(), Some(point("late", "val", 3, 2)), "readers see it");
    let waiting = history.waiting();
    assert!(waiting.why.as_ref().is_some_and(|why| why.contains("removed while in use")), "{waiting:?}");
    assert_eq!((waiting.entries, waiting.refused), (5, 0));
    assert!(history.write_waiting().is_empty() && !directory.exists(), "it may be where a volume is mounted");

    std::fs::create_dir(&directory).unwrap();
    let reports = written(&history);
    let report = |run: &str, step, attempt, ending| {
        let (run, split, ordinal) = (run.into(), "val".into(), Default::default());
        Written { run, split, step, ordinal, attempt, ending }
    };
    let record = report("r", 9, Some(Attempt { launch: 1, restart: 2 }), Some(Ending::Failed));
    assert_eq!(reports, [report("r", 2, attempt, None), report("late", 3, None, None), record]);
    assert_eq!(history.waiting(), Waiting::default());
    assert_eq!(history.record_point(&point("r", "val", 4, 2), None).unwrap(), Recorded::Stored);
    drop(history);

    let history = Sqlite::open(Some(&directory), ROOMY).unwrap();
    assert_eq!(steps(&history, "r", "val"), [1, 2, 4]);
    assert_eq!(history.point("late", "val", None, true).unwrap(), Some(point("late", "val", 3, 2)));
    assert_eq!(history.runs().unwrap()[0].finished, Some(6.0));
    assert_eq!(history.unscored("r", "val").unwrap(), [unscored("val", 9, Ending::Failed)]);
}

#[test]
fn a_removed_log_loses_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("r", "val", 1, 2), None).unwrap();
    std::fs::remove_file(directory.path().join(format!("{FILE_NAME}-wal"))).unwrap();
    assert_eq!(history.record_point(&point("r", "val", 2, 2), None).unwrap(), Recorded::Waiting);
    assert_eq!(written(&history).len(), 1);
    let copy = tempfile::tempdir().unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
    }
    assert_eq!(steps(&Sqlite::open(Some(copy.path()), ROOMY).unwrap(), "r", "val"), [1, 2]);
}

#[test]
fn a_history_that_was_replaced_is_not_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
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
    let history = Sqlite::open(Some(&directory), ROOMY).unwrap();
    history.record_run(&run("r", 112), &Identity::default(), 0.0).unwrap();
    std::fs::remove_dir_all(&directory).unwrap();
    let refused = (0..).find_map(|step| history.record_point(&point("r", "val", step, 112), None).err()).unwrap();
    assert!(matches!(refused, HistoryError::Unwritten { .. }), "{refused}");
    let waiting = history.waiting();
    assert!(
        waiting.bytes as usize <= MOST_WAITING && waiting.bytes as usize > MOST_WAITING / 2 && waiting.refused == 1
    );
    assert!(history.record_run(&run("next", 2), &Identity::default(), 0.0).is_ok());
    assert_eq!(steps(&history, "r", "val").len() as u64, waiting.entries);
}
