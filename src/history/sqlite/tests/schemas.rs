//! Files of another schema.

use super::*;

#[test]
fn another_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(Some(directory.path()), ROOMY).unwrap());
    let file = Connection::open(directory.path().join(FILE_NAME)).unwrap();
    file.execute_batch("CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT; PRAGMA user_version = 99").unwrap();
    drop(file);
    let error = Sqlite::open(Some(directory.path()), ROOMY).err().unwrap();
    assert!(matches!(error, HistoryError::OtherSchema { found: 99, known: 1, .. }), "{error}");
    for refused in [examine(directory.path()).err(), repair(directory.path()).err()] {
        assert!(matches!(refused, Some(HistoryError::OtherSchema { .. })), "{refused:?}");
    }
}

/// No checksum covers the number of the schema, but the tables show it.
#[test]
fn a_version_that_is_not_that_of_the_tables_is_damage_and_repaired() {
    for (version, outbox) in [(0, false), (2, false), (5, true), (99, false), (-4, false)] {
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

        let expected = format!("got schema version {version}, but the tables are those of version 1");
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
