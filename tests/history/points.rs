//! Points whose every value follows from run, split and step.

use std::path::Path;

use conceptwatch::history::{FILE_NAME, Identity, Limits, Sqlite, Store};
use leakage::point::{Outcome, Point, ScoreValue};
use tempfile::TempDir;

use crate::stored::run;

pub const LIMITS: Limits = Limits { bytes: 1 << 30 };

/// A history in a directory of its own, with a run of `k` concepts.
pub fn with_run(name: &str, k: usize) -> (TempDir, Sqlite) {
    let directory = tempfile::tempdir().unwrap();
    let history = Sqlite::open(Some(directory.path()), LIMITS).unwrap();
    history.record_run(&run(name, k), &Identity::default(), 1.0).unwrap();
    (directory, history)
}

/// A number from the environment, so that one program makes a few cases or many.
pub fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

pub fn point(run: &str, split: &str, step: u64, k: usize) -> Point {
    let value = |i: usize| (step * 1000 + i as u64) as f64 / 8.0;
    let whole = ScoreValue {
        value: value(0),
        standard_error: Some(0.01),
        per_concept: Some((0..k).map(|i| Some(value(i))).collect()),
        matrix: Some((0..k).map(|i| (0..k).map(|j| (i != j).then(|| value(i * k + j))).collect()).collect()),
        ..ScoreValue::default()
    };
    let plain = ScoreValue { value: 0.5 + step as f64, ..ScoreValue::default() };
    Point {
        run: run.into(),
        split: split.into(),
        step,
        ordinal: Default::default(),
        epoch: Some(step as f64),
        time: 1e9 + step as f64,
        rows: 64,
        rows_seen: 64,
        estimator: "tie_aware".into(),
        neighbours: 3,
        seed: 7,
        catalogue_version: 1,
        scores: vec![
            ("ctl".into(), Outcome::undefined("one class")),
            ("icl".into(), Outcome::Value(whole)),
            ("task_accuracy".into(), Outcome::Value(plain)),
        ],
        ..Point::default()
    }
}

/// Changes rows of a history without its knowledge.
pub fn change(directory: &Path, statement: &str) {
    let file = rusqlite::Connection::open(directory.join(FILE_NAME)).unwrap();
    assert!(file.execute(statement, []).unwrap() > 0, "{statement}");
}

/// The steps of a split below `end` whose point is there; each must be right to the last bit.
pub fn stored(history: &Sqlite, run: &str, split: &str, end: u64, k: usize, case: &str) -> Vec<u64> {
    let there = |step: &u64| {
        let found = history.point(run, split, Some(*step), true).unwrap_or_else(|error| panic!("{case}: {error}"));
        if let Some(found) = &found {
            assert_eq!(*found, point(run, split, *step, k), "{case}");
        }
        found.is_some()
    };
    (0..end).filter(there).collect()
}
