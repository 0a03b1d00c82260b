use super::*;
use crate::point::{Outcome, ScoreValue};

const PARTS: Parts = Parts { per_concept: true, matrix: true };

fn score(value: f64) -> ScoreValue {
    ScoreValue { value, standard_error: Some(0.01), ..ScoreValue::default() }
}

fn at(step: u64, outcome: Outcome) -> Point {
    Point {
        run: "r".into(),
        split: "val".into(),
        step,
        time: 1000.0 + step as f64,
        rows: 2000,
        scores: vec![("icl".into(), outcome)],
        change_errors: vec![("icl".into(), 0.01)],
        ..Point::default()
    }
}

fn point(step: u64, icl: f64) -> Point {
    at(step, Outcome::Value(score(icl)))
}

fn rule() -> Rule {
    Rule { name: "leak".into(), score: "icl".into(), ..Rule::default() }
}

fn above(limit: f64) -> Rule {
    Rule { above: Some(limit), advise_stop: true, ..rule() }
}

fn rise(by: f64) -> Rule {
    Rule { rise: Some(by), advise_stop: true, severity: Severity::Critical, ..rule() }
}

fn alerts(rules: Vec<Rule>) -> Alerts {
    Alerts::new(rules, |id| (id == "icl").then_some(PARTS)).unwrap()
}

/// (evaluation, state) of each change that the values bring about.
fn changes(rule: Rule, values: &[f64]) -> Vec<(usize, State)> {
    let mut alerts = alerts(vec![rule]);
    let observe = |(step, value): (usize, &f64)| {
        alerts
            .observe(&point(step as u64, *value))
            .into_iter()
            .map(move |c| (step, c.standing.state))
            .collect::<Vec<_>>()
    };
    values.iter().enumerate().flat_map(observe).collect()
}

use State::*;

#[test]
fn fires_after_so_many_breaches_in_a_row_and_ends_with_one_good_value() {
    let mut alerts = alerts(vec![Rule { evaluations: 2, ..above(0.2) }]);
    let mut states = Vec::new();
    for (step, icl) in [Some(0.1), Some(0.3), Some(0.1), Some(0.3), None, Some(0.3), Some(0.2)].into_iter().enumerate()
    {
        let outcome = icl.map_or(Outcome::undefined("one class"), |icl| Outcome::Value(score(icl)));
        states.extend(alerts.observe(&at(step as u64, outcome)).into_iter().map(|c| (step, c.standing.state)));
        assert_eq!(alerts.reasons_to_stop("r").count(), usize::from(step == 5), "step {step}");
    }
    assert_eq!(states, [(1, Pending), (2, Inactive), (3, Pending), (5, Firing), (6, Inactive)]);
}

#[test]
fn provisional_points_are_no_evidence() {
    assert!(alerts(vec![above(0.1)]).observe(&Point { provisional: true, ..point(1, 0.9) }).is_empty());
}

#[test]
fn hysteresis_keeps_an_alert_until_the_value_is_well_inside() {
    let values = [0.3, 0.19, 0.16, 0.14, 0.19];
    assert_eq!(changes(Rule { hysteresis: 0.05, ..above(0.2) }, &values), [(0, Firing), (3, Inactive)]);
}

#[test]
fn a_warm_up_is_not_judged_and_a_cooldown_keeps_quiet() {
    assert_eq!(changes(Rule { warm_up: 2, ..above(0.2) }, &[0.9; 4]), [(2, Firing)]);
    let values = [0.9, 0.1, 0.9, 0.9, 0.9];
    assert_eq!(changes(Rule { cooldown: 2, ..above(0.2) }, &values), [(0, Firing), (1, Inactive), (4, Firing)]);
}

#[test]
fn patience_delays_the_advice_and_not_the_alert() {
    let mut alerts = alerts(vec![Rule { patience: 2, ..above(0.2) }]);
    let advised: Vec<bool> = (0..4)
        .map(|step| {
            alerts.observe(&point(step, 0.9));
            alerts.reasons_to_stop("r").next().is_some()
        })
        .collect();
    assert_eq!(advised, [false, false, true, true]);
}

#[test]
fn a_rise_is_measured_from_its_baseline_and_a_fall_from_a_high_level_is_no_recovery() {
    let values = [0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.1];
    let mut alerts = alerts(vec![rise(0.05)]);
    let seen: Vec<_> = (values.iter().enumerate())
        .flat_map(|(step, value)| alerts.observe(&point(step as u64, *value)))
        .map(|change| (change.standing.step, change.standing.state))
        .collect();
    assert_eq!(seen, [(5, Firing), (9, Inactive)]);
    let (_, _, standing) = alerts.standings().next().unwrap();
    // The first evaluation of the step may still have been noise: the baseline followed it a little.
    assert!((standing.baseline.unwrap() - 0.1).abs() < 0.01);
}

#[test]
fn a_small_rise_and_one_out_of_the_negative_are_none() {
    let mut small = vec![0.1; 8];
    small.extend([0.14; 10]);
    assert_eq!(changes(rise(0.05), &small), []);
    let learning = [-0.3, -0.3, -0.3, -0.1, 0.0, 0.02, 0.01, 0.02];
    assert_eq!(changes(rise(0.05), &learning), []);
}

#[test]
fn another_n_is_another_curve_but_a_broken_off_pass_is_not() {
    let mut alerts = alerts(vec![rise(0.0)]);
    let mut observe = |step: u64, value: f64, rows: u64, incomplete: bool| {
        alerts.observe(&Point { rows, incomplete, ..point(step, value) }).into_iter().map(|c| c.standing.state).next()
    };
    for step in 0..8 {
        assert_eq!(observe(step, 0.1, 2000, false), None);
    }
    for step in 8..16 {
        assert_eq!(observe(step, 0.9, 1000, true), None);
    }
    for step in 16..24 {
        assert_eq!(observe(step, 0.3, 4000, false), None);
    }
    assert_eq!(observe(24, 0.9, 4000, false), None);
    assert_eq!(observe(25, 0.9, 4000, false), Some(Firing));
}

#[test]
fn a_run_that_goes_back_is_judged_anew() {
    let mut alerts = alerts(vec![rise(0.0)]);
    for (step, value) in [0.9, 0.6, 0.4, 0.3, 0.2, 0.2, 0.2].into_iter().enumerate() {
        assert!(alerts.observe(&point(step as u64, value)).is_empty());
    }
    for (step, value) in [(1, 0.6), (2, 0.6), (3, 0.6), (4, 0.6)] {
        assert!(alerts.observe(&point(step, value)).is_empty(), "step {step}");
    }
    alerts.observe(&point(5, 1.6));
    assert_eq!(alerts.observe(&point(6, 1.6))[0].standing.state, Firing);
    let ended = alerts.observe(&point(2, 1.6));
    assert!(ended[0].standing.state == Inactive && ended[0].standing.evidence.contains("step 6 to 2"), "{ended:?}");
}

#[test]
fn a_rise_that_begins_while_ties_jump_is_a_warning_without_advice() {
    let rules = vec![rise(0.05), Rule { name: "ties".into(), saturated: Some(0.2), ..Rule::default() }];
    let mut alerts = alerts(rules);
    for step in 0..8 {
        alerts.observe(&point(step, 0.1));
    }
    for step in 8..10 {
        alerts.observe(&Point { tie_fraction: 0.6, ..point(step, 0.5) });
    }
    let standings: Vec<_> =
        alerts.standings().map(|(rule, _, standing)| (rule.name.clone(), standing.clone())).collect();
    let leak = &standings[0].1;
    assert_eq!((leak.state, leak.severity, leak.advises_stop), (Firing, Severity::Warning, false));
    assert!(leak.evidence.contains("ties"), "{}", leak.evidence);
    assert_eq!(standings[1].1.state, Firing);
}

#[test]
fn few_rows_and_silence_are_told() {
    let few = Rule { name: "few".into(), few_rows: Some(500), ..Rule::default() };
    let stale = Rule { name: "stale".into(), stale: Some(60.0), ..Rule::default() };
    let mut alerts = alerts(vec![few, stale]);
    let run: Arc<str> = "r".into();
    alerts.start(&run, Arc::default(), 1000.0);
    assert!(alerts.look(1059.0).is_empty());
    let fired = alerts.look(1061.0);
    assert!(fired.len() == 1 && fired[0].rule.name == "stale" && fired[0].standing.state == Firing);
    let changed = alerts.observe(&Point { rows: 100, time: 1070.0, ..point(1, 0.1) });
    assert_eq!(changed.iter().map(|c| c.standing.state).collect::<Vec<_>>(), [Firing, Inactive]);
    assert_eq!(alerts.look(1100.0), []);
    alerts.finish(&run, 1100.0);
    assert_eq!(alerts.look(9999.0), [], "a finished run is not stale");
}

#[test]
fn the_end_of_a_run_ends_its_alerts_and_says_why() {
    let mut alerts = alerts(vec![above(0.2)]);
    alerts.observe(&point(1, 0.9));
    let ended = alerts.finish(&"r".into(), 5.0);
    assert_eq!((ended.len(), ended[0].standing.state, ended[0].standing.since), (1, Inactive, 5.0));
    assert!(
        ended[0].standing.evidence.contains("the run finished; last: icl is 0.9"),
        "{}",
        ended[0].standing.evidence
    );
    assert!(alerts.reasons_to_stop("r").next().is_none());
    assert!(alerts.finish(&"r".into(), 6.0).is_empty());
}

/// Four concepts whose mean has a standard error of 0.01, so each of 0.02.
fn concepts(step: u64, values: [f64; 4]) -> Point {
    let value = values.iter().sum::<f64>() / 4.0;
    let matrix = (0..4).map(|i| (0..4).map(|j| (i != j).then_some(values[i].min(values[j]))).collect()).collect();
    let per_concept = Some(values.map(Some).to_vec());
    at(step, Outcome::Value(ScoreValue { per_concept, matrix: Some(matrix), ..score(value) }))
}

#[test]
fn concepts_are_told_apart_and_their_evaluations_in_a_row_are_their_own() {
    let rule = Rule { scope: Scope::Concept, evaluations: 2, ..above(0.2) };
    let mut alerts = alerts(vec![rule]);
    let names: Arc<[String]> = ["red", "green", "blue", "round"].map(String::from).into();
    alerts.start(&"r".into(), names, 0.0);
    let seen: Vec<_> = [[0.4, 0.1, 0.1, 0.1], [0.1, 0.4, 0.1, 0.22], [0.1, 0.4, 0.1, 0.22]]
        .into_iter()
        .enumerate()
        .flat_map(|(step, values)| alerts.observe(&concepts(step as u64, values)))
        .map(|change| (change.standing.step, change.standing.state, change.standing.evidence))
        .collect();
    assert_eq!(seen.iter().map(|(step, state, _)| (*step, *state)).collect::<Vec<_>>(), [(0, Pending), (2, Firing)]);
    // 0.22 lies one error above the limit: of four, not a discovery.
    assert!(seen[1].2.starts_with("1 of 4 concepts beyond the limit: 'green' 0.4"), "{}", seen[1].2);
}

#[test]
fn a_rise_of_one_pair_is_found_among_the_others() {
    let mut alerts = alerts(vec![Rule { scope: Scope::Pair, ..rise(0.05) }]);
    for step in 0..8 {
        assert!(alerts.observe(&concepts(step, [0.1; 4])).is_empty());
    }
    alerts.observe(&concepts(8, [0.5, 0.5, 0.1, 0.1]));
    let fired = alerts.observe(&concepts(9, [0.5, 0.5, 0.1, 0.1]));
    assert!(
        fired[0].standing.evidence.starts_with("1 of 6 pairs risen: 'concept 0' with 'concept 1' 0.5"),
        "{fired:?}"
    );
}

#[test]
fn faulty_and_contradictory_rules_are_named() {
    let scoreless = Rule { name: "leak".into(), ..Rule::default() };
    let cases = [
        (Rule { evaluations: 0, ..above(0.2) }, "evaluations"),
        (rule(), "above"),
        (above(f64::NAN), "above"),
        (Rule { below: Some(0.3), ..above(0.2) }, "above"),
        (Rule { score: "nonsense".into(), ..above(0.2) }, "score"),
        (Rule { score: String::new(), ..above(0.2) }, "score"),
        (Rule { rise: Some(0.1), ..above(0.2) }, "rise"),
        (Rule { stale: Some(5.0), ..above(0.2) }, "stale"),
        (Rule { few_rows: Some(5), ..rule() }, "score"),
        (Rule { few_rows: Some(0), ..scoreless.clone() }, "few_rows"),
        (Rule { stale: Some(-5.0), ..scoreless.clone() }, "stale"),
        (Rule { stale: Some(5.0), warm_up: 1, ..scoreless.clone() }, "stale"),
        (Rule { saturated: Some(1.5), ..scoreless.clone() }, "saturated"),
        (Rule { few_rows: Some(5), scope: Scope::Pair, ..scoreless }, "scope"),
        (rise(-0.1), "rise"),
        (Rule { hysteresis: 0.2, ..rise(0.1) }, "hysteresis"),
        (Rule { hysteresis: f64::INFINITY, ..above(0.2) }, "hysteresis"),
        (Rule { below: Some(0.1), hysteresis: 0.06, ..above(0.2) }, "hysteresis"),
        (Rule { patience: 1, advise_stop: false, ..above(0.2) }, "patience"),
        (Rule { false_discovery_rate: Some(0.1), ..above(0.2) }, "false_discovery_rate"),
        (Rule { false_discovery_rate: Some(2.0), scope: Scope::Pair, ..above(0.2) }, "false_discovery_rate"),
        (Rule { runbook: Some("ftp://x".into()), ..above(0.2) }, "runbook"),
    ];
    for (rule, key) in cases {
        let fault = Alerts::new(vec![rule.clone()], |id| (id == "icl").then_some(PARTS)).expect_err(key);
        assert!(fault.key == key && fault.name == "leak", "{fault} for {rule:?}");
    }
    let no_matrix = |_: &str| Some(Parts { matrix: false, ..PARTS });
    let fault = Alerts::new(vec![Rule { scope: Scope::Pair, ..above(0.2) }], no_matrix).unwrap_err();
    assert_eq!(fault.key, "scope", "{fault}");
    let fault = Alerts::new(vec![above(0.2), above(0.2)], |_| Some(PARTS)).unwrap_err();
    assert_eq!((fault.at, fault.key), (1, "name"));
}

#[test]
fn the_default_rules_are_sound() {
    let known =
        |id: &str| crate::score::catalogue::find(id).map(|s| Parts { per_concept: s.per_concept, matrix: s.matrix });
    let alerts = Alerts::new(default_rules(), known).unwrap();
    assert_eq!(alerts.advising_splits(), ["val"]);
}

#[test]
fn scores_that_come_late_are_no_step_back_and_only_their_own_rules_see_them() {
    let own = Rule { name: "impure".into(), score: "ois".into(), above: Some(0.3), ..Rule::default() };
    let known = |id: &str| ["icl", "ois"].contains(&id).then_some(PARTS);
    let mut alerts = Alerts::new(vec![above(0.2), own], known).unwrap();
    assert_eq!(alerts.observe(&point(1, 0.5)).len(), 1);
    alerts.observe(&point(2, 0.5));
    let late = Point { scores: vec![("ois".into(), Outcome::Value(score(0.4)))], ..point(1, 0.0) };
    let changed = alerts.observe_late(&late);
    let seen: Vec<(&str, State)> = changed.iter().map(|c| (&*c.rule.name, c.standing.state)).collect();
    assert_eq!(seen, [("impure", Firing)]);
    // The alert on icl stands as it stood: nothing has gone back.
    assert!(alerts.observe(&point(3, 0.5)).is_empty());
}
