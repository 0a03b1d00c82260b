//! Runs and points as a history stores them, with something in every column.
#![allow(dead_code, reason = "shared by tests, each of which uses a part")]

use conceptwatch::history::{Ending, Store, Unscored};
use leakage::point::{LeftOut, Outcome, Point, ScoreValue, Undefined};
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Attempt;

pub fn run(name: &str, k: usize) -> Run {
    let concepts =
        (0..k).map(|i| Concept { name: format!("concept {i}"), cardinality: 2, ..Concept::default() }).collect();
    Run::try_from(RunFields { name: name.into(), concepts, ..RunFields::default() }).unwrap()
}

/// A point with an undefined score, one with a matrix and a plain one, in catalogue order.
pub fn point(run: &str, split: &str, step: u64, k: usize) -> Point {
    let cell = |i: usize, j: usize| (i != j).then_some((i * k + j) as f64 / 8.0);
    let matrix = (0..k).map(|i| (0..k).map(|j| cell(i, j)).collect()).collect();
    let per_concept = (0..k).map(|i| (i != 1).then_some(0.1 * i as f64 + step as f64)).collect();
    let of_task = ScoreValue { value: 0.9, per_concept: Some(vec![Some(0.25); k]), ..ScoreValue::default() };
    Point {
        run: run.into(),
        split: split.into(),
        step,
        epoch: Some(step as f64 / 10.0),
        time: 1e9 + step as f64,
        rows: 4096,
        concept_rows: (0..k as u64).map(|i| 4096 - i).collect(),
        rows_seen: 5000,
        incomplete: true,
        tie_fraction: 0.46,
        warnings: vec!["half precision".into()],
        estimator: "tie_aware".into(),
        neighbours: 3,
        seed: u64::MAX,
        catalogue_version: 7,
        seconds: 0.25,
        scores: vec![
            (
                "ctl".into(),
                Outcome::Undefined(Undefined {
                    why: "one class".into(),
                    left_out: Some(LeftOut { pairs: 0, ..left_out(k) }),
                    per_concept_q: Some(vec![None; k]),
                    ..Undefined::default()
                }),
            ),
            (
                "icl".into(),
                Outcome::Value(ScoreValue {
                    value: 0.1 + step as f64,
                    standard_error: Some(0.01),
                    per_concept: Some(per_concept),
                    matrix: Some(matrix),
                    curve: Some(vec![(0.0, Some(0.5)), (0.25, None), (0.5, Some(-1.0))]),
                    age: Some(22.5),
                    ages: Some((0..k).map(|i| (0..k).map(|j| i.abs_diff(j) as f64 * 7.5).collect()).collect()),
                    left_out: Some(left_out(k)),
                    p_value: Some(0.005),
                    per_concept_q: Some((0..k).map(|i| (i != 1).then_some(0.25)).collect()),
                    matrix_q: Some(vec![vec![Some(0.5); k]; k]),
                    per_task: None,
                }),
            ),
            (
                "task_accuracy".into(),
                Outcome::Value(ScoreValue {
                    value: 0.9,
                    per_task: Some(vec![Outcome::undefined("one class"), Outcome::Value(of_task)]),
                    ..ScoreValue::default()
                }),
            ),
        ],
        change_errors: vec![("icl".into(), 0.25), ("ctl".into(), 0.125)],
        ..Point::default()
    }
}

pub fn left_out(k: usize) -> LeftOut {
    LeftOut { concepts: vec![1], pairs: 2 * k as u64 - 2, of: k as u32, why: "labels: one class".into() }
}

pub fn steps(history: &dyn Store, run: &str, split: &str) -> Vec<u64> {
    history.series(run, split, "icl", None, 0, None).unwrap().iter().map(|point| point.step).collect()
}

pub fn unscored(split: &str, step: u64, outcome: Ending) -> Unscored {
    Unscored {
        run: "r".into(),
        split: split.into(),
        step,
        ordinal: Default::default(),
        time: 1e9 + step as f64,
        outcome,
        reason: format!("step {step} was not scored"),
        rows_seen: 7,
        attempt: Some(Attempt { launch: 1, restart: 2 }),
    }
}
