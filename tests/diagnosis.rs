//! Each rule of the diagnosis on points that must give a finding, and on similar points that must not.

use conceptwatch::diagnosis::{Diagnosis, RULES, State, diagnose};
use conceptwatch::point::{Outcome, Point, ScoreValue};
use conceptwatch::run::{ActivationKind, Concept, Run, RunConstants, RunFields};

const SE: f64 = 0.005;

fn run_of(kind: ActivationKind, constants: RunConstants) -> Run {
    let concepts = ["x", "y", "z"].map(|name| Concept { name: name.into(), cardinality: 2 }).to_vec();
    Run::try_from(RunFields { name: "r".into(), concepts, activation_kind: kind, constants, ..RunFields::default() })
        .unwrap()
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

#[test]
fn insufficient_supervision() {
    let leaks = [("ctl_excess", 0.3), ("concept_accuracy", 0.6)];
    assert_eq!(found(&soft(), &[with(1, &leaks)]), ["insufficient_supervision"]);
    assert_eq!(found(&soft(), &[with(1, &[("icl_excess", 0.1), ("concept_auc", 0.7)])]), ["insufficient_supervision"]);
    assert_eq!(
        found(&soft(), &[with(1, &[("intervention_score", 0.3), ("concept_auc", 0.7)])]),
        ["insufficient_supervision"]
    );
    // The whole interval must be beyond the limit: 0.15 + 1.96 · 0.005, 0.9 − 1.96 · 0.005.
    let near =
        |ctl: f64, accuracy: f64| found(&soft(), &[with(1, &[("ctl_excess", ctl), ("concept_accuracy", accuracy)])]);
    assert_eq!(near(0.161, 0.889), ["insufficient_supervision"]);
    assert!(near(0.158, 0.889).is_empty());
    assert!(near(0.161, 0.891).is_empty());
    // Poorly learnt concepts without leakage do not show it, nor does leakage of well learnt concepts.
    assert!(near(0.02, 0.6).is_empty());
    assert!(near(0.4, 0.97).is_empty());
    let diagnosis = read(&soft(), &[with(7, &leaks)]);
    let line = diagnosis.found().next().unwrap();
    let shown: Vec<String> = line.evidence.iter().map(ToString::to_string).collect();
    let expected = [
        "ctl_excess 0.3000 ± 0.0050, limit 0.15",
        "icl_excess 0.0000 ± 0.0050, limit 0.05",
        "concept_accuracy 0.6000 ± 0.0050, limit 0.9",
        "concept_auc 0.9900 ± 0.0050, limit 0.9",
    ];
    assert_eq!(shown, expected);
    assert_eq!((line.source.as_str(), line.evidence[0].step, diagnosis.step), ("arXiv:2504.14094, Section 7", 7, 7));
    let bare = [point(1, &[("task_accuracy", 0.9)])];
    let (unknown, why) = state(&soft(), &bare, "insufficient_supervision");
    assert_eq!(unknown, State::Unknown);
    assert!(why.contains("needs ctl_excess, which no evaluation has"), "{why}");
}

#[test]
fn over_expressive_encoding() {
    let logit = run_of(ActivationKind::Logit, RunConstants::default());
    let leaks = [with(1, &[("ctl_excess", 0.25)])];
    assert_eq!(found(&logit, &leaks), ["over_expressive_encoding"]);
    assert!(found(&soft(), &leaks).is_empty(), "probabilities are the encoding that the concepts require");
    assert!(found(&logit, &[with(1, &[("ctl_excess", 0.12)])]).is_empty());
    // For poorly learnt concepts, the finding is insufficient supervision.
    let poor = [with(1, &[("ctl_excess", 0.25), ("concept_accuracy", 0.6)])];
    assert_eq!(found(&logit, &poor), ["insufficient_supervision"]);
    // Embeddings.
    let vectors = |ct: f64| found(&soft(), &[with(1, &[("embedding_ct", ct)])]);
    assert_eq!(vectors(0.55), ["over_expressive_encoding"]);
    assert!(vectors(0.505).is_empty());
    // For embeddings the intervention score does not measure leakage.
    let intervened = [with(1, &[("embedding_ct", 0.3), ("intervention_score", 0.3), ("concept_accuracy", 0.6)])];
    assert!(found(&soft(), &intervened).is_empty());
}

#[test]
fn incomplete_concept_set() {
    // Table 3: 0.655 to 0.840 for incomplete sets, at least 0.999 for complete ones.
    let of = |linear: f64, mlp: f64| {
        let heads = [("reference_accuracy_linear", linear), ("reference_accuracy_mlp", mlp)];
        found(&soft(), &[with(1, &heads)])
    };
    for reached in [0.655, 0.749, 0.786, 0.836, 0.840] {
        assert_eq!(of(reached, reached), ["incomplete_concept_set"], "{reached}");
    }
    assert!(of(0.999, 0.999).is_empty());
    assert!(of(0.915, 0.915).is_empty(), "within its error of the limit");
    // The last known value counts: slow scores are not computed at every evaluation.
    let late = [
        with(1, &[("reference_accuracy_linear", 0.8), ("reference_accuracy_mlp", 0.8)]),
        point(2, &[("ctl_excess", 0.0)]),
    ];
    let diagnosis = read(&soft(), &late);
    let line = diagnosis.found().next().unwrap();
    assert_eq!((line.rule.as_str(), line.evidence[0].step, diagnosis.step), ("incomplete_concept_set", 1, 2));
    let (unknown, why) = state(&soft(), &[point(1, &[("ctl_excess", 0.0)])], "incomplete_concept_set");
    assert_eq!((unknown, why.as_str()), (State::Unknown, "needs reference_accuracy_linear, which no evaluation has"));
}

#[test]
fn misspecified_head() {
    // Table 3: 0.687 to 0.859 for misspecified linear heads, where 1.000 is possible.
    let of =
        |linear: f64, mlp: f64| [with(1, &[("reference_accuracy_linear", linear), ("reference_accuracy_mlp", mlp)])];
    for reached in [0.687, 0.807, 0.859] {
        assert_eq!(found(&soft(), &of(reached, 1.0)), ["misspecified_head"], "{reached}");
    }
    assert!(found(&soft(), &of(0.95, 1.0)).is_empty());
    assert!(found(&soft(), &of(0.92, 1.0)).is_empty(), "within its error of the limit");
    assert!(
        state(&soft(), &of(0.8, 1.0), "misspecified_head").1.starts_with("a linear head, if that is what the run has,")
    );
    let linear = run_of(ActivationKind::Probability, RunConstants { head_weights: vec![1.0; 6], ..Default::default() });
    assert!(state(&linear, &of(0.8, 1.0), "misspecified_head").1.starts_with("the run's head, which is linear,"));
    // The accuracy that the run states for its head takes precedence over that of a trained linear head.
    let stated = |accuracy: f64| {
        let constants = RunConstants { reference_task_accuracy: Some(accuracy), ..Default::default() };
        found(&run_of(ActivationKind::Probability, constants), &of(0.8, 1.0))
    };
    assert!(stated(0.99).is_empty());
    assert_eq!(stated(0.85), ["misspecified_head"]);
    // If both heads fail, the concepts are the cause.
    assert_eq!(found(&soft(), &of(0.75, 0.78)), ["incomplete_concept_set"]);
}

#[test]
fn alignment_leakage() {
    let of = |value: f64| found(&soft(), &[with(1, &[("alignment_leakage", value)])]);
    assert_eq!(of(0.011), ["alignment_leakage"]);
    assert!(of(0.009).is_empty(), "not distinguished from 0");
    assert!(of(-0.3).is_empty());
    let mut undefined = with(1, &[]);
    undefined.scores.push(("alignment_leakage".into(), Outcome::undefined("one class only")));
    let (unknown, why) = state(&soft(), &[undefined], "alignment_leakage");
    assert_eq!((unknown, why.as_str()), (State::Unknown, "alignment_leakage is undefined: one class only"));
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
    assert_eq!(found(&soft(), &poor), ["saturation"]);
    poor[2].tie_fraction = 0.2;
    assert_eq!(found(&soft(), &poor), ["insufficient_supervision"]);
    // Ties that rose less, other leakage that rose as well, and no rise.
    assert!(found(&soft(), &[at(1, 0.01, 0.02, 0.05), at(3, 0.09, 0.02, 0.24)]).is_empty());
    assert!(found(&soft(), &[at(1, 0.01, 0.02, 0.05), at(3, 0.09, 0.1, 0.5)]).is_empty());
    assert!(found(&soft(), &[at(1, 0.01, 0.02, 0.05), at(3, 0.02, 0.02, 0.5)]).is_empty());
    // An evaluation with another N cannot be the minimum from which the rise is measured.
    let mut smaller = saturates.to_vec();
    smaller[..2].iter_mut().for_each(|point| point.rows = 1000);
    assert!(found(&soft(), &smaller).is_empty());
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

/// Checks the statements of docs/diagnosis.md about the recorded runs (see `tests/alert_curves.rs`).
#[test]
fn recorded_runs_are_read_by_their_supervision() {
    let mut lines = include_str!("alerts/curves.csv").lines();
    let columns: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut counts = std::collections::BTreeMap::<(&str, &str), [usize; 3]>::new();
    for line in lines {
        let row: std::collections::BTreeMap<&str, &str> = columns.iter().copied().zip(line.split(',')).collect();
        if row["epoch"] != "15" {
            continue;
        }
        let number = |column: &str| row.get(column)?.parse::<f64>().ok();
        let score = |&id: &&str| {
            let value = ScoreValue {
                value: number(id).unwrap(),
                standard_error: number(&format!("{id}_error")),
                ..ScoreValue::default()
            };
            (id.to_owned(), Outcome::Value(value))
        };
        let scores = ["ctl_excess", "icl_excess", "icl_label_excess", "concept_accuracy", "task_accuracy"];
        let mut point = point(15, &[]);
        point.scores = scores.iter().map(score).collect();
        let kind = if row["bottleneck"] == "logit" { ActivationKind::Logit } else { ActivationKind::Probability };
        let rules = found(&run_of(kind, RunConstants::default()), &[point]);
        let count = counts.entry((row["bottleneck"], row["lambda"])).or_default();
        count[0] += 1;
        count[1] += usize::from(rules.iter().any(|rule| rule == "insufficient_supervision"));
        count[2] += usize::from(rules.iter().any(|rule| rule == "over_expressive_encoding"));
    }
    println!("runs, insufficient supervision, over-expressive encoding: {counts:#?}");
    for ((_, lambda), [runs, supervision, _]) in &counts {
        assert_eq!(*runs, 20);
        assert!(*lambda != "0.01" || *supervision >= 19, "{counts:?}");
        assert!(!["1.0", "5.0"].contains(lambda) || *supervision == 0, "{counts:?}");
    }
    let text = include_str!("../docs/diagnosis.md");
    for (bottleneck, name, at) in [
        ("soft", "insufficient supervision", 1),
        ("soft", "over-expressive encoding", 2),
        ("logit", "insufficient supervision", 1),
        ("logit", "over-expressive encoding", 2),
    ] {
        let [a, b, c, d] = ["0.01", "0.1", "1.0", "5.0"].map(|lambda| counts[&(bottleneck, lambda)][at]);
        let line = format!("| {bottleneck}: {name} | {a} | {b} | {c} | {d} |");
        assert!(text.contains(&line), "docs/diagnosis.md needs\n{line}");
    }
}

/// docs/diagnosis.md holds the generated table.
#[test]
fn the_documentation_has_every_rule() {
    let text = include_str!("../docs/diagnosis.md");
    for rule in RULES {
        let line = format!("| `{}` | {} | {} |", rule.id, rule.source, rule.help);
        assert!(text.contains(&line), "docs/diagnosis.md needs\n{line}");
    }
}
