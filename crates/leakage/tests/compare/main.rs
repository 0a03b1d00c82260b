//! Comparisons of runs against a known truth, and on recorded runs.

mod coverage;
mod groups;
mod pairs;
mod splits;
mod weighed;

use std::collections::BTreeMap;

use leakage::compare::{Evaluations, Side};
use leakage::point::{Outcome, Point, ScoreValue};

/// An evaluation with these scores: id, value, standard error.
pub fn point(run: &str, step: u64, scores: &[(&str, f64, Option<f64>)]) -> Point {
    let score = |&(id, value, standard_error): &(&str, f64, Option<f64>)| {
        (id.to_owned(), Outcome::Value(ScoreValue { value, standard_error, ..ScoreValue::default() }))
    };
    Point {
        run: run.into(),
        split: "val".into(),
        step,
        rows: 2000,
        rows_seen: 2000,
        estimator: "tie_aware".into(),
        neighbours: 3,
        scores: scores.iter().map(score).collect(),
        ..Point::default()
    }
}

pub fn evaluations(points: Vec<Point>) -> Evaluations {
    Evaluations { concepts: vec!["wing".into(), "beak".into()], points }
}

pub fn side(name: &str, folds: Vec<Vec<Point>>) -> Side {
    Side { name: name.into(), folds: folds.into_iter().map(evaluations).collect() }
}

/// Recorded runs, see `tests/core/alert_curves.rs`: the last five evaluations of each, by δ, bottleneck, λ and seed.
pub fn recorded() -> BTreeMap<[&'static str; 4], Evaluations> {
    let mut lines = include_str!("../alerts/curves.csv").lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut runs: BTreeMap<_, Evaluations> = BTreeMap::new();
    for line in lines {
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(line.split(',')).collect();
        let number = |column: &str| row[column].parse::<f64>().ok();
        let ids = ["ctl", "icl", "ctl_excess", "icl_excess", "task_accuracy", "concept_accuracy"];
        let error = |id: &str| number(&format!("{}_excess_error", id.trim_end_matches("_excess")));
        let known = |id: &str| columns.contains(&format!("{}_excess_error", id.trim_end_matches("_excess")).as_str());
        let scores = ids.map(|id| (id, number(id).unwrap(), if known(id) { error(id) } else { None }));
        let mut point = point(&line[..8], number("step").unwrap() as u64, &scores);
        point.rows = number("rows").unwrap() as u64;
        let run = runs.entry(["delta", "bottleneck", "lambda", "seed"].map(|key| row[key]));
        run.or_insert_with(|| evaluations(Vec::new())).points.push(point);
    }
    for run in runs.values_mut() {
        run.points.sort_by_key(|point| point.step);
        run.points.drain(..run.points.len() - 5);
    }
    runs
}
