//! Files of older and newer schemas.

use super::*;

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

/// As the tables were up to schema 7, in which no two points were of one step.
const WITHOUT_BRANCHES: &str = "PRAGMA foreign_keys = OFF; DROP TABLE process; \
    ALTER TABLE unscored DROP COLUMN ordinal; CREATE TABLE old (id INTEGER PRIMARY KEY, \
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
    // It behaves as a history that was never old: rows are removed with their point and run.
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
fn a_newer_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(Some(directory.path()), ROOMY).unwrap());
    let file = Connection::open(directory.path().join(FILE_NAME)).unwrap();
    file.execute_batch("CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT; PRAGMA user_version = 99").unwrap();
    drop(file);
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::NewerSchema { found: 99, known: 10, .. }), "{error}");
    for refused in [examine(directory.path()).err(), repair(directory.path()).err()] {
        assert!(matches!(refused, Some(HistoryError::NewerSchema { .. })), "{refused:?}");
    }
}

/// No checksum covers the number of the schema, but the tables show it.
#[test]
fn a_version_that_is_not_that_of_the_tables_is_damage_and_repaired() {
    for (version, outbox) in [(0, false), (1, false), (5, true), (9, false), (11, true), (99, false), (-4, false)] {
        let directory = tempfile::tempdir().unwrap();
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        if outbox {
            history.begin_outbox().unwrap();
        }
        history.record_run(&run("r", 2), &Identity::default(), 1.0).unwrap();
        history.record_point(&point("r", "val", 1, 2), None).unwrap();
        drop(history);
        let file = Connection::open(directory.path().join(FILE_NAME)).unwrap();
        file.pragma_update(None, "user_version", version).unwrap();
        drop(file);

        let expected = format!("got schema version {version}, but the tables are those of version 10");
        let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
        assert!(matches!(&error, HistoryError::Corrupt { why, .. } if *why == expected), "{error}");
        let found = examine(directory.path()).unwrap();
        assert_eq!(found.faults.last(), Some(&format!("file: {expected}")));
        assert!(found.damaged && found.intact.points == 1, "{found:?}");
        assert_eq!(repair(directory.path()).unwrap().kept, found.intact, "version {version}");
        let history = Sqlite::open(Some(directory.path()), ROOMY).unwrap();
        assert_eq!(history.point("r", "val", Some(1), true).unwrap(), Some(point("r", "val", 1, 2)));
    }
}
