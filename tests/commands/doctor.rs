//! `conceptwatch doctor`, and what `serve` says about a damaged history.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::common::{Done, Sidecar, conceptwatch, open_history, program, stored, text};
use conceptwatch::history::{FILE_NAME, Identity, Store};
use leakage::point::{Outcome, Point, ScoreValue};

const STEPS: u64 = 50;

fn fill(directory: &Path) {
    let history = open_history(directory);
    history.record_run(&stored::run("r", 8), &Identity::default(), 1.0).unwrap();
    for step in 0..STEPS {
        let value = ScoreValue { value: 0.5, per_concept: Some(vec![Some(0.25); 8]), ..ScoreValue::default() };
        let scores = vec![("ctl".to_owned(), Outcome::Value(value))];
        let point = Point { run: "r".into(), split: "val".into(), step, scores, ..Point::default() };
        history.record_point(&point, None).unwrap();
    }
}

fn doctor(directory: &Path, more: &[&str]) -> Done {
    conceptwatch(&[&["doctor", "--data-dir", text(directory)], more].concat())
}

/// What it prints about a directory with faults.
fn faulty(directory: &Path) -> String {
    let done = doctor(directory, &[]);
    assert_eq!(done.status, Some(1), "{done:?}");
    done.out
}

#[test]
fn a_healthy_history_has_no_faults() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("curves");
    fill(&directory);
    let report = doctor(&directory, &[]).ok();
    assert!(report.contains("1 runs, 50 points") && report.contains("no faults"), "{report}");
    assert_eq!(std::fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700, "made for its owner alone");
}

#[test]
fn a_damaged_history_is_named_by_serve_and_repaired_by_doctor() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("curves");
    fill(&directory);
    let file = directory.join(FILE_NAME);
    let mut bytes = std::fs::read(&file).unwrap();
    let whole = bytes.clone();
    // Behind the roots of the tables, of which nothing is read where they are damaged.
    let at = bytes.len() * 7 / 8 / 4096 * 4096;
    bytes[at..at + 4096].fill(0);
    std::fs::write(&file, &bytes).unwrap();

    let places = ["--grpc-address", "127.0.0.1:0", "--http-address", "127.0.0.1:0", "--data-dir", text(&directory)];
    let refused = conceptwatch(&[&["serve"][..], &places].concat());
    assert!(refused.status != Some(0) && refused.err.contains("conceptwatch doctor --repair"), "{refused:?}");

    let report = faulty(&directory);
    assert!(report.contains("fault: "), "{report}");
    assert_eq!(std::fs::read(&file).unwrap(), bytes, "an examination changes nothing");
    let report = doctor(&directory, &["--repair"]).ok();
    assert!(report.contains("repaired: kept 1 runs"), "{report}");
    assert_eq!(std::fs::read(directory.join(format!("{FILE_NAME}.damaged-1"))).unwrap(), bytes, "it is kept");
    assert_ne!(std::fs::read(&file).unwrap(), whole);
    let history = open_history(&directory);
    let left = history.series("r", "val", "ctl", Some("concept 3"), 0, None).unwrap();
    assert!(left.len() > STEPS as usize / 2 && left.iter().all(|point| point.value == Some(0.25)), "{left:?}");
}

#[test]
fn a_file_of_no_bytes_is_not_called_healthy() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::set_permissions(directory.path(), Permissions::from_mode(0o700)).unwrap();
    std::fs::write(directory.path().join(FILE_NAME), "").unwrap();
    let report = faulty(directory.path());
    assert!(
        report.contains("fault: file: the file has 0 bytes: it was never written, or all of it is lost"),
        "{report}"
    );
    let report = doctor(directory.path(), &["--repair"]).ok();
    assert!(report.contains("repaired: kept 0 runs"), "{report}");
    doctor(directory.path(), &[]).ok();
}

#[test]
fn what_cannot_be_examined_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let message = doctor(directory.path(), &[]).refused(2);
    assert!(message.contains("data_dir") && message.contains("has no history.sqlite3"), "{message}");
    let sidecar = Sidecar::start(&["--data-dir", text(directory.path())]);
    let message = doctor(directory.path(), &["--repair"]).refused(2);
    assert!(message.contains("in use by another process"), "{message}");
    drop(sidecar);
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let report = faulty(directory.path());
    assert!(report.contains("got mode 0755, expected 0700"), "{report}");
    doctor(directory.path(), &["--repair"]).ok();
    doctor(directory.path(), &[]).ok();
}

#[test]
fn without_a_directory_the_machine_its_sidecars_and_all_curves_are_told() {
    let data = tempfile::tempdir().unwrap();
    let home = data.path().join("conceptwatch");
    // Where jobs have started two, and one is gone.
    let runtime = tempfile::tempdir().unwrap();
    let sockets = ["conceptwatch/grpc.sock", "conceptwatch/0a1b2c3d.sock", "conceptwatch/gone.sock"]
        .map(|name| runtime.path().join(name));
    for directory in [runtime.path(), sockets[0].parent().unwrap()] {
        std::fs::create_dir_all(directory).unwrap();
        std::fs::set_permissions(directory, Permissions::from_mode(0o700)).unwrap();
    }
    let [first, second, gone] = sockets.clone().map(|socket| UnixListener::bind(socket).unwrap());
    drop(gone);
    let doctor = || {
        let mut program = program();
        program.env("XDG_DATA_HOME", data.path()).env_remove("CONCEPTWATCH_DATA_DIR");
        program.env("XDG_RUNTIME_DIR", runtime.path());
        Done::of(program.arg("doctor"))
    };
    fill(&home.join("other-1"));
    let sidecar = Sidecar::start(&["--data-home", text(&home)]);
    let report = doctor().ok();
    let page = format!("page {}: conceptwatch {}, up 0.0 h", sidecar.http, env!("CARGO_PKG_VERSION"));
    for expected in [
        page.as_str(),
        "in use by its sidecar",
        "1 runs, 50 points",
        "127.0.0.1:7800 (the usual port of jobs)",
        "112 concepts: ctl 0.",
        "no faults",
    ] {
        assert!(report.contains(expected), "{expected} in\n{report}");
    }
    let listens = sockets.map(|socket| report.contains(&format!("{}: listens for jobs of this user", text(&socket))));
    assert_eq!(listens, [true, true, false], "{report}");
    drop((sidecar, first, second));
    std::fs::write(home.join("other-1").join(FILE_NAME), "no history").unwrap();
    let Done { status, out: report, .. } = doctor();
    assert_eq!(status, Some(1), "{report}");
    assert!(report.contains("fault: ") && report.contains("other-1"), "{report}");
}
