//! Curves where nothing can be written: of another user, or on a read-only mount.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::common::{Done, open_history, program, stored, text};
use conceptwatch::history::{FILE_NAME, Identity, Store};

/// A user without a right to anything.
const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn curves_that_can_only_be_read_are_read_and_not_changed() {
    let directory = tempfile::tempdir().unwrap();
    set_mode(directory.path(), 0o755);
    let data = directory.path().join("data");
    // Its last points are in the log alone, as after a kill.
    let history = open_history(&data);
    history.record_run(&stored::run("r", 2), &Identity::default(), 1.0).unwrap();
    for step in 1..=3 {
        history.record_point(&stored::point("r", "val", step, 2), None).unwrap();
    }
    std::mem::forget(history);
    let log = data.join(format!("{FILE_NAME}-wal"));
    assert!(std::fs::metadata(&log).unwrap().len() > 0);
    for file in [&data.join(FILE_NAME), &log] {
        set_mode(file, 0o444);
    }
    set_mode(&data, 0o555);
    let copy = directory.path().join("conceptwatch");
    std::fs::copy(program().get_program(), &copy).unwrap();
    let temporary = directory.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    set_mode(&temporary, 0o1777);
    let told = |arguments: &[&str]| {
        let mut command = Command::new(&copy);
        command.args(arguments).args(["--data-dir", text(&data)]).env("TMPDIR", &temporary).current_dir(&temporary);
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        Done::of(&mut command)
    };
    assert!(told(&["ls"]).ok().contains('r'));
    assert!(told(&["diagnose", "r", "--split", "val", "--json"]).ok().contains("\"step\":3"));
    let tables = temporary.join("tables");
    told(&["export", "--to", text(&tables)]).ok();
    assert_eq!(std::fs::read_to_string(tables.join("points.csv")).unwrap().lines().count(), 4);
    let examined = told(&["doctor"]).out;
    assert!(examined.contains("3 points") && !examined.contains("file:"), "{examined}");
    let refused = told(&["rename", "r", "a title"]);
    assert!(refused.status != Some(0) && refused.err.contains("can only read it"), "{refused:?}");
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().map(|found| found.unwrap().file_name()).collect();
    assert_eq!(left, ["tables"], "no copy stays");
    set_mode(&data, 0o755);
}
