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
