//! The default rules on recorded runs: which runs are stopped, and when.
//!
//! `alerts/curves.csv` was recorded by python/benches/record_curves.py: CBMs on TabularToy, one evaluation per epoch,
//! the first one before training.

use std::collections::BTreeMap;

use leakage::alert::{Alerts, default_rules};
use leakage::point::{Outcome, Point, ScoreValue};

const CURVES: &str = include_str!("../alerts/curves.csv");
const TRENDS: [&str; 3] = ["ctl_excess", "icl_excess", "icl_label_excess"];

/// Delta, bottleneck and λ.
type Setting<'c> = (&'c str, &'c str, &'c str);

/// The evaluations of each run, by setting and seed.
fn runs() -> BTreeMap<(Setting<'static>, &'static str), Vec<Point>> {
    let mut lines = CURVES.lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut runs: BTreeMap<_, Vec<Point>> = BTreeMap::new();
    for line in lines {
        let row: BTreeMap<&str, &str> = columns.iter().copied().zip(line.split(',')).collect();
        let number = |column: &str| row[column].parse::<f64>().ok();
        let score = |id: &&str| {
            let value = ScoreValue {
                value: number(id)?,
                standard_error: number(&format!("{id}_error")),
                ..ScoreValue::default()
            };
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
            scores: TRENDS.iter().filter_map(score).collect(),
            change_errors: TRENDS.iter().filter_map(change).collect(),
            ..Point::default()
        };
        runs.entry(((row["delta"], row["bottleneck"], row["lambda"]), row["seed"])).or_default().push(point);
    }
    runs
}

/// The epoch at which stopping is first advised, and the rule that advises it.
fn advised(points: &[Point]) -> Option<(f64, String)> {
    let mut alerts = Alerts::new(default_rules());
    points.iter().find_map(|point| {
        alerts.observe(point);
        let (rule, _) = alerts.reasons_to_stop().next()?;
        Some((point.epoch?, rule.name().to_owned()))
    })
}

#[test]
fn weakly_supervised_runs_are_stopped_by_epoch_6_and_well_supervised_ones_never() {
    let mut stops: BTreeMap<Setting, Vec<Option<(f64, String)>>> = BTreeMap::new();
    for ((setting, _), points) in runs() {
        assert_eq!((points.len(), points[0].epoch), (16, Some(0.0)), "{setting:?}");
        stops.entry(setting).or_default().push(advised(&points));
    }
    assert_eq!(stops.len(), 16);
    for ((delta, bottleneck, lambda), stops) in &stops {
        assert_eq!(stops.len(), 10);
        let mut epochs: Vec<f64> = stops.iter().flatten().map(|(epoch, _)| *epoch).collect();
        epochs.sort_by(f64::total_cmp);
        println!("delta {delta}, {bottleneck}, lambda {lambda}: {} of 10 stopped, epochs {epochs:?}", epochs.len());
        match *lambda {
            "0.01" => assert!(epochs.len() == 10 && epochs[9] <= 6.0, "{delta} {bottleneck}: {stops:?}"),
            "1.0" | "5.0" => assert!(epochs.is_empty(), "{delta} {bottleneck} {lambda}: {stops:?}"),
            _ => {}
        }
    }
}
