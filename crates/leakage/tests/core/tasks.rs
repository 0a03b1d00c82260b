//! Several tasks: one that leaks decides, whatever the mean over them.

use leakage::alert::{Alerts, Judged, default_rules};
use leakage::baseline::Baseline;
use leakage::diagnosis::{State, Verdict, VerdictState, diagnose, verdict};
use leakage::point::{Outcome, Point, ScoreValue};
use leakage::run::{Concept, Run, RunFields, Task};

fn run() -> Run {
    let concepts = ["x", "y"].map(|name| Concept { name: name.into(), cardinality: 2, ..Concept::default() }).to_vec();
    let tasks = ["edema", "effusion", "fracture"]
        .map(|name| Task { name: name.into(), cardinality: 2, ..Task::default() })
        .to_vec();
    Run::try_from(RunFields { name: "r".into(), concepts, tasks, ..RunFields::default() }).unwrap()
}

fn value(value: f64) -> ScoreValue {
    ScoreValue {
        value,
        standard_error: Some(0.005),
        per_concept: Some(vec![Some(value), None]),
        ..ScoreValue::default()
    }
}

/// A score of the task, with these values for the three tasks.
fn of_tasks(values: [f64; 3]) -> Outcome {
    let per_task = Some(values.map(|of_task| Outcome::Value(value(of_task))).to_vec());
    Outcome::Value(ScoreValue { per_task, ..value(values.iter().sum::<f64>() / 3.0) })
}

/// An evaluation in which the second task leaks so much that the mean over tasks stays below its limit.
fn point(step: u64, leak: f64, interconcept: f64) -> Point {
    let whole = |score: f64| Outcome::Value(value(score));
    let scores = vec![
        ("ctl_excess".into(), of_tasks([0.01; 3])),
        ("icl_excess".into(), whole(0.0)),
        ("ctl_conditional".into(), of_tasks([0.01, leak, 0.02])),
        ("icl_conditional".into(), whole(interconcept)),
        ("concept_accuracy".into(), whole(0.98)),
        ("concept_auc".into(), whole(0.99)),
        ("task_accuracy".into(), of_tasks([0.9; 3])),
        ("intervention_drop".into(), of_tasks([-0.02, if leak > 0.2 { 0.3 } else { -0.02 }, -0.02])),
        ("reference_accuracy_mlp".into(), of_tasks([0.99; 3])),
    ];
    Point { run: "r".into(), split: "val".into(), step, rows: 2000, scores, ..Point::default() }
}

fn judged(leak: f64, interconcept: f64) -> Verdict {
    let points: Vec<Point> = (1..5).map(|step| point(step, leak, interconcept)).collect();
    verdict(&run(), &points, true, true, None).unwrap()
}

#[test]
fn one_leaking_task_of_three_decides_the_verdict_and_is_named() {
    let found = judged(0.35, 0.0);
    assert_eq!((found.state, found.task.as_deref()), (VerdictState::Leaking, Some("effusion")));
    let deciding = found.deciding.as_ref().unwrap();
    assert_eq!((deciding.score.as_str(), deciding.value), ("intervention_drop", 0.3));
    assert_eq!(found.concepts, ["x"]);
    assert!(found.to_string().ends_with("\n  task: effusion\n  concepts: x"), "{found}");
}

#[test]
fn without_a_leaking_task_the_run_is_sound() {
    assert_eq!(judged(0.03, 0.0).state, VerdictState::Sound);
}

#[test]
fn leakage_between_concepts_is_of_no_task() {
    let found = judged(0.03, 0.5);
    assert_eq!((found.state, found.task), (VerdictState::PossiblyLeaking, None));
    assert_eq!(found.deciding.unwrap().score, "icl_conditional");
}

#[test]
fn a_finding_in_one_task_names_it() {
    let diagnosis = diagnose(&run(), &[point(1, 0.35, 0.0)]).unwrap();
    let line = diagnosis.found().find(|line| line.text.starts_with("task 'effusion': ")).expect("a finding");
    assert_eq!(line.state, State::Found);
    let sound = diagnose(&run(), &[point(1, 0.03, 0.0)]).unwrap();
    assert!(sound.found().next().is_none(), "{:?}", sound.found().collect::<Vec<_>>());
    // A finding that holds in every task is not said of one alone.
    let lines: Vec<_> = sound.lines.iter().filter(|line| line.text.contains("task 'edema': ")).collect();
    assert!(!lines.is_empty());
    for line in lines {
        let in_all = line.text.starts_with("in all tasks; task 'edema': ");
        assert_eq!(in_all, line.state == State::Absent, "{}", line.text);
    }
}

#[test]
fn default_rules_judge_the_worst_task() {
    let mut alerts = Alerts::new(default_rules());
    alerts.start(Judged::of(&run(), None), 0.0);
    let changes: Vec<_> = (1..12).flat_map(|step| alerts.observe(&point(step, 0.35, 0.0))).collect();
    assert!(!changes.is_empty());
    let reasons: Vec<&str> = alerts.reasons_to_stop().map(|(_, standing)| standing.evidence.as_str()).collect();
    assert!(!reasons.is_empty() && reasons.iter().all(|why| why.starts_with("task 'effusion': ")), "{reasons:?}");
    let mut quiet = Alerts::new(default_rules());
    quiet.start(Judged::of(&run(), None), 0.0);
    assert!((1..12).all(|step| quiet.observe(&point(step, 0.03, 0.0)).is_empty()));
    // The task that leaked is sound again.
    let ended: Vec<_> = (12..20).flat_map(|step| alerts.observe(&point(step, 0.03, 0.0))).collect();
    assert!(!ended.is_empty() && alerts.reasons_to_stop().next().is_none());
}

#[test]
fn a_reference_run_is_subtracted_task_by_task() {
    let baseline = Baseline { run: "independent".into(), points: vec![point(1, 0.3, 0.0)], unfit: None };
    let above = baseline.above(&point(1, 0.35, 0.0)).of_task(1, "effusion");
    let left = above.score("ctl_conditional").unwrap().value().unwrap().value;
    assert!((left - 0.05).abs() < 1e-12, "{left}");
}
