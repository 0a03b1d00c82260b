//! Recorded data survives a restart, and is removed as a whole.

use conceptwatch::history::{FILE_NAME, HistoryError, Identity, Remark, RunOutcome, Sqlite, Store, StoredRun, repair};
use leakage::sample::Attempt;

use crate::points::{LIMITS, change, point, with_run};
use crate::stored::{run, steps};

#[test]
fn points_survive_reopening_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on the way");
    let history = Sqlite::open(Some(&path), LIMITS).unwrap();
    assert!(!history.record_run(&run("a", 4), &Identity::default(), 5.0).unwrap().resumed);
    history.record_point(&point("a", "val", 10, 4), None).unwrap();
    history.finish_run("a", 9.0, &RunOutcome::Finished).unwrap();
    drop(history);

    let history = Sqlite::open(Some(&path), LIMITS).unwrap();
    assert_eq!(
        history.runs().unwrap(),
        [StoredRun {
            run: run("a", 4),
            started: 5.0,
            finished: Some(9.0),
            outcome: Some(RunOutcome::Finished),
            open: false,
            title: None,
            note: None
        }]
    );
    assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", 10, 4)));
    assert_eq!(history.point("a", "val", Some(10), false).unwrap(), Some(point("a", "val", 10, 4).without_matrices()));
    assert_eq!(history.point("a", "val", Some(11), true).unwrap(), None);
    let again = history.record_run(&run("a", 4), &Identity::default(), 20.0).unwrap();
    assert_eq!((again.resumed, again.started, again.continues), (true, 5.0, false), "it had finished");
    assert_eq!(history.runs().unwrap()[0].finished, None);
}

#[test]
fn readers_and_writers_share_the_history() {
    let (_directory, history) = with_run("a", 2);
    let history = &history;
    std::thread::scope(|scope| {
        for split in ["train", "val"] {
            scope.spawn(move || {
                for step in 0..40 {
                    history.record_point(&point("a", split, step, 2), None).unwrap();
                }
            });
        }
        for _ in 0..2 {
            scope.spawn(|| {
                let mut longest = 0;
                while longest < 40 {
                    let found = steps(history, "a", "val");
                    assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "no gap is ever seen");
                    assert!(found.len() >= longest);
                    longest = found.len();
                }
            });
        }
    });
    assert_eq!(steps(history, "a", "train").len(), 40);
}

#[test]
fn titles_and_notes_are_kept_with_their_run() {
    let (directory, history) = with_run("a", 2);
    let said = Remark { title: Some("λ = 1, <b>".into()), note: Some("two\nlines\tand 🦆".into()) };
    let open = || Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.remark("a", &said).unwrap();
    drop(history);
    for _ in 0..2 {
        let stored = open().runs().unwrap().remove(0);
        assert_eq!((stored.title, stored.note), (said.title.clone(), said.note.clone()));
        repair(directory.path()).unwrap();
    }
    // A row that was changed behind our back is neither shown nor changed.
    let history = open();
    change(directory.path(), "UPDATE run SET title = 'c'");
    assert!(history.runs().unwrap().is_empty());
    for refused in [history.remark("a", &said).err(), history.finish_run("a", 2.0, &RunOutcome::Finished).err()] {
        assert!(matches!(refused, Some(HistoryError::Unknown { .. })), "{refused:?}");
    }
}

#[test]
fn a_run_is_removed_with_all_rows() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    let job = Identity { job: "job", ..Identity::default() };
    for name in ["a", "b"] {
        history.record_run(&run(name, 4), &job, 1.0).unwrap();
        history.record_point(&point(name, "val", 1, 4), Some(Attempt { launch: 0, restart: 0 })).unwrap();
    }
    history.finish_run("a", 5.0, &RunOutcome::Finished).unwrap();
    history.remove_run("a").unwrap();
    let file = rusqlite::Connection::open(directory.path().join(FILE_NAME)).unwrap();
    let rows = |table: &str| -> i64 {
        file.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    assert_eq!(["run", "launch", "rank", "point", "value", "matrix"].map(rows), [1, 1, 1, 1, 3, 1]);
    drop(history);
    // A run whose sidecar was killed is not open.
    Sqlite::open(Some(directory.path()), LIMITS).unwrap().remove_run("b").unwrap();
}
