//! The history in SQLite, by what happens to its file.

mod damage;
mod kept;
mod limits;
mod opening;
mod schemas;
mod waiting;

use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;

use super::*;
use crate::history::{Dropped, Ending, Limits, examine, repair};
use leakage::point::{Outcome, Point, ScoreValue};
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Attempt;
use leakage::step::Rank;

const ROOMY: Limits = Limits { bytes: 1 << 30 };

fn run(name: &str, k: usize) -> Run {
    let concepts =
        (0..k).map(|i| Concept { name: format!("concept {i}"), cardinality: 2, ..Concept::default() }).collect();
    Run::try_from(RunFields { name: name.into(), concepts, ..RunFields::default() }).unwrap()
}

/// A point with an undefined score, one with a matrix and a plain one, in catalogue order.
fn point(run: &str, split: &str, step: u64, k: usize) -> Point {
    let cell = |i: usize, j: usize| (i != j).then_some((i * k + j) as f64 / 8.0);
    let icl = ScoreValue {
        value: 0.1 + step as f64,
        standard_error: Some(0.01),
        per_concept: Some((0..k).map(|i| (i != 1).then_some(0.1 * i as f64 + step as f64)).collect()),
        matrix: Some((0..k).map(|i| (0..k).map(|j| cell(i, j)).collect()).collect()),
        ages: Some((0..k).map(|i| (0..k).map(|j| i.abs_diff(j) as f64 * 7.5).collect()).collect()),
        matrix_q: Some(vec![vec![Some(0.5); k]; k]),
        ..ScoreValue::default()
    };
    Point {
        run: run.into(),
        split: split.into(),
        step,
        time: 1e9 + step as f64,
        rows: 4096,
        rows_seen: 5000,
        incomplete: true,
        warnings: vec!["half precision".into()],
        estimator: "tie_aware".into(),
        scores: vec![
            ("ctl".into(), Outcome::undefined("one class")),
            ("icl".into(), Outcome::Value(icl)),
            ("task_accuracy".into(), Outcome::Value(ScoreValue { value: 0.9, ..ScoreValue::default() })),
        ],
        ..Point::default()
    }
}

fn memory() -> Sqlite {
    Sqlite::open(None, ROOMY).unwrap()
}

fn steps(history: &Sqlite, run: &str, split: &str) -> Vec<u64> {
    history.series(run, split, "icl", None, 0, None).unwrap().iter().map(|point| point.step).collect()
}

fn unscored(split: &str, step: u64, outcome: Ending) -> Unscored {
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
