//! Each rule of the diagnosis on points that must give a finding, and on similar points that must not.

use leakage::alert::{Alerts, Judged, State as Standing, default_rules};
use leakage::baseline::Baseline;
use leakage::diagnosis::{Diagnosis, Moment, RULES, State, StopAdvised, Verdict, VerdictState, diagnose, verdict};
use leakage::point::{Outcome, Point, ScoreValue};
use leakage::run::{ActivationKind, Concept, Run, RunConstants, RunFields, Training};
use leakage::score::{OTHER_ORDER, OTHER_TASK_ORDER};

use super::curves;

const SE: f64 = 0.005;

/// A run of three concepts with these fields.
fn declared(fields: RunFields) -> Run {
    let concepts =
        ["x", "y", "z"].map(|name| Concept { name: name.into(), cardinality: 2, ..Concept::default() }).to_vec();
    Run::try_from(RunFields { name: "r".into(), concepts, ..fields }).unwrap()
}

fn run_of(activation_kind: ActivationKind, constants: RunConstants) -> Run {
    declared(RunFields { activation_kind, constants, ..RunFields::default() })
}

fn soft() -> Run {
    run_of(ActivationKind::Probability, RunConstants::default())
}

/// An evaluation with these scores, each with a standard error of [`SE`].
fn point(step: u64, scores: &[(&str, f64)]) -> Point {
    let of = |&(id, value): &(&str, f64)| {
        (id.to_owned(), Outcome::Value(ScoreValue { value, standard_error: Some(SE), ..ScoreValue::default() }))
    };
    let scores = scores.iter().map(of).collect();
    Point { run: "r".into(), split: "val".into(), step, rows: 2000, scores, ..Point::default() }
}

/// A healthy evaluation with some scores replaced.
fn with(step: u64, changes: &[(&str, f64)]) -> Point {
    let healthy = [
        ("ctl_excess", 0.01),
        ("icl_excess", 0.0),
        ("icl_label_excess", 0.01),
        ("concept_accuracy", 0.98),
        ("concept_auc", 0.99),
        ("task_accuracy", 0.97),
        ("reference_accuracy_linear", 0.995),
        ("reference_accuracy_mlp", 0.998),
    ];
    let mut scores = healthy.to_vec();
    for &(id, value) in changes {
        match scores.iter_mut().find(|(known, _)| *known == id) {
            Some(known) => known.1 = value,
            None => scores.push((id, value)),
        }
    }
    point(step, &scores)
}

/// The same evaluation with values of each concept for a score.
fn with_concepts(mut point: Point, id: &str, values: [f64; 3]) -> Point {
    let outcome = point.scores.iter_mut().find(|(known, _)| known == id);
    let Some((_, Outcome::Value(value))) = outcome else { panic!("{id} has no value") };
    value.per_concept = Some(values.map(Some).to_vec());
    point
}

fn read(run: &Run, points: &[Point]) -> Diagnosis {
    let diagnosis = diagnose(run, points).unwrap();
    assert_eq!(diagnosis.lines.len(), RULES.len());
    for line in &diagnosis.lines {
        // Every line states its numbers.
        assert_eq!(line.evidence.is_empty(), line.state == State::Unknown, "{line:?}");
        assert!(!line.text.is_empty() && !line.source.is_empty());
        assert!(line.state != State::Found || line.evidence.iter().any(|one| one.limit.is_some()), "{line:?}");
    }
    diagnosis
}

fn found(run: &Run, points: &[Point]) -> Vec<String> {
    read(run, points).found().map(|line| line.rule.clone()).collect()
}

fn state(run: &Run, points: &[Point], rule: &str) -> (State, String) {
    let diagnosis = read(run, points);
    let line = diagnosis.lines.into_iter().find(|line| line.rule == rule).unwrap();
    (line.state, line.text)
}

#[test]
fn a_healthy_run_has_no_finding() {
    assert_eq!(found(&soft(), &[with(1, &[])]), [] as [&str; 0]);
    assert!(diagnose(&soft(), &[]).is_none());
}

const FAIL: &str = "interventions_fail";
const SUPERVISION: &str = "insufficient_supervision";
const POOR: &str = "poorly_learnt_concepts";
const ENCODING: &str = "over_expressive_encoding";
const REMOVABLE: &str = "removable_information";
const INCOMPLETE: &str = "incomplete_concept_set";
const BEYOND: &str = "beyond_true_concepts";
const HEAD: &str = "misspecified_head";

/// CBMs on ten classes of digits and seven concepts that determine them, as measured: drop, concept accuracy, unclipped
/// CTL and ICL, conditional CTL and ICL.
const DIGITS: [(&str, [f64; 6]); 5] = [
    ("0.01", [0.88, 0.54, 0.11, -0.12, 0.33, 0.27]),
    ("0.05", [0.81, 0.62, 0.18, -0.08, 0.32, 0.27]),
    ("0.2", [0.69, 0.72, 0.27, -0.04, 0.33, 0.30]),
    ("1", [0.00, 0.98, 0.09, -0.11, 0.11, 0.05]),
    ("5", [-0.03, 0.99, 0.06, -0.11, 0.07, 0.01]),
];
const COLUMNS: [&str; 6] =
    ["intervention_drop", "concept_accuracy", "ctl_excess", "icl_excess", "ctl_conditional", "icl_conditional"];

#[test]
fn models_of_digits_are_read_by_what_they_do_under_intervention() {
    for (lambda, values) in DIGITS {
        let scores: Vec<(&str, f64)> = COLUMNS.into_iter().zip(values).collect();
        let collapses = ["0.01", "0.05", "0.2"].contains(&lambda);
        let whole = found(&soft(), &[with(1, &scores)]);
        let expected: &[&str] = if collapses { &[FAIL, SUPERVISION] } else { &[] };
        assert_eq!(whole, expected, "{lambda}");
        let expected: &[&str] = if collapses { &[SUPERVISION] } else { &[] };
        assert_eq!(found(&soft(), &[with(1, &scores[1..])]), expected, "{lambda}, without interventions");
        // CTL and ICL alone: below their limits they show nothing where concepts are not learnt.
        let published = [with(1, &scores[1..4])];
        let alone = found(&soft(), &published);
        let (of_supervision, why) = state(&soft(), &published, SUPERVISION);
        match lambda {
            "0.01" => {
                assert_eq!((alone, of_supervision), (vec![POOR.to_owned()], State::Unknown));
                assert!(why.starts_with("low values of CTL and ICL show nothing"), "{why}");
            }
            "0.05" | "0.2" => assert_eq!((alone, of_supervision), (vec![SUPERVISION.to_owned()], State::Found)),
            _ => assert_eq!((alone, of_supervision), (vec![], State::Absent)),
        }
    }
    let hidden = state(&soft(), &[with(1, &COLUMNS.into_iter().zip(DIGITS[0].1).collect::<Vec<_>>())], SUPERVISION).1;
    assert!(hidden.contains("CTL does not show it, because it subtracts"), "{hidden}");
}

#[test]
fn what_an_intervention_removes_without_harm_is_named_so() {
    let logit = run_of(ActivationKind::Logit, RunConstants::default());
    let scores = [("ctl_conditional", 0.2), ("icl_conditional", 0.18), ("intervention_drop", 0.0)];
    assert_eq!(found(&logit, &[with(1, &scores)]), [REMOVABLE]);
    let (_, text) = state(&logit, &[with(1, &scores)], REMOVABLE);
    assert!(text.contains("harmless once concepts are corrected"), "{text}");
    let (encoding, text) = state(&logit, &[with(1, &scores)], ENCODING);
    assert!(encoding == State::Absent && text.contains("it is harmless once concepts are corrected"), "{text}");
    // Predictions that rest on nothing, such as a constant, hold whatever the activations hold.
    let ignored = [&scores[..], &[("wrong_intervention_drop", 0.0)]].concat();
    assert_eq!(found(&logit, &[with(1, &ignored)]), ["concepts_ignored", ENCODING]);
    let told = judged(&logit, with(1, &ignored));
    let reason = "activations hold extra information, and predictions do not rest on the concepts";
    assert_eq!((told.state, told.reason.as_str()), (VerdictState::PossiblyLeaking, reason));
    // Without interventions logged it may do harm.
    assert_eq!(found(&logit, &[with(1, &scores[..2])]), [ENCODING]);
    assert_eq!(state(&logit, &[with(1, &scores[..2])], REMOVABLE).0, State::Unknown);
    // Within the error of the limit it is not shown to be harmless.
    let near = [("ctl_conditional", 0.2), ("intervention_drop", 0.045)];
    assert_eq!(found(&logit, &[with(1, &near)]), [ENCODING]);
    let (unclear, text) = state(&logit, &[with(1, &near)], FAIL);
    assert!(unclear == State::Absent && text.contains("its interval reaches the limit"), "{text}");
    // Vectors of true concepts may carry the same information.
    let vectors = [&scores[..], &[("embedding_ct", 0.4)]].concat();
    assert!(!found(&soft(), &[with(1, &vectors)]).contains(&REMOVABLE.to_owned()));
}

#[test]
fn interventions_fail_only_below_what_true_concepts_allow() {
    let of = |scores: &[(&str, f64)]| found(&soft(), &[with(1, scores)]);
    assert_eq!(of(&[("intervention_drop", 0.3)]), [FAIL]);
    assert!(of(&[("intervention_drop", 0.03)]).is_empty());
    assert_eq!(of(&[("intervention_score", 0.3)]), [FAIL], "where nothing else is known");
    // An incomplete set: the fall to what it allows is not a failure.
    let incomplete = [
        ("reference_accuracy_linear", 0.6),
        ("reference_accuracy_mlp", 0.62),
        ("task_excess", 0.31),
        ("intervention_drop", 0.32),
    ];
    let reaches = [&incomplete[..], &[("intervention_score", 0.01)]].concat();
    assert_eq!(of(&reaches), [INCOMPLETE, BEYOND]);
    let (_, text) = state(&soft(), &[with(1, &reaches)], BEYOND);
    assert!(text.contains("may be benign (arXiv:2606.10669)"), "{text}");
    let falls = [&incomplete[..], &[("intervention_score", 0.3), ("intervention_drop", 0.6)]].concat();
    assert_eq!(of(&falls), [FAIL, INCOMPLETE, BEYOND]);
    assert!(state(&soft(), &[with(1, &falls)], BEYOND).1.contains("not benign"));
    let alone = [with(1, &incomplete[..3])];
    assert_eq!(found(&soft(), &alone), [INCOMPLETE, BEYOND]);
    assert!(state(&soft(), &alone, BEYOND).1.contains("depends on interventions"));
    assert!(
        of(&[("task_excess", 0.03), ("reference_accuracy_linear", 0.6), ("reference_accuracy_mlp", 0.62)])
            == [INCOMPLETE]
    );
}

#[test]
fn heads_that_do_not_use_the_concepts_are_found() {
    let of = |drop: f64| found(&soft(), &[with(1, &[("wrong_intervention_drop", drop)])]);
    assert_eq!(of(0.01), ["concepts_ignored"]);
    assert!(of(0.045).is_empty(), "within its error of the limit");
    assert!(of(0.8).is_empty());
    // True values erase the leak that it reads, as wrong ones do: heads on the true concepts are no better, but that excuses
    // nothing.
    let erased = |wrong| {
        let scores = [("intervention_drop", 0.67), ("intervention_score", 0.0), ("wrong_intervention_drop", wrong)];
        found(&soft(), &[with(1, &scores)])
    };
    assert_eq!(erased(0.68), [FAIL, "concepts_ignored"]);
    assert!(erased(0.9).is_empty());
}

#[test]
fn insufficient_supervision() {
    let leaks = [("ctl_excess", 0.3), ("concept_accuracy", 0.6)];
    assert_eq!(found(&soft(), &[with(1, &leaks)]), [SUPERVISION]);
    for (score, value) in
        [("icl_excess", 0.1), ("ctl_conditional", 0.2), ("icl_conditional", 0.2), ("joint_leakage", 0.2)]
    {
        assert_eq!(found(&soft(), &[with(1, &[(score, value), ("concept_auc", 0.7)])]), [SUPERVISION], "{score}");
    }
    assert_eq!(found(&soft(), &[with(1, &[("intervention_drop", 0.3), ("concept_auc", 0.7)])]), [FAIL, SUPERVISION]);
    // The whole interval must be beyond the limit: 0.15 + 1.96 · 0.005, 0.9 − 1.96 · 0.005.
    let near =
        |ctl: f64, accuracy: f64| found(&soft(), &[with(1, &[("ctl_excess", ctl), ("concept_accuracy", accuracy)])]);
    assert_eq!(near(0.161, 0.889), [SUPERVISION]);
    assert_eq!(near(0.158, 0.889), [POOR]);
    assert!(near(0.161, 0.891).is_empty(), "neither poorly nor well learnt");
    assert_eq!(near(0.161, 0.95), [ENCODING]);
    let diagnosis = read(&soft(), &[with(7, &leaks)]);
    let line = diagnosis.found().next().unwrap();
    let shown: Vec<String> = line.evidence.iter().map(ToString::to_string).collect();
    let expected = [
        "ctl_excess 0.3000 ± 0.0098, limit 0.15",
        "icl_excess 0.0000 ± 0.0098, limit 0.05",
        "concept_accuracy 0.6000 ± 0.0098, limit 0.9",
        "concept_auc 0.9900 ± 0.0098, limit 0.9",
    ];
    assert_eq!(shown, expected);
    assert_eq!((line.source.as_str(), line.evidence[0].step, diagnosis.step), ("arXiv:2504.14094, Section 7", 7, 7));
    let bare = [point(1, &[("task_accuracy", 0.9), ("concept_accuracy", 0.5)])];
    let (unknown, why) = state(&soft(), &bare, SUPERVISION);
    assert_eq!(unknown, State::Unknown);
    assert!(why.contains("(ctl_excess), which no evaluation has"), "{why}");
}

#[test]
fn what_was_not_seen_has_the_size_that_would_have_been() {
    let poor = [("ctl_conditional", 0.02), ("icl_conditional", 0.01), ("concept_accuracy", 0.6)];
    assert_eq!(found(&soft(), &[with(1, &poor)]), [POOR]);
    let (absent, text) = state(&soft(), &[with(1, &poor)], SUPERVISION);
    assert_eq!(absent, State::Absent);
    // 0.16 + (1.96 + 0.84) · 0.005.
    let found = "80 % power to detect leakage to the task (ctl_conditional) of 0.174 or leakage between concepts \
                 (icl_conditional) of 0.174";
    assert!(text.ends_with(found), "{text}");
    let (_, text) = state(&soft(), &[with(1, &[("intervention_drop", 0.01)])], FAIL);
    assert!(text.ends_with("80 % power to detect intervention drop (intervention_drop) of 0.064"), "{text}");
}

#[test]
fn over_expressive_encoding() {
    let logit = run_of(ActivationKind::Logit, RunConstants::default());
    let leaks = [with(1, &[("ctl_conditional", 0.25)])];
    assert_eq!(found(&logit, &leaks), [ENCODING]);
    assert_eq!(found(&soft(), &leaks), [ENCODING], "probabilities have room, too");
    let hard = run_of(ActivationKind::Hard, RunConstants::default());
    assert!(found(&hard, &leaks).is_empty(), "hard values have none");
    assert!(found(&logit, &[with(1, &[("ctl_conditional", 0.12)])]).is_empty());
    // Other causes come first.
    let poor = [with(1, &[("ctl_conditional", 0.25), ("concept_accuracy", 0.6)])];
    assert_eq!(found(&logit, &poor), [SUPERVISION]);
    let incomplete = [("ctl_conditional", 0.25), ("reference_accuracy_linear", 0.7), ("reference_accuracy_mlp", 0.7)];
    assert!(!found(&logit, &[with(1, &incomplete)]).contains(&ENCODING.to_owned()));
    // Without heads on the true concepts nobody knows.
    let alone = [point(1, &[("ctl_conditional", 0.25), ("concept_accuracy", 0.98), ("concept_auc", 0.99)])];
    assert_eq!(state(&logit, &alone, ENCODING).0, State::Unknown);
    // Vectors.
    let vectors = |scores: &[(&str, f64)]| found(&soft(), &[with(1, &[&[("embedding_ct", 0.9)], scores].concat())]);
    assert!(vectors(&[]).is_empty(), "embedding_ct has what the concept itself predicts");
    assert_eq!(vectors(&[("embedding_ct_conditional", 0.3)]), [ENCODING]);
    assert_eq!(vectors(&[("embedding_ct_conditional", 0.3), ("ctl_conditional", 0.1)]), [ENCODING]);
    assert!(vectors(&[("embedding_ct_conditional", 0.3), ("ctl_conditional", 0.3)]).is_empty(), "not of the vectors");
    assert!(vectors(&[("embedding_ct_conditional", 0.165)]).is_empty());
    // For embeddings the intervention score does not measure leakage.
    let intervened = [with(1, &[("embedding_ct", 0.3), ("intervention_score", 0.3), ("concept_accuracy", 0.6)])];
    assert_eq!(found(&soft(), &intervened), [POOR]);
}

#[test]
fn wrong_values_of_some_concepts_show_that_predictions_rest_on_them() {
    let of = |curve: [f64; 3]| {
        let mut point = with(1, &[("wrong_intervention_drop", 0.0)]);
        let Outcome::Value(drop) = &mut point.scores.last_mut().unwrap().1 else { panic!("a value") };
        drop.curve = Some([0.0, 0.5, 1.0].into_iter().zip(curve.map(Some)).collect());
        state(&soft(), &[point], "concepts_ignored")
    };
    assert_eq!(of([0.97, 0.96, 0.97]).0, State::Found);
    // Parity: all wrong values together are right again.
    let (parity, text) = of([0.97, 0.02, 0.97]);
    assert_eq!(parity, State::Absent);
    assert!(text.ends_with("falls when some concepts are set to wrong values: predictions rest on them"), "{text}");
    // A side channel that alone predicts the task.
    let bypassed = with(1, &[("ctl_conditional", 0.0), ("concept_ablation_drop", 0.0)]);
    assert_eq!(state(&soft(), std::slice::from_ref(&bypassed), "concepts_ignored").0, State::Found);
    let told = judged(&soft(), bypassed);
    assert_eq!(told.state, VerdictState::NothingFound);
    assert_eq!(told.reason, "interventions were not logged; predictions do not rest on the concepts");
    // Predictions of the most frequent class.
    let unmoved = [("ctl_conditional", 0.0), ("intervention_drop", 0.0), ("wrong_intervention_drop", 0.0)];
    let told = judged(&soft(), with(1, &unmoved));
    assert_eq!(told.to_string().lines().next(), Some("nothing found: predictions do not rest on the concepts"));
}

#[test]
fn concepts_that_never_saw_the_task_are_not_read_by_rules_of_leakage() {
    let run = declared(RunFields { training: Training::Sequential, ..RunFields::default() });
    let leaks = [with(1, &[("ctl_conditional", 0.25), ("intervention_drop", 0.6), ("concept_accuracy", 0.6)])];
    assert_eq!(found(&run, &leaks), [POOR]);
    assert_eq!(state(&run, &leaks, SUPERVISION).0, State::Unknown);
}

#[test]
fn a_threshold_that_does_not_fit_is_no_concept_that_is_poorly_learnt() {
    let mut point = with(1, &[("concept_accuracy", 0.76)]);
    assert_eq!(found(&soft(), &[point.clone()]), [POOR]);
    point.warnings = vec!["concept_activations are declared as logits, but the threshold 0 predicts 76 %".into()];
    assert!(found(&soft(), &[point.clone()]).is_empty());
    assert_eq!(state(&soft(), &[point.clone()], POOR).1, point.warnings[0]);
    point.scores.iter_mut().find(|(id, _)| id == "concept_auc").unwrap().1 =
        Outcome::Value(ScoreValue { value: 0.6, standard_error: Some(SE), ..ScoreValue::default() });
    assert_eq!(found(&soft(), &[point]), [POOR]);
}

#[test]
fn incomplete_concept_set() {
    // Table 3: 0.655 to 0.840 for incomplete sets, at least 0.999 for complete ones.
    let of = |linear: f64, mlp: f64| {
        let heads = [("reference_accuracy_linear", linear), ("reference_accuracy_mlp", mlp), ("task_accuracy", mlp)];
        found(&soft(), &[with(1, &heads)])
    };
    for reached in [0.655, 0.749, 0.786, 0.836, 0.840] {
        assert_eq!(of(reached, reached), [INCOMPLETE], "{reached}");
    }
    assert!(of(0.999, 0.999).is_empty());
    assert!(of(0.915, 0.915).is_empty(), "within its error of the limit");
    // One row in twenty has the rare class, of which the concepts tell nothing.
    let rare = |balanced: f64| {
        let heads = [("reference_accuracy_linear", 0.95), ("reference_accuracy_mlp", 0.95)];
        let excess = [("task_balanced_accuracy", 0.9), ("task_excess", 0.9 - balanced)];
        found(&soft(), &[with(1, &[heads, excess].concat())])
    };
    assert!(rare(0.5).contains(&INCOMPLETE.to_owned()));
    assert!(!rare(0.84).contains(&INCOMPLETE.to_owned()));
    // A head that the run has trained on more rows counts as well.
    let constants = RunConstants { reference_task_accuracy: Some(0.99), ..Default::default() };
    let short =
        [with(1, &[("reference_accuracy_linear", 0.8), ("reference_accuracy_mlp", 0.8), ("task_accuracy", 0.97)])];
    assert!(found(&run_of(ActivationKind::Probability, constants), &short).is_empty());
    // The last known value counts: slow scores are not computed at every evaluation.
    let late = [
        with(1, &[("reference_accuracy_linear", 0.8), ("reference_accuracy_mlp", 0.8)]),
        point(2, &[("ctl_excess", 0.0)]),
    ];
    let diagnosis = read(&soft(), &late);
    let line = diagnosis.found().next().unwrap();
    assert_eq!((line.rule.as_str(), line.evidence[0].step, diagnosis.step), (INCOMPLETE, 1, 2));
    let (unknown, why) = state(&soft(), &[point(1, &[("ctl_excess", 0.0)])], INCOMPLETE);
    assert_eq!(
        (unknown, why.as_str()),
        (State::Unknown, "needs reference accuracy, linear head (reference_accuracy_linear), which no evaluation has")
    );
}

#[test]
fn the_task_is_beyond_the_true_concepts_only_beyond_the_errors() {
    let of = |excess: f64| {
        let heads = [("reference_accuracy_linear", 0.8), ("reference_accuracy_mlp", 0.85), ("task_excess", excess)];
        found(&soft(), &[with(1, &heads)])
    };
    // 0.1 + 1.96 · 0.005.
    assert_eq!(of(0.11), [INCOMPLETE, BEYOND]);
    assert_eq!(of(0.109), [INCOMPLETE]);
}

#[test]
fn misspecified_head() {
    // Table 3: 0.687 to 0.859 for misspecified linear heads, where 1.000 is possible.
    let of =
        |linear: f64, mlp: f64| [with(1, &[("reference_accuracy_linear", linear), ("reference_accuracy_mlp", mlp)])];
    let linear = run_of(ActivationKind::Probability, RunConstants { head_weights: vec![1.0; 6], ..Default::default() });
    for reached in [0.687, 0.807, 0.859] {
        assert_eq!(found(&linear, &of(reached, 1.0)), [HEAD], "{reached}");
        // That a linear head fails says nothing about a head of unknown form.
        let (unknown, why) = state(&soft(), &of(reached, 1.0), HEAD);
        assert!(unknown == State::Unknown && why.contains("whether its head is linear is not known"), "{why}");
    }
    assert!(found(&linear, &of(0.95, 1.0)).is_empty());
    assert!(found(&linear, &of(0.92, 1.0)).is_empty(), "within its error of the limit");
    assert!(state(&linear, &of(0.8, 1.0), HEAD).1.starts_with("the run's head is linear"));
    // The accuracy that the run states for its head takes precedence over that of a trained linear head.
    let stated = |accuracy: f64| {
        let constants = RunConstants { reference_task_accuracy: Some(accuracy), ..Default::default() };
        found(&run_of(ActivationKind::Probability, constants), &of(0.8, 1.0))
    };
    assert!(stated(0.99).is_empty());
    assert_eq!(stated(0.85), [HEAD]);
    // If both heads fail, the concepts are the cause.
    assert_eq!(
        found(
            &linear,
            &[with(
                1,
                &[("reference_accuracy_linear", 0.75), ("reference_accuracy_mlp", 0.78), ("task_accuracy", 0.8)]
            )]
        ),
        [INCOMPLETE]
    );
}

/// Every combination of scores that are low, high or missing.
#[test]
fn no_conclusion_contradicts_the_numbers() {
    let levels = [
        ("intervention_drop", 0.0, 0.5),
        ("intervention_score", 0.0, 0.5),
        ("ctl_conditional", 0.01, 0.4),
        ("icl_conditional", 0.01, 0.4),
        ("ctl_excess", -0.1, 0.4),
        ("concept_accuracy", 0.45, 0.99),
        ("task_accuracy", 0.5, 0.98),
        ("reference_accuracy_mlp", 0.6, 0.99),
    ];
    let kinds = [ActivationKind::Probability, ActivationKind::Logit, ActivationKind::Hard]
        .map(|kind| run_of(kind, RunConstants::default()));
    for combination in 0..3_usize.pow(levels.len() as u32) {
        let level = |at: usize| combination / 3_usize.pow(at as u32) % 3;
        let mut scores: Vec<(&str, f64)> = Vec::new();
        for (at, &(id, low, high)) in levels.iter().enumerate() {
            match level(at) {
                0 => {}
                1 => scores.push((id, low)),
                _ => scores.push((id, high)),
            }
        }
        let of = |id: &str| scores.iter().find(|(known, _)| *known == id).map(|(_, value)| *value);
        if let Some(mlp) = of("reference_accuracy_mlp") {
            scores.push(("reference_accuracy_linear", mlp));
        }
        let of = |id: &str| scores.iter().find(|(known, _)| *known == id).map(|(_, value)| *value);
        let high = |id: &str| of(id).is_some_and(|value| value > 0.3);
        let diagnosis = read(&kinds[combination % 3], &[point(1, &scores)]);
        for line in &diagnosis.lines {
            let text = line.text.to_lowercase();
            for claim in ["no leakage", "without leakage", "does not leak", "there is no", "is clean", "leak-free"] {
                assert!(!text.contains(claim), "{scores:?}: {}", line.text);
            }
        }
        let found: Vec<&str> = diagnosis.found().map(|line| line.rule.as_str()).collect();
        let any = |rules: &[&str]| rules.iter().any(|rule| found.contains(rule));
        if high("intervention_drop") && of("intervention_score") != Some(0.0) {
            assert!(any(&[FAIL]), "{scores:?}: {found:?}");
        }
        if of("intervention_drop") == Some(0.0) {
            assert!(!any(&[FAIL, ENCODING]), "{scores:?}: {found:?}");
        }
        let leaks = high("ctl_conditional") || high("icl_conditional");
        let learnt = of("concept_accuracy").is_some_and(|accuracy| accuracy > 0.9);
        if leaks && of("intervention_drop") == Some(0.0) {
            assert!(any(&[REMOVABLE]), "{scores:?}: {found:?}");
        }
        if of("concept_accuracy") == Some(0.45) {
            assert!(any(&[SUPERVISION, POOR]), "{scores:?}: {found:?}");
            assert!(!any(&[ENCODING]), "{scores:?}: {found:?}");
        }
        assert!(!any(&[SUPERVISION, POOR]) || !learnt, "{scores:?}: {found:?}");
        assert!(!(any(&[ENCODING]) && any(&[INCOMPLETE, HEAD])), "{scores:?}: {found:?}");
        assert!(!any(&[HEAD]), "{scores:?}: nothing says what the head is");
    }
}

#[test]
fn alignment_leakage() {
    let of = |value: f64| found(&soft(), &[with(1, &[("alignment_leakage", value)])]);
    assert_eq!(of(0.061), ["alignment_leakage"]);
    assert!(of(0.059).is_empty(), "not distinguished from the limit");
    assert!(of(-0.3).is_empty());
    let mut undefined = with(1, &[]);
    undefined.scores.push(("alignment_leakage".into(), Outcome::undefined("one class only")));
    let (unknown, why) = state(&soft(), &[undefined], "alignment_leakage");
    assert_eq!(
        (unknown, why.as_str()),
        (State::Unknown, "alignment leakage (alignment_leakage) is undefined: one class only")
    );
}

#[test]
fn saturation_instead_of_leakage() {
    let at = |step: u64, icl: f64, ctl: f64, ties: f64| {
        let mut point = with(step, &[("icl_excess", icl), ("ctl_excess", ctl), ("icl_label_excess", 0.01)]);
        point.tie_fraction = ties;
        point
    };
    let saturates = [at(1, 0.01, 0.02, 0.05), at(2, 0.03, 0.02, 0.3), at(3, 0.09, 0.021, 0.5)];
    assert_eq!(found(&soft(), &saturates), ["saturation"]);
    // A rise of ICL counts as leakage only without saturation.
    let mut poor = saturates.clone();
    poor.iter_mut().for_each(|point| {
        point.scores.iter_mut().find(|(id, _)| id == "concept_accuracy").unwrap().1 =
            Outcome::Value(ScoreValue { value: 0.6, standard_error: Some(SE), ..ScoreValue::default() });
    });
    assert_eq!(found(&soft(), &poor), [POOR, "saturation"]);
    poor[2].tie_fraction = 0.2;
    assert_eq!(found(&soft(), &poor), ["insufficient_supervision"]);
    // Ties that rose less, other leakage that rose as well, and no rise.
    assert_eq!(found(&soft(), &[at(1, 0.01, 0.02, 0.05), at(3, 0.09, 0.02, 0.24)]), [ENCODING]);
    assert_eq!(found(&soft(), &[at(1, 0.01, 0.02, 0.05), at(3, 0.09, 0.1, 0.5)]), [ENCODING]);
    assert!(found(&soft(), &[at(1, 0.01, 0.02, 0.05), at(3, 0.02, 0.02, 0.5)]).is_empty());
    // An evaluation with another N cannot be the minimum from which the rise is measured.
    let mut smaller = saturates.to_vec();
    smaller[..2].iter_mut().for_each(|point| point.rows = 1000);
    assert_eq!(found(&soft(), &smaller), [ENCODING]);
    // The conditional twin of a published score decides in its place.
    let mut twin = with(1, &[("icl_excess", 0.09), ("icl_conditional", 0.02)]);
    twin.tie_fraction = 0.05;
    assert!(found(&soft(), &[twin]).is_empty());
}

#[test]
fn labels_in_another_order_are_no_leakage() {
    let leaks = [("concept_auc", 0.55), ("concept_accuracy", 0.5), ("ctl_conditional", 0.4), ("ctl_excess", 0.4)];
    let mut mixed_up = with(1, &leaks);
    assert!(found(&soft(), &[mixed_up.clone()]).contains(&"insufficient_supervision".to_owned()));
    mixed_up.warnings = vec![format!("{OTHER_ORDER}: the labels of x, y are predicted by the activations of y, x")];
    assert_eq!(found(&soft(), &[mixed_up.clone()]), ["labels_in_another_order"]);
    let of_order = read(&soft(), &[mixed_up.clone()]).lines.remove(0);
    assert!(of_order.text.contains("the activations of y, x"), "{of_order:?}");
    let verdict = verdict(&soft(), &[mixed_up], true, true, None).unwrap();
    assert_eq!(verdict.state, VerdictState::CannotTell);
    assert!(verdict.reason.starts_with("the labels are in another order"), "{verdict:?}");
    let mut from_one = with(1, &[("task_balanced_accuracy", 0.0), ("ctl_conditional", 0.4)]);
    from_one.warnings = vec![format!("{OTHER_TASK_ORDER}: balanced accuracy is 0.90")];
    assert_eq!(found(&soft(), &[from_one]), ["labels_in_another_order"]);
}

#[test]
fn too_few_rows() {
    let rows = |rows: u64| {
        let mut point = with(1, &[]);
        point.rows = rows;
        found(&soft(), &[point])
    };
    assert_eq!(rows(499), ["too_few_rows"]);
    assert!(rows(500).is_empty());
    // The sample is not called too small for an effect that is large enough to be shown.
    let mut large = with(1, &[("ctl_conditional", 0.5), ("concept_accuracy", 0.6), ("concept_auc", 0.6)]);
    large.rows = 60;
    assert_eq!(state(&soft(), std::slice::from_ref(&large), "too_few_rows").0, State::Absent);
    assert_eq!(judged(&soft(), large).state, VerdictState::Leaking);
    // Rows without labels of a concept say nothing of it.
    let unlabelled = Point { concept_rows: vec![120; 3], ..with(1, &[("ctl_conditional", 0.05)]) };
    assert_eq!(found(&soft(), std::slice::from_ref(&unlabelled)), ["too_few_rows"]);
    let told = judged(&soft(), unlabelled);
    assert_eq!(
        (told.state, told.reason.as_str()),
        (VerdictState::NothingFound, "120 of 2000 rows with concept labels, fewer than 500")
    );
    // An honest model of few rows may be near a limit by chance.
    let near = Point { rows: 228, ..with(1, &[("ctl_conditional", 0.155)]) };
    let told = judged(&soft(), near);
    let reason = "228 rows are too few: the interval of leakage to the task (ctl_conditional) reaches the limit";
    assert_eq!((told.state, told.reason.as_str()), (VerdictState::CannotTell, reason));
    let wide = |error: f64| {
        let mut point = with(1, &[]);
        let icl = ScoreValue { value: 0.0, standard_error: Some(error), ..ScoreValue::default() };
        point.scores.iter_mut().find(|(id, _)| id == "icl_excess").unwrap().1 = Outcome::Value(icl);
        found(&soft(), &[point])
    };
    // 0.05 / 1.96.
    assert_eq!(wide(0.026), ["too_few_rows"]);
    assert!(wide(0.025).is_empty());
}

#[test]
fn recorded_runs_are_read_by_their_supervision() {
    let mut counts = std::collections::BTreeMap::<(&str, &str), [usize; 2]>::new();
    let scores = ["ctl_excess", "icl_excess", "icl_label_excess", "concept_accuracy", "task_accuracy"];
    for ([_, bottleneck, lambda, _], points) in curves::recorded(&scores) {
        let last = points.into_iter().find(|point| point.epoch == Some(15.0)).unwrap();
        let kind = if bottleneck == "logit" { ActivationKind::Logit } else { ActivationKind::Probability };
        let rules = found(&run_of(kind, RunConstants::default()), &[last]);
        let count = counts.entry((bottleneck, lambda)).or_default();
        count[0] += 1;
        count[1] += usize::from(rules.iter().any(|rule| rule == SUPERVISION));
    }
    for ((_, lambda), [runs, supervision]) in &counts {
        assert_eq!(*runs, 20);
        assert!(*lambda != "0.01" || *supervision >= 19, "{counts:?}");
        assert!(!["1.0", "5.0"].contains(lambda) || *supervision == 0, "{counts:?}");
    }
}

/// docs/diagnosis.md holds the generated table. `UPDATE_DOCS=1` rewrites it.
#[test]
fn the_documentation_has_every_rule() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/diagnosis.md");
    let text = std::fs::read_to_string(path).unwrap();
    let head = "| rule | from | when |\n|---|---|---|\n";
    let (before, rest) = text.split_once(head).unwrap();
    let after = &rest[rest.find("\n\n").unwrap()..];
    let rows: Vec<String> =
        RULES.iter().map(|rule| format!("| `{}` | {} | {} |", rule.id, rule.source, (rule.help)())).collect();
    let expected = format!("{before}{head}{}{after}", rows.join("\n"));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(
        text == expected || std::env::var_os("UPDATE_DOCS").is_some(),
        "docs/diagnosis.md needs\n{}",
        rows.join("\n")
    );
}

/// The verdict on evaluations at epochs 1, 2, … with this conditional leakage, of a run that still trains.
fn verdict_on(leakage: &[f64]) -> Verdict {
    verdict(&soft(), &epochs(leakage), true, false, None).unwrap()
}

fn epochs(leakage: &[f64]) -> Vec<Point> {
    let at = |(i, value): (usize, &f64)| {
        let drop = if *value < 0.2 { 0.0 } else { 0.3 };
        let step = 10 * (i as u64 + 1);
        let point = with(step, &[("ctl_conditional", *value), ("intervention_drop", drop), ("ctl_excess", 0.01)]);
        Point { epoch: Some(i as f64 + 1.0), ..point }
    };
    leakage.iter().enumerate().map(at).collect()
}

#[test]
fn leakage_is_a_verdict_from_the_second_evaluation_in_a_row_on() {
    assert_eq!(verdict_on(&[0.05, 0.05]).state, VerdictState::TooEarly);
    let sound = verdict_on(&[0.05, 0.05, 0.05]);
    assert_eq!((sound.state, sound.since, sound.reason.as_str()), (VerdictState::Sound, None, ""));
    let once = verdict_on(&[0.05, 0.05, 0.05, 0.3]);
    assert_eq!((once.state, once.last_sound.map(|at| at.step)), (VerdictState::PossiblyLeaking, Some(30)));
    let twice = verdict_on(&[0.05, 0.05, 0.3, 0.05, 0.3, 0.3]);
    assert_eq!((twice.state, twice.since), (VerdictState::Leaking, Some(Moment { step: 50, epoch: Some(5.0) })));
    assert_eq!((twice.last_sound.map(|at| at.step), twice.or_earlier), (Some(40), false));
    assert_eq!(verdict_on(&[0.3, 0.3, 0.3, 0.05]).state, VerdictState::Sound);
    let near = verdict_on(&[0.05, 0.05, 0.155]);
    assert_eq!(near.state, VerdictState::PossiblyLeaking);
    assert_eq!(near.reason, "the interval of leakage to the task (ctl_conditional) reaches the limit");
}

#[test]
fn a_verdict_says_what_it_cannot_tell() {
    assert!(verdict(&soft(), &[], true, false, None).is_none());
    let mut few = epochs(&[0.05, 0.05, 0.05]);
    few[2].rows = 212;
    let told = verdict(&soft(), &few, true, false, None).unwrap();
    assert_eq!((told.state, told.reason.as_str()), (VerdictState::NothingFound, "212 rows, fewer than 500"));
    // Few rows widen intervals, and silence nothing that is beyond them.
    let mut few = epochs(&[0.3, 0.3, 0.3]);
    few.iter_mut().for_each(|point| point.rows = 212);
    let told = verdict(&soft(), &few, true, false, None).unwrap();
    let deciding = told.deciding.unwrap();
    assert_eq!(
        (told.state, deciding.score.as_str(), deciding.limit),
        (VerdictState::Leaking, "intervention_drop", Some(0.05))
    );
    // One evaluation of a run that ended is all there will be.
    let only = verdict(&soft(), &epochs(&[0.3]), true, true, None).unwrap();
    assert_eq!((only.state, only.since.map(|at| at.step)), (VerdictState::Leaking, Some(10)));
    let removable = [with(10, &[("ctl_conditional", 0.3), ("intervention_drop", 0.0)])];
    let told = verdict(&soft(), &removable, true, true, None).unwrap();
    let reason = "activations hold extra information, harmless once concepts are corrected";
    assert_eq!((told.state, told.reason.as_str()), (VerdictState::PossiblyLeaking, reason));
    let blind = verdict(&soft(), &[with(10, &[("ctl_conditional", 0.05)])], true, true, None).unwrap();
    assert_eq!((blind.state, blind.reason.as_str()), (VerdictState::Sound, "interventions were not logged"));
    // Evaluations that show nothing either way do not end leakage.
    let mut gap = epochs(&[0.05, 0.3, 0.3, 0.3, 0.3]);
    gap[3].warnings = vec![format!("{OTHER_ORDER}: the labels of x")];
    assert_eq!(verdict(&soft(), &gap, true, false, None).unwrap().since.map(|at| at.step), Some(20));
    let window = verdict(&soft(), &epochs(&[0.3, 0.3, 0.3]), false, false, None).unwrap();
    assert_eq!((window.state, window.or_earlier), (VerdictState::Leaking, true));
}

#[test]
fn heads_on_the_labels_that_are_scored_later_hold_for_earlier_evaluations() {
    let scores = [("ctl_conditional", 0.05), ("intervention_drop", 0.17), ("concept_auc", 0.9)];
    let mut points: Vec<Point> = (1..=12).map(|step| point(step, &scores)).collect();
    points[11] = with(12, &scores);
    let told = verdict(&soft(), &points, true, true, None).unwrap();
    assert_eq!((told.state, told.since.map(|at| at.step)), (VerdictState::Leaking, Some(1)), "{told}");
}

#[test]
fn an_earlier_intervention_score_does_not_excuse_a_drop() {
    let before = [("intervention_score", 0.0), ("intervention_drop", 0.0), ("intervened_task_accuracy", 0.97)];
    let mut points: Vec<Point> = (1..=8).map(|step| with(step, &before)).collect();
    points.push(point(9, &[("intervention_drop", 0.15), ("intervened_task_accuracy", 0.82)]));
    assert_eq!(state(&soft(), &points, FAIL).0, State::Found);
    // Heads that the newest evaluation has not, yet, reach as much as they did.
    let leaks = with(8, &[("ctl_conditional", 0.05), ("joint_leakage", 0.3), ("intervention_drop", 0.0)]);
    let joint = verdict(&soft(), &[leaks, point(9, &[("ctl_conditional", 0.0)])], false, true, None).unwrap();
    assert!(joint.reason.ends_with("; joint leakage (joint_leakage) is of step 8"), "{joint}");
    assert!(joint.last_sound.is_none());
    let before = with(7, &[("ctl_conditional", 0.05), ("intervention_drop", 0.0)]);
    let leaks = with(8, &[("ctl_conditional", 0.05), ("joint_leakage", 0.3), ("intervention_drop", 0.0)]);
    let told = verdict(&soft(), &[before, leaks], true, true, None).unwrap();
    assert_eq!(
        (told.state, told.last_sound),
        (VerdictState::PossiblyLeaking, None),
        "joint leakage was not looked for"
    );
    points[7] = with(8, &[("task_balanced_accuracy", 0.9), ("task_excess", 0.1)]);
    points[8] = point(
        9,
        &[
            ("task_balanced_accuracy", 0.95),
            ("intervention_drop", 0.15),
            ("intervened_task_accuracy", 0.82),
            ("intervened_task_balanced_accuracy", 0.8),
        ],
    );
    assert_eq!(state(&soft(), &points, FAIL).0, State::Absent, "heads reach 0.8, too");
}

/// The verdict on a run that ended after four evaluations with these scores.
fn ended(run: &Run, scores: &[(&str, f64)]) -> Verdict {
    let points: Vec<Point> = (1..=4).map(|step| with(step, scores)).collect();
    verdict(run, &points, true, true, None).unwrap()
}

/// The verdict on the only evaluation of a run that ended.
fn judged(run: &Run, point: Point) -> Verdict {
    verdict(run, &[point], true, true, None).unwrap()
}

#[test]
fn sound_needs_leakage_to_the_task_and_interventions_or_learnt_concepts() {
    let clean = ("ctl_conditional", 0.05);
    let state = |scores: &[(&str, f64)]| judged(&soft(), with(1, scores)).state;
    assert_eq!(state(&[clean, ("intervention_drop", 0.0)]), VerdictState::Sound);
    assert_eq!(state(&[clean]), VerdictState::Sound, "every concept is well learnt");
    let unsure = [clean, ("concept_accuracy", 0.9), ("concept_auc", 0.9)];
    assert_eq!(state(&unsure), VerdictState::NothingFound);
    assert_eq!(state(&[&unsure[..], &[("intervention_drop", 0.0)]].concat()), VerdictState::Sound);
    let poor = [clean, ("concept_accuracy", 0.6), ("concept_auc", 0.65)];
    assert_eq!(state(&poor), VerdictState::CannotTell, "a collapse may look like this");
    let deciding = judged(&soft(), with(1, &poor)).deciding.unwrap();
    assert_eq!((deciding.score.as_str(), deciding.value, deciding.limit), ("concept_accuracy", 0.6, Some(0.9)));
    assert_eq!(state(&[&poor[..], &[("intervention_drop", 0.0)]].concat()), VerdictState::NothingFound);
    let no_task = point(1, &[("icl_conditional", 0.02), ("concept_accuracy", 0.98), ("concept_auc", 0.99)]);
    let told = judged(&soft(), no_task);
    assert_eq!(told.state, VerdictState::NothingFound);
    assert_eq!(told.reason, "leakage to the task was not looked for: task_labels were not logged");
    // One cause is said once.
    let ids = ["ctl_conditional", "ctl_excess", "icl_excess"];
    let scores = ids.map(|id| (id.to_owned(), Outcome::undefined("the columns are latents"))).to_vec();
    let told = judged(&soft(), Point { scores, ..point(1, &[]) });
    assert_eq!(told.reason, "leakage to the task (ctl_conditional) is undefined: the columns are latents");
    // CTL is low for a task of hundreds of classes, leak or none.
    let undefined = |scores: &[(&str, f64)]| {
        let mut point = with(1, scores);
        point.scores.push(("ctl_conditional".into(), Outcome::undefined("802 of 1500 rows are alone")));
        judged(&soft(), point)
    };
    let told = undefined(&[]);
    assert_eq!(told.state, VerdictState::NothingFound);
    assert_eq!(told.reason, "leakage to the task (ctl_conditional) is undefined: 802 of 1500 rows are alone");
    assert_eq!(undefined(&[("intervention_drop", 0.0)]).state, VerdictState::Sound);
}

#[test]
fn a_concept_at_chance_is_named_whatever_the_mean_says() {
    let of = |aucs: [f64; 3], drop: Option<f64>| {
        let drop = drop.map(|drop| ("intervention_drop", drop));
        let scores: Vec<_> = [("ctl_conditional", 0.05)].into_iter().chain(drop).collect();
        judged(&soft(), with_concepts(with(1, &scores), "concept_auc", aucs))
    };
    assert_eq!(of([0.99, 0.98, 0.97], None).state, VerdictState::Sound);
    let one = of([0.99, 0.5, 0.99], Some(0.0));
    assert_eq!((one.state, one.concepts.as_slice()), (VerdictState::NothingFound, &["y".to_owned()][..]));
    assert_eq!(one.reason, "the concept y is hardly learnt");
    let two = of([0.6, 0.5, 0.99], None);
    assert_eq!((two.state, two.concepts), (VerdictState::CannotTell, vec!["y".to_owned(), "x".to_owned()]));
    assert!(two.reason.starts_with("2 of 3 concepts are hardly learnt"), "{}", two.reason);
}

#[test]
fn a_concept_that_reveals_the_task_alone_is_named_though_the_mean_is_low() {
    let of = |run: &Run, values: [f64; 3], drop: Option<f64>| {
        let drop = drop.map(|drop| ("intervention_drop", drop));
        let scores: Vec<_> = [("ctl_conditional", 0.1)].into_iter().chain(drop).collect();
        judged(run, with_concepts(with(1, &scores), "ctl_conditional", values))
    };
    assert_eq!(of(&soft(), [0.3, 0.0, 0.0], None).state, VerdictState::Sound, "as in sound models");
    let told = of(&soft(), [-0.2, 0.6, -0.1], None);
    assert_eq!((told.state, told.concepts.as_slice()), (VerdictState::PossiblyLeaking, &["y".to_owned()][..]));
    assert_eq!(told.reason, "the activation of y alone reveals 0.60 of the task beyond its concept");
    // Nor does a mean that more rows would tell from its limit hide it.
    let near = with_concepts(with(1, &[("ctl_conditional", 0.165)]), "ctl_conditional", [0.0, 0.495, 0.0]);
    let near = judged(&soft(), near);
    assert_eq!((near.state, near.concepts.as_slice()), (VerdictState::PossiblyLeaking, &["y".to_owned()][..]));
    assert!(near.reason.starts_with("the activation of y alone reveals 0.4"), "{near}");
    assert_eq!(of(&soft(), [-0.2, 0.6, -0.1], Some(0.0)).state, VerdictState::Sound, "an intervention removes it");
    let apart = of(&trained(Training::Sequential), [-0.2, 0.6, -0.1], None);
    assert_eq!(apart.state, VerdictState::Sound, "the task taught it nothing");
}

#[test]
fn leakage_that_true_concepts_explain_or_embeddings_hold_is_possible_leakage() {
    let state = |scores: &[(&str, f64)]| judged(&soft(), with(1, scores)).state;
    // Interventions reach all that true concepts allow.
    let benign = [("ctl_conditional", 0.3), ("intervention_drop", 0.2), ("intervention_score", 0.01)];
    assert_eq!(state(&benign), VerdictState::PossiblyLeaking);
    assert_eq!(state(&benign[..2]), VerdictState::Leaking);
    let embeddings = [("embedding_ct", 0.6), ("embedding_ct_conditional", 0.4), ("ctl_conditional", 0.1)];
    assert_eq!(state(&embeddings), VerdictState::PossiblyLeaking);
    assert_eq!(state(&[&embeddings[..], &[("intervention_drop", 0.4)]].concat()), VerdictState::Leaking);
    assert_eq!(state(&[&embeddings[..], &[("intervention_drop", 0.0)]].concat()), VerdictState::PossiblyLeaking);
}

#[test]
fn the_deciding_number_is_beyond_its_limit_and_names_its_concepts() {
    let point = with(1, &[("ctl_conditional", 0.1), ("icl_conditional", 0.4), ("joint_leakage", 0.9)]);
    let told = judged(&soft(), with_concepts(point, "icl_conditional", [0.3, 0.1, 0.5]));
    let deciding = told.deciding.as_ref().unwrap();
    assert_eq!((told.state, deciding.score.as_str()), (VerdictState::PossiblyLeaking, "icl_conditional"));
    assert_eq!(told.concepts, ["z", "x"]);
    assert!((deciding.low() - (0.4 - 1.96 * SE)).abs() < 1e-12);
    let text = told.to_string();
    assert!(text.contains("icl_conditional 0.4000, 0.3902 to 0.4098, limit 0.16"), "{text}");
    // Joint leakage has no concepts of its own.
    let joint = with(1, &[("ctl_conditional", 0.1), ("joint_leakage", 0.4)]);
    let told = judged(&soft(), with_concepts(joint, "ctl_conditional", [0.0, 0.3, 0.0]));
    assert_eq!((told.deciding.unwrap().score.as_str(), told.concepts), ("joint_leakage", vec!["y".to_owned()]));
}

#[test]
fn a_verdict_never_contradicts_advice_to_stop() {
    let advised =
        StopAdvised { rule: "interconcept leakage rises".into(), since: 20, evidence: "icl_excess is 0.3".into() };
    for leakage in [&[0.05, 0.05][..], &[0.05, 0.05, 0.05, 0.05], &[0.05, 0.3, 0.3, 0.3]] {
        let told = verdict(&soft(), &epochs(leakage), true, false, Some(&advised)).unwrap();
        assert_eq!((told.state, told.since.map(|at| at.step)), (VerdictState::Leaking, Some(20)), "{leakage:?}");
        assert_eq!(told.stop_advised_by.as_deref(), Some("interconcept leakage rises"));
    }
}

#[test]
fn leakage_by_advice_alone_names_no_concept_that_is_merely_unlearnt() {
    let point = with(10, &[("ctl_conditional", 0.05), ("concept_auc", 0.7)]);
    let point = with_concepts(point, "concept_auc", [0.5, 0.6, 0.99]);
    assert_eq!(judged(&soft(), point.clone()).concepts, ["x", "y"]);
    let advised =
        StopAdvised { rule: "interconcept leakage rises".into(), since: 10, evidence: "icl_excess is 0.3".into() };
    let told = verdict(&soft(), &[point], true, true, Some(&advised)).unwrap();
    assert_eq!((told.state, told.deciding, told.concepts), (VerdictState::Leaking, None, Vec::new()));
}

#[test]
fn each_rule_says_what_to_do() {
    for line in read(&soft(), &[with(1, &[])]).lines {
        assert!(!line.action.is_empty() && !line.action.ends_with('.'), "{}", line.rule);
    }
}

/// A run that declares how its concepts were trained.
fn trained(training: Training) -> Run {
    declared(RunFields { training, ..RunFields::default() })
}

#[test]
fn concepts_trained_without_the_task_do_not_leak() {
    let holds = [("ctl_conditional", 0.3), ("icl_conditional", 0.3), ("intervention_drop", 0.0)];
    let falls = [&holds[..2], &[("intervention_drop", 0.4)]].concat();
    let noisy = [&falls[..], &[("concept_accuracy", 0.8), ("concept_auc", 0.8)]].concat();
    let state = |training, scores: &[(&str, f64)]| ended(&trained(training), scores).state;
    assert_eq!(state(Training::Joint, &falls), VerdictState::Leaking);
    for training in [Training::Sequential, Training::Independent] {
        assert_eq!(state(training, &holds), VerdictState::Sound);
        assert_eq!(state(training, &falls), VerdictState::NothingFound);
        assert_eq!(state(training, &noisy), VerdictState::NothingFound);
        let mut alerts = Alerts::new(default_rules());
        alerts.start(Judged::of(&trained(training), None), 0.0);
        let changes: Vec<_> = (1..=8).flat_map(|step| alerts.observe(&with(step, &noisy))).collect();
        assert!(changes.is_empty(), "{changes:?}");
    }
}

#[test]
fn leakage_counts_above_that_of_a_reference() {
    let honest =
        [("ctl_conditional", 0.2), ("icl_conditional", 0.18), ("concept_auc", 0.8), ("intervention_drop", 0.1)];
    let reference = || Baseline { run: "independent".into(), points: vec![with(9, &honest)], unfit: None };
    let advised = |scores: &[(&str, f64)], baseline| {
        let mut alerts = Alerts::new(default_rules());
        alerts.start(Judged::of(&soft(), baseline), 0.0);
        (1..=10).for_each(|step| drop(alerts.observe(&with(step, scores))));
        alerts.reasons_to_stop().next().is_some()
    };
    let leaks = [&[("ctl_conditional", 0.5)], &honest[1..3], &[("intervention_drop", 0.3)]].concat();
    assert!(advised(&honest, None) && advised(&leaks, None));
    assert!(!advised(&honest, Some(reference())) && advised(&leaks, Some(reference())));
    let without_interventions = &leaks[..3];
    let above: Vec<Point> = (1..=4).map(|step| reference().above(&with(step, without_interventions))).collect();
    let found = verdict(&soft(), &above, true, true, None).unwrap();
    assert_eq!(found.state, VerdictState::Leaking);
    assert!(found.reason.contains("above that of the reference run 'independent': "), "{found}");
    assert!(found.reason.contains("(ctl_conditional) 0.200"), "{found}");
    let above: Vec<Point> = (1..=4).map(|step| reference().above(&with(step, &honest[..3]))).collect();
    assert_eq!(verdict(&soft(), &above, true, true, None).unwrap().state, VerdictState::CannotTell);
}

#[test]
fn leakage_is_only_possible_where_labels_may_be_noisy() {
    let noisy = [
        ("ctl_conditional", 0.2),
        ("concept_accuracy", 0.8),
        ("concept_auc", 0.8),
        ("reference_accuracy_linear", 0.7),
        ("reference_accuracy_mlp", 0.7),
    ];
    let found = ended(&soft(), &noisy);
    assert_eq!(found.state, VerdictState::PossiblyLeaking);
    assert!(found.reason.contains("labels may be noisy"), "{found}");
    // To set concepts to noisy labels harms an honest head, too; a collapse loses more.
    for (drop, state) in [(0.15, VerdictState::PossiblyLeaking), (0.4, VerdictState::Leaking)] {
        let loses = [&noisy[..], &[("intervention_drop", drop)]].concat();
        assert_eq!(ended(&soft(), &loses).state, state, "{drop}");
        let breaks = (drop > 0.25).then(|| "interventions break the task".to_owned());
        assert_eq!(advising(&loses, 8), breaks.as_slice(), "{drop}");
        // Nor is the noise known before the heads on the labels are scored.
        let due = [&noisy[..3], &[("intervention_drop", drop)]].concat();
        let points: Vec<Point> = (1..=4).map(|step| point(step, &due)).collect();
        assert_eq!(verdict(&soft(), &points, true, true, None).unwrap().state, state, "{drop}");
    }
}

/// The rules that advise to stop after so many evaluations with these scores.
fn advising(scores: &[(&str, f64)], evaluations: u64) -> Vec<String> {
    let mut alerts = Alerts::new(default_rules());
    alerts.start(Judged::of(&soft(), None), 0.0);
    (1..=evaluations).for_each(|step| drop(alerts.observe(&with(step, scores))));
    alerts.reasons_to_stop().map(|(rule, _)| rule.name().to_owned()).collect()
}

#[test]
fn no_alert_calls_leakage_harmless_that_interventions_cannot_remove() {
    let fired = |at_wrong: f64| {
        let mut alerts = Alerts::new(default_rules());
        alerts.start(Judged::of(&soft(), None), 0.0);
        let scores = [("ctl_conditional", 0.3), ("intervention_drop", 0.0), ("wrong_intervention_drop", at_wrong)];
        (1..=6).for_each(|step| drop(alerts.observe(&with(step, &scores))));
        let firing = alerts.standings().filter(|(_, standing)| standing.state == Standing::Firing);
        firing.map(|(rule, _)| rule.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fired(0.6), ["harmless leakage"]);
    assert_eq!(fired(0.0), [] as [&str; 0], "predictions are constant");
}

#[test]
fn a_run_that_leaks_for_long_is_advised_to_stop() {
    let harm = [("intervention_drop", 0.12), ("ctl_conditional", 0.05)];
    let points: Vec<Point> = (1..=12).map(|step| with(step, &harm)).collect();
    assert_eq!(verdict(&soft(), &points, true, false, None).unwrap().state, VerdictState::Leaking);
    assert_eq!(advising(&harm, 11), [] as [&str; 0]);
    assert_eq!(advising(&harm, 12), ["interventions keep doing harm"]);
    let mut alerts = Alerts::new(default_rules());
    (1..=30).for_each(|step| drop(alerts.observe(&point(step, &harm))));
    assert_eq!(alerts.reasons_to_stop().count(), 0, "whether the labels are noisy is not known");
    let noisy = [&harm[..], &[("reference_accuracy_mlp", 0.7)]].concat();
    assert_eq!(advising(&noisy, 30), [] as [&str; 0], "an honest head of noisy labels");
    let allowed = [&harm[..], &[("intervention_score", 0.01)]].concat();
    assert_eq!(advising(&allowed, 30), [] as [&str; 0], "the true concepts allow no more");
    // Concepts that hold nothing of the task allow nothing, and the head reads only what leaks.
    let total = |wrong| [("intervention_drop", 0.6), ("intervention_score", 0.0), ("wrong_intervention_drop", wrong)];
    assert_eq!(advising(&total(0.61), 30), ["interventions break the task", "interventions keep doing harm"]);
    assert_eq!(advising(&total(0.9), 30), [] as [&str; 0]);
}

#[test]
fn what_is_not_yet_learnt_is_no_rise_of_leakage() {
    let mut alerts = Alerts::new(default_rules());
    let fired = |alerts: &Alerts| {
        alerts
            .standings()
            .any(|(rule, at)| rule.name() == "concepts-task leakage rises" && at.state == Standing::Firing)
    };
    for step in 1..=40 {
        let learning = (-0.43 + 0.02 * f64::from(step as u32)).min(0.0);
        alerts.observe(&with(step, &[("ctl_excess", learning), ("ctl_conditional", 0.0)]));
        assert!(!fired(&alerts), "{step}");
    }
    (41..=44).for_each(|step| drop(alerts.observe(&with(step, &[("ctl_excess", 0.12)]))));
    assert!(fired(&alerts));
}

#[test]
fn a_late_leak_to_a_number_is_found_without_interventions() {
    let mut alerts = Alerts::new(default_rules());
    let mut first = None;
    for step in 1..=40 {
        let r2 = if step <= 20 { 0.03 } else { 0.3 };
        alerts.observe(&with(step, &[("ctl_conditional_r2", r2), ("concept_auc", 0.92)]));
        let rule = alerts.reasons_to_stop().next().map(|(rule, _)| rule.name().to_owned());
        first = first.or(rule.map(|rule| (step, rule)));
    }
    let (step, rule) = first.expect("a rise of 0.27 is found");
    assert!(rule == "leakage to a number rises" && (22..27).contains(&step), "{rule} at {step}");
}

#[test]
fn without_interventions_well_learnt_concepts_leak_possibly() {
    let found = ended(&soft(), &[("ctl_conditional", 0.3)]);
    assert_eq!(found.state, VerdictState::PossiblyLeaking);
    assert!(found.reason.ends_with("is not known: interventions were not logged"), "{found}");
    // Interventions that were logged but are undefined give their reason.
    let mut other = with(1, &[("ctl_conditional", 0.05)]);
    other.scores.push(("intervention_drop".into(), Outcome::undefined("they are of another head")));
    let sound = judged(&soft(), other);
    let why = "intervention drop (intervention_drop) is undefined: they are of another head";
    assert_eq!((sound.state, sound.reason.as_str()), (VerdictState::Sound, why));
    let poor = [("ctl_conditional", 0.3), ("concept_accuracy", 0.8), ("concept_auc", 0.84)];
    assert_eq!(ended(&soft(), &poor).state, VerdictState::Leaking);
    // Less knowledge is no stronger evidence.
    let alone = judged(&soft(), point(1, &[("ctl_conditional", 0.3)]));
    assert!(alone.state == VerdictState::PossiblyLeaking && alone.reason.contains("may be well learnt"), "{alone}");
    let unsure = ended(&soft(), &[("ctl_conditional", 0.3), ("concept_accuracy", 0.9), ("concept_auc", 0.9)]);
    assert_eq!(unsure.state, VerdictState::PossiblyLeaking, "{unsure}");
}

#[test]
fn a_rare_class_of_the_task_limits_the_verdict() {
    let rare = |step| {
        let warning =
            "task_labels: class 1 has 2 rows: each of them moves balanced accuracy by 0.25. Evaluate more rows of it";
        Point { warnings: vec![warning.into()], ..with(step, &[("intervention_drop", 0.5)]) }
    };
    let points: Vec<Point> = (1..=4).map(rare).collect();
    let found = verdict(&soft(), &points, true, true, None).unwrap();
    assert_eq!(found.state, VerdictState::CannotTell);
    assert!(found.reason.starts_with("task_labels: class 1 has 2 rows"), "{found}");
}

#[test]
fn a_number_has_a_limit_of_its_own() {
    // Shares of the number's own information, as measured of collapsing and of sound regressions.
    let of = |r2, auc| {
        [("ctl_conditional", 0.05), ("ctl_conditional_r2", r2), ("concept_auc", auc), ("concept_accuracy", auc)]
    };
    let collapsed = of(0.4, 0.6);
    assert_eq!(advising(&collapsed, 8)[0], "activations predict a number instead of their concepts");
    let found = ended(&soft(), &collapsed);
    assert_eq!((found.state, found.deciding.unwrap().score.as_str()), (VerdictState::Leaking, "ctl_conditional_r2"));
    let sound = of(0.04, 0.99);
    assert_eq!(advising(&sound, 8), [] as [&str; 0]);
    assert_eq!(ended(&soft(), &sound).state, VerdictState::Sound);
    // Well-learnt concepts that hold more than they should are a warning, unless interventions do no harm.
    let warns = |scores: &[(&str, f64)]| {
        let mut alerts = Alerts::new(default_rules());
        (1..=5).for_each(|step| drop(alerts.observe(&with(step, scores))));
        alerts
            .standings()
            .any(|(rule, at)| rule.name() == "conditional leakage to a number is high" && at.state == Standing::Firing)
    };
    let holds = of(0.3, 0.99);
    assert!(warns(&holds) && !warns(&sound) && !warns(&[&holds[..], &[("intervention_drop", 0.01)]].concat()));
    // And it names the concepts that interventions find.
    let point = with(1, &[&collapsed[..], &[("intervention_drop", 0.5)]].concat());
    let told = judged(&soft(), with_concepts(point, "ctl_conditional_r2", [0.3, 0.02, 0.5]));
    assert_eq!((told.state, told.concepts), (VerdictState::Leaking, vec!["z".to_owned(), "x".to_owned()]));
    // A number has no accuracy.
    let of_number = |rule, drop| {
        let mut point = with(1, &[&of(0.3, 0.6)[..], &[("task_r2", 0.8), ("intervention_drop", drop)]].concat());
        point.scores.retain(|(id, _)| id != "task_accuracy");
        state(&soft(), &[point], rule).1
    };
    for (rule, drop) in [(REMOVABLE, 0.01), (FAIL, 0.5)] {
        let text = of_number(rule, drop);
        assert!(text.contains("the R² of the task") && !text.contains("accuracy"), "{text}");
    }
}
