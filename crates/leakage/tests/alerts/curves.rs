//! `curves.csv`, recorded by python/benches/record_curves.py: CBMs on TabularToy, one evaluation per epoch, the first one
//! before training.

use std::collections::BTreeMap;

use leakage::point::{Outcome, Point, ScoreValue};

/// The evaluations of each run, by δ, bottleneck, λ and seed, with these scores alone.
pub fn recorded(scores: &[&str]) -> BTreeMap<[&'static str; 4], Vec<Point>> {
    let mut lines = include_str!("curves.csv").lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut runs: BTreeMap<_, Vec<Point>> = BTreeMap::new();
    for line in lines {
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(line.split(',')).collect();
        let number = |column: &str| row.get(column)?.parse::<f64>().ok();
        let score = |id: &&str| {
            // A clipped score has the error of the unclipped one.
            let standard_error = number(&format!("{id}_error")).or_else(|| number(&format!("{id}_excess_error")));
            let value = ScoreValue { value: number(id)?, standard_error, ..ScoreValue::default() };
            Some((id.to_string(), Outcome::Value(value)))
        };
        let change = |id: &&str| Some((id.to_string(), number(&format!("{id}_change_error"))?));
        let point = Point {
            run: "r".into(),
            split: "val".into(),
            step: number("step").unwrap() as u64,
            epoch: number("epoch"),
            rows: number("rows").unwrap() as u64,
            tie_fraction: number("tie_fraction").unwrap(),
            scores: scores.iter().filter_map(score).collect(),
            change_errors: scores.iter().filter_map(change).collect(),
            ..Point::default()
        };
        runs.entry(["delta", "bottleneck", "lambda", "seed"].map(|key| row[key])).or_default().push(point);
    }
    runs
}
