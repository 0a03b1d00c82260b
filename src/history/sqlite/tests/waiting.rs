//! Changes that wait: the disk is full, or the file was removed or replaced while in use.

use super::*;

#[test]
fn what_waits_for_room_is_written_when_there_is_room() {
    for on_network in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        if on_network {
            history.store().move_to_network();
        }
        let pages = |most: u32| history.store().connection.pragma_update(None, "max_page_count", most).unwrap();
        history.record_run(&run("r", 64), &Identity::default(), 0.0).unwrap();
        assert_eq!(history.record_point(&point("r", "val", 0, 64), None).unwrap(), Recorded::Stored);
        pages(60);
        let mut waiting = 0;
        for step in 1..20 {
            let recorded = history.record_point(&point("r", "val", step, 64), None).unwrap();
            waiting += u64::from(recorded == Recorded::Waiting);
        }
        assert!(!history.record_unscored(&[unscored("val", 99, Ending::Failed)]).unwrap());
        assert!(waiting > 0 && history.waiting().entries == waiting + 1, "{:?}", history.waiting());
        assert_eq!(steps(&history, "r", "val"), (0..20).collect::<Vec<_>>(), "readers see all");
        pages(1 << 20);
        let patience = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let written = loop {
            let written = history.write_waiting();
            if history.waiting().why.is_none() {
                break written;
            }
            assert!(std::time::Instant::now() < patience, "{:?}", history.waiting());
            std::thread::sleep(std::time::Duration::from_millis(1));
        };
        assert_eq!(written.len() as u64, waiting + 1);
        drop(history);
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        assert_eq!(steps(&history, "r", "val"), (0..20).collect::<Vec<_>>());
        assert_eq!(history.unscored("r", "val").unwrap(), [unscored("val", 99, Ending::Failed)]);
    }
}

#[test]
fn a_history_that_was_removed_is_an_error_and_what_comes_later_waits() {
    for log_alone in [false, true] {
        let directory = tempfile::tempdir().unwrap();
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        history.record_run(&run("r", 2), &Identity::default(), 0.0).unwrap();
        assert_eq!(history.record_point(&point("r", "val", 1, 2), None).unwrap(), Recorded::Stored);
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
