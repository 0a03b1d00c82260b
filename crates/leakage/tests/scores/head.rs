//! The number of effective concepts, the accuracy at few of them, and completeness.

use super::*;

/// Three classes told apart by the first three of `k` activations; the others have small random weights.
fn headed(rows: usize, k: usize, seed: u64) -> Columns {
    let mut random = random(seed);
    let (mut activations, mut task) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let class = row % 3;
        let noise = gaussians(k, &mut random);
        activations.extend((0..k).map(|i| 0.3 * noise[i] + if i == class { 2.0 } else { 0.0 }));
        task.push(class as f64);
    }
    let small = gaussians(3 * k, &mut random);
    let weight = |at: usize| if at / k == at % k { 1.0 } else { 0.01 * small[at] };
    let head_weights = (0..3 * k).map(weight).collect();
    Columns::new(rows, k)
        .with(TensorName::ConceptActivations, &[k], activations)
        .with(TensorName::TaskLabels, &[], task)
        .constants(RunConstants { head_weights, ..RunConstants::default() })
}

fn curve(outcome: &Outcome) -> Vec<(f64, f64)> {
    outcome.value().unwrap().curve.iter().flatten().map(|(x, y)| (*x, y.unwrap())).collect()
}

#[test]
fn nec_counts_the_weights_of_a_class() {
    let of = |head_weights: Vec<f64>| {
        let constants = RunConstants { head_weights, ..RunConstants::default() };
        Columns::new(4, 3).with(TensorName::TaskLabels, &[], vec![0.0; 4]).constants(constants).value("nec")
    };
    assert_eq!(of(vec![1.0, 0.0, -2.0, 0.0, 0.5, 0.0]), 1.5);
    assert_eq!(of(vec![0.0; 6]), 0.0);
    assert_eq!(of(vec![1e-5, -1e-5, 2e-5, 1.0, 1.0, 1.0]), 2.0, "a weight of 1e-5 or less counts as 0");
}

#[test]
fn a_head_of_few_large_weights_keeps_its_accuracy_when_cut() {
    let columns = headed(300, 40, 1);
    assert_eq!(columns.value("nec"), 40.0);
    let anec = columns.score("anec");
    assert!(value(&anec) > 0.99, "{anec:?}");
    let levels: Vec<f64> = curve(&anec).iter().map(|(x, _)| *x).collect();
    assert_eq!(levels, [5.0, 10.0, 15.0, 20.0, 25.0, 30.0]);
    assert!((mean(&curve(&anec).iter().map(|(_, y)| *y).collect::<Vec<_>>()) - value(&anec)).abs() < 1e-12);
}

/// The same by hand: the five largest of a class on average, everything else 0.
#[test]
fn the_cut_head_is_the_one_of_the_largest_weights() {
    let mut columns = headed(200, 12, 2);
    let mut random = random(3);
    columns.fields.constants.head_weights = gaussians(36, &mut random);
    columns.fields.constants.head_bias = vec![0.5, -0.25, 0.0];
    let constants = columns.fields.constants.clone();
    let mut sizes: Vec<f64> = constants.head_weights.iter().map(|weight| weight.abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    for (level, accuracy) in curve(&columns.score("anec")) {
        let least = sizes.get(3 * level as usize - 1).copied().unwrap_or(0.0);
        let (activations, labels) =
            (&columns.arrays[&TensorName::ConceptActivations].1, &columns.arrays[&TensorName::TaskLabels].1);
        let right = activations.chunks(12).zip(labels).filter(|(row, label)| {
            let logit = |class: usize| {
                let weights = &constants.head_weights[12 * class..12 * (class + 1)];
                let terms = weights.iter().zip(*row).filter(|(weight, _)| weight.abs() >= least);
                constants.head_bias[class] + terms.map(|(weight, x)| weight * x).sum::<f64>()
            };
            let logits = [0, 1, 2].map(logit);
            logits.iter().all(|other| *other <= logits[**label as usize])
        });
        assert!((right.count() as f64 / 200.0 - accuracy).abs() < 1e-12, "{level}");
    }
}

#[test]
fn a_head_that_does_not_fit_is_named_with_what_it_does_not_fit() {
    let columns = headed(30, 4, 4);
    let labels = columns.clone().changed(TensorName::TaskLabels, |_, _, y| 2.0 * y);
    assert_eq!(labels.why("anec"), "task_labels has class 4, head_weights has 3 classes");
    let categorical = Columns::new(30, 4).cardinalities(&[3, 0, 0, 0]);
    let wide = categorical
        .with(TensorName::ConceptActivations, &[6], vec![0.5; 180])
        .with(TensorName::TaskLabels, &[], vec![0.0; 30])
        .constants(columns.fields.constants.clone());
    assert_eq!(wide.why("anec"), "head_weights has 4 weights a class, but there are 6 activation columns");
}

#[test]
fn a_head_of_latents_weighs_these() {
    let mut columns = headed(90, 8, 5);
    columns.fields.latents = Some(8);
    columns.fields.concepts.truncate(2);
    assert_eq!(columns.value("nec"), 8.0);
    assert!(columns.value("anec") > 0.99);
}

/// A model that is right in 9 of 10 rows, and concepts that determine the task or say nothing.
fn complete(informative: bool, seed: u64) -> Columns {
    let mut random = random(seed);
    let (mut activations, mut labels, mut task, mut predictions) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..1_000 {
        let concepts = [coin(0.5, &mut random), coin(0.5, &mut random)];
        let y = if informative { concepts[0] } else { coin(0.5, &mut random) };
        activations.extend(concepts.map(|c| 4.0 * c - 2.0 + 0.1 * coin(0.5, &mut random)));
        labels.extend(concepts);
        task.push(y);
        predictions.push(if coin(0.9, &mut random) == 1.0 { y } else { 1.0 - y });
    }
    Columns::new(1_000, 2)
        .with(TensorName::ConceptActivations, &[2], activations)
        .with(TensorName::ConceptLabels, &[2], labels)
        .with(TensorName::TaskLabels, &[], task)
        .with(TensorName::TaskPredictions, &[], predictions)
}

#[test]
fn completeness_is_1_for_concepts_as_good_as_the_model_and_0_for_concepts_that_say_nothing() {
    for id in ["concept_completeness", "label_completeness"] {
        // Concepts that determine the task reach 1 where the model has 0.9: (1 - 0.5) / (0.9 - 0.5) = 1.25.
        let whole = complete(true, 1).score(id);
        assert!((value(&whole) - 1.25).abs() < 3.0 * standard_error(&whole), "{id}: {whole:?}");
        let none = complete(false, 2).score(id);
        assert!(value(&none).abs() < 3.0 * standard_error(&none) && value(&none) < 0.4, "{id}: {none:?}");
        let perfect = complete(true, 3);
        let labels = perfect.arrays[&TensorName::TaskLabels].1.clone();
        assert_eq!(perfect.with(TensorName::TaskPredictions, &[], labels).value(id), 1.0, "{id}");
    }
}

#[test]
fn a_model_no_better_than_the_most_frequent_class_has_no_completeness() {
    let columns = complete(true, 4);
    let wrong = columns.arrays[&TensorName::TaskLabels].1.iter().map(|y| 1.0 - y).collect();
    let columns = columns.with(TensorName::TaskPredictions, &[], wrong);
    let why = columns.why("concept_completeness");
    assert!(why.starts_with("the model's accuracy of 0.") && why.contains("is not above that of the most"), "{why}");
}

#[test]
fn scaling_and_shifting_activations_does_not_change_completeness() {
    let columns = complete(true, 5);
    let moved = columns.clone().changed(TensorName::ConceptActivations, |_, _, x| 8.0 * x + 64.0);
    assert!((columns.value("concept_completeness") - moved.value("concept_completeness")).abs() < 0.02);
}
