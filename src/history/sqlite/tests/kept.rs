//! Recorded data survives a restart, and is removed as a whole.

use super::*;

#[test]
fn points_survive_reopening_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on the way");
    let history = Sqlite::open(Some(&path), ROOMY).unwrap();
    assert!(!history.record_run(&run("a", 4), &Identity::default(), 5.0).unwrap().resumed);
    history.record_point(&point("a", "val", 10, 4), None).unwrap();
    history.finish_run("a", 9.0, &RunOutcome::Finished).unwrap();
    drop(history);

    let history = Sqlite::open(Some(&path), ROOMY).unwrap();
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
    assert_eq!(history.point("a", "val", Some(10), false).unwrap(), Some(without_matrices(point("a", "val", 10, 4))));
    assert_eq!(history.point("a", "val", Some(11), true).unwrap(), None);
    let again = history.record_run(&run("a", 4), &Identity::default(), 20.0).unwrap();
    assert_eq!((again.resumed, again.started, again.continues), (true, 5.0, false), "it had finished");
    assert_eq!(history.runs().unwrap()[0].finished, None);
}

#[test]
fn readers_and_writers_share_the_history() {
    let directory = tempfile::tempdir().unwrap();
    let history = Arc::new(Sqlite::open(Some(directory.path()), ROOMY).unwrap());
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    std::thread::scope(|scope| {
        for split in ["train", "val"] {
            let history = history.clone();
            scope.spawn(move || {
                for step in 0..40 {
                    history.record_point(&point("a", split, step, 2), None).unwrap();
                }
            });
        }
        for _ in 0..2 {
            let history = history.clone();
            scope.spawn(move || {
                let mut longest = 0;
                while longest < 40 {
                    let found = steps(&history, "a", "val");
                    assert_eq!(found, (0..found.len() as u64).collect::<Vec<_>>(), "no gap is ever seen");
                    assert!(found.len() >= longest);
                    longest = found.len();
                }
            });
        }
    });
    assert_eq!(steps(&history, "a", "train").len(), 40);
}

#[test]
fn ranks_that_declared_and_finished_are_known_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let declared = run("r", 2);
    let declare = |history: &Sqlite, job: &str, restart, rank, client: &str| {
        let rank = Rank::of(rank, 4).unwrap();
        let identity = Identity { job, restart, resume: true, rank, client, ..Identity::default() };
        history.record_run(&declared, &identity, 0.0).unwrap().attempt
    };
    assert_eq!(declare(&history, "", 0, 0, "unnamed"), None);
    assert_eq!(history.ranks("r").unwrap(), []);
    let attempt = declare(&history, "one", 0, 1, "a").unwrap();
    declare(&history, "one", 0, 0, "b");
    history.finish_rank("r", attempt, Rank::of(1, 4).unwrap(), 5.0, &RunOutcome::Finished).unwrap();
    history.finish_rank("r", attempt, Rank::of(3, 4).unwrap(), 5.0, &RunOutcome::Finished).unwrap();
    let two = declare(&history, "two", 0, 3, "c").unwrap();
    drop(history);

    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let rank = |attempt, rank, client: &str, finished| StoredRank { attempt, rank, client: client.into(), finished };
    let expected = [rank(attempt, 0, "b", false), rank(attempt, 1, "a", true), rank(two, 3, "c", false)];
    assert_eq!(history.ranks("r").unwrap(), expected);
    // A restart begins with no ranks, and late ranks of the earlier attempt change nothing.
    let again = declare(&history, "one", 1, 0, "d").unwrap();
    declare(&history, "one", 0, 1, "late");
    history.finish_rank("r", attempt, Rank::of(0, 4).unwrap(), 6.0, &RunOutcome::Finished).unwrap();
    assert_eq!(history.ranks("r").unwrap(), [rank(again, 0, "d", false), rank(two, 3, "c", false)]);
}

#[test]
fn titles_and_notes_are_kept_and_checked() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("a", 2), &Identity::default(), 1.0).unwrap();
    let set = |history: &Sqlite, title: Option<&str>, note: Option<&str>| {
        history.remark("a", &Remark { title: title.map(str::to_owned), note: note.map(str::to_owned) })
    };
    let said = |history: &Sqlite| {
        let stored = history.runs().unwrap().remove(0);
        (stored.title, stored.note)
    };
    let both = (Some("λ = 1, <b>".to_owned()), Some("two\nlines\tand 🦆".to_owned()));
    set(&history, Some("λ = 1, <b>"), None).unwrap();
    set(&history, None, Some("two\nlines\tand 🦆")).unwrap();
    assert_eq!(said(&history), both);
    drop(history);
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    assert_eq!(said(&history), both);
    // It resumes, and what is said about it stays.
    history.record_run(&run("a", 2), &Identity::default(), 2.0).unwrap();
    assert_eq!(said(&history), both);
    let (long, longer) = ("x".repeat(MAX_NOTE), "x".repeat(MAX_NOTE + 1));
    for (title, note) in
        [(Some(" \t"), None), (Some("a\nb"), None), (Some(&long[..201]), None), (None, Some("\u{1b}[2J"))]
    {
        assert!(matches!(set(&history, title, note), Err(HistoryError::Invalid { .. })), "{title:?} {note:?}");
    }
    assert!(set(&history, None, Some(&longer)).is_err() && set(&history, None, Some(&long)).is_ok());
    // The name itself is no title, and empty texts remove what was set.
    set(&history, Some("a"), Some("")).unwrap();
    assert_eq!(said(&history), (None, None));
    let unknown = history.remark("b", &Remark::default());
    assert!(matches!(unknown, Err(HistoryError::Unknown { .. })));
    // A title that was changed behind our back is not shown.
    set(&history, Some("b"), None).unwrap();
    history.store().connection.execute("UPDATE remark SET title = 'c'", []).unwrap();
    assert_eq!(said(&history), (None, None));
    set(&history, None, Some("new")).unwrap();
    assert_eq!(said(&history), (None, Some("new".to_owned())));
    drop(history);
    let repaired = repair(directory.path()).unwrap();
    assert_eq!(repaired.lost, Contents::default());
    assert_eq!(said(&Sqlite::open(Some(directory.path()), ROOMY).unwrap()), (None, Some("new".to_owned())));
}

#[test]
fn a_run_is_removed_whole_unless_it_is_open() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let job = Identity { job: "job", ..Identity::default() };
    for name in ["a", "b"] {
        history.record_run(&run(name, 4), &job, 1.0).unwrap();
        history.record_point(&point(name, "val", 1, 4), Some(Attempt { launch: 0, restart: 0 })).unwrap();
        history.remark(name, &Remark { note: Some("n".into()), ..Remark::default() }).unwrap();
    }
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { run }) if run == "a"));
    history.finish_run("a", 5.0, &RunOutcome::Finished).unwrap();
    history.remove_run("a").unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Unknown { .. })));
    let rows = |table: &str| -> i64 {
        let count = format!("SELECT count(*) FROM {table}");
        history.store().connection.query_row(&count, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(["run", "launch", "rank", "point", "value", "matrix", "remark"].map(rows), [1, 1, 1, 1, 3, 1, 1]);
    assert_eq!(history.point("b", "val", None, true).unwrap(), Some(point("b", "val", 1, 4)));
    // Its name is free.
    assert!(!history.record_run(&run("a", 2), &job, 2.0).unwrap().resumed);
    history.finish_run("a", 5.0, &RunOutcome::Finished).unwrap();
    // Resumed, it is open again.
    history.record_run(&run("a", 2), &job, 2.0).unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { .. })));
    drop(history);
    // A run whose sidecar was killed is not open.
    Sqlite::open(Some(directory.path()), ROOMY).unwrap().remove_run("b").unwrap();
}
