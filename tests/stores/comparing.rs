//! Comparisons of many runs read what single runs show, whatever is cached.

use std::collections::BTreeMap;
use std::sync::Arc;

use conceptwatch::analysis_query::Question;
use conceptwatch::history::{Identity, LabelledRun, Limits, Postgres, RunOutcome, Sqlite, Store};
use leakage::compare::OF_GROUPS;
use leakage::point::{Brief, Outcome, Point, ScoreValue};
use leakage::run::{Run, RunFields};
use leakage::sample::Attempt;

use super::common::{postgres::database, stored};

const SCORES: [&str; 6] = ["task_accuracy", "concept_accuracy", "ctl", "icl", "icl_conditional", "purity"];

/// A run labelled with its λ and its index.
fn run(at: usize) -> Run {
    let declared = stored::run(&format!("r{at}"), 2);
    let labels =
        BTreeMap::from([("lambda".into(), ["0.1", "1", "10"][at % 3].into()), ("place".into(), at.to_string())]);
    let concepts = declared.concepts.to_vec();
    Run::try_from(RunFields { name: declared.name.to_string(), concepts, labels, ..RunFields::default() }).unwrap()
}

/// Values that differ in every bit from those of other points; in some, scores without a value or no such score.
fn point(at: usize, split: &str, step: u64) -> Point {
    let value = |place: usize| ((at * 31 + place * 17) as f64 + step as f64 * 0.7).sin().abs();
    let outcome = |place: usize| match (at + place + step as usize) % 11 {
        0 => Outcome::undefined(format!("one class at {step}")),
        1 => Outcome::Value(ScoreValue { value: value(place), ..ScoreValue::default() }),
        _ => Outcome::Value(ScoreValue {
            value: value(place),
            standard_error: Some(value(place) / 9.0),
            ..ScoreValue::default()
        }),
    };
    let scores = SCORES.iter().enumerate().filter(|(place, _)| *place < 4 || !(at + place).is_multiple_of(5));
    Point {
        scores: scores.map(|(place, score)| ((*score).to_owned(), outcome(place))).collect(),
        change_errors: Vec::new(),
        incomplete: step % 4 == 1,
        provisional: step % 6 == 5,
        ..stored::point(&format!("r{at}"), split, step, 2)
    }
}

/// Runs of zero to nine points, which arrive out of order, some of them twice.
fn fill(history: &dyn Store, runs: usize) {
    for at in 0..runs {
        history.record_run(&run(at), &Identity::default(), at as f64).unwrap();
        for step in [3, 1, 2, 9, 5, 8, 4, 7, 6, 9].into_iter().take((at * 7) % 11) {
            history.record_point(&point(at, "val", step), None).unwrap();
        }
        if at % 2 == 0 {
            history.finish_run(&format!("r{at}"), 100.0, &RunOutcome::Finished).unwrap();
        }
    }
    history.record_point(&point(0, "test", 1), None).unwrap();
}

fn names(runs: usize) -> Vec<String> {
    (0..runs).map(|at| format!("r{at}")).chain(["unknown".to_owned()]).collect()
}

/// From the evaluations of each run alone.
pub fn one_by_one(history: &dyn Store, runs: &[&str], scores: &[&str], most: usize) -> Vec<Arc<[Brief]>> {
    let of = |run: &&str| {
        let points = history.evaluations(run, "val", most).unwrap_or_default();
        points.iter().map(|point| Brief::of(point, scores)).collect()
    };
    runs.iter().map(of).collect()
}

pub fn briefs_are_those_of_the_evaluations(history: &dyn Store) {
    fill(history, 25);
    let names = names(25);
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for scores in [&OF_GROUPS[..], &SCORES[..], &["icl"], &["purity", "ctl"], &["purity"], &[]] {
        for most in [1, 2, 5, 6, 100] {
            let found = history.briefs(&names, "val", scores, most).unwrap();
            assert_eq!(found, one_by_one(history, &names, scores, most), "{scores:?} {most}");
        }
    }
    // More than one query reads.
    let many: Vec<String> = (0..600).map(|at| format!("r{at}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.remove(7);
    for scores in [&OF_GROUPS[..], &SCORES[..]] {
        let found = history.briefs(&many, "val", scores, 5).unwrap();
        assert_eq!(found, one_by_one(history, &many, scores, 5));
    }
    let none: Vec<Arc<[Brief]>> = vec![Arc::default(); names.len()];
    assert_eq!(history.briefs(&names, "absent", &OF_GROUPS, 5).unwrap(), none);
    history.remove_run("r4").unwrap();
    assert_eq!(history.briefs(&["r4"], "val", &OF_GROUPS, 5).unwrap(), none[..1]);
}

pub fn values_of_many_runs_are_those_of_their_series(history: &dyn Store) {
    fill(history, 25);
    let (names, attempt) = (names(25), |launch| Some(Attempt { launch, restart: 0 }));
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (launch, step) in [(0, 20), (0, 21), (1, 20)] {
        history.record_point(&point(3, "val", step), attempt(launch)).unwrap();
    }
    for score in ["ctl", "purity", "ois"] {
        let series = |run: &&str| {
            let points = history.series(run, "val", score, None, 0, None).unwrap_or_default();
            let shown = points.iter().filter(|point| !point.provisional && !point.superseded);
            let values: Vec<(u64, f64)> = shown.filter_map(|point| Some((point.step, point.value?))).collect();
            ((*run).to_owned(), values)
        };
        let expected: BTreeMap<_, _> = names.iter().map(series).filter(|(_, values)| !values.is_empty()).collect();
        assert_eq!(history.values_of(&names, "val", score).unwrap(), expected, "{score}");
    }
    assert_eq!(history.values_of(&["r3"], "val", "ctl").unwrap()["r3"].last().unwrap().0, 20);
}

pub fn runs_are_known_by_their_labels(history: &dyn Store) {
    fill(history, 4);
    let labelled =
        |at| Arc::new(LabelledRun { name: format!("r{at}"), labels: run(at).labels.clone(), finished: at % 2 == 0 });
    let expected = [3, 2, 1, 0].map(labelled);
    assert_eq!(history.labelled().unwrap(), expected);
}

fn asked(history: &dyn Store, parameters: &[(&str, &str)]) -> String {
    let of = |key: &str| parameters.iter().find(|(known, _)| *known == key).map(|(_, value)| (*value).to_owned());
    match Question::of(of).unwrap().ask(history) {
        Ok(report) => serde_json::to_string_pretty(&report).unwrap(),
        Err(refused) => refused.to_string(),
    }
}

const QUESTIONS: [&[(&str, &str)]; 7] = [
    &[("by", "lambda")],
    &[("by", "lambda"), ("where", "place=3")],
    &[("by", "place")],
    &[("by", "lambda"), ("score", "purity,icl"), ("last", "1")],
    &[("by", "lambda"), ("last", "4")],
    &[("by", "lambda"), ("score", "ois")],
    &[("run_a", "r3"), ("run_b", "unknown")],
];

#[test]
fn comparisons_are_the_same_whatever_keeps_the_history() {
    let Some(url) = database() else { return };
    let (embedded, shared) = (Sqlite::open(None, Limits { bytes: 1 << 30 }).unwrap(), Postgres::open(&url).unwrap());
    fill(&embedded, 40);
    fill(&shared, 40);
    let expected: Vec<String> = QUESTIONS.iter().map(|question| asked(&embedded, question)).collect();
    assert!(expected[0].contains("\"least\"") && expected[0].contains("r39"), "{}", expected[0]);
    let agree = |what: &str, store: &Postgres| {
        for (question, expected) in QUESTIONS.iter().zip(&expected) {
            assert_eq!(asked(store, question), *expected, "{what}: {question:?}");
        }
    };
    agree("from the rows of newest evaluations", &shared);
    agree("from memory", &shared);
    agree("from the points", &Postgres::open(&url).unwrap());
}
