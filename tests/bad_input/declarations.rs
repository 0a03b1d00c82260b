//! Invalid declarations of runs: what the conversion of messages checks, and that refusals start no run. The library names the
//! other faults, see `declarations.rs` in the tests of its crate.

use conceptwatch::server::proto::{LabelKind, ListRunsRequest, Run, RunConstants, StartRunRequest, Task};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{Faults, NO_NAME, NOT_SHOWN};
use crate::common::{Sidecar, run};

struct Case {
    name: String,
    code: Code,
    field: &'static str,
    says: &'static str,
    request: StartRunRequest,
}

fn case(name: &str, field: &'static str, says: &'static str, spoil: impl FnOnce(&mut StartRunRequest)) -> Case {
    let mut request = run("bad");
    spoil(&mut request);
    Case { name: format!("run: {name}"), code: Code::InvalidArgument, field, says, request }
}

/// Invalidates the run itself.
fn declared(name: &str, field: &'static str, says: &'static str, spoil: fn(&mut Run)) -> Case {
    case(name, field, says, |request| spoil(request.run.as_mut().unwrap()))
}

fn constant(name: &str, field: &'static str, says: &'static str, spoil: fn(&mut RunConstants)) -> Case {
    case(name, field, says, |request| spoil(request.run.as_mut().unwrap().constants.as_mut().unwrap()))
}

fn cases() -> Vec<Case> {
    vec![
        case("none", "run", "is missing", |r| r.run = None),
        declared("no concepts", "run.concepts", "got 0 concepts, expected 1 to 4096", |r| r.concepts.clear()),
        declared("activation kind 5", "run.activation_kind", "got 5, expected 0 to 4", |r| r.activation_kind = 5),
        declared("concept label kind 3", "run.concept_label_kind", "got 3, expected 0 to 2", |r| {
            r.concept_label_kind = 3;
        }),
        declared("task label kind 9", "run.task_label_kind", "got 9, expected 0 to 2", |r| r.task_label_kind = 9),
        declared("label kind 9 of a task", "run.tasks[0].label_kind", "got 9, expected 0 to 2", |r| {
            r.tasks = vec![Task { name: "edema".into(), cardinality: 0, label_kind: 9 }];
        }),
        declared("classes of a number", "run.tasks[0].label_kind", "got continuous for 'age' with 5 classes", |r| {
            r.tasks = vec![Task { name: "age".into(), cardinality: 5, label_kind: LabelKind::Continuous.into() }];
        }),
        declared("activation columns 3", "run.activation_columns", "got 3, expected 0 to 2", |r| {
            r.activation_columns = 3;
        }),
        constant("an accuracy of 1.5", "run.constants.reference_task_accuracy", "got 1.5, expected 0 to 1", |c| {
            c.reference_task_accuracy = Some(1.5);
        }),
        constant("an image without a width", "run.constants.image_size", "expected 1 to 65536 pixels", |c| {
            c.image_height = 224;
        }),
        constant("a box without a height", "run.constants.box_size", "got 0 x 90", |c| c.box_width = 90),
        declared("a name that is none", "run.name", NOT_SHOWN, |r| r.name = NO_NAME.into()),
        declared("a concept's name that is none", "run.concepts[1].name", NOT_SHOWN, |r| {
            r.concepts[1].name = NO_NAME.into();
        }),
        declared("a label's key that is no name", "run.labels key", NOT_SHOWN, |r| {
            r.labels.insert(NO_NAME.into(), "1".into());
        }),
        declared("a label that is no name", "run.labels['lambda']", NOT_SHOWN, |r| {
            r.labels.insert("lambda".into(), NO_NAME.into());
        }),
        case("a client that is no name", "client", NOT_SHOWN, |r| r.client = NO_NAME.into()),
        case("a job that is no name", "job", NOT_SHOWN, |r| r.job = NO_NAME.into()),
        case("a process that is no name", "process", NOT_SHOWN, |r| (r.job, r.process) = ("a".into(), NO_NAME.into())),
        case("a host that is no name", "host", NOT_SHOWN, |r| r.host = NO_NAME.into()),
        case("a job of a scheduler that is no name", "scheduler_job", NOT_SHOWN, |r| r.scheduler_job = NO_NAME.into()),
        case("attempt 2^31", "attempt", "expected", |r| (r.job, r.attempt) = ("a".into(), 1 << 31)),
        case("rank 1 of 1", "rank", "got 1, expected 0 to 0", |r| (r.job, r.rank) = ("a".into(), 1)),
        Case {
            code: Code::FailedPrecondition,
            ..declared("other concepts than before", "run.concepts[0].name", "was declared with", |r| {
                (r.name, r.concepts[0].name) = ("declared".into(), "tail".into());
            })
        },
    ]
}

/// Checks a status against the expected one.
pub fn check_status(faults: &mut Faults, case: &str, status: &Status, code: Code, field: &str, says: &str) {
    faults.check(case, status.code() == code, format!("was answered {status:?}"));
    faults.check_message(case, status.message(), says);
    faults.check(case, status.message().starts_with(field), format!("does not begin with {field}: {status}"));
    let details = status.get_error_details();
    let violations = details.bad_request().map_or(&[][..], |request| &request.field_violations);
    let named: Vec<&str> = violations.iter().map(|violation| violation.field.as_str()).collect();
    faults.check(case, named == [field], format!("its details name {named:?}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn refuses_bad_declarations_and_starts_no_run() {
    let mut sidecar = Sidecar::start(&["--log", "error"]);
    let mut client = sidecar.client().await;
    let mut faults = Faults::default();
    client.start_run(run("declared")).await.unwrap();
    for case in cases() {
        match client.start_run(case.request).await {
            Ok(_) => faults.check(&case.name, false, "was taken"),
            Err(status) => check_status(&mut faults, &case.name, &status, case.code, case.field, case.says),
        }
        let runs = client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
        let names: Vec<&str> = runs.iter().filter_map(|status| Some(status.run.as_ref()?.name.as_str())).collect();
        faults.check(&case.name, names == ["declared"], format!("the runs are {names:?}"));
        assert!(sidecar.is_alive(), "{}: the sidecar ended", case.name);
    }
    assert!(client.start_run(run("bad")).await.is_ok(), "a valid declaration is accepted afterwards");
    assert!(client.start_run(run("declared")).await.unwrap().into_inner().resumed);
    faults.report();
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_look_like_paths_are_only_names() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let sidecar = Sidecar::start(&["--data-dir", crate::common::text(&data)]);
    let mut client = sidecar.client().await;
    for name in ["../../outside", "/etc/passwd", "..", ".", "C:\\windows", "a//b", "-rf"] {
        client.start_run(run(name)).await.unwrap();
        let mut stream = crate::common::Stream::open(&mut client).await;
        stream.ask(crate::common::chunk(name, 1, 0..16)).await;
        stream.ask(crate::common::end_pass(name, 2)).await;
        assert_eq!(crate::common::point(&mut client, name, "val", 1).await.rows, 16, "{name}");
    }
    let mut found: Vec<_> = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    found.sort();
    let own = |name: &str| name == "address" || name.starts_with("history.sqlite3");
    assert!(found.iter().all(|name| own(name.to_str().unwrap())), "{found:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
}
