//! `conceptwatch compare` and /api/v1/compare over a real sidecar.

use crate::common::rows::{floats, integers, tensors};
use crate::common::{Client, Done, Sidecar, Stream, chunk, conceptwatch, end_pass, point, run, text, write_secret};
use conceptwatch::server::proto::Tensor;
use serde_json::Value;

/// Rows per pass.
const ROWS: u64 = 600;

/// Passes of `val` whose activations carry `leak` times as much information about the task as those of [`tensors`].
async fn train(client: &mut Client, name: &str, labels: &[(&str, &str)], leak: f64, passes: u64) {
    train_on(client, "val", name, labels, leak, passes).await;
}

async fn train_on(client: &mut Client, split: &str, name: &str, labels: &[(&str, &str)], leak: f64, passes: u64) {
    let mut start = run(name);
    let declared = start.run.as_mut().unwrap();
    declared.labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    client.start_run(start).await.unwrap();
    let mut stream = Stream::open(client).await;
    for step in 1..=passes {
        let mut tensors = tensors(0..ROWS);
        let task: Vec<f64> =
            tensors[2].data.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()) as f64).collect();
        let given = tensors[0].data.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        let more = (leak - 1.0) * 0.1;
        let wobble = 1.0 + 0.001 * step as f64;
        let leaking: Vec<f32> =
            given.enumerate().map(|(at, old)| ((f64::from(old) + more * task[at / 2]) * wobble) as f32).collect();
        tensors[0] = floats("concept_activations", &[ROWS, 2], &leaking);
        pass(client, &mut stream, name, (split, step, 2 * step), tensors).await;
    }
    stream.close().await;
}

/// Sends a pass of a split and a step, whose first message has this number, and waits for its point.
async fn pass(
    client: &mut Client,
    stream: &mut Stream,
    name: &str,
    (split, step, sequence): (&str, u64, u64),
    tensors: Vec<Tensor>,
) {
    let mut batch = chunk(name, sequence, 0..ROWS);
    (batch.split, batch.step, batch.tensors) = (split.into(), step, tensors);
    stream.ask(batch).await;
    let mut end = end_pass(name, sequence + 1);
    (end.split, end.step) = (split.into(), step);
    stream.ask(end).await;
    point(client, name, split, step).await;
}

fn compare(arguments: &[&str]) -> Done {
    conceptwatch(&[&["compare"], arguments].concat())
}

/// What it says after the program's name.
fn refused(done: Done, status: i32) -> String {
    let error = done.refused(status);
    error.trim_end().strip_prefix("conceptwatch compare: ").unwrap_or(&error).to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_of_a_sidecar_and_of_the_curves_it_left() {
    let directory = tempfile::tempdir().unwrap();
    let curves = directory.path().join("curves");
    let sidecar = Sidecar::start(&["--data-dir", text(&curves)]);
    let mut client = sidecar.client().await;
    train(&mut client, "weak", &[("lambda", "0.01")], 1.5, 4).await;
    train(&mut client, "strong", &[("lambda", "5")], 0.0, 3).await;
    let address = sidecar.http.to_string();
    let report = compare(&["weak", "strong", "--address", &address, "--json"]).json();
    assert_eq!(report["criterion"]["verdict"], "a_leaks_more", "{report:#}");
    assert_eq!(report["criterion_unclipped"]["verdict"], "a_leaks_more", "{report:#}");
    assert_eq!(report["a"]["evaluations"].as_array().unwrap().len(), 2);
    assert_eq!(report["a"]["rows"], serde_json::json!([600, 600]));
    assert_eq!(report["weighed"]["verdict"], "a_leaks_more", "{report:#}");
    let scores = report["scores"].as_array().unwrap();
    assert_eq!(scores[0]["score"], "ctl_conditional");
    let ctl = scores.iter().find(|one| one["score"] == "ctl").unwrap();
    assert_eq!(ctl["verdict"], "higher_in_a");
    assert!(ctl["difference"]["low"].as_f64().unwrap() > 0.05, "{ctl:#}");
    let concepts: Vec<&str> =
        ctl["per_concept"].as_array().unwrap().iter().map(|one| one["concept"].as_str().unwrap()).collect();
    assert_eq!(concepts, ["wing", "beak"]);
    assert!(report["notes"][1].as_str().unwrap().starts_with("not finished yet: weak, strong"), "{report:#}");
    let api = sidecar.json("/api/v1/compare?run_a=weak&run_b=strong");
    assert_eq!(api, report);

    let table = compare(&["strong", "weak", "--address", &address, "--score", "ctl", "--last", "2"]).ok();
    assert!(
        table.contains(
            "\nRun weak leaks more than run strong\n  leakage to the task (ctl_conditional) is higher in weak by "
        ),
        "{table}"
    );
    assert!(table.contains("Leakage Criterion, by CTL and ICL alone: run weak leaks more"), "{table}");
    assert!(table.contains("weak: 2 evaluations of val, steps 3 to 4, 600 rows"), "{table}");
    for run in ["weak", "strong"] {
        // Below the title of the diagnosis.
        let diagnosis = conceptwatch(&["diagnose", run, "--address", &address]).ok();
        let verdict: Vec<&str> = diagnosis.lines().skip(1).take_while(|line| !line.is_empty()).collect();
        assert!(table.contains(&format!("600 rows\n   {}\n", verdict.join("\n   "))), "{diagnosis}\n{table}");
    }
    assert!(table.lines().any(|line| line.starts_with("ctl ") && line.ends_with("higher in b")), "{table}");
    assert!(table.contains("2 of 2 concepts differ"), "{table}");

    // Several splits are folds: the comparison uses the scatter between them.
    for (name, lambda, leak) in [("weak", "0.01", 1.4), ("strong", "5", 0.02)] {
        train_on(&mut client, "test", name, &[("lambda", lambda)], leak, 1).await;
    }
    let folds = ["weak", "strong", "--split", "val,test", "--score", "ctl", "--address", &address, "--json"];
    let folds = compare(&folds).json();
    assert_eq!(
        (&folds["scores"][0]["a"]["count"], folds["a"]["evaluations"].as_array().unwrap().len()),
        (&2.into(), 3)
    );
    assert_eq!(folds["a"]["evaluations"][2], serde_json::json!(["test", 1]));

    // While the sidecar runs, it answers for its directory.
    let of_directory = ["weak", "strong", "--data-dir", text(&curves), "--json"];
    assert_eq!(compare(&of_directory).json(), report);
    sidecar.terminate();
    assert_eq!(compare(&of_directory).json(), report);
    let gone = refused(compare(&["weak", "strong", "--address", &address]), 1);
    assert!(gone.starts_with(&format!("{address} cannot be reached: ")), "{gone}");
    let nothing = directory.path().join("nothing");
    let none = refused(compare(&["weak", "strong", "--data-dir", text(&nothing)]), 2);
    assert!(none.ends_with("nothing has no history.sqlite3") && !nothing.exists(), "{none}");
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_by_a_label() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    for (lambda, leak) in [("0.01", 1.5), ("10", 0.0), ("1", 0.0)] {
        for seed in ["0", "1", "2"] {
            let scattered = leak + 0.01 * seed.parse::<f64>().unwrap();
            let labels = [("lambda", lambda), ("seed", seed), ("encoding", "soft")];
            train(&mut client, &format!("{lambda}/{seed}"), &labels, scattered, 2).await;
        }
    }
    let other = [("lambda", "1"), ("encoding", "logit")];
    train(&mut client, "other", &other, 1.5, 1).await;
    let address = sidecar.http.to_string();
    let asked = ["--by", "lambda", "--where", "encoding=soft", "--score", "ctl,icl", "--address", &address];
    let report = compare(&[&asked[..], &["--json"]].concat()).json();
    let groups = report["groups"].as_array().unwrap();
    assert_eq!(groups.iter().map(|group| &group["value"]).collect::<Vec<_>>(), ["0.01", "1", "10"]);
    assert_eq!(groups[0]["runs"].as_array().unwrap().len(), 3);
    assert_eq!(groups[0]["criterion"]["verdict"], "a_leaks_more", "{report:#}");
    assert_eq!(report["least"]["values"], serde_json::json!(["1", "10"]), "{report:#}");
    assert_eq!(report["least"]["above"], "no larger value was tried");
    assert!(
        report["least"]["below"]
            .as_str()
            .unwrap()
            .starts_with("lambda=0.01: leakage to the task (ctl_conditional) is higher in lambda=0.01 by "),
        "{report:#}"
    );
    let notes = report["notes"].to_string();
    assert!(notes.contains("runs of a group differ in seed\""), "{notes}");
    let path = "/api/v1/compare?by=lambda&where=encoding%3Dsoft&score=ctl,icl";
    assert_eq!(sidecar.json(path), report);
    let table = compare(&asked).ok();
    assert!(table.starts_with("Least leakage: lambda 1 to 10 (compared with 1"), "{table}");
    assert!(table.lines().any(|line| line.starts_with("0.01 ") && line.contains(" 3  –")), "{table}");
    let mixed = compare(&["--by", "lambda", "--address", &address]).ok();
    assert!(mixed.contains("note: runs of a group differ in encoding, seed"), "{mixed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_splits_of_a_run_at_their_common_steps() {
    let directory = tempfile::tempdir().unwrap();
    let curves = directory.path().join("curves");
    let sidecar = Sidecar::start(&["--data-dir", text(&curves)]);
    let mut client = sidecar.client().await;
    train(&mut client, "soft", &[], 1.0, 4).await;
    // The dropped twin is evaluated at the first three of four steps.
    drop_first_concept(&mut client, "soft", 3).await;
    let address = sidecar.http.to_string();
    let asked = ["soft", "--with-split", "val_dropped", "--address", &address];
    let report = compare(&[&asked[..], &["--json"]].concat()).json();
    assert_eq!(report["run"], "soft", "{report:#}");
    for (side, split) in [("a", "val"), ("b", "val_dropped")] {
        let steps: Vec<Value> = (1..=3).map(|step| serde_json::json!([split, step])).collect();
        assert_eq!(report[side]["evaluations"], Value::from(steps), "{report:#}");
    }
    let accuracy = &report["scores"][0];
    assert_eq!((&accuracy["score"], &accuracy["verdict"]), (&"concept_accuracy".into(), &"higher_in_a".into()));
    let mean = |one: &Value| one["difference"]["mean"].as_f64().unwrap();
    let [wing, beak] = &accuracy["per_concept"].as_array().unwrap()[..] else { panic!("{accuracy:#}") };
    assert_eq!((&wing["concept"], &wing["verdict"]), (&"wing".into(), &"higher_in_a".into()), "{wing:#}");
    assert_eq!((&beak["concept"], &beak["verdict"]), (&"beak".into(), &"compatible".into()), "{beak:#}");
    assert!(mean(wing) > 0.3 && mean(beak) == 0.0, "{accuracy:#}");
    assert!((mean(accuracy) - mean(wing) / 2.0).abs() < 1e-12, "{accuracy:#}");
    assert!(accuracy["difference"]["low"].as_f64().unwrap() > 0.0, "{accuracy:#}");

    let api = sidecar.json("/api/v1/compare?run_a=soft&split=val&with_split=val_dropped");
    assert_eq!(api, report);
    let turned = ["soft", "--split", "val_dropped", "--with-split", "val", "--address", &address, "--last", "1"];
    let table = compare(&turned).ok();
    assert!(table.starts_with("a  soft: 1 evaluation of val_dropped, steps 3 to 3, 600 rows\nb  soft: 1"), "{table}");
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{table}"));
    assert!(line("concept_accuracy").ends_with("higher in b") && line("  wing").ends_with("higher in b"), "{table}");
    assert!(table.contains("  1 of 2 concepts differ") && !table.contains("Leakage Criterion"), "{table}");
    assert!(table.contains("note: not finished yet: soft"), "{table}");
    sidecar.terminate();
    let left = compare(&["soft", "--with-split", "val_dropped", "--data-dir", text(&curves), "--json"]);
    assert_eq!(left.json(), report);
}

/// Passes of `val_dropped`, where the first concept is always predicted present.
async fn drop_first_concept(client: &mut Client, name: &str, passes: u64) {
    let mut stream = Stream::open(client).await;
    for step in 1..=passes {
        let mut tensors = tensors(0..ROWS);
        let given = tensors[0].data.chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap()));
        let dropped: Vec<f32> = given.enumerate().map(|(at, old)| if at % 2 == 0 { 0.9 } else { old }).collect();
        tensors[0] = floats("concept_activations", &[ROWS, 2], &dropped);
        pass(client, &mut stream, name, ("val_dropped", step, 1000 + 2 * step), tensors).await;
    }
    stream.close().await;
}

/// The head follows the true concepts where it was trained, and on shifted rows what leaked into their activations.
#[tokio::test(flavor = "multi_thread")]
async fn interventions_that_fail_on_a_shifted_split_alone() {
    let sidecar = Sidecar::start(&[]);
    let mut client = sidecar.client().await;
    client.start_run(run("soft")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    for (at, (step, split)) in [(1, "val"), (1, "shifted"), (2, "val"), (2, "shifted")].into_iter().enumerate() {
        let mut tensors = tensors(0..ROWS);
        let task = tensors[2].data.chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap()));
        let task: Vec<i64> = task.collect();
        let intervened = task.iter().enumerate().map(|(row, y)| {
            let wrong = split == "shifted" && row % 5 < 2;
            if wrong { (y + 1) % 3 } else { *y }
        });
        let intervened: Vec<i64> = intervened.collect();
        tensors.push(integers("task_predictions", &[ROWS], &task));
        tensors.push(integers("intervened_task_predictions", &[ROWS], &intervened));
        pass(&mut client, &mut stream, "soft", (split, step, 2 * at as u64 + 1), tensors).await;
    }
    stream.close().await;
    let address = sidecar.http.to_string();
    let table = compare(&["soft", "--with-split", "shifted", "--address", &address]).ok();
    let line = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{table}"));
    assert!(line("intervention_drop").ends_with("higher in b"), "{table}");
    assert!(line("task_accuracy").ends_with("no difference shown"), "{table}");
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_of_a_comparison_name_the_parameter() {
    let directory = tempfile::tempdir().unwrap();
    let token = directory.path().join("token");
    write_secret(&token, "a-token-of-the-tests");
    let sidecar = Sidecar::start(&["--token-file", text(&token)]);
    let address = sidecar.http.to_string();
    let open = refused(compare(&["a", "b", "--address", &address]), 1);
    assert_eq!(open, "Authorization: expected Bearer and the token");
    drop(sidecar);

    let sidecar = Sidecar::start(&[]);
    let address = sidecar.http.to_string();
    let mut client = sidecar.client().await;
    train(&mut client, "a", &[("lambda", "1")], 1.0, 2).await;
    train(&mut client, "b", &[("lambda", "1")], 1.0, 1).await;
    // A run with texts only.
    client.start_run(run("bare")).await.unwrap();
    let mut stream = Stream::open(&mut client).await;
    let mut batch = chunk("bare", 1, 0..ROWS);
    batch.tensors = vec![
        crate::common::rows::strings("predicted_text", &[2], &["a", "b"]),
        crate::common::rows::strings("reference_text", &[2], &["a", "c"]),
    ];
    stream.ask(batch).await;
    stream.ask(end_pass("bare", 2)).await;
    point(&mut client, "bare", "val", 1).await;

    // The same step of another split, and a split without common steps.
    train_on(&mut client, "odd", "b", &[("lambda", "1")], 1.0, 3).await;
    pass(&mut client, &mut stream, "a", ("early", 9, 100), tensors(0..ROWS)).await;

    let cases = [
        ("", "expected two runs, --by LABEL, or a run and --with-split SPLIT"),
        ("a", "got one run, 'a', expected another, or --with-split SPLIT"),
        ("a --with-split val", "with_split: got 'val' for both, expected a split other than split"),
        (
            "a --with-split none",
            "with_split: run 'a' has no evaluation of 'none', expected one of its splits: early, val",
        ),
        ("a --split no --with-split val", "split: run 'a' has no evaluation of 'no', expected one of its splits:"),
        (
            "a --with-split early",
            "with_split: run 'a' has no step with evaluations of both 'val' and 'early', expected passes over both",
        ),
        ("b --with-split odd --last 2", "last: run 'b' has 1 steps with evaluations of both, expected 2"),
        ("b --split val,x --with-split odd", "split: got 2 splits, expected one and the other as with_split"),
        ("a b --with-split odd", "run_b: cannot be combined with with_split, expected run_a alone"),
        ("--by lambda --with-split odd", "by: cannot be combined with with_split, expected run_a alone"),
        ("--with-split odd", "run_a: is missing: expected the run whose splits are compared"),
        ("a a", "run_b: got 'a' for both runs, expected a run other than run_a"),
        ("a nobody", "run_b: 'nobody' is unknown, expected one of bare, b, a"),
        ("a b --split test", "split: run 'a' has no evaluation of 'test', expected one of its splits: early, val"),
        ("a b --split val,val", "split: got 'val' twice, expected folds that differ"),
        ("a b --last 2", "last: run 'b' has 1 evaluations of 'val', expected 2"),
        ("a b --last 0", "last: got '0', expected a whole number from 1 to 1000"),
        ("a b --confidence 95", "confidence: got '95', expected a number between 0.5 and 1, such as 0.95"),
        ("a b --confidence nan", "confidence: got 'nan', expected a number between 0.5 and 1, such as 0.95"),
        ("a b --score leakage", "score: 'leakage' is not a score of the catalogue"),
        ("a b --score bleu", "score: not all sides have bleu: 'a' has ctl, "),
        ("a bare", "score: no score in common: 'a' has ctl, "),
        ("a b --where lambda=1", "where: selects the runs of groups, expected it only with by"),
        ("a b --by lambda", "by: cannot be combined with runs, expected either two runs or a label"),
        ("--by seed", "by: no run has the label 'seed', expected one of lambda"),
        ("--by lambda --split val,test", "split: got 2 splits, expected one: with by, the runs are the folds"),
        ("--by lambda --where lambda", "where: got 'lambda', expected LABEL=VALUE"),
    ];
    let check = |arguments: &[&str], expected: &str| {
        let message = refused(compare(&[arguments, &["--address", &address]].concat()), 2);
        assert!(message.starts_with(expected), "{arguments:?}: {message}");
    };
    for (arguments, expected) in cases {
        check(&arguments.split_whitespace().collect::<Vec<_>>(), expected);
    }
    let both = "with_split: got 'early' for both, expected a split other than split";
    check(&["a", "--split", "early", "--with-split", " early"], both);
    check(&["a", "--with-split", ""], "with_split: run 'a' has no evaluation of '', expected one of its splits");
    let one = refused(compare(&["--by", "lambda", "--where", "lambda=1", "--address", &address]), 2);
    assert_eq!(one, "by: only lambda=1 has evaluations of split 'val', expected two values of the label");
    let api = sidecar.json("/api/v1/compare?run_a=a&run_b=b&depth=1");
    assert_eq!(api["error"]["field"], "depth");
}
