//! Clarity: hand-computed rows, every definition of active concepts, and degenerate activity.

use super::*;

/// Four rows of three concepts.
fn columns() -> Columns {
    Columns::new(4, 3)
        .kind(ActivationKind::Probability)
        .with(
            TensorName::ConceptActivations,
            &[3],
            vec![0.9, 0.6, 0.1, 0.8, 0.2, 0.3, 0.05, 0.15, 0.25, 0.95, 0.85, 0.75],
        )
        .with(TensorName::ConceptLabels, &[3], vec![1., 0., 0., 1., 1., 0., 0., 0., 1., 1., 1., 0.])
        .with(TensorName::TaskLabels, &[], vec![0.0, 1.0, 0.0, 1.0])
        .with(TensorName::TaskPredictions, &[], vec![0.0, 1.0, 1.0, 1.0])
}

fn state(change: impl FnOnce(&mut RunConstants)) -> Columns {
    let mut constants = RunConstants::default();
    change(&mut constants);
    columns().constants(constants)
}

fn harmonic(parts: &[f64]) -> f64 {
    parts.len() as f64 / parts.iter().map(|x| 1.0 / x).sum::<f64>()
}

fn close(got: f64, expected: f64) {
    assert!((got - expected).abs() < 1e-12, "{got}, expected {expected}");
}

#[test]
fn activations_above_the_decision_threshold_are_active() {
    // Active: 2, 1, 0 and 3 of 3; right: 1 of 2, 1 of 1, none, 2 of 3.
    let columns = columns();
    close(columns.value("sparsity"), 0.5);
    close(columns.value("precision"), (0.5 + 1.0 + 2.0 / 3.0) / 3.0);
    close(columns.value("rows_without_active"), 0.25);
    close(columns.value("binary_accuracy"), (2.0 + 2.0 + 2.0 + 2.0) / 12.0);
    let precision = (0.5 + 1.0 + 2.0 / 3.0) / 3.0;
    close(columns.value("clarity"), harmonic(&[0.5, precision, 0.75]));
    close(columns.value("clarity_dense"), harmonic(&[precision, 0.75]));
    assert_eq!(columns.score("sparsity").per_concept().unwrap(), [Some(0.25), Some(0.5), Some(0.75)]);
    // The same activations as logits are active where they are above 0.
    let logits = columns.changed(TensorName::ConceptActivations, |_, _, p| (p / (1.0 - p)).ln());
    close(logits.kind(ActivationKind::Logit).value("clarity"), harmonic(&[0.5, precision, 0.75]));
}

#[test]
fn active_concepts_sent_by_the_job_take_precedence() {
    let chosen = vec![1., 0., 0., 0., 1., 0., 0., 0., 1., 0., 0., 1.];
    let columns = state(|constants| constants.active_top_k = Some(2)).with(TensorName::ActiveConcepts, &[3], chosen);
    close(columns.value("sparsity"), 2.0 / 3.0);
    close(columns.value("precision"), 0.75);
    // The sweep still uses activations.
    assert!(columns.value("clarity_best") > 0.0);
    // The same holds without activations.
    let alone = columns.without(TensorName::ConceptActivations);
    close(alone.value("clarity"), harmonic(&[2.0 / 3.0, 0.75, 0.75]));
    assert_eq!(alone.why("clarity_best"), "needs concept_activations, which was not given");
}

#[test]
fn the_largest_k_are_active() {
    let columns = state(|constants| constants.active_top_k = Some(1));
    close(columns.value("sparsity"), 2.0 / 3.0);
    // Largest: concept 0, 0, 2, 0: all present.
    close(columns.value("precision"), 1.0);
    let tied = columns.changed(TensorName::ConceptActivations, |_, _, _| 0.5);
    close(tied.value("sparsity"), 2.0 / 3.0);
    assert_eq!(tied.score("sparsity").per_concept().unwrap(), [Some(0.0), Some(1.0), Some(1.0)]);
}

#[test]
fn contributions_to_the_predicted_class_are_compared_where_the_head_is_known() {
    // Class 0 looks at concept 0 only, class 1 at concepts 1 and 2, with either sign.
    let head = vec![1.0, 0.0, 0.0, 0.0, -2.0, 1.0];
    let stated = state(|constants| {
        constants.head_weights = head.clone();
        constants.activity_threshold = Some(0.35);
    });
    // Contributions: .9 0 0; 0 .4 .3; 0 .3 .25; 0 1.7 .75. Predicted classes 0 1 1 1.
    let flags = [[true, false, false], [false, true, false], [false, false, false], [false, true, true]];
    let share = |i: usize| flags.iter().filter(|row| !row[i]).count() as f64 / 4.0;
    assert_eq!(
        stated.score("sparsity").per_concept().unwrap(),
        [Some(share(0)), Some(share(1)), Some(share(2))],
        "{:?}",
        stated.score("sparsity")
    );
    close(stated.value("precision"), (1.0 + 1.0 + 0.5) / 3.0);
    // Without a stated threshold, the one of highest Clarity applies.
    let unstated = state(|constants| constants.head_weights = head);
    close(unstated.value("clarity"), unstated.value("clarity_best"));
    let threshold = unstated.value("clarity_best_threshold");
    let restated = stated.constants(RunConstants {
        activity_threshold: Some(threshold),
        head_weights: vec![1.0, 0.0, 0.0, 0.0, -2.0, 1.0],
        ..RunConstants::default()
    });
    close(restated.value("precision"), unstated.value("precision"));
    // A class the head does not have, and no predictions at all.
    let wrong = unstated.clone().changed(TensorName::TaskPredictions, |_, _, _| 2.0);
    assert_eq!(wrong.why("sparsity"), "class 2 is predicted, head_weights has 2");
    let none = unstated.without(TensorName::TaskPredictions);
    assert_eq!(none.why("sparsity"), "contributions to the predicted class: there are no task predictions");
}

#[test]
fn the_sweep_finds_the_threshold_of_highest_clarity() {
    let columns = model(300, 4, 0.5, 61);
    let Outcome::Value(best) = columns.score("clarity_best") else { panic!("it is defined") };
    let curve = best.curve.expect("it has a curve");
    assert_eq!(curve.len(), 17);
    let at = |threshold: f64| {
        let constants = RunConstants { activity_threshold: Some(threshold), ..RunConstants::default() };
        columns.clone().constants(constants).value("clarity")
    };
    for (threshold, value) in &curve {
        close(value.unwrap(), at(*threshold));
    }
    let highest = curve.iter().map(|(_, value)| value.unwrap()).fold(0.0, f64::max);
    assert_eq!(best.value, highest);
    let found = curve.iter().find(|(_, value)| *value == Some(highest)).unwrap().0;
    assert_eq!(columns.value("clarity_best_threshold"), found);
}

#[test]
fn clarity_is_weighted() {
    let [sparsity, precision, accuracy] = ["sparsity", "precision", "task_accuracy"].map(|id| columns().value(id));
    let weighted = state(|constants| constants.clarity_weights = vec![0.1, 0.4, 1.0]);
    close(weighted.value("clarity"), 1.5 / (0.1 / sparsity + 0.4 / precision + 1.0 / accuracy));
    close(weighted.value("clarity_dense"), 1.4 / (0.4 / precision + 1.0 / accuracy));
    let only = state(|constants| constants.clarity_weights = vec![1.0, 0.0, 0.0]);
    close(only.value("clarity"), sparsity);
    assert_eq!(only.why("clarity_dense"), "clarity_weights leaves no part");
}

#[test]
fn a_part_of_0_makes_clarity_0() {
    let wrong = columns()
        .changed(TensorName::TaskPredictions, |_, _, y| 1.0 - y)
        .changed(TensorName::TaskLabels, |row, _, y| if row == 2 { 1.0 } else { y });
    assert_eq!(wrong.value("task_accuracy"), 0.0);
    for id in ["clarity", "clarity_dense"] {
        assert_eq!(wrong.value(id), 0.0, "{id}");
        assert!(standard_error(&wrong.score(id)).is_finite());
    }
}

#[test]
fn no_active_concept_has_no_precision() {
    let none = columns().changed(TensorName::ConceptActivations, |_, _, _| 1e-9);
    assert_eq!(none.value("sparsity"), 1.0);
    assert_eq!(none.value("rows_without_active"), 1.0);
    for id in ["precision", "clarity", "clarity_dense", "clarity_best", "clarity_best_threshold"] {
        assert_eq!(none.why(id), "no row has an active concept", "{id}");
    }
    let categorical = model(40, 2, 0.5, 62);
    let only = categorical.cardinalities(&[3, 3]).with(TensorName::ConceptActivations, &[6], vec![0.5; 240]);
    assert_eq!(only.why("sparsity"), "concept 'c0': it has 3 classes, expected two");
    let continuous = columns().kind(ActivationKind::Continuous);
    assert_eq!(continuous.why("sparsity"), "concept 'c0': its activation is continuous, neither on nor off");
}

#[test]
fn average_precision_by_hand() {
    let columns = Columns::new(5, 1).with(TensorName::ConceptActivations, &[1], vec![3.0, 2.0, 2.0, 1.0, 0.0]).with(
        TensorName::ConceptLabels,
        &[1],
        vec![1.0, 0.0, 1.0, 0.0, 1.0],
    );
    // Precision 1/1 at the first, 2/3 at the tie, 3/5 at the last.
    close(columns.value("concept_average_precision"), (1.0 + 2.0 / 3.0 + 0.6) / 3.0);
    let absent = columns.changed(TensorName::ConceptLabels, |_, _, _| 0.0);
    assert_eq!(absent.why("concept_average_precision"), "concept 'c0': it is present in no row");
}
