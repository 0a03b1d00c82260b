//! `conceptwatch ls`, `rename`, `note`, `rm` and `export`, on the curves of a stopped sidecar, of a running one, and of several
//! places at once. Every number that is exported reads back as the same bits.

use std::collections::BTreeMap;
use std::path::Path;

use crate::common::{Done, Sidecar, open_history, program, run as declaration, text};
use conceptwatch::history::{Identity, RunOutcome, Store};
use conceptwatch::server::proto::{FinishRunRequest, ListRunsRequest, StartRunRequest};
use leakage::point::{LeftOut, Outcome, Point, ScoreValue};
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Attempt;
use serde_json::{Value, json};

fn declared(name: &str, seed: u32) -> Run {
    let concepts = ["wing, \"grey\"", "λ"]
        .map(|name| Concept { name: name.into(), cardinality: 2, ..Concept::default() })
        .to_vec();
    let labels = [("seed".to_owned(), seed.to_string()), ("note".to_owned(), "a,\"b\"".to_owned())].into();
    Run::try_from(RunFields { name: name.into(), concepts, labels, ..RunFields::default() }).unwrap()
}

/// Numbers whose text is long, tiny or a whole number.
fn odd(step: u64) -> f64 {
    [0.1 + 0.2, 5e-324, 1.0 / 3.0, -1e300, 1e16 + 2.0, -0.25][(step % 6) as usize]
}

fn point(run: &str, step: u64) -> Point {
    let icl = ScoreValue {
        value: odd(step),
        standard_error: Some(odd(step + 1)),
        per_concept: Some(vec![Some(odd(step + 2)), None]),
        matrix: Some(vec![vec![None, Some(f64::from(0.1_f32))], vec![Some(0.75), None]]),
        ages: Some(vec![vec![0.0, 7.5], vec![7.5, 0.0]]),
        age: Some(7.5),
        curve: Some(vec![(0.1, Some(odd(step))), (0.2, None)]),
        left_out: Some(LeftOut { concepts: vec![1], pairs: 2, of: 2, why: "one, class".into() }),
        p_value: Some(0.005),
        per_concept_q: Some(vec![Some(0.3), None]),
        matrix_q: Some(vec![vec![None, Some(0.5)], vec![Some(1.0), None]]),
        per_task: None,
    };
    Point {
        run: run.into(),
        split: "val".into(),
        step,
        epoch: Some(odd(step)).filter(|epoch| *epoch >= 0.0),
        time: 1.79e9 + 1.0 / 3.0,
        rows: 4096,
        rows_seen: 5000,
        concept_rows: vec![4096, 4000],
        tie_fraction: 1.0 / 7.0,
        warnings: vec!["half, precision".into()],
        estimator: "tie_aware".into(),
        neighbours: 3,
        seed: u64::MAX,
        catalogue_version: 7,
        seconds: 0.1 + 0.7,
        scores: vec![("icl".into(), Outcome::Value(icl)), ("ctl".into(), Outcome::undefined("one class"))],
        change_errors: vec![("icl".into(), odd(step + 3))],
        ..Point::default()
    }
}

/// A directory of curves in a user's data directory.
fn fill(home: &Path, directory: &str, runs: &[&str]) {
    let history = open_history(&home.join("conceptwatch").join(directory));
    for (number, name) in runs.iter().enumerate() {
        history.record_run(&declared(name, number as u32), &Identity::default(), 1e9 + number as f64).unwrap();
        for step in 0..6 {
            history.record_point(&point(name, step), Some(Attempt { launch: 0, restart: 1 })).unwrap();
        }
    }
    history.finish_run(runs[0], 1e9 + 60.0, &RunOutcome::Finished).unwrap();
}

/// `conceptwatch` as a user with this home calls it.
fn conceptwatch(home: &Path, arguments: &[&str]) -> Done {
    Done::of(program().env("XDG_DATA_HOME", home).args(arguments))
}

fn ok(home: &Path, arguments: &[&str]) -> String {
    let done = conceptwatch(home, arguments);
    assert_eq!(done.err, "", "{arguments:?}");
    done.ok()
}

fn refused(home: &Path, arguments: &[&str], why: &str) {
    let error = conceptwatch(home, arguments).refused(2);
    assert!(error.contains(why), "{arguments:?}: {error}");
}

fn listed(home: &Path, arguments: &[&str]) -> (Vec<String>, u64) {
    let found: Value = serde_json::from_str(&ok(home, &[&["ls", "--json"], arguments].concat())).unwrap();
    let names = found["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap().to_owned());
    (names.collect(), found["total"].as_u64().unwrap())
}

#[test]
fn runs_of_all_places_are_listed_titled_noted_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home, "host-1", &["cub", "cub-2", "twin"]);
    fill(home, "host-2", &["other", "twin"]);
    assert_eq!(listed(home, &[]).1, 5);
    assert_eq!(listed(home, &["cub", "seed=1"]), (vec!["cub-2".to_owned()], 1));
    assert_eq!(listed(home, &["-n", "1", "cub"]), (vec!["cub-2".to_owned()], 2));
    let table = ok(home, &["ls", "-n", "2"]);
    assert!(table.starts_with("RUN") && table.ends_with("2 of 5 runs; --limit lists more\n"), "{table}");
    let table = ok(home, &["ls", "cub"]);
    assert!(table.contains("2001-09-09 01:46  finished  6            5     note=a,\"b\", seed=0"), "{table}");
    assert!(table.contains("  lost  "), "{table}");
    assert!(table.contains("\n  reason: no job is connected, and none has said how it ended\n"), "{table}");

    ok(home, &["rename", "cub", "The λ=1 <run>"]);
    ok(home, &["note", "cub", "first\nsecond\u{202e}"]);
    assert_eq!(ok(home, &["note", "cub"]), "first\nsecond\\u{202e}\n");
    assert_eq!(listed(home, &["<run>"]), (vec!["cub".to_owned()], 1));
    assert!(ok(home, &["ls", "<run>"]).contains("  title: The λ=1 <run>\n  note: first\\nsecond\\u{202e}\n"));
    ok(home, &["note", "cub", ""]);
    assert_eq!(ok(home, &["note", "cub"]), "");

    refused(home, &["rename", "cub", "two\nlines"], "title: has the character \\u{a}");
    refused(home, &["rename", "nobody", "x"], "run: 'nobody' is unknown: `conceptwatch ls` lists runs");
    refused(home, &["rename", "twin", "x"], "host-1 and in ");
    refused(home, &["rm", "cub"], "there is no terminal to ask on: add --yes");
    refused(home, &["rm", "nobody", "--yes"], "run: 'nobody' is unknown");
    let second = home.join("conceptwatch/host-2");
    ok(home, &["rename", "twin", "x", "--data-dir", text(&second)]);
    assert_eq!(ok(home, &["rm", "cub", "cub-2", "--yes"]), "removed cub\nremoved cub-2\n");
    assert_eq!(listed(home, &[]).1, 3);
    assert_eq!(conceptwatch(home, &["diagnose", "cub"]).status, Some(2));
    // Where there is nothing, there is nothing to list.
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(ok(empty.path(), &["ls"]), "no runs\n");
    refused(home, &["ls", "--data-dir", text(empty.path())], "has no history.sqlite3");
    assert_eq!(conceptwatch(home, &["ls", "--address", "127.0.0.1:1"]).status, Some(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_sidecar_makes_the_changes_and_keeps_open_runs() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home, "host-1", &["done", "left"]);
    let directory = home.join("conceptwatch/host-1");
    let sidecar = Sidecar::start(&["--data-dir", text(&directory)]);
    let mut client = sidecar.client().await;
    client.start_run(StartRunRequest { client: "c".into(), ..declaration("open") }).await.unwrap();
    // By the address that stands in the directory, without a flag.
    assert_eq!(listed(home, &[]), (["open", "left", "done"].map(str::to_owned).to_vec(), 3));
    ok(home, &["rename", "open", "In training"]);
    assert!(ok(home, &["ls", "training"]).contains("title: In training"));
    let listing = sidecar.json("/api/v1/runs?search=training");
    assert_eq!((&listing["total"], &listing["runs"][0]["title"]), (&json!(1), &json!("In training")));
    let list = |page_token: String, search: &str| ListRunsRequest { page_size: 2, page_token, search: search.into() };
    let first = client.list_runs(list(String::new(), "")).await.unwrap().into_inner();
    assert_eq!((first.runs.len(), first.total, first.runs[0].title.as_str()), (2, 3, "In training"));
    let last = client.list_runs(list(first.next_page_token, "")).await.unwrap().into_inner();
    assert_eq!((last.runs.len(), last.total, last.next_page_token.as_str()), (1, 3, ""));
    assert_eq!(last.runs[0].run.as_ref().unwrap().name, "done");
    assert_eq!(client.list_runs(list(String::new(), "seed=1")).await.unwrap().into_inner().total, 1);
    let wrong = client.list_runs(list("x".into(), "")).await.unwrap_err();
    assert_eq!(
        (wrong.code(), wrong.message().starts_with("page_token: got 'x'")),
        (tonic::Code::InvalidArgument, true)
    );
    refused(home, &["rm", "open", "--yes"], "run: 'open' is open, expected one that has finished");
    refused(home, &["rm", "open", "--yes", "--data-dir", text(&directory)], "run: 'open' is open");
    // All that cannot be removed is said, and what could be is kept.
    fill(home, "host-2", &["twin"]);
    fill(home, "host-3", &["twin"]);
    let done = conceptwatch(home, &["rm", "left", "open", "nobody", "done", "twin", "--yes"]);
    assert_eq!((done.status, done.out.as_str()), (Some(2), ""), "{}", done.err);
    let lines: Vec<&str> = done.err.lines().collect();
    let expected = ["run: 'open' is open, expected one", "run: 'nobody' is unknown", "run: 'twin' is in "];
    assert_eq!(lines.len(), expected.len(), "{}", done.err);
    for (line, why) in lines.iter().zip(expected) {
        assert!(line.starts_with("conceptwatch rm: ") && line.contains(why), "{line}");
    }
    assert_eq!(listed(home, &["left"]).1 + listed(home, &["done"]).1, 2);
    std::fs::remove_dir_all(home.join("conceptwatch/host-2")).unwrap();
    std::fs::remove_dir_all(home.join("conceptwatch/host-3")).unwrap();
    // A run that nothing has been sent to yet is open all the same.
    let run = sidecar.json("/api/v1/run?run=open");
    assert_eq!((&run["open"], &run["finished"], &run["splits"]), (&json!(true), &json!(false), &json!([])));
    assert!(ok(home, &["ls", "open"]).contains("  training  "));
    let removed = ok(home, &["rm", "left", "done", "left", "--yes", "--address", &sidecar.http.to_string()]);
    assert_eq!(removed, "removed left\nremoved done\n");
    let finish = FinishRunRequest { run: "open".into(), client: "c".into(), ..Default::default() };
    client.finish_run(finish).await.unwrap();
    ok(home, &["rm", "open", "--yes"]);
    assert_eq!(listed(home, &[]), (Vec::new(), 0));
    let again = StartRunRequest { client: "d".into(), ..declaration("open") };
    let started = client.start_run(again).await.unwrap().into_inner();
    assert_eq!((started.run.as_str(), started.resumed), ("open", false));
}

fn csv_rows(path: &Path) -> Vec<BTreeMap<String, String>> {
    csv::Reader::from_path(path).unwrap().deserialize().map(Result::unwrap).collect()
}

#[test]
fn exported_tables_hold_every_number_in_full() {
    let home = tempfile::tempdir().unwrap();
    let home = home.path();
    fill(home, "host-1", &["cub", "second"]);
    ok(home, &["rename", "cub", "a, \"title\""]);
    let (csv, jsonl) = (home.join("csv"), home.join("json/lines"));
    let said = ok(home, &["export", "--to", text(&csv)]);
    assert!(said.starts_with("2 runs, ") && said.contains(" rows in "), "{said}");
    ok(home, &["export", "--to", text(&jsonl), "--format", "jsonl", "cub"]);
    let names = |directory: &Path| {
        let entries =
            std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = entries.collect();
        names.sort();
        names
    };
    let kinds = ["concepts", "pairs", "points", "rows", "runs", "scores", "unscored"];
    assert_eq!(names(&csv), kinds.map(|kind| format!("{kind}.csv")));
    assert_eq!(names(&jsonl), kinds.map(|kind| format!("{kind}.jsonl")));

    let runs = csv_rows(&csv.join("runs.csv"));
    assert_eq!(runs.len(), 2);
    let cub = runs.iter().find(|run| run["run"] == "cub").unwrap();
    assert_eq!((cub["title"].as_str(), cub["finished"].as_str()), ("a, \"title\"", "true"));
    assert_eq!(serde_json::from_str::<Value>(&cub["labels"]).unwrap(), json!({"seed": "0", "note": "a,\"b\""}));
    let bits = |text: &str| text.parse::<f64>().unwrap().to_bits();
    let of_cub = |kind: &str| -> Vec<BTreeMap<String, String>> {
        csv_rows(&csv.join(format!("{kind}.csv"))).into_iter().filter(|row| row["run"] == "cub").collect()
    };
    for (step, row) in of_cub("points").iter().enumerate() {
        let expected = point("cub", step as u64);
        assert_eq!(row["seed"], u64::MAX.to_string());
        assert_eq!(row["epoch"].is_empty(), expected.epoch.is_none());
        for (column, value) in
            [("time", expected.time), ("tie_fraction", expected.tie_fraction), ("seconds", expected.seconds)]
        {
            assert_eq!(bits(&row[column]), value.to_bits(), "{column}");
        }
        assert_eq!((row["launch"].as_str(), row["restart"].as_str(), row["superseded"].as_str()), ("0", "1", "false"));
        assert_eq!((row["warnings"].as_str(), row["concept_rows"].as_str()), ("[\"half, precision\"]", "[4096,4000]"));
    }
    let scores = of_cub("scores");
    assert_eq!(scores.len(), 12);
    for row in scores.iter().chain(&of_cub("concepts")).chain(&of_cub("pairs")) {
        assert_eq!((row["launch"].as_str(), row["restart"].as_str(), row["superseded"].as_str()), ("0", "1", "false"));
    }
    for row in scores.iter().filter(|row| row["score"] == "icl") {
        let step = row["step"].parse().unwrap();
        assert_eq!(bits(&row["value"]), odd(step).to_bits());
        assert_eq!(bits(&row["standard_error"]), odd(step + 1).to_bits());
        assert_eq!(bits(&row["change_error"]), odd(step + 3).to_bits());
        assert_eq!((bits(&row["p_value"]), bits(&row["age"])), (0.005_f64.to_bits(), 7.5_f64.to_bits()));
        let left_out = json!({"concepts": [1], "pairs": 2, "of": 2, "why": "one, class"});
        assert_eq!(serde_json::from_str::<Value>(&row["left_out"]).unwrap(), left_out);
        assert_eq!(serde_json::from_str::<Value>(&row["curve"]).unwrap(), json!([[0.1, odd(step)], [0.2, null]]));
    }
    assert!(
        scores.iter().any(|row| row["score"] == "ctl" && row["undefined"] == "one class" && row["value"].is_empty())
    );
    let concepts = of_cub("concepts");
    assert_eq!((concepts.len(), concepts[0]["concept"].as_str()), (12, "wing, \"grey\""));
    assert_eq!((bits(&concepts[0]["value"]), concepts[0]["q"].as_str()), (odd(2).to_bits(), "0.3"));
    let pairs = of_cub("pairs");
    assert_eq!(pairs.len(), 24);
    assert_eq!((pairs[1]["from"].as_str(), pairs[1]["to"].as_str()), ("wing, \"grey\"", "λ"));
    assert_eq!(bits(&pairs[1]["value"]) as f64, f64::from(0.1_f32).to_bits() as f64);
    assert_eq!((pairs[1]["q"].as_str(), pairs[1]["age"].as_str()), ("0.5", "7.5"));

    // The lines say the same.
    let lines = std::fs::read_to_string(jsonl.join("scores.jsonl")).unwrap();
    let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 12);
    for (line, row) in lines.iter().zip(&scores) {
        assert_eq!(line["value"].as_f64().map(f64::to_bits), row["value"].parse::<f64>().ok().map(f64::to_bits));
        assert_eq!(line["score"], row["score"].as_str());
    }

    // Through a sidecar, the same files.
    let directory = home.join("conceptwatch/host-1");
    let sidecar = Sidecar::start(&["--data-dir", text(&directory)]);
    let live = home.join("live");
    ok(home, &["export", "--to", text(&live), "--without", "unscored"]);
    for kind in &kinds[..6] {
        let file = format!("{kind}.csv");
        let strip = |path: &Path| -> Vec<BTreeMap<String, String>> {
            let mut rows = csv_rows(path);
            rows.iter_mut().for_each(|row| drop(row.remove("source")));
            rows
        };
        assert_eq!(strip(&live.join(&file)), strip(&csv.join(&file)), "{kind}");
    }
    assert!(!live.join("unscored.csv").exists());
    drop(sidecar);

    refused(home, &["export", "--to", text(&csv)], "runs.csv exists, expected a directory without it");
    refused(home, &["export", "nobody", "--to", text(&home.join("n"))], "run: 'nobody' is unknown");
    assert!(names(&home.join("n")).is_empty(), "nothing half-written is left");
    refused(home, &["export", "--to", text(&csv.join("runs.csv"))], "to: ");
    refused(home, &["export", "--to", "x", "--format", "parquet"], "python -m conceptwatch export");
}
