//! `conceptwatch diagnose`, /api/v1/verdict and GetDiagnosis over a real sidecar.

use std::path::Path;

use crate::common::rows::{floats, tensors};
use crate::common::stored;
use crate::common::{
    Client, Done, Sidecar, Stream, answers_in, chunk, conceptwatch, end_pass, open_history, point, run, text, until,
};
use conceptwatch::history::{Identity, RunOutcome, Store};
use conceptwatch::server::proto::{self, FinishRunRequest};
use leakage::point::{Outcome, Point, ScoreValue};
use serde_json::Value;
use tonic::Code;

/// One pass of `val` with the activations `activation(row, activation of [`tensors`], label, task)`.
async fn pass(client: &mut Client, name: &str, rows: u64, activation: impl Fn(u64, f32, i64, i64) -> f32) {
    client.start_run(run(name)).await.unwrap();
    let mut stream = Stream::open(client).await;
    let mut batch = chunk(name, 1, 0..rows);
    batch.tensors = tensors(0..rows);
    let integers = |at: usize| -> Vec<i64> {
        batch.tensors[at].data.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
    };
    let (labels, task) = (integers(1), integers(2));
    let given = batch.tensors[0].data.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
    let made: Vec<f32> =
        given.enumerate().map(|(at, old)| activation(at as u64, old, labels[at], task[at / 2])).collect();
    batch.tensors[0] = floats("concept_activations", &[rows, 2], &made);
    stream.ask(batch).await;
    stream.ask(end_pass(name, 2)).await;
    point(client, name, "val", 1).await;
    stream.close().await;
}

fn diagnose(arguments: &[&str]) -> Done {
    conceptwatch(&[&["diagnose"], arguments].concat())
}

fn found(diagnosis: &Value) -> Vec<&str> {
    let lines = diagnosis["coverage"].as_array().unwrap();
    lines.iter().filter(|line| line["state"] == "found").map(|line| line["rule"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_diagnosed_by_command_http_and_grpc() {
    let directory = tempfile::tempdir().unwrap();
    let curves = directory.path().join("curves");
    let sidecar = Sidecar::start(&["--data-dir", text(&curves)]);
    let mut client = sidecar.client().await;
    // The task does not depend on the concepts. Activations of `poor` predict the task but not their concept, those of
    // `clean` only their concept.
    let spread = |row: u64| 1e-3 * (row * 7919 % 997) as f32 / 997.0;
    pass(&mut client, "poor", 1000, |row, _, _, task| 0.3 + 0.15 * task as f32 + spread(row)).await;
    pass(&mut client, "clean", 1000, |row, _, label, _| 0.2 + 0.5 * label as f32 + 0.1 * spread(row)).await;
    pass(&mut client, "small", 100, |_, given, _, _| given).await;
    let ask = |run: &str| sidecar.json(&format!("/api/v1/verdict?run={run}&split=val"));
    // The reference heads are trained in a separate thread.
    until("the reference accuracies", || {
        ["poor", "clean", "small"]
            .iter()
            .all(|run| !ask(run)["coverage"].to_string().contains("needs reference accuracy"))
    })
    .await;
    let poor = ask("poor");
    assert_eq!(found(&poor), ["insufficient_supervision", "incomplete_concept_set"], "{poor:#}");
    assert_eq!(found(&ask("clean")), ["incomplete_concept_set"]);
    let small = ask("small");
    assert!(found(&small).contains(&"too_few_rows"), "{small:#}");
    assert_eq!(
        (&poor["run"], &poor["split"], &poor["step"], &poor["rows"]),
        (&"poor".into(), &"val".into(), &1.into(), &1000.into())
    );

    // A diagnosis of a step waits for all its scores, those of networks too.
    pass(&mut client, "waited", 1000, |_, given, _, _| given).await;
    let request = proto::GetDiagnosisRequest {
        run: "waited".into(),
        split: "val".into(),
        step: Some(1),
        timeout_seconds: crate::common::PATIENCE.as_secs_f64(),
        ..Default::default()
    };
    let waited = client.get_diagnosis(request).await.unwrap().into_inner();
    let of_set = waited.lines.iter().find(|line| line.rule == "incomplete_concept_set").unwrap();
    assert_ne!(of_set.state(), proto::DiagnosisState::Unknown, "{of_set:?}");

    let address = sidecar.http.to_string();
    let as_json = || diagnose(&["poor", "--address", &address, "--json"]).json();
    assert_eq!(as_json(), poor);
    let table = diagnose(&["poor", "--address", &address]).ok();
    assert!(
        table.starts_with(
            "poor, val, step 1, 1000 rows, ± 95 %\ntoo early to tell: 1 of 3 evaluations that are needed\n"
        ) && table.contains("\n\nInsufficient concept supervision  (arXiv:2504.14094, Section 7)\n"),
        "{table}"
    );
    assert!(table.contains("\nwhat to do:\n  Raise the weight of the concept loss\n"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("  ctl_conditional ") && line.contains(", limit 0.")), "{table}");
    assert!(table.contains("checked: Concept encoding: "), "{table}");
    assert!(
        table.contains("unknown: Alignment: needs alignment leakage (alignment_leakage), which no evaluation has"),
        "{table}"
    );

    let request = |run: &str, split: &str| proto::GetDiagnosisRequest {
        run: run.into(),
        split: split.into(),
        ..Default::default()
    };
    let answer = client.get_diagnosis(request("poor", "val")).await.unwrap().into_inner();
    assert_eq!((answer.step, answer.rows, answer.lines.len()), (1, 1000, 13));
    let line = answer.lines.iter().find(|line| line.rule == "insufficient_supervision").unwrap();
    assert_eq!(line.state(), proto::DiagnosisState::Found);
    assert_eq!(line.evidence[0].limit, Some(leakage::limits::CTL_CONDITIONAL));
    assert_eq!(line.subject, "Concept supervision");
    // One verdict, wherever it is read.
    client.finish_run(FinishRunRequest { run: "poor".into(), ..Default::default() }).await.unwrap();
    let whole = ask("poor");
    assert_eq!(
        (&whole["state"], &whole["deciding"]["score"]),
        (&"possibly_leaking".into(), &"ctl_conditional".into()),
        "{whole:#}"
    );
    // Heads on the labels do no better.
    assert!(whole["reason"].as_str().unwrap().contains("labels may be noisy"), "{whole:#}");
    assert_eq!(whole["actions"][0]["text"], "Raise the weight of the concept loss");
    let overview = sidecar.json("/api/v1/overview?split=val&run=poor");
    for (field, value) in overview["runs"][0]["verdict"].as_object().unwrap() {
        assert_eq!(&whole[field], value, "{field}");
    }
    assert_eq!(as_json(), whole);
    let answer = client.get_diagnosis(request("poor", "val")).await.unwrap().into_inner();
    let (told, deciding) = (answer.verdict.clone().unwrap(), answer.verdict.unwrap().deciding.unwrap());
    assert_eq!((told.state(), told.since_step), (proto::VerdictState::PossiblyLeaking, None));
    let json = |name: &str| whole["deciding"][name].as_f64();
    assert_eq!(
        (Some(deciding.value), deciding.standard_error, deciding.limit),
        (json("value"), json("standard_error"), json("limit"))
    );
    assert_eq!(answer.actions[0].text, "Raise the weight of the concept loss");
    let poor = whole;
    for (run, split, code) in [
        ("nobody", "val", Code::NotFound),
        ("poor", "test", Code::NotFound),
        ("", "val", Code::InvalidArgument),
        ("poor", "\n", Code::InvalidArgument),
    ] {
        assert_eq!(client.get_diagnosis(request(run, split)).await.unwrap_err().code(), code, "{run} {split}");
    }

    for (arguments, expected) in [
        (
            ["nobody", "--split", "val"],
            "conceptwatch diagnose: run: 'nobody' is unknown, expected one of waited, small, clean, poor\n",
        ),
        (
            ["poor", "--split", "test"],
            "conceptwatch diagnose: split: run 'poor' has no evaluation of 'test', expected one of its splits: val\n",
        ),
    ] {
        assert_eq!(diagnose(&[&arguments[..], &["--address", &address]].concat()).refused(2), expected);
    }
    let report = directory.path().join("report.html");
    let page_of = |run: &str, to: &Path| diagnose(&[run, "--address", &address, "--html", text(to)]);
    let reported = |run: &str| {
        page_of(run, &report).ok();
        std::fs::read_to_string(&report).unwrap()
    };
    let page = reported("poor");
    assert!(page.contains("\nInsufficient concept supervision  (arXiv:2504.14094, Section 7)\n"), "{page}");
    assert!(
        page.contains("<b>Raise the weight of the concept loss</b>") && page.contains("default-src 'none'"),
        "{page}"
    );
    let answers = answers_in(&page);
    assert_eq!((&answers["verdict"], &answers["runs"]["total"]), (&poor, &1.into()));
    assert!(answers["curves"]["scores"]["ctl_conditional"]["value"][0].is_number(), "{answers:#}");
    let standings = answers["alerts"]["standings"].as_array().unwrap();
    assert!(standings.iter().all(|alert| alert["run"] == "poor"), "{standings:#?}");
    // Titles and notes are anyone's.
    conceptwatch(&["rename", "clean", "<b>clean</b>", "--address", &address]).ok();
    let page = reported("clean");
    assert!(page.contains("<h2>&lt;b&gt;clean&lt;/b&gt;</h2>") && !page.contains("<b>clean"), "{page}");
    let error = page_of("poor", Path::new("/nowhere/report.html")).refused(2);
    assert!(error.contains("--html: /nowhere/report.html cannot be written"), "{error}");
    // A link stays and its target is replaced; what is no regular file is written in place.
    let link = directory.path().join("link.html");
    std::os::unix::fs::symlink(&report, &link).unwrap();
    std::fs::write(&report, "before").unwrap();
    page_of("poor", &link).ok();
    assert!(link.is_symlink() && std::fs::read_to_string(&report).unwrap().contains("poor"));
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR).unwrap();
    let reading = fifo.clone();
    let reader = std::thread::spawn(move || std::fs::read_to_string(reading).unwrap());
    page_of("poor", &fifo).ok();
    assert!(reader.join().unwrap().contains("poor"));
    sidecar.terminate();
    assert_eq!(diagnose(&["poor", "--data-dir", text(&curves), "--json"]).json(), poor);
}

#[test]
fn a_run_that_stopped_on_advice_leaks_to_whoever_opens_its_curves_later() {
    let directory = tempfile::tempdir().unwrap();
    let history = open_history(directory.path());
    history.record_run(&stored::run("r", 2), &Identity::default(), 0.0).unwrap();
    for step in 1..=22 {
        let known = |(id, value): (&str, f64)| {
            let value = ScoreValue { value, standard_error: Some(0.01), ..ScoreValue::default() };
            (id.to_owned(), Outcome::Value(value))
        };
        let leakage = if step > 20 { 0.5 } else { 0.001 * (step % 3) as f64 };
        let scores = [("ctl_conditional", leakage), ("concept_accuracy", 0.98), ("concept_auc", 0.99)];
        let scores = scores.map(known).to_vec();
        let point = Point { incomplete: false, scores, warnings: Vec::new(), ..stored::point("r", "val", step, 2) };
        history.record_point(&point, None).unwrap();
    }
    history.finish_run("r", 2e9, &RunOutcome::StoppedOnAdvice { rank: 0 }).unwrap();
    drop(history);
    let found = diagnose(&["r", "--data-dir", text(directory.path()), "--json"]).json();
    assert_eq!((&found["state"], &found["stop_advised_by"]), (&"leaking".into(), &Value::Null), "{found:#}");
    assert!(found["reason"].as_str().unwrap().contains("times the noise of an evaluation"), "{found:#}");
}
