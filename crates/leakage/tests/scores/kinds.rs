//! Hard, categorical and continuous concepts, and regression tasks.

use leakage::score::catalogue::find;
use leakage::score::{OTHER_ORDER, OTHER_TASK_ORDER, Wanted};

use super::*;

/// Softmax-like activations of one concept with three classes and one with two, and a task that follows the first.
fn categorical(rows: usize, seed: u64) -> Columns {
    let mut random = random(seed);
    let (mut activations, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let first = row % 3;
        let second = coin(0.5, &mut random);
        let noise = gaussians(4, &mut random);
        activations.extend((0..3).map(|class| 1.5 * f64::from(u8::from(class == first)) + noise[class]));
        activations.push(2.0 * second - 1.0 + noise[3]);
        labels.extend([first as f64, second]);
        task.push(f64::from(u8::from(first == 2)));
    }
    Columns::new(rows, 2)
        .cardinalities(&[3, 2])
        .with(TensorName::ConceptActivations, &[4], activations)
        .with(TensorName::ConceptLabels, &[2], labels)
        .with(TensorName::TaskLabels, &[], task)
}

#[test]
fn categorical_concepts_are_vectors() {
    let columns = categorical(240, 41);
    let outcomes = columns.available(TIE_AWARE);
    // The gaps of disentanglement are between two concepts of one number.
    let defined = |id: &str| !["mig", "sap"].contains(&id);
    assert!(outcomes.iter().filter(|(id, _)| defined(id)).all(|(_, outcome)| outcome.value().is_some()));
    // A history stores k rows of k.
    let is_square = |matrix: &[Vec<Option<f64>>]| matrix.len() == 2 && matrix.iter().all(|row| row.len() == 2);
    for (id, outcome) in &outcomes {
        assert!(outcome.matrix().is_none_or(is_square), "{id}");
    }
    // The labels determine the task, so activations can only lose information about it.
    assert!(outcomes["ctl_excess"].per_concept().unwrap()[0].unwrap() < -0.2);
    // The order of a concept's classes carries no information.
    let turned = columns.clone().changed(TensorName::ConceptLabels, |_, i, c| if i == 0 { (c + 1.0) % 3.0 } else { c });
    for (id, outcome) in turned.scores(&["ctl", "ctl_excess", "icl", "icl_label_excess"], TIE_AWARE) {
        assert_eq!(outcome, outcomes[&id], "{id}");
    }
}

#[test]
fn hard_categorical_concepts_are_the_class_of_the_largest_column() {
    let columns = categorical(240, 42);
    let labels = columns.arrays[&TensorName::ConceptLabels].1.clone();
    let one_hot = labels.chunks(2).flat_map(|row| {
        let class = |at: usize| f64::from(u8::from(row[0] == at as f64));
        [class(0), class(1), class(2), row[1]]
    });
    let perfect = columns.kind(ActivationKind::Hard).with(TensorName::ConceptActivations, &[4], one_hot.collect());
    for id in ["ctl", "icl", "icl_label"] {
        assert_eq!(perfect.value(id), 0.0, "{id}");
    }
    assert_eq!(perfect.value("concept_accuracy"), 1.0);
    assert_eq!(perfect.value("concept_f1"), 1.0);
}

#[test]
fn hard_monte_carlo_samples_vote() {
    let labels = vec![0.0, 1.0, 0.0, 1.0, 1.0, 0.0];
    // Three samples per row, two of them right.
    let samples = labels.iter().flat_map(|&c| [c, 1.0 - c, c]).collect();
    let columns = Columns::new(6, 1)
        .kind(ActivationKind::Hard)
        .with(TensorName::ConceptActivations, &[1, 3], samples)
        .with(TensorName::ConceptLabels, &[1], labels.clone())
        .with(TensorName::TaskLabels, &[], labels);
    assert_eq!(columns.value("concept_accuracy"), 1.0);
    assert_eq!(columns.value("ctl_excess"), 0.0);
}

#[test]
fn the_activation_kind_and_not_the_values_decides_the_threshold() {
    let labels = vec![0.0, 0.0, 1.0, 1.0];
    let columns = Columns::new(4, 1).with(TensorName::ConceptActivations, &[1], vec![-0.2, 0.3, 0.4, 0.9]).with(
        TensorName::ConceptLabels,
        &[1],
        labels,
    );
    assert_eq!(columns.value("concept_accuracy"), 0.75);
    assert_eq!(columns.clone().kind(ActivationKind::Probability).value("concept_accuracy"), 0.75);
    assert_eq!(columns.clone().kind(ActivationKind::Probability).value("concept_f1"), 2.0 / 3.0);
    assert_eq!(columns.value("concept_f1"), 0.8);
    assert_eq!(columns.value("concept_auc"), 1.0);
    let continuous = columns.clone().kind(ActivationKind::Continuous);
    for id in ["concept_accuracy", "concept_f1"] {
        assert_eq!(continuous.why(id), "the concepts are continuous, they predict no class", "{id}");
    }
    for id in ["concept_auc", "concept_average_precision"] {
        assert_eq!(continuous.value(id), columns.value(id), "{id}: the order decides");
    }
    let measured = continuous.clone().continuous_labels(true, false);
    assert_eq!(measured.value("concept_auc"), 1.0, "labels have an order, too");
    let id = "concept_average_precision";
    assert_eq!(measured.why(id), "the concepts are continuous, they predict no class");
    assert!(measured.value("concept_r2") < 1.0);
}

/// Two Gaussian concepts regressed with some noise, and a task that is their sum; `leak` of it enters both.
fn regression(rows: usize, leak: f64, seed: u64) -> Columns {
    let noise = gaussians(5 * rows, &mut random(seed));
    let row = |row: usize| &noise[5 * row..5 * row + 5];
    let task: Vec<f64> = (0..rows).map(|at| row(at)[0] + row(at)[1] + row(at)[2]).collect();
    let learnt = |at: usize, i: usize| row(at)[i] + 0.5 * row(at)[3 + i] + leak * task[at];
    Columns::new(rows, 2)
        .kind(ActivationKind::Continuous)
        .continuous_labels(true, true)
        .with(TensorName::ConceptLabels, &[2], (0..rows).flat_map(|at| [row(at)[0], row(at)[1]]).collect())
        .with(TensorName::ConceptActivations, &[2], (0..rows).flat_map(|at| [learnt(at, 0), learnt(at, 1)]).collect())
        .with(TensorName::TaskLabels, &[], task)
}

#[test]
fn leakage_of_continuous_concepts_and_regression_tasks_rises_with_their_task_information() {
    for id in ["ctl_excess", "icl_excess", "icl_label_excess"] {
        let values: Vec<f64> = [0.0, 0.5, 2.0].iter().map(|&leak| regression(500, leak, 43).value(id)).collect();
        assert!(values[0] < 0.01 && values.is_sorted() && values[2] > values[0] + 0.03, "{id}: {values:?}");
    }
    // A perfect regression leaks nothing: the same columns, the same estimates.
    let columns = regression(300, 0.0, 44);
    let labels = columns.arrays[&TensorName::ConceptLabels].1.clone();
    let perfect = columns.with(TensorName::ConceptActivations, &[2], labels);
    for id in ["ctl", "ctl_excess", "icl", "icl_excess", "icl_label_excess"] {
        assert!(perfect.value(id).abs() < 1e-15, "{id}: {}", perfect.value(id));
    }
    assert_eq!(
        perfect.why("alignment_leakage"),
        "needs positive_embeddings and negative_embeddings, which were not given"
    );
}

#[test]
fn a_regression_task_is_divided_by_its_self_information() {
    // CTL of a classless task: I(ĉ,y) by KSG over ψ(N) − ψ(k) − 1/k, which N alone decides.
    let (half, whole) = (regression(300, 2.0, 45), regression(1200, 2.0, 45));
    let (small, large) = (half.value("ctl_excess"), whole.value("ctl_excess"));
    assert!(small > large, "the normaliser grows with N: {small} {large}");
    assert_eq!(half.why("task_accuracy"), "needs task_predictions or task_logits, which was not given");
}

/// Six binary concepts that logits predict in nearly every row, and a task that one logit beside them holds, too.
fn well_learnt(rows: usize) -> Columns {
    let mut random = random(51);
    let (mut activations, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let concepts: Vec<f64> = (0..6).map(|_| coin(0.5, &mut random)).collect();
        let noise = gaussians(6, &mut random);
        activations.extend(concepts.iter().zip(noise).map(|(c, noise)| 4.0 * c - 2.0 + noise));
        task.push(coin(0.5, &mut random));
        labels.extend(concepts);
    }
    Columns::new(rows, 6)
        .with(TensorName::ConceptActivations, &[6], activations)
        .with(TensorName::ConceptLabels, &[6], labels)
        .with(TensorName::TaskLabels, &[], task)
}

fn of_other_order(columns: &Columns) -> Option<String> {
    let remarks = columns.warnings(Wanted::Named(&[find("concept_auc").unwrap()]));
    remarks.into_iter().find(|remark| remark.starts_with(OTHER_ORDER))
}

#[test]
fn a_shift_of_all_logits_of_a_row_changes_no_score_of_their_order() {
    let plain = categorical(240, 41).kind(ActivationKind::Logit);
    let shifts = gaussians(240, &mut random(53));
    let by = |row: usize, at: usize| if at < 3 { 50.0 * shifts[row] } else { 0.0 };
    let shifted = plain.clone().changed(TensorName::ConceptActivations, |row, at, x| x + by(row, at));
    for id in ["concept_auc", "concept_average_precision"] {
        let [plain, shifted] = [&plain, &shifted].map(|columns| columns.value(id));
        assert!((plain - shifted).abs() < 1e-9 && plain > 0.7, "{id}: {plain} {shifted}");
    }
}

#[test]
fn a_threshold_is_at_fault_where_another_one_predicts_the_concepts() {
    let remark = |columns: &Columns| {
        let remarks = columns.warnings(Wanted::Named(&[find("concept_accuracy").unwrap()]));
        remarks.into_iter().find(|remark| remark.contains("but the threshold 0 predicts"))
    };
    let columns = well_learnt(400).kind(ActivationKind::Logit);
    assert_eq!(remark(&columns), None);
    let moved = columns.changed(TensorName::ConceptActivations, |_, _, x| x + 10.0);
    assert!(remark(&moved).unwrap().contains("predicts 50 % of the labels, and thresholds chosen for each concept 9"));
    // A threshold above all activations predicts most labels of a rare concept, and half of those of an unlearnt one.
    let noise = gaussians(6 * 400, &mut random(52)).into_iter().map(|x| x + 10.0).collect();
    let unlearnt = moved.with(TensorName::ConceptActivations, &[6], noise);
    assert_eq!(remark(&unlearnt), None);
    let rare = unlearnt.changed(TensorName::ConceptLabels, |row, _, _| f64::from(u8::from(row % 12 == 0)));
    assert_eq!(remark(&rare), None);
}

#[test]
fn activations_that_are_low_where_their_concept_is_present_are_named() {
    let columns = well_learnt(400);
    assert_eq!(of_other_order(&columns), None);
    let one = columns.clone().changed(TensorName::ConceptActivations, |_, i, x| if i == 2 { -x } else { x });
    assert!(of_other_order(&one).unwrap().contains(": the classes of c2. "));
    let all = columns.clone().changed(TensorName::ConceptActivations, |_, _, x| -x);
    assert!(of_other_order(&all).unwrap().contains(": the classes of c0, c1, c2, c3, c4, c5. "));
    // Few rows say little.
    assert_eq!(of_other_order(&one.reordered(&(0..30).collect::<Vec<_>>())), None);
}

#[test]
fn an_activation_that_falls_with_its_concept_because_it_stands_for_the_task_is_leakage() {
    let columns = well_learnt(400);
    let labels = columns.arrays[&TensorName::ConceptLabels].1.clone();
    // c0 is the task in nine of ten rows, and its activation the task's absence.
    let task: Vec<f64> =
        labels.chunks(6).enumerate().map(|(row, c)| if row % 10 == 0 { 1.0 - c[0] } else { c[0] }).collect();
    let of_task = task.clone();
    let columns =
        columns.with(TensorName::TaskLabels, &[], task).changed(TensorName::ConceptActivations, move |row, i, x| {
            if i == 0 { 3.0 - 6.0 * of_task[row] + 0.01 * x } else { x }
        });
    assert!(columns.value("concept_auc") < 0.9);
    assert_eq!(of_other_order(&columns), None);
}

#[test]
fn columns_of_a_categorical_concept_in_another_order_than_its_classes_are_named() {
    let columns = categorical(240, 41);
    let sharper = columns.clone().changed(TensorName::ConceptActivations, |row, i, x| {
        if i < 3 { x / 4.0 + f64::from(u8::from(i == row % 3)) } else { x }
    });
    assert_eq!(of_other_order(&columns), None);
    assert_eq!(of_other_order(&sharper), None);
    let turned = sharper.changed(TensorName::ConceptLabels, |_, i, c| if i == 0 { (c + 1.0) % 3.0 } else { c });
    assert!(of_other_order(&turned).unwrap().contains(": the classes of c0. "));
}

#[test]
fn a_task_whose_classes_are_numbered_from_one_is_named() {
    let of = |classes: usize, predicted: &dyn Fn(usize, f64) -> f64| {
        let labels: Vec<f64> = (0..60 * classes).map(|row| (row % classes) as f64).collect();
        let predictions = labels.iter().enumerate().map(|(row, label)| predicted(row, *label)).collect();
        let columns = well_learnt(60 * classes).with(TensorName::TaskLabels, &[], labels).with(
            TensorName::TaskPredictions,
            &[],
            predictions,
        );
        let remarks = columns.warnings(Wanted::Named(&[find("task_balanced_accuracy").unwrap()]));
        remarks.into_iter().any(|remark| remark.starts_with(OTHER_TASK_ORDER))
    };
    let classes = 10;
    assert!(of(classes, &|row, label| if row % 10 < 7 { label + 1.0 } else { (row / 7 % 10) as f64 }));
    assert!(of(2, &|row, label| if row % 10 < 9 { 1.0 - label } else { label }));
    // Predictions that are right, of one class, by chance, or of fewer classes.
    assert!(!of(classes, &|_, label| label));
    assert!(!of(classes, &|_, _| 3.0) && !of(2, &|_, _| 1.0));
    assert!(!of(classes, &|row, _| (row / 7 % 10) as f64));
    assert!(!of(classes, &|_, label| (label / 4.0).floor()));
    assert!(!of(2, &|row, label| if row % 10 < 7 { 1.0 - label } else { label }), "worse than chance");
}
