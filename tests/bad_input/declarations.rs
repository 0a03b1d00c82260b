//! Invalid declarations of runs.

use conceptwatch::server::proto::{Concept, ConceptParts, ListRunsRequest, Run, RunConstants, StartRunRequest};
use tonic::{Code, Status};
use tonic_types::StatusExt;

use super::{Faults, names};
use crate::common::{Sidecar, run};

pub struct Case {
    name: String,
    code: Code,
    field: &'static str,
    says: &'static str,
    request: StartRunRequest,
}

fn case(name: &str, field: &'static str, says: &'static str, spoil: impl Fn(&mut StartRunRequest)) -> Case {
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

/// The run "declared" exists; this is a different run of the same name.
fn differs(name: &str, field: &'static str, spoil: fn(&mut Run)) -> Case {
    let mut case = declared(&format!("declared before with {name}"), field, "was declared with", spoil);
    case.request.run.as_mut().unwrap().name = "declared".into();
    case.code = Code::FailedPrecondition;
    case
}

pub fn cases() -> Vec<Case> {
    let mut cases = vec![
        case("none", "run", "is missing", |r| r.run = None),
        declared("no concepts", "run.concepts", "got 0 concepts, expected 1 to 4096", |r| r.concepts.clear()),
        declared("4097 concepts", "run.concepts", "got 4097 concepts", |r| {
            r.concepts =
                (0..4097).map(|i| Concept { name: format!("c{i}"), cardinality: 2, ..Concept::default() }).collect();
        }),
        declared("a concept twice", "run.concepts[1].name", "names two concepts", |r| {
            r.concepts[1] = r.concepts[0].clone();
        }),
        declared("65537 classes", "run.concepts[1].cardinality", "expected at most 65536", |r| {
            r.concepts[1].cardinality = 65_537;
        }),
        declared("2^32 - 1 classes", "run.concepts[0].cardinality", "got 4294967295", |r| {
            r.concepts[0].cardinality = u32::MAX;
        }),
        declared("activation kind 5", "run.activation_kind", "got 5, expected 0 to 4", |r| r.activation_kind = 5),
        declared("activation kind -1", "run.activation_kind", "got -1", |r| r.activation_kind = -1),
        declared("concept label kind 3", "run.concept_label_kind", "got 3, expected 0 to 2", |r| {
            r.concept_label_kind = 3;
        }),
        declared("task label kind 9", "run.task_label_kind", "got 9, expected 0 to 2", |r| r.task_label_kind = 9),
        declared("activation columns 3", "run.activation_columns", "got 3, expected 0 to 2", |r| {
            r.activation_columns = 3;
        }),
        declared("a latent for two concepts", "run.latents", "got 1, expected at least one for each of 2", |r| {
            r.latents = 1;
        }),
        declared("65537 latents", "run.latents", "at most 65536", |r| r.latents = 65_537),
        declared("two columns a concept and latents", "run.activation_columns", "with 4 latents", |r| {
            (r.activation_columns, r.latents) = (2, 4);
        }),
        declared("a head of concepts for latents", "run.constants.head_weights", "expected a multiple of 5", |r| {
            (r.latents, r.constants.as_mut().unwrap().head_weights) = (5, vec![1.0; 4]);
        }),
        declared("65537 ranks", "run.world_size", "got 65537, expected 1 to 65536", |r| r.world_size = 65_537),
        declared("33 labels", "run.labels", "got 33 labels, expected at most 32", |r| {
            r.labels = (0..33).map(|i| (format!("k{i}"), "v".to_owned())).collect();
        }),
        constant("an accuracy of 1.5", "run.constants.reference_task_accuracy", "got 1.5, expected 0 to 1", |c| {
            c.reference_task_accuracy = Some(1.5);
        }),
        constant("a NaN accuracy", "run.constants.reference_task_accuracy", "got NaN", |c| {
            c.reference_task_accuracy = Some(f64::NAN);
        }),
        constant("a negative accuracy", "run.constants.reference_task_accuracy", "got -0.1", |c| {
            c.reference_task_accuracy = Some(-0.1);
        }),
        constant("an omega of 0", "run.constants.concept_score_weight", "got 0", |c| {
            c.concept_score_weight = Some(0.0)
        }),
        constant("an infinite omega", "run.constants.concept_score_weight", "got inf", |c| {
            c.concept_score_weight = Some(f64::INFINITY);
        }),
        constant("a weight too few", "run.constants.concept_weights", "got 1 weights, expected 2", |c| {
            c.concept_weights = vec![1.0];
        }),
        constant("a negative weight", "run.constants.concept_weights", "at least 0 and not all 0", |c| {
            c.concept_weights = vec![1.0, -1.0];
        }),
        constant("weights of 0", "run.constants.concept_weights", "not all 0", |c| c.concept_weights = vec![0.0; 2]),
        constant("a NaN weight", "run.constants.concept_weights", "finite", |c| {
            c.concept_weights = vec![1.0, f64::NAN]
        }),
        constant("half a head", "run.constants.head_weights", "got 3 weights, expected a multiple of 2", |c| {
            c.head_weights = vec![1.0; 3];
        }),
        constant("an infinite head", "run.constants.head_weights", "finite", |c| {
            c.head_weights = vec![1.0, f64::NEG_INFINITY];
        }),
        constant("a bias too few", "run.constants.head_bias", "got 1 biases, expected 2 finite ones", |c| {
            (c.head_weights, c.head_bias) = (vec![1.0; 4], vec![0.5]);
        }),
        constant("an infinite bias", "run.constants.head_bias", "got 1 biases, expected 1 finite", |c| {
            (c.head_weights, c.head_bias) = (vec![1.0; 2], vec![f64::INFINITY]);
        }),
        constant("an image without a width", "run.constants.image_size", "expected 1 to 65536 pixels", |c| {
            c.image_height = 224;
        }),
        constant("an enormous image", "run.constants.image_size", "expected 1 to 65536 pixels", |c| {
            (c.image_height, c.image_width) = (u32::MAX, u32::MAX);
        }),
        constant("a box without a height", "run.constants.box_size", "got 0 x 90", |c| c.box_width = 90),
        constant("parts of one concept of two", "run.constants.concept_parts", "got 1 lists, expected 2", |c| {
            c.concept_parts = vec![ConceptParts { parts: vec![0] }];
        }),
        differs("other concepts", "run.concepts[0].name", |r| r.concepts[0].name = "tail".into()),
        differs("other classes", "run.concepts[0].cardinality", |r| r.concepts[0].cardinality = 5),
        differs("another activation kind", "run.activation_kind", |r| r.activation_kind = 3),
        differs("another layout", "run.activation_columns", |r| r.activation_columns = 2),
        differs("latents", "run.latents", |r| r.latents = 2),
        differs("another label kind", "run.task_label_kind", |r| r.task_label_kind = 2),
        differs("another label", "run.labels.lambda", |r| drop(r.labels.insert("lambda".into(), "5".into()))),
        differs("another constant", "run.constants.reference_task_accuracy", |r| {
            r.constants.as_mut().unwrap().reference_task_accuracy = Some(0.5);
        }),
    ];
    for (what, name, says) in names::hostile() {
        type Place = fn(&mut StartRunRequest, String);
        let fields: [(&str, &'static str, Place); 5] = [
            ("client", "client", |r, name| r.client = name),
            ("name", "run.name", |r, name| r.run.as_mut().unwrap().name = name),
            ("concept", "run.concepts[1].name", |r, name| r.run.as_mut().unwrap().concepts[1].name = name),
            ("label key", "run.labels key", |r, name| drop(r.run.as_mut().unwrap().labels.insert(name, "1".into()))),
            ("label", "run.labels['lambda']", |r, name| {
                drop(r.run.as_mut().unwrap().labels.insert("lambda".into(), name));
            }),
        ];
        for (place, field, set) in fields {
            let name = name.clone();
            cases.push(case(&format!("a {place} {what}"), field, says, move |r| set(r, name.clone())));
        }
    }
    cases
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
