//! The recorded runs of docs/evidence, as points that alert rules judge.

use std::collections::BTreeMap;

use leakage::alert::{Alerts, Rules};
use leakage::point::{Outcome, Point, ScoreValue};
use serde::Deserialize;

/// One trained model: a line of docs/evidence/runs.jsonl. Curves have a value for each evaluation, the first one before
/// training; null where a score is undefined.
#[derive(Deserialize)]
pub struct Recorded {
    pub data: String,
    pub encoding: String,
    pub training: String,
    pub weight: f64,
    pub seed: u64,
    pub rows: u64,
    pub scores: BTreeMap<String, Vec<Option<f64>>>,
    /// Standard errors.
    pub errors: BTreeMap<String, Vec<Option<f64>>>,
}

impl Recorded {
    pub fn all(lines: &str) -> Vec<Self> {
        let read = |line| serde_json::from_str(line).expect("a recorded run");
        lines.lines().filter(|line| !line.is_empty()).map(read).collect()
    }

    /// The evaluations; without the scores of interventions where the job is one that does not log them.
    pub fn points(&self, interventions: bool) -> Vec<Point> {
        let evaluations = self.scores.values().map(Vec::len).max().unwrap_or(0);
        let kept = |id: &str| interventions || !id.contains("intervention");
        let at = |curve: &[Option<f64>], epoch: usize| curve.get(epoch).copied().flatten();
        (0..evaluations)
            .map(|epoch| {
                let score = |(id, curve): (&String, &Vec<Option<f64>>)| {
                    let standard_error = self.errors.get(id).and_then(|errors| at(errors, epoch));
                    let value = ScoreValue { value: at(curve, epoch)?, standard_error, ..ScoreValue::default() };
                    Some((id.clone(), Outcome::Value(value)))
                };
                Point {
                    run: "r".into(),
                    split: "val".into(),
                    step: epoch as u64,
                    epoch: Some(epoch as f64),
                    rows: self.rows,
                    scores: self.scores.iter().filter(|(id, _)| kept(id)).filter_map(score).collect(),
                    ..Point::default()
                }
            })
            .collect()
    }
}

/// The first epoch after which stopping is advised, and the rule that advises it.
pub fn advised(points: &[Point], rules: &Rules) -> Option<(f64, String)> {
    let mut alerts = Alerts::new(rules.clone());
    points.iter().find_map(|point| {
        alerts.observe(point);
        let (rule, _) = alerts.reasons_to_stop().next()?;
        Some((point.epoch?, rule.name().to_owned()))
    })
}
