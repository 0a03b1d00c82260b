//! Rows that are not what was written.

use conceptwatch::history::{Ending, HistoryError, Identity, Sqlite, Store, examine, repair};
use leakage::sample::Attempt;

use crate::points::{LIMITS, change, point, with_run};
use crate::stored::{run, steps};

#[test]
fn a_point_that_does_not_match_its_checksum_is_left_out() {
    let damages = [
        ("UPDATE point SET time = 0.25 WHERE step = 2", true),
        ("UPDATE point SET step = 5 WHERE step = 2", true),
        ("UPDATE point SET body = zeroblob(24) WHERE step = 2", true),
        ("UPDATE point SET checksum = checksum + 1 WHERE step = 2", true),
        ("UPDATE value SET value = 0.5 WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        (
            "UPDATE value SET lists = zeroblob(24) WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)",
            true,
        ),
        (
            "UPDATE value SET body = zeroblob(5) WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)",
            true,
        ),
        ("DELETE FROM value WHERE score = 'icl' AND point = (SELECT id FROM point WHERE step = 2)", true),
        ("UPDATE matrix SET cells = zeroblob(36) WHERE point = (SELECT id FROM point WHERE step = 2)", false),
    ];
    for (damage, whole) in damages {
        let (directory, history) = with_run("r", 3);
        for step in 0..3 {
            history.record_point(&point("r", "val", step, 3), Some(Attempt::default())).unwrap();
        }
        change(directory.path(), damage);
        let complete = history.has_complete_point("r", "val", 2, Attempt::default(), Default::default()).unwrap();
        assert_eq!(complete, !whole, "{damage}");
        let newest = history.point("r", "val", None, true).unwrap().unwrap();
        assert_eq!(newest.step, if whole { 1 } else { 2 }, "{damage}");
        if !whole {
            assert_eq!(newest, point("r", "val", 2, 3).without_matrices());
        }
        let matrix = history.matrix("r", "val", "icl", None).unwrap().unwrap();
        assert_eq!(matrix.step, if damage.contains("value") { 2 } else { 1 }, "{damage}: it has a checksum of its own");
        assert_eq!(steps(&history, "r", "val"), if whole { vec![0, 1] } else { vec![0, 1, 2] }, "{damage}");
        assert_eq!(history.usage().unwrap().damaged, 1, "{damage}");
        assert!(history.unscored("r", "val").unwrap().iter().all(|pass| pass.outcome == Ending::Damaged));
    }
    // A damaged declaration is never continued.
    let (directory, history) = with_run("r", 3);
    change(directory.path(), "UPDATE run SET declaration = replace(declaration, '1', '2')");
    assert!(history.runs().unwrap().is_empty());
    assert!(matches!(history.point("r", "val", None, false), Err(HistoryError::Unknown { .. })));
    assert_eq!(history.record_run(&run("r", 3), &Identity::default(), 1.0).unwrap().run.name, "r-2");
}

#[test]
fn a_mark_that_is_wrong_is_found() {
    let (directory, history) = with_run("r", 2);
    for launch in [0, 1] {
        history.record_point(&point("r", "val", 1, 2), Some(Attempt { launch, restart: 0 })).unwrap();
    }
    drop(history);
    assert!(!examine(directory.path()).unwrap().damaged);
    change(directory.path(), "UPDATE point SET superseded = 77 WHERE superseded > 0");
    assert!(examine(directory.path()).unwrap().damaged);
    let repaired = repair(directory.path()).unwrap();
    assert_eq!((repaired.kept.points, repaired.lost.points), (1, 1));
}

/// Damage in the text of a table's declaration can leave a name that is as valid.
#[test]
fn a_column_of_another_name_is_found() {
    let directory = tempfile::tempdir().unwrap();
    drop(Sqlite::open(Some(directory.path()), LIMITS).unwrap());
    let damaged = rusqlite::Connection::open(directory.path().join(conceptwatch::history::FILE_NAME)).unwrap();
    damaged.pragma_update(None, "writable_schema", true).unwrap();
    let rename = "UPDATE sqlite_schema SET sql = replace(sql, 'rows_seen', 'rows_sean') WHERE name = 'point'";
    assert!(damaged.execute(rename, []).unwrap() > 0);
    drop(damaged);

    let expected = "table 'point' has no column 'rows_seen' of type INTEGER";
    let error = Sqlite::open(Some(directory.path()), LIMITS).err().unwrap();
    assert!(matches!(&error, HistoryError::Corrupt { why, .. } if why == expected), "{error}");
    let found = examine(directory.path()).unwrap();
    assert!(found.damaged && found.faults.contains(&format!("file: {expected}")), "{:?}", found.faults);
    repair(directory.path()).unwrap();
    assert!(!examine(directory.path()).unwrap().damaged);
}
