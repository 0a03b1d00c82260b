//! The default rules on recorded runs: which runs are stopped, and when.

use std::collections::BTreeMap;

use leakage::alert::{Alerts, default_rules};
use leakage::point::Point;

use super::curves;

/// An epoch, and the rule that advises to stop at it.
type Stop = (f64, String);

/// The epoch at which stopping is first advised, and the rule that advises it.
fn advised(points: &[Point]) -> Option<Stop> {
    let mut alerts = Alerts::new(default_rules());
    points.iter().find_map(|point| {
        alerts.observe(point);
        let (rule, _) = alerts.reasons_to_stop().next()?;
        Some((point.epoch?, rule.name().to_owned()))
    })
}

#[test]
fn weakly_supervised_runs_are_stopped_by_epoch_6_and_well_supervised_ones_never() {
    let mut stops: BTreeMap<[&str; 3], Vec<Option<Stop>>> = BTreeMap::new();
    for ([delta, bottleneck, lambda, _], points) in curves::recorded(&["ctl_excess", "icl_excess", "icl_label_excess"])
    {
        assert_eq!((points.len(), points[0].epoch), (16, Some(0.0)), "{delta} {bottleneck} {lambda}");
        stops.entry([delta, bottleneck, lambda]).or_default().push(advised(&points));
    }
    assert_eq!(stops.len(), 16);
    for ([delta, bottleneck, lambda], stops) in &stops {
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
