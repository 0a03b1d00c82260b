//! Comparisons of runs against a known truth, and on recorded runs.

mod coverage;
#[path = "../alerts/curves.rs"]
mod curves;
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

/// The last five evaluations of each recorded run, by δ, bottleneck, λ and seed.
pub fn recorded() -> BTreeMap<[&'static str; 4], Evaluations> {
    let ids = ["ctl", "icl", "ctl_excess", "icl_excess", "task_accuracy", "concept_accuracy"];
    let last = |points: Vec<Point>| evaluations(points[points.len() - 5..].to_vec());
    curves::recorded(&ids).into_iter().map(|(key, points)| (key, last(points))).collect()
}
