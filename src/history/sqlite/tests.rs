use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::*;
use crate::history::{Dropped, Ending, Limits, MAX_NOTE, examine, repair};
use crate::point::{LeftOut, Outcome, Point, ScoreValue, Undefined};
use crate::run::{Concept, Run, RunFields};
use crate::sample::Attempt;
use crate::step::Rank;

const ROOMY: Limits = Limits { bytes: 1 << 30 };

fn run(name: &str, k: usize) -> Run {
    let concepts = (0..k).map(|i| Concept { name: format!("concept {i}"), cardinality: 2 }).collect();
    Run::try_from(RunFields { name: name.into(), concepts, ..RunFields::default() }).unwrap()
}

/// A point with a plain score, one per concept, one with a matrix and an undefined one.
fn point(run: &str, split: &str, step: u64, k: usize) -> Point {
    let cell = |i: usize, j: usize| (i != j).then_some((i * k + j) as f64 / 8.0);
    let matrix = (0..k).map(|i| (0..k).map(|j| cell(i, j)).collect()).collect();
    let per_concept = (0..k).map(|i| (i != 1).then_some(0.1 * i as f64 + step as f64)).collect();
    Point {
        run: run.into(),
        split: split.into(),
        step,
        epoch: Some(step as f64 / 10.0),
        time: 1e9 + step as f64,
        rows: 4096,
        concept_rows: (0..k as u64).map(|i| 4096 - i).collect(),
        rows_seen: 5000,
        provisional: false,
        incomplete: true,
        tie_fraction: 0.46,
        warnings: vec!["half precision".into()],
        estimator: "tie_aware".into(),
        neighbours: 3,
        seed: u64::MAX,
        catalogue_version: 7,
        seconds: 0.25,
        scores: vec![
            ("task_accuracy".into(), Outcome::Value(ScoreValue { value: 0.9, ..ScoreValue::default() })),
            (
                "icl".into(),
                Outcome::Value(ScoreValue {
                    value: 0.1 + step as f64,
                    standard_error: Some(0.01),
                    per_concept: Some(per_concept),
                    matrix: Some(matrix),
                    curve: Some(vec![(0.0, Some(0.5)), (0.25, None), (0.5, Some(-1.0))]),
                    age: Some(22.5),
                    ages: Some((0..k).map(|i| (0..k).map(|j| i.abs_diff(j) as f64 * 7.5).collect()).collect()),
                    left_out: Some(left_out(k)),
                    p_value: Some(0.005),
                    per_concept_q: Some((0..k).map(|i| (i != 1).then_some(0.25)).collect()),
                    matrix_q: Some(vec![vec![Some(0.5); k]; k]),
                }),
            ),
            (
                "ctl".into(),
                Outcome::Undefined(Undefined {
                    why: "one class".into(),
                    left_out: Some(LeftOut { pairs: 0, ..left_out(k) }),
                    per_concept_q: Some(vec![None; k]),
                    ..Undefined::default()
                }),
            ),
        ],
        change_errors: vec![("icl".into(), 0.25), ("ctl".into(), 0.125)],
    }
}

fn left_out(k: usize) -> LeftOut {
    LeftOut { concepts: vec![1], pairs: 2 * k as u64 - 2, of: k as u32, why: "labels: one class".into() }
}

fn without_matrices(mut point: Point) -> Point {
    for (_, outcome) in &mut point.scores {
        if let Outcome::Value(value) = outcome {
            value.matrix = None;
            value.ages = None;
            value.matrix_q = None;
        }
    }
    point
}

fn memory() -> Sqlite {
    Sqlite::open(None, ROOMY).unwrap()
}

fn steps(history: &Sqlite, run: &str, split: &str) -> Vec<u64> {
    history.series(run, split, "icl", None, 0, None).unwrap().iter().map(|point| point.step).collect()
}

#[test]
fn points_survive_reopening_whole() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("made/on the way");
    let history = Sqlite::open(Some(&path), ROOMY).unwrap();
    assert!(!history.record_run(&run("a", 4), &Identity::default(), 5.0).unwrap().resumed);
    history.record_point(&point("a", "val", 10, 4), None).unwrap();
    history.finish_run("a", 9.0).unwrap();
    drop(history);

    let history = Sqlite::open(Some(&path), ROOMY).unwrap();
    assert_eq!(
        history.runs().unwrap(),
        [StoredRun { run: run("a", 4), started: 5.0, finished: Some(9.0), open: false, title: None, note: None }]
    );
    assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", 10, 4)));
    assert_eq!(history.point("a", "val", Some(10), false).unwrap(), Some(without_matrices(point("a", "val", 10, 4))));
    assert_eq!(history.point("a", "val", Some(11), true).unwrap(), None);
    let again = history.record_run(&run("a", 4), &Identity::default(), 20.0).unwrap();
    assert_eq!((again.resumed, again.started, again.continues), (true, 5.0, false), "it had finished");
    assert_eq!(history.runs().unwrap()[0].finished, None);
}

fn fill_past_the_limit(directory: Option<&Path>) {
    let limits = Limits { bytes: 2 << 20 };
    let history = Sqlite::open(directory, limits).unwrap();
    history.record_run(&run("old", 1), &Identity::default(), 0.0).unwrap();
    history.finish_run("old", 1.0).unwrap();
    history.record_run(&run("a", 64), &Identity::default(), 0.0).unwrap();
    for step in 0..200 {
        history.record_point(&point("a", "val", step, 64), None).unwrap();
        assert!(history.usage().unwrap().bytes <= limits.bytes);
    }
    let usage = history.usage().unwrap();
    assert!(usage.dropped.matrices > 0);
    assert_eq!((usage.dropped.points, usage.dropped.runs), (0, 0), "matrices are removed first");
    assert_eq!(steps(&history, "a", "val").len(), 200);
    assert!(history.matrix("a", "val", "icl", Some(0)).unwrap().is_none());
    assert!(history.matrix("a", "val", "icl", Some(199)).unwrap().is_some());

    let mut step = 200;
    while history.usage().unwrap().dropped.points == 0 {
        history.record_point(&point("a", "val", step, 64), None).unwrap();
        step += 1;
    }
    let kept = steps(&history, "a", "val");
    assert!(kept[0] > 0 && kept.last() == Some(&(step - 1)), "the oldest points are removed");
    assert_eq!(kept.len() as u64 + history.usage().unwrap().dropped.points, step);
    assert!(history.usage().unwrap().bytes <= limits.bytes);
}

#[test]
fn the_oldest_points_are_removed_above_the_limit() {
    fill_past_the_limit(None);
    let directory = tempfile::tempdir().unwrap();
    fill_past_the_limit(Some(directory.path()));
}

#[test]
fn the_newest_point_stays_under_any_limit() {
    let history = Sqlite::open(None, Limits { bytes: 0 }).unwrap();
    history.record_run(&run("old", 1), &Identity::default(), 0.0).unwrap();
    history.finish_run("old", 1.0).unwrap();
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    for step in 0..3 {
        history.record_point(&point("a", "val", step, 2), None).unwrap();
        assert_eq!(history.point("a", "val", None, true).unwrap(), Some(point("a", "val", step, 2)));
    }
    assert_eq!(history.usage().unwrap().dropped, Dropped { matrices: 2, points: 2, runs: 1, unscored: 0 });
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
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Sqlite::open(Some(&file.join("under")), ROOMY).err().unwrap();
    assert!(matches!(&error, HistoryError::Directory { .. }), "{error}");
    assert!(error.to_string().contains("file/under"), "{error}");
    // SQLite cannot open a directory that has the file's name.
    std::fs::create_dir(directory.path().join(FILE_NAME)).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::Unwritable { .. }), "{error}");
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(FILE_NAME);
    let text = "not a database, but long enough to be read as the header of one: ".repeat(20);
    std::fs::write(&file, &text).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NotHistory { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    std::fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NotHistory { .. }), "{error}");
    Connection::open(&file).unwrap().execute_batch("SELECT x FROM theirs").unwrap();
}

#[test]
fn a_history_of_an_older_schema_is_migrated() {
    let without_ages = "ALTER TABLE value DROP COLUMN age; ALTER TABLE matrix DROP COLUMN ages;";
    let without_errors = "ALTER TABLE point DROP COLUMN change_errors; ALTER TABLE value DROP COLUMN curve;";
    let without_launches = "ALTER TABLE run DROP COLUMN declared_name; DROP TABLE launch;";
    let without_left_out = "ALTER TABLE point DROP COLUMN concept_rows; ALTER TABLE value DROP COLUMN left_out; \
                            ALTER TABLE value DROP COLUMN p_value; ALTER TABLE value DROP COLUMN per_concept_q; \
                            ALTER TABLE matrix DROP COLUMN cells_q;";
    let without_seals = "ALTER TABLE run DROP COLUMN checksum; ALTER TABLE point DROP COLUMN launch; \
                         ALTER TABLE point DROP COLUMN restart; ALTER TABLE point DROP COLUMN scores; \
                         ALTER TABLE point DROP COLUMN checksum; ALTER TABLE value DROP COLUMN checksum; \
                         ALTER TABLE matrix DROP COLUMN checksum; DROP TABLE rank; DROP TABLE unscored;";
    let without_remarks = "DROP TABLE remark; DROP INDEX run_started;";
    let without_seals = format!("{WITHOUT_BRANCHES} {without_seals}");
    let (errors, ages) = (point("r", "val", 1, 2).change_errors, vec![vec![0.0, 7.5], vec![7.5, 0.0]]);
    let older = [
        (1, vec![without_errors, without_ages, without_launches], Vec::new(), (None, None)),
        (2, vec![without_ages, without_launches], errors.clone(), (None, None)),
        (3, vec![without_launches], errors.clone(), (Some(22.5), Some(ages.clone()))),
        (4, vec![], errors.clone(), (Some(22.5), Some(ages.clone()))),
        (5, vec![], errors.clone(), (Some(22.5), Some(ages.clone()))),
        (6, vec![], errors, (Some(22.5), Some(ages))),
    ];
    for (version, undone, errors_then, ages_then) in older {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE_NAME);
        let old = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        old.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
        old.record_point(&point("r", "val", 1, 2), None).unwrap();
        drop(old);
        let without_left_out = if version < 5 { without_left_out } else { "" };
        let without_seals = if version < 6 { without_seals.as_str() } else { WITHOUT_BRANCHES };
        let back = format!(
            "{without_remarks} {without_seals} {} {without_left_out} PRAGMA user_version = {version}",
            undone.concat()
        );
        Connection::open(&file).unwrap().execute_batch(&back).unwrap();
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        history.record_point(&point("r", "val", 2, 2), None).unwrap();
        let errors = |step| history.point("r", "val", Some(step), false).unwrap().unwrap().change_errors;
        assert_eq!((errors(1), errors(2)), (errors_then, point("r", "val", 2, 2).change_errors), "schema {version}");
        let ages = |step| {
            let found = history.point("r", "val", Some(step), true).unwrap().unwrap();
            let icl = found.score("icl").unwrap().clone();
            assert_eq!(history.matrix("r", "val", "icl", Some(step)).unwrap().unwrap().ages.as_deref(), icl.ages());
            (icl.age(), icl.ages().map(<[_]>::to_vec))
        };
        assert_eq!(ages(1), ages_then, "schema {version}");
        assert_eq!(ages(2), (Some(22.5), Some(vec![vec![0.0, 7.5], vec![7.5, 0.0]])));
        let old = history.point("r", "val", Some(1), true).unwrap().unwrap();
        let icl = old.score("icl").unwrap();
        if version < 5 {
            assert_eq!((old.concept_rows.len(), icl.left_out(), icl.p_value()), (0, None, None), "schema {version}");
            assert_eq!((icl.per_concept_q(), icl.matrix_q()), (None, None), "schema {version}");
        }
        assert_eq!(history.point("r", "val", Some(2), true).unwrap().unwrap(), point("r", "val", 2, 2));
    }
}

/// As the table was up to schema 7, in which no two points were of one step.
const WITHOUT_BRANCHES: &str = "PRAGMA foreign_keys = OFF; CREATE TABLE old (id INTEGER PRIMARY KEY, \
    run INTEGER NOT NULL REFERENCES run(id) ON DELETE CASCADE, split TEXT NOT NULL, step INTEGER NOT NULL, epoch REAL, \
    time REAL NOT NULL, rows INTEGER NOT NULL, rows_seen INTEGER NOT NULL, provisional INTEGER NOT NULL, \
    incomplete INTEGER NOT NULL, tie_fraction REAL NOT NULL, warnings TEXT NOT NULL, estimator TEXT NOT NULL, \
    neighbours INTEGER NOT NULL, seed INTEGER NOT NULL, catalogue_version INTEGER NOT NULL, seconds REAL NOT NULL, \
    change_errors TEXT NOT NULL DEFAULT '[]', concept_rows TEXT NOT NULL DEFAULT '[]', launch INTEGER, restart INTEGER, \
    scores INTEGER NOT NULL DEFAULT 0, checksum INTEGER NOT NULL DEFAULT 0, UNIQUE (run, split, step)) STRICT; \
    INSERT INTO old SELECT id, run, split, step, epoch, \
    time, rows, rows_seen, provisional, incomplete, tie_fraction, warnings, estimator, neighbours, seed, \
    catalogue_version, seconds, change_errors, concept_rows, launch, restart, scores, checksum FROM point; DROP TABLE point; \
    ALTER TABLE old RENAME TO point;";

/// A history of schema 7 with the points of three attempts and one that no job has named, and what it answers.
fn history_of_schema_7(directory: &Path) -> (Vec<WholePoint>, Vec<Unscored>) {
    let old = Sqlite::open(Some(directory), ROOMY).unwrap();
    old.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
    old.begin_outbox().unwrap();
    old.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
    let by = |launch, restart| Some(Attempt { launch, restart });
    for (step, attempt) in [(10, None), (20, by(0, 0)), (25, by(0, 1)), (30, by(0, 0)), (35, by(1, 0)), (40, by(0, 1))]
    {
        old.record_point(&point("r", "val", step, 2), attempt).unwrap();
    }
    old.record_unscored(&[unscored("val", 50, Ending::Failed)]).unwrap();
    let kept = (old.whole_points("r", "val", 0, 99, true).unwrap().0, old.unscored("r", "val").unwrap());
    drop(old);
    let file = Connection::open(directory.join(FILE_NAME)).unwrap();
    file.execute_batch(&format!("{WITHOUT_BRANCHES} PRAGMA user_version = 7")).unwrap();
    kept
}

#[test]
fn points_that_were_superseded_are_marked_when_a_history_is_migrated() {
    let directory = tempfile::tempdir().unwrap();
    let (points, unscored) = history_of_schema_7(directory.path());
    let marked = points.iter().map(|point| (point.point.step, point.superseded)).collect::<Vec<_>>();
    assert_eq!(marked, [(10, false), (20, false), (25, false), (30, true), (35, false), (40, true)]);
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    assert_eq!(history.whole_points("r", "val", 0, 99, true).unwrap().0, points);
    assert_eq!(history.unscored("r", "val").unwrap(), unscored);
    assert_eq!(history.outbox_usage().unwrap().waiting, 8, "a declaration, six points, and a pass without one");
    assert_eq!(history.parcel(usize::MAX).unwrap().unreadable, [0_u64; 0]);
    let faults = |history: &Sqlite| {
        let store = history.store();
        let faults: i64 =
            store.connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
        let enforced: bool = store.connection.pragma_query_value(None, "foreign_keys", |row| row.get(0)).unwrap();
        (faults, enforced)
    };
    assert_eq!(faults(&history), (0, true));
    // It goes on as one that was never old: rows follow their point and run.
    history.record_point(&point("r", "val", 40, 2), Some(Attempt { launch: 1, restart: 0 })).unwrap();
    assert_eq!(history.newest_steps("r", "val", 9).unwrap(), [10, 20, 25, 35, 40]);
    history.finish_run("r", 9.0).unwrap();
    history.remove_run("r").unwrap();
    for table in ["point", "value", "matrix"] {
        let left: i64 = history
            .store()
            .connection
            .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
            .unwrap();
        assert_eq!(left, 0, "{table}");
    }
}

#[test]
fn what_a_branch_leaves_behind_is_removed_first() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), Limits { bytes: 1 << 20 }).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
    let warnings = vec!["w".repeat(3000)];
    let record = |step, launch| {
        let attempt = Some(Attempt { launch, restart: 0 });
        history.record_point(&Point { warnings: warnings.clone(), ..point("r", "val", step, 2) }, attempt).unwrap();
    };
    (1..=60).for_each(|step| record(step, 0));
    // Each launch returns to step 21.
    for launch in 1..=10 {
        (21..=60).for_each(|step| record(step, launch));
    }
    let (all, _) = history.whole_points("r", "val", 0, 999, false).unwrap();
    let superseded = all.iter().filter(|point| point.superseded).count();
    assert!(history.usage().unwrap().dropped.points > 0 && superseded < 250, "{superseded}");
    let newest = history.newest_steps("r", "val", 999).unwrap();
    assert_eq!(newest, (1..=60).collect::<Vec<u64>>(), "the newest branch is whole");
    assert_eq!(history.usage().unwrap().dropped.matrices, 0);
}

#[test]
fn a_mark_that_is_wrong_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
    for launch in [0, 1] {
        history.record_point(&point("r", "val", 1, 2), Some(Attempt { launch, restart: 0 })).unwrap();
    }
    drop(history);
    assert!(!examine(directory.path()).unwrap().damaged);
    let file = Connection::open(directory.path().join(FILE_NAME)).unwrap();
    file.execute("UPDATE point SET superseded = 77 WHERE superseded > 0", []).unwrap();
    drop(file);
    assert!(examine(directory.path()).unwrap().damaged);
    let repaired = repair(directory.path()).unwrap();
    assert_eq!((repaired.kept.points, repaired.lost.points), (1, 1));
}

#[test]
fn a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(Some(directory.path()), ROOMY).unwrap());
    let file = directory.path().join(FILE_NAME);
    Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NewerSchema { found: 99, known: 8, .. }), "{error}");
}

#[test]
fn a_second_process_gets_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let first = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::InUse { .. }), "{error}");
    drop(first);
    Sqlite::open(Some(directory.path()), ROOMY).unwrap();
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing_old() {
    let history = memory();
    history.record_run(&run("a", 64), &Identity::default(), 0.0).unwrap();
    history.record_point(&point("a", "val", 0, 64), None).unwrap();
    history.store().connection.pragma_update(None, "max_page_count", 60).unwrap();
    let error =
        (1..1000).find_map(|step| history.record_point(&point("a", "val", step, 64), None).err().map(|e| (step, e)));
    let (step, error) = error.unwrap();
    assert!(matches!(error, HistoryError::Full), "{error}");
    assert_eq!(steps(&history, "a", "val"), (0..step).collect::<Vec<_>>());
    assert_eq!(history.point("a", "val", Some(0), true).unwrap(), Some(point("a", "val", 0, 64)));
}

/// A power loss leaves a prefix of the log with a torn last frame; the points before it are intact.
#[test]
fn a_torn_log_keeps_the_older_points() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    history.record_run(&run("a", 3), &Identity::default(), 0.0).unwrap();
    let log = format!("{FILE_NAME}-wal");
    let mut written = Vec::new();
    for step in 0..4 {
        history.record_point(&point("a", "val", step, 3), None).unwrap();
        written.push(std::fs::metadata(directory.path().join(&log)).unwrap().len());
    }
    for (kept, length) in [(3, written[3] - 1), (3, written[2] + 100), (2, written[1] + 1), (1, written[0])] {
        let copy = tempfile::tempdir().unwrap();
        for name in [FILE_NAME, &log] {
            std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        let torn = std::fs::OpenOptions::new().write(true).open(copy.path().join(&log)).unwrap();
        torn.set_len(length).unwrap();
        let found = Sqlite::open(Some(copy.path()), ROOMY).unwrap();
        assert_eq!(steps(&found, "a", "val"), (0..kept).collect::<Vec<_>>());
        assert_eq!(found.point("a", "val", Some(0), true).unwrap(), Some(point("a", "val", 0, 3)));
    }
}

fn unscored(split: &str, step: u64, outcome: Ending) -> Unscored {
    Unscored {
        run: "r".into(),
        split: split.into(),
        step,
        time: 1e9 + step as f64,
        outcome,
        reason: format!("step {step} was not scored"),
        rows_seen: 7,
        attempt: Some(Attempt { launch: 1, restart: 2 }),
    }
}

#[test]
fn ranks_that_declared_and_finished_are_known_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let declared = run("r", 2);
    let declare = |history: &Sqlite, job: &str, restart, rank, client: &str| {
        let rank = Rank::of(rank, 4).unwrap();
        let identity = Identity { job, restart, resume: true, rank, client };
        history.record_run(&declared, &identity, 0.0).unwrap().attempt
    };
    assert_eq!(declare(&history, "", 0, 0, "unnamed"), None);
    assert_eq!(history.ranks("r").unwrap(), []);
    let attempt = declare(&history, "one", 0, 1, "a").unwrap();
    declare(&history, "one", 0, 0, "b");
    history.finish_rank("r", attempt, Rank::of(1, 4).unwrap(), 5.0).unwrap();
    history.finish_rank("r", attempt, Rank::of(3, 4).unwrap(), 5.0).unwrap();
    let two = declare(&history, "two", 0, 3, "c").unwrap();
    drop(history);

    let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
    let rank = |attempt, rank, client: &str, finished| StoredRank { attempt, rank, client: client.into(), finished };
    let expected = [rank(attempt, 0, "b", false), rank(attempt, 1, "a", true), rank(two, 3, "c", false)];
    assert_eq!(history.ranks("r").unwrap(), expected);
    // A restart begins with no ranks, and late ranks of the earlier attempt change nothing.
    let again = declare(&history, "one", 1, 0, "d").unwrap();
    declare(&history, "one", 0, 1, "late");
    history.finish_rank("r", attempt, Rank::of(0, 4).unwrap(), 6.0).unwrap();
    assert_eq!(history.ranks("r").unwrap(), [rank(again, 0, "d", false), rank(two, 3, "c", false)]);
}

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
    let report =
        |run: &str, step, attempt, ending| Written { run: run.into(), split: "val".into(), step, attempt, ending };
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

#[test]
fn declarations_never_cost_another_run_its_points() {
    let limits = Limits { bytes: 8 << 20 };
    let history = Sqlite::open(None, limits).unwrap();
    history.record_run(&run("a", 4), &Identity::default(), 0.0).unwrap();
    for step in 0..20 {
        history.record_point(&point("a", "val", step, 4), None).unwrap();
    }
    let mut refused = 0;
    for i in 0..300 {
        let declared = run(&format!("large {i}"), 4096);
        match history.record_run(&declared, &Identity::default(), 1.0) {
            Ok(_) if i % 3 == 0 => history.finish_run(&declared.name, f64::from(i)).unwrap(),
            Ok(_) => {}
            Err(HistoryError::DeclarationsFull { .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
        history.record_point(&point("a", "val", 20, 4), None).unwrap();
    }
    assert!(refused > 0, "unfinished runs of this process keep their declaration");
    let usage = history.usage().unwrap();
    assert!(usage.bytes <= limits.bytes && usage.dropped.runs > 0, "{usage:?}");
    assert_eq!((usage.dropped.points, usage.dropped.matrices), (0, 0));
    assert_eq!(steps(&history, "a", "val").len(), 21);
    // Runs whose job died make room once nobody sends to them.
    for stored in history.runs().unwrap() {
        history.forget_run(&stored.run.name);
    }
    history.record_run(&run("next", 4096), &Identity::default(), 2.0).unwrap();
    assert_eq!(steps(&history, "a", "val").len(), 21);
    let mut fields = (*run("too large", 4096)).clone();
    fields.concepts.iter_mut().for_each(|concept| concept.name.push_str(&"ü".repeat(150)));
    let huge = history.record_run(&Run::try_from(fields).unwrap(), &Identity::default(), 3.0);
    assert!(matches!(huge, Err(HistoryError::Invalid { field, .. }) if field == "run"));
}

#[test]
fn a_point_that_does_not_match_its_checksum_is_left_out() {
    let changes = [
        ("UPDATE point SET tie_fraction = 0.25 WHERE step = 2", true),
        ("UPDATE point SET step = 5 WHERE step = 2", true),
        ("UPDATE point SET checksum = checksum + 1 WHERE step = 2", true),
        ("UPDATE value SET value = 0.5 WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        (
            "UPDATE value SET per_concept = zeroblob(24) WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)",
            true,
        ),
        ("UPDATE value SET position = 9 WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        ("DELETE FROM value WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        ("UPDATE matrix SET cells = zeroblob(36) WHERE point = (SELECT id FROM point WHERE step = 2)", false),
    ];
    for (change, whole) in changes {
        let history = memory();
        history.record_run(&run("r", 3), &Identity::default(), 0.0).unwrap();
        for step in 0..3 {
            history
                .record_point(&Point { incomplete: false, ..point("r", "val", step, 3) }, Some(Attempt::default()))
                .unwrap();
        }
        history.store().connection.execute(change, []).unwrap();
        let complete = history.has_complete_point("r", "val", 2, Attempt::default()).unwrap();
        assert_eq!(complete, !whole, "{change}");
        let newest = history.point("r", "val", None, true).unwrap().unwrap();
        assert_eq!(newest.step, if whole { 1 } else { 2 }, "{change}");
        if !whole {
            assert_eq!(newest, without_matrices(Point { incomplete: false, ..point("r", "val", 2, 3) }));
        }
        let matrix = history.matrix("r", "val", "icl", None).unwrap().unwrap();
        assert_eq!(matrix.step, if change.contains("value") { 2 } else { 1 }, "{change}: it has a checksum of its own");
        assert_eq!(steps(&history, "r", "val"), if whole { vec![0, 1] } else { vec![0, 1, 2] }, "{change}");
        assert_eq!(history.usage().unwrap().damaged, 1, "{change}");
        assert!(history.unscored("r", "val").unwrap().iter().all(|pass| pass.outcome == Ending::Damaged));
    }
    // A damaged declaration is never continued.
    let history = memory();
    history.record_run(&run("r", 3), &Identity::default(), 0.0).unwrap();
    history.store().connection.execute("UPDATE run SET declaration = replace(declaration, '1', '2')", []).unwrap();
    assert!(history.runs().unwrap().is_empty());
    assert!(matches!(history.point("r", "val", None, false), Err(HistoryError::Unknown { .. })));
    assert_eq!(history.record_run(&run("r", 3), &Identity::default(), 1.0).unwrap().run.name, "r-2");
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
    // The name itself is no title, and empty texts take away.
    set(&history, Some("a"), Some("")).unwrap();
    assert_eq!(said(&history), (None, None));
    let unknown = history.remark("b", &Remark::default());
    assert!(matches!(unknown, Err(HistoryError::Unknown { .. })));
    // What was changed behind our back is not shown.
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
    history.finish_run("a", 5.0).unwrap();
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
    history.finish_run("a", 5.0).unwrap();
    // Resumed, it is open again.
    history.record_run(&run("a", 2), &job, 2.0).unwrap();
    assert!(matches!(history.remove_run("a"), Err(HistoryError::Open { .. })));
    drop(history);
    // A run whose sidecar was killed is not open.
    Sqlite::open(Some(directory.path()), ROOMY).unwrap().remove_run("b").unwrap();
}
