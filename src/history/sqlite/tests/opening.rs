//! Directories and files that are no history, or another process's.

use super::*;

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
    for refused in [examine(directory.path()).err(), repair(directory.path()).err()] {
        assert!(matches!(refused, Some(HistoryError::NotHistory { .. })), "{refused:?}");
    }
    Connection::open(&file).unwrap().execute_batch("SELECT x FROM theirs").unwrap();
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
fn a_link_that_leads_nowhere_leads_to_a_new_directory() {
    let parent = tempfile::tempdir().unwrap();
    for (name, target) in [("first", "second"), ("second", "made/on the way")] {
        std::os::unix::fs::symlink(target, parent.path().join(name)).unwrap();
    }
    let history = Sqlite::open(Some(&parent.path().join("first")), ROOMY).unwrap();
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    drop(history);
    let history = Sqlite::open(Some(&parent.path().join("made/on the way")), ROOMY).unwrap();
    assert_eq!(history.runs().unwrap().len(), 1);
}
