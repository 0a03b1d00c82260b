use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::point::{LeftOut, Outcome, ScoreValue};

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

/// A rule on `icl` named `leak`, in the form that users write, with these keys more.
fn rule(more: Value) -> Value {
    merged(json!({"name": "leak", "score": "icl"}), more)
}

fn merged(mut rule: Value, more: Value) -> Value {
    rule.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    rule
}

fn above(limit: f64, more: Value) -> Value {
    merged(rule(json!({"above": limit, "advise_stop": true})), more)
}

fn rise(by: f64, more: Value) -> Value {
    merged(rule(json!({"rise": by, "advise_stop": true, "severity": "critical"})), more)
}

fn read(rules: Vec<Value>) -> Result<Rules, RuleFault> {
    Rules::read(rules.into_iter().map(|rule| serde_json::from_value(rule).unwrap()))
}

fn alerts(rules: Vec<Value>) -> Alerts {
    Alerts::new(read(rules).unwrap())
}

/// (evaluation, state) of each change that the values cause.
fn changes(rule: Value, values: &[f64]) -> Vec<(usize, State)> {
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
fn an_evaluation_whose_labels_are_in_another_order_changes_nothing() {
    let mut alerts = alerts(vec![above(0.2, json!({"evaluations": 2}))]);
    let warnings = vec![format!("{}: the labels of a, b", crate::score::OTHER_ORDER)];
    for step in 0..4 {
        assert!(alerts.observe(&Point { warnings: warnings.clone(), ..point(step, 0.9) }).is_empty());
    }
    alerts.observe(&point(4, 0.9));
    assert_eq!(alerts.observe(&point(5, 0.9))[0].standing.state, Firing);
}

#[test]
fn fires_after_enough_breaches_in_a_row_and_ends_with_one_good_value() {
    let mut alerts = alerts(vec![above(0.2, json!({"evaluations": 2}))]);
    let mut states = Vec::new();
    for (step, icl) in [Some(0.1), Some(0.3), Some(0.1), Some(0.3), None, Some(0.3), Some(0.2)].into_iter().enumerate()
    {
        let outcome = icl.map_or(Outcome::undefined("one class"), |icl| Outcome::Value(score(icl)));
        states.extend(alerts.observe(&at(step as u64, outcome)).into_iter().map(|c| (step, c.standing.state)));
        assert_eq!(alerts.reasons_to_stop().count(), usize::from(step == 5), "step {step}");
    }
    assert_eq!(states, [(1, Pending), (2, Inactive), (3, Pending), (5, Firing), (6, Inactive)]);
}

#[test]
fn evaluations_of_a_step_count_once_by_the_newest() {
    let mut alerts = alerts(vec![above(0.2, json!({"evaluations": 2}))]);
    let mut states = Vec::new();
    let steps = [(1, 0.9), (1, 0.9), (1, 0.9), (2, 0.9), (2, 0.1), (2, 0.1), (3, 0.9), (4, 0.9), (4, 0.9)];
    for (at, (step, icl)) in steps.into_iter().enumerate() {
        let later = Point { time: 1000.0 + at as f64, ..point(step, icl) };
        states.extend(alerts.observe(&later).into_iter().map(|c| (at, c.standing.state)));
    }
    assert_eq!(states, [(0, Pending), (3, Firing), (4, Inactive), (6, Pending), (7, Firing)]);
    let (_, standing) = alerts.standings().next().unwrap();
    assert_eq!(standing.since, 1007.0);
    assert!(standing.evidence.ends_with("for 2 evaluations"), "{}", standing.evidence);
}

#[test]
fn provisional_points_are_no_evidence() {
    assert!(alerts(vec![above(0.1, json!({}))]).observe(&Point { provisional: true, ..point(1, 0.9) }).is_empty());
}

#[test]
fn hysteresis_keeps_an_alert_until_the_value_is_well_inside() {
    let values = [0.3, 0.19, 0.16, 0.14, 0.19];
    assert_eq!(changes(above(0.2, json!({"hysteresis": 0.05})), &values), [(0, Firing), (3, Inactive)]);
    let mut alerts = alerts(vec![above(0.2, json!({"hysteresis": 0.05}))]);
    alerts.observe(&point(1, 0.3));
    alerts.observe(&point(2, 0.19));
    let evidence = &alerts.standings().next().unwrap().1.evidence;
    assert!(evidence.ends_with("within its limits, and not yet clearly back, so the alert goes on"), "{evidence}");
}

#[test]
fn a_warm_up_is_not_judged_and_a_cooldown_keeps_quiet() {
    assert_eq!(changes(above(0.2, json!({"warm_up": 2})), &[0.9; 4]), [(2, Firing)]);
    let values = [0.9, 0.1, 0.9, 0.9, 0.9];
    assert_eq!(changes(above(0.2, json!({"cooldown": 2})), &values), [(0, Firing), (1, Inactive), (4, Firing)]);
}

#[test]
fn patience_delays_the_advice_and_not_the_alert() {
    let mut alerts = alerts(vec![above(0.2, json!({"patience": 2}))]);
    let advised: Vec<bool> = (0..4)
        .map(|step| {
            alerts.observe(&point(step, 0.9));
            alerts.reasons_to_stop().next().is_some()
        })
        .collect();
    assert_eq!(advised, [false, false, true, true]);
}

#[test]
fn a_rise_is_measured_from_its_baseline_and_a_fall_from_a_high_level_is_no_recovery() {
    let values = [0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.3, 0.3, 0.3, 0.1];
    let mut alerts = alerts(vec![rise(0.05, json!({}))]);
    let seen: Vec<_> = (values.iter().enumerate())
        .flat_map(|(step, value)| alerts.observe(&point(step as u64, *value)))
        .map(|change| (change.standing.step, change.standing.state))
        .collect();
    assert_eq!(seen, [(6, Firing), (9, Inactive)]);
    let (_, standing) = alerts.standings().next().unwrap();
    // The first evaluation of the step may still have been noise: the baseline followed it a little.
    assert!((standing.baseline.unwrap() - 0.1).abs() < 0.01);
}

#[test]
fn a_rise_counts_from_its_own_baseline_above_its_level_and_where_nothing_tells_more() {
    let from = |low: f64, high: f64| [vec![low; 9], vec![high; 8]].concat();
    let fires = |rule: Value, values: &[f64]| changes(rule, values).iter().any(|(_, state)| *state == Firing);
    assert!(!fires(rise(0.05, json!({})), &from(0.1, 0.14)));
    assert!(fires(rise(0.05, json!({})), &from(-0.3, -0.1)), "a negative baseline is one, too");
    assert!(!fires(rise(0.05, json!({"rise_above": 0.0})), &from(-0.3, -0.1)));
    assert!(fires(rise(0.05, json!({"rise_above": 0.0})), &from(-0.3, 0.1)));
    assert!(!fires(rise(0.05, json!({"rise_without": "icl"})), &from(0.1, 0.9)));
    assert!(fires(rise(0.05, json!({"rise_without": "ctl"})), &from(0.1, 0.9)));
}

#[test]
fn another_n_is_another_curve_but_an_incomplete_pass_is_not() {
    let mut alerts = alerts(vec![rise(0.0, json!({}))]);
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
fn a_run_that_goes_back_is_judged_from_the_beginning() {
    let mut alerts = alerts(vec![rise(0.0, json!({}))]);
    for (step, value) in [0.9, 0.6, 0.4, 0.3, 0.2, 0.2, 0.2].into_iter().enumerate() {
        assert!(alerts.observe(&point(step as u64, value)).is_empty());
    }
    for (step, value) in [(1, 0.6), (2, 0.6), (3, 0.6), (4, 0.6)] {
        assert!(alerts.observe(&point(step, value)).is_empty(), "step {step}");
    }
    let changes: Vec<_> = (5..9).flat_map(|step| alerts.observe(&point(step, 1.6))).collect();
    assert_eq!(changes[0].standing.state, Firing);
    let ended = alerts.observe(&point(2, 1.6));
    assert!(ended[0].standing.state == Inactive && ended[0].standing.evidence.contains("step 8 to 2"), "{ended:?}");
}

#[test]
fn a_rise_that_begins_while_ties_jump_is_a_warning_without_advice() {
    let rules = vec![rise(0.05, json!({})), json!({"name": "ties", "saturated": 0.2})];
    let mut alerts = alerts(rules);
    for step in 0..8 {
        alerts.observe(&point(step, 0.1));
    }
    for step in 8..10 {
        alerts.observe(&Point { tie_fraction: 0.6, ..point(step, 0.5) });
    }
    let standings: Vec<_> =
        alerts.standings().map(|(rule, standing)| (rule.name().to_owned(), standing.clone())).collect();
    let leak = &standings[0].1;
    assert_eq!((leak.state, leak.severity, leak.advises_stop), (Firing, Severity::Warning, false));
    assert!(leak.evidence.contains("ties"), "{}", leak.evidence);
    assert_eq!(standings[1].1.state, Firing);
}

#[test]
fn few_rows_and_silence_fire() {
    let mut alerts = alerts(vec![json!({"name": "few", "few_rows": 500}), json!({"name": "stale", "stale": 60})]);
    assert!(alerts.look(9999.0).is_empty(), "it has not started");
    assert!(alerts.start(Judged::default(), 1000.0));
    assert!(alerts.look(1059.0).is_empty());
    let fired = alerts.look(1061.0);
    assert!(fired.len() == 1 && fired[0].rule.name() == "stale" && fired[0].standing.state == Firing);
    let changed = alerts.observe(&Point { rows: 100, time: 1070.0, ..point(1, 0.1) });
    assert_eq!(changed.iter().map(|c| c.standing.state).collect::<Vec<_>>(), [Firing, Inactive]);
    assert!(changed[0].standing.evidence.starts_with("100 rows, fewer than 500"), "{}", changed[0].standing.evidence);
    alerts.observe(&Point { rows: 2000, time: 1080.0, ..point(2, 0.1) });
    let changed = alerts.observe(&Point { rows: 2000, concept_rows: vec![90, 110], time: 1090.0, ..point(3, 0.1) });
    let evidence = &changed[0].standing.evidence;
    assert!(evidence.starts_with("100 of 2000 rows with concept labels, fewer than 500"), "{evidence}");
    assert_eq!(alerts.look(1100.0), []);
    alerts.end("the run finished", 1100.0);
    assert_eq!(alerts.look(9999.0), [], "a finished run is not stale");
}

#[test]
fn the_end_of_a_run_ends_its_alerts_and_says_why() {
    let mut alerts = alerts(vec![above(0.2, json!({}))]);
    alerts.observe(&point(1, 0.9));
    let ended = alerts.end("the run finished", 5.0);
    assert_eq!((ended.len(), ended[0].standing.state, ended[0].standing.since), (1, Inactive, 5.0));
    assert!(
        ended[0].standing.evidence.contains("the run finished; last: interconcept leakage (icl) is 0.9"),
        "{}",
        ended[0].standing.evidence
    );
    assert!(alerts.reasons_to_stop().next().is_none());
    assert!(alerts.end("the run finished", 6.0).is_empty());
}

/// Four concepts whose mean has a standard error of 0.01, so each of 0.02.
fn concepts(step: u64, values: [f64; 4]) -> Point {
    let value = values.iter().sum::<f64>() / 4.0;
    let matrix = (0..4).map(|i| (0..4).map(|j| (i != j).then_some(values[i].min(values[j]))).collect()).collect();
    let per_concept = Some(values.map(Some).to_vec());
    at(step, Outcome::Value(ScoreValue { per_concept, matrix: Some(matrix), ..score(value) }))
}

#[test]
fn each_concept_has_evaluations_in_a_row_of_its_own() {
    let rule = above(0.2, json!({"scope": "concept", "evaluations": 2}));
    let mut alerts = alerts(vec![rule]);
    let names = ["red", "green", "blue", "round"].map(String::from).to_vec();
    alerts.start(Judged { concepts: names, ..Judged::default() }, 0.0);
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
    let mut alerts = alerts(vec![rise(0.05, json!({"scope": "pair"}))]);
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

/// An evaluation with these values of `ctl_conditional`, `concept_auc` and, where given, `intervention_drop`.
fn conditions(step: u64, leak: f64, auc: f64, drop: Option<f64>) -> Point {
    let mut scores = vec![
        ("ctl_conditional".to_owned(), Outcome::Value(score(leak))),
        ("concept_auc".to_owned(), Outcome::Value(score(auc))),
    ];
    scores.extend(drop.map(|drop| ("intervention_drop".to_owned(), Outcome::Value(score(drop)))));
    Point { scores, ..point(step, 0.0) }
}

fn together(more: Value) -> Value {
    let all = json!([{"score": "ctl_conditional", "above": 0.1}, {"score": "concept_auc", "below": 0.8}]);
    merged(json!({"name": "leak", "all": all, "unless": {"score": "intervention_drop", "below": 0.05}}), more)
}

#[test]
fn an_exception_may_hold_while_its_score_is_unknown() {
    let unless = json!({"score": "intervention_drop", "below": 0.05, "whole_interval": true, "or_unknown": true});
    let mut alerts = alerts(vec![together(json!({"unless": unless}))]);
    assert!(alerts.observe(&conditions(0, 0.3, 0.6, None)).is_empty());
    assert_eq!(alerts.observe(&conditions(1, 0.3, 0.6, Some(0.2)))[0].standing.state, Firing);
}

#[test]
fn a_condition_on_the_whole_interval_states_its_half_width() {
    let all = json!([{"score": "ctl_conditional", "above": 0.1, "whole_interval": true}]);
    let mut alerts = alerts(vec![json!({"name": "leak", "all": all})]);
    // The standard error is 0.01.
    let fired = alerts.observe(&conditions(0, 0.3, 0.6, None));
    let evidence = "leakage to the task (ctl_conditional) is 0.3000 ± 0.0196 (95 %), above 0.1, for 1 evaluation";
    assert_eq!(fired[0].standing.evidence, evidence);
}

#[test]
fn conditions_that_hold_together_fire_and_one_of_them_alone_does_not() {
    let rule = together(json!({"evaluations": 2, "hysteresis": 0.01, "advise_stop": true, "action": "Supervise."}));
    let mut alerts = alerts(vec![rule]);
    assert!(alerts.observe(&conditions(0, 0.3, 0.9, None)).is_empty());
    assert!(alerts.observe(&conditions(1, 0.05, 0.6, None)).is_empty());
    assert_eq!(alerts.observe(&conditions(2, 0.3, 0.6, None))[0].standing.state, Pending);
    let fired = alerts.observe(&conditions(3, 0.3, 0.6, None));
    let evidence = "leakage to the task (ctl_conditional) is 0.3000, above 0.1; concept AUC (concept_auc) is 0.6000, below 0.8, \
                    for 2 evaluations";
    assert_eq!((fired[0].standing.state, fired[0].standing.evidence.as_str()), (Firing, evidence));
    let (rule, _) = alerts.reasons_to_stop().next().unwrap();
    assert_eq!((rule.action(), rule.score()), (Some("Supervise."), "ctl_conditional"));
    assert!(rule.meaning().ends_with("Training is advised to stop. Supervise."), "{}", rule.meaning());
    // Just inside a limit is not far enough; a score that is missing is no evidence.
    assert!(alerts.observe(&conditions(4, 0.095, 0.6, None)).is_empty());
    assert!(alerts.observe(&point(5, 0.0)).is_empty());
    assert_eq!(alerts.observe(&conditions(6, 0.3, 0.82, None))[0].standing.state, Inactive);
}

#[test]
fn an_exception_that_holds_ends_an_alert_and_one_that_is_unknown_does_not_count() {
    let mut alerts = alerts(vec![together(json!({}))]);
    assert_eq!(alerts.observe(&conditions(0, 0.3, 0.6, None))[0].standing.state, Firing);
    let ended = alerts.observe(&conditions(1, 0.3, 0.6, Some(0.0)));
    assert_eq!(ended[0].standing.state, Inactive);
    assert!(
        ended[0].standing.evidence.ends_with("intervention drop (intervention_drop) is 0.0000, below 0.05"),
        "{ended:?}"
    );
    assert_eq!(alerts.observe(&conditions(2, 0.3, 0.6, Some(0.2)))[0].standing.state, Firing);
}

#[test]
fn an_exception_holds_for_slow_scores_that_come_without_it() {
    let all = json!([{"score": "ois", "above": 0.3}]);
    let rule = json!({"name": "leak", "all": all, "unless": {"score": "intervention_drop", "below": 0.05}});
    let mut alerts = alerts(vec![rule]);
    let late = |step| Point { scores: vec![("ois".into(), Outcome::Value(score(0.4)))], ..point(step, 0.0) };
    alerts.observe(&conditions(1, 0.3, 0.6, Some(0.0)));
    assert!(alerts.observe_late(&late(1), &["ois"]).is_empty());
    alerts.observe(&conditions(2, 0.3, 0.6, Some(0.2)));
    assert_eq!(alerts.observe_late(&late(2), &["ois"])[0].standing.state, Firing);
}

#[test]
fn an_exception_whose_score_joins_later_ends_the_alert_and_is_known_from_then_on() {
    let all = json!([{"score": "intervention_drop", "above": 0.1}]);
    let rule = json!({"name": "breaks", "all": all, "unless": {"score": "ois", "below": 0.5}, "evaluations": 2});
    let mut alerts = alerts(vec![rule]);
    let of = |step| conditions(step, 0.3, 0.6, Some(0.2));
    let late = |step, ois| {
        let mut point = of(step);
        point.scores.push(("ois".into(), Outcome::Value(score(ois))));
        point
    };
    assert_eq!(alerts.observe(&of(0))[0].standing.state, Pending);
    assert!(alerts.observe_late(&late(0, 0.6), &["ois"]).is_empty());
    assert_eq!(alerts.observe(&of(1))[0].standing.state, Firing);
    let ended = alerts.observe_late(&late(1, 0.4), &["ois"]);
    assert_eq!(ended[0].standing.state, Inactive);
    assert!(ended[0].standing.evidence.ends_with("is 0.4000, below 0.5"), "{ended:?}");
    assert!(alerts.observe(&of(2)).is_empty() && alerts.observe(&of(3)).is_empty());
    assert!(alerts.observe_late(&late(3, 0.6), &["ois"]).is_empty());
    assert_eq!(alerts.observe(&of(4))[0].standing.state, Pending);
}

/// A model that was sound, and begins to leak while slow scores lag.
#[test]
fn an_exception_of_an_evaluation_before_the_conditions_held_excuses_none() {
    let all = json!([{"score": "intervention_drop", "above": 0.1}]);
    let rule = json!({"name": "breaks", "all": all, "unless": {"score": "ois", "below": 0.5}, "evaluations": 2});
    let mut alerts = alerts(vec![rule]);
    let with = |step, drop, ois: Option<f64>| {
        let mut point = conditions(step, 0.3, 0.6, Some(drop));
        point.scores.extend(ois.map(|ois| ("ois".into(), Outcome::Value(score(ois)))));
        point
    };
    alerts.observe(&with(0, 0.0, Some(0.0)));
    alerts.observe(&with(1, 0.0, None));
    alerts.observe(&with(2, 0.4, None));
    assert_eq!(alerts.observe(&with(3, 0.4, None))[0].standing.state, Firing);
    assert!(alerts.observe_late(&with(1, 0.0, Some(0.0)), &["ois"]).is_empty());
    let ended = alerts.observe_late(&with(2, 0.4, Some(0.4)), &["ois"]);
    assert_eq!(ended[0].standing.state, Inactive);
    assert!(ended[0].standing.evidence.ends_with("is 0.4000 at step 2, below 0.5"), "{ended:?}");
}

#[test]
fn faulty_and_contradictory_rules_are_named() {
    let scoreless = |more: Value| merged(json!({"name": "leak"}), more);
    let cases = [
        (above(0.2, json!({"evaluations": 0})), "evaluations"),
        (above(0.2, json!({"evaluations": "two"})), "evaluations"),
        (rule(json!({})), "above"),
        (rule(json!({"above": f64::NAN})), "above"),
        (above(0.2, json!({"below": 0.3})), "above"),
        (above(0.2, json!({"score": "nonsense"})), "score"),
        (scoreless(json!({"above": 0.2})), "score"),
        (above(0.2, json!({"rise": 0.1})), "rise"),
        (above(0.2, json!({"stale": 5})), "stale"),
        (rule(json!({"few_rows": 5})), "score"),
        (scoreless(json!({"few_rows": 0})), "few_rows"),
        (scoreless(json!({"stale": -5})), "stale"),
        (scoreless(json!({"stale": 5, "warm_up": 1})), "stale"),
        (scoreless(json!({"saturated": 1.5})), "saturated"),
        (scoreless(json!({"few_rows": 5, "scope": "pair"})), "scope"),
        (above(0.2, json!({"scope": "row"})), "scope"),
        (above(0.2, json!({"score": "ctl", "scope": "pair"})), "scope"),
        (rise(-0.1, json!({})), "rise"),
        (rise(0.1, json!({"hysteresis": 0.2})), "hysteresis"),
        (above(0.2, json!({"hysteresis": f64::INFINITY})), "hysteresis"),
        (above(0.2, json!({"below": 0.1, "hysteresis": 0.06})), "hysteresis"),
        (above(0.2, json!({"patience": 1, "advise_stop": false})), "patience"),
        (above(0.2, json!({"false_discovery_rate": 0.1})), "false_discovery_rate"),
        (above(0.2, json!({"false_discovery_rate": 2, "scope": "pair"})), "false_discovery_rate"),
        (above(0.2, json!({"severity": "grave"})), "severity"),
        (above(0.2, json!({"runbook": "ftp://x"})), "runbook"),
        (above(0.2, json!({"over": 1})), "over"),
        (above(0.2, json!({"unless": {"score": "ois", "below": 0.1}})), "unless"),
        (together(json!({"score": "icl"})), "score"),
        (together(json!({"all": []})), "all"),
        (together(json!({"all": [{"score": "nonsense", "above": 0.1}]})), "all"),
        (together(json!({"all": [{"score": "icl"}]})), "all"),
        (together(json!({"all": [{"score": "icl", "above": 0.1, "below": 0.2}]})), "all"),
        (together(json!({"unless": {"score": "icl", "below": "low"}})), "unless"),
        (together(json!({"unless": {"score": "icl", "below": 0.1, "or_unknown": 1}})), "unless"),
        (together(json!({"all": [{"score": "icl", "above": 0.1, "or_unknown": true}]})), "all"),
        (scoreless(json!({"unless": {"score": "icl", "below": 0.1}})), "all"),
    ];
    for (rule, key) in cases {
        let fault = read(vec![rule.clone()]).expect_err(key);
        assert!(fault.key == key && fault.name == "leak", "{fault} for {rule:?}");
    }
    let fault = read(vec![above(0.2, json!({})), above(0.2, json!({}))]).unwrap_err();
    assert_eq!((fault.at, fault.key.as_str()), (1, "name"));
}

#[test]
fn the_default_rules_are_sound_and_read_back_as_they_are_shown() {
    assert_eq!(default_rules().advising_splits(), BTreeSet::from(["val"]));
    let shown = |rules: &Rules| rules.as_slice().iter().map(|rule| json!(rule)).collect::<Vec<_>>();
    let shown = shown(&default_rules());
    assert_eq!(read(shown).unwrap(), default_rules());
}

#[test]
fn a_rule_is_shown_with_every_key_but_those_that_are_absent() {
    let given = above(0.2, json!({"scope": "pair", "false_discovery_rate": 0.01, "runbook": "http://x"}));
    let shown = json!(read(vec![given]).unwrap().as_slice()[0]);
    let expected = json!({
        "name": "leak", "score": "icl", "split": "val", "above": 0.2, "evaluations": 1, "warm_up": 0, "patience": 0,
        "cooldown": 0, "hysteresis": 0.0, "severity": "warning", "joint_only": false, "advise_stop": true, "scope": "pair",
        "false_discovery_rate": 0.01, "runbook": "http://x",
    });
    assert_eq!(shown, expected);
    let shown = json!(read(vec![json!({"name": "few", "few_rows": 9})]).unwrap().as_slice()[0]);
    let absent = ["score", "above", "below", "false_discovery_rate", "runbook"];
    assert!(absent.iter().all(|key| shown.get(key).is_none()) && shown["few_rows"] == 9, "{shown}");
}

#[test]
fn the_keys_of_every_kind_are_documented() {
    let text = include_str!("../../../../docs/alerts.md");
    for key in [rule::SHARED, &kinds::KEYS.concat()].concat() {
        assert!(text.contains(&format!("| `{key}` |")), "docs/alerts.md has no row for `{key}`");
    }
}

#[test]
fn scores_that_come_late_are_no_step_back_and_only_their_own_rules_see_them() {
    let own = json!({"name": "impure", "score": "ois", "above": 0.3});
    let mut alerts = alerts(vec![above(0.2, json!({})), own]);
    assert_eq!(alerts.observe(&point(1, 0.5)).len(), 1);
    alerts.observe(&point(2, 0.5));
    let late = Point { scores: vec![("ois".into(), Outcome::Value(score(0.4)))], ..point(1, 0.0) };
    let changed = alerts.observe_late(&late, &["ois"]);
    let seen: Vec<(&str, State)> = changed.iter().map(|c| (c.rule.name(), c.standing.state)).collect();
    assert_eq!(seen, [("impure", Firing)]);
    // The alert on icl stands as it stood: nothing has gone back.
    assert!(alerts.observe(&point(3, 0.5)).is_empty());
}

/// Ten concepts of which the first has none but this value, and the others `level`, with those in `dead` left out.
fn over_live(step: u64, level: f64, first: f64, dead: &[u32]) -> Point {
    let values: Vec<Option<f64>> =
        (0..10).map(|i| (!dead.contains(&i)).then_some(if i == 0 { first } else { level })).collect();
    let value = values.iter().flatten().sum::<f64>() / values.iter().flatten().count() as f64;
    let left_out = LeftOut { concepts: dead.to_vec(), pairs: 0, of: 10, why: "labels: one class".into() };
    let left_out = Some(left_out).filter(|_| !dead.is_empty());
    at(step, Outcome::Value(ScoreValue { per_concept: Some(values), left_out, ..score(value) }))
}

#[test]
fn a_concept_that_comes_and_goes_is_no_rise_and_hides_none() {
    // The mean falls from 0.2 to 0.1 and back as a concept of value 1.1 leaves and returns: ten errors and more.
    let dead = |step: u64| if step.is_multiple_of(3) { &[0][..] } else { &[] };
    let mut alerts = alerts(vec![rise(0.05, json!({}))]);
    for step in 0..20 {
        let changed = alerts.observe(&over_live(step, 0.1, 1.1, dead(step)));
        assert!(changed.is_empty(), "step {step}: {changed:?}");
    }
    let fired: Vec<_> = (20..24).flat_map(|step| alerts.observe(&over_live(step, 0.3, 1.1, dead(step)))).collect();
    assert!(fired.iter().any(|change| change.standing.state == Firing), "{fired:?}");
    let evidence = &fired.last().unwrap().standing.evidence;
    assert!(evidence.starts_with("interconcept leakage (icl) is 0.3"), "{evidence}");
}

#[test]
fn with_little_in_common_the_baseline_starts_again() {
    let mut alerts = alerts(vec![rise(0.05, json!({}))]);
    for step in 0..6 {
        alerts.observe(&over_live(step, 0.1, 0.1, &[5, 6, 7, 8, 9]));
    }
    for step in 6..9 {
        assert!(alerts.observe(&over_live(step, 0.6, 0.6, &[0, 1, 2, 3, 4])).is_empty());
    }
    let (_, standing) = alerts.standings().next().unwrap();
    assert!(
        standing.evidence.starts_with("interconcept leakage (icl) is 0.6000 over 5 of 10 concepts"),
        "{}",
        standing.evidence
    );
}

#[test]
fn a_threshold_says_what_the_score_is_over() {
    let mut alerts = alerts(vec![above(0.2, json!({}))]);
    let fired = alerts.observe(&over_live(1, 0.5, 0.5, &[3]));
    assert!(
        fired[0].standing.evidence.starts_with("interconcept leakage (icl) is 0.5000 over 9 of 10 concepts, above 0.2"),
        "{fired:?}"
    );
}
