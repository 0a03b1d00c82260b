//! Directories and files that are no history, of another version, or another process's; directories that nobody chose.

use std::path::{Path, PathBuf};
use std::time::Duration;

use conceptwatch::history::{
    ADDRESS_FILE, FILE_NAME, HistoryError, Identity, Sqlite, Store, examine, histories, repair,
};
use rusqlite::Connection;

use crate::points::LIMITS;
use crate::stored::run;

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let error = Sqlite::open(Some(&file.join("under")), LIMITS).err().unwrap();
    assert!(matches!(&error, HistoryError::Directory { .. }), "{error}");
    assert!(error.to_string().contains("file/under"), "{error}");
    // SQLite cannot open a directory that has the file's name.
    std::fs::create_dir(directory.path().join(FILE_NAME)).unwrap();
    let error = Sqlite::open(Some(directory.path()), LIMITS).err().unwrap();
    assert!(matches!(error, HistoryError::Unwritable { .. }), "{error}");
}

#[test]
fn foreign_files_are_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join(FILE_NAME);
    let text = "not a database, but long enough to be read as the header of one: ".repeat(20);
    std::fs::write(&file, &text).unwrap();
    let error = Sqlite::open(Some(directory.path()), LIMITS).err().unwrap();
    assert!(matches!(error, HistoryError::NotHistory { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), text);

    std::fs::remove_file(&file).unwrap();
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE theirs (x)").unwrap();
    let error = Sqlite::open(Some(directory.path()), LIMITS).err().unwrap();
    assert!(matches!(error, HistoryError::NotHistory { .. }), "{error}");
    for refused in [examine(directory.path()).err(), repair(directory.path()).err()] {
        assert!(matches!(refused, Some(HistoryError::NotHistory { .. })), "{refused:?}");
    }
    Connection::open(&file).unwrap().execute_batch("SELECT x FROM theirs").unwrap();
}

#[test]
fn a_second_process_gets_in_use() {
    let directory = tempfile::tempdir().unwrap();
    let first = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    let error = Sqlite::open(Some(directory.path()), LIMITS).err().unwrap();
    assert!(matches!(error, HistoryError::InUse { .. }), "{error}");
    drop(first);
    Sqlite::open(Some(directory.path()), LIMITS).unwrap();
}

#[test]
fn a_link_that_leads_nowhere_leads_to_a_new_directory() {
    let parent = tempfile::tempdir().unwrap();
    for (name, target) in [("first", "second"), ("second", "made/on the way")] {
        std::os::unix::fs::symlink(target, parent.path().join(name)).unwrap();
    }
    let history = Sqlite::open(Some(&parent.path().join("first")), LIMITS).unwrap();
    history.record_run(&run("a", 2), &Identity::default(), 0.0).unwrap();
    drop(history);
    let history = Sqlite::open(Some(&parent.path().join("made/on the way")), LIMITS).unwrap();
    assert_eq!(history.runs().unwrap().len(), 1);
}

#[test]
fn another_schema_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(Some(directory.path()), LIMITS).unwrap());
    let file = Connection::open(directory.path().join(FILE_NAME)).unwrap();
    file.execute_batch("CREATE TABLE later (id INTEGER PRIMARY KEY) STRICT; PRAGMA user_version = 99").unwrap();
    drop(file);
    let error = Sqlite::open(Some(directory.path()), LIMITS).err().unwrap();
    assert!(matches!(error, HistoryError::OtherSchema { found: 99, known: 1, .. }), "{error}");
    for refused in [examine(directory.path()).err(), repair(directory.path()).err()] {
        assert!(matches!(refused, Some(HistoryError::OtherSchema { .. })), "{refused:?}");
    }
}

fn opened(home: &Path) -> (Sqlite, PathBuf) {
    Sqlite::open_in(home, LIMITS).map_err(|error| error.to_string()).unwrap()
}

#[test]
fn the_next_sidecar_goes_on_and_one_beside_it_has_its_own() {
    let home = tempfile::tempdir().unwrap();
    let (first, directory) = opened(home.path());
    std::fs::write(directory.join(ADDRESS_FILE), "a b\n").unwrap();
    let (second, other) = opened(home.path());
    assert_ne!(directory, other);
    drop(first);
    assert_eq!(opened(home.path()).1, directory);
    assert_eq!(histories(home.path()).len(), 2);
    drop(second);
    assert!(directory.file_name().unwrap().to_str().unwrap().ends_with("-1"), "{directory:?}");
}

#[test]
fn one_that_is_about_to_stop_is_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let (stopping, directory) = opened(home.path());
    let stop = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        drop(stopping);
    });
    assert_eq!(opened(home.path()).1, directory);
    stop.join().unwrap();
}

#[test]
fn one_that_cannot_be_read_is_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let (history, directory) = opened(home.path());
    drop(history);
    std::fs::write(directory.join(FILE_NAME), "no history, but longer than a page's head is: ".repeat(99)).unwrap();
    let (_, other) = opened(home.path());
    assert_ne!(directory, other);
}

#[test]
fn a_home_that_cannot_be_written_is_an_error() {
    let home = tempfile::NamedTempFile::new().unwrap();
    assert!(matches!(Sqlite::open_in(home.path(), LIMITS), Err(HistoryError::Directory { .. })));
}
