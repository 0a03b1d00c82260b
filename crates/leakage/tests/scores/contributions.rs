//! The parts of a linear head's logits, by hand.

use super::*;

/// Rows of activations and a head of these classes.
fn headed(activations: &[&[f64]], head: &[&[f64]]) -> Columns {
    let k = activations[0].len();
    Columns::new(activations.len(), k)
        .with(TensorName::ConceptActivations, &[k], activations.concat())
        .constants(RunConstants { head_weights: head.concat(), ..RunConstants::default() })
}

#[test]
fn the_largest_contributions_that_make_up_95_percent_are_counted() {
    let ncc =
        |activations: &[&[f64]], head: &[&[f64]]| headed(activations, head).value("number_of_contributing_concepts");
    // Sizes 6, 3, 1 and 0: 9 of 10 is too little.
    assert_eq!(ncc(&[&[2.0, 3.0, 1.0, 5.0]], &[&[-3.0, 1.0, 1.0, 0.0]]), 3.0);
    // Sizes 95 and 5: exactly 95 %.
    assert_eq!(ncc(&[&[95.0, 5.0]], &[&[1.0, -1.0]]), 1.0);
    // The mean over two classes, and over rows; a logit without contributions needs none.
    assert_eq!(ncc(&[&[1.0, 1.0]], &[&[1.0, 1.0], &[1.0, 0.0]]), 1.5);
    assert_eq!(ncc(&[&[1.0, 1.0], &[0.0, 0.0]], &[&[1.0, 1.0], &[1.0, 0.0]]), 0.75);
}

#[test]
fn no_more_concepts_contribute_than_have_a_weight() {
    let mut columns = with_head_and_features(model(200, 5, 0.5, 1));
    columns.fields.constants.head_weights[3] = 0.0;
    let ncc = columns.score("number_of_contributing_concepts");
    assert!(value(&ncc) <= columns.value("nec") && value(&ncc) > 1.0 && standard_error(&ncc) > 0.0);
    let doubled = columns.clone().changed(TensorName::ConceptActivations, |_, _, x| -2.0 * x);
    assert_eq!(value(&ncc), doubled.value("number_of_contributing_concepts"));
}

/// Task logits of a head on concepts times `direct`, and of a side channel with the same variance times `side`.
fn with_side_channel(rows: usize, direct: f64, side: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let activations = gaussians(3 * rows, &mut random);
    let head: Vec<f64> = gaussians(12, &mut random);
    let other = gaussians(4 * rows, &mut random);
    let logit = |row: usize, class: usize| {
        let concepts: f64 = (0..3).map(|i| head[class * 3 + i] * activations[row * 3 + i]).sum();
        direct * concepts + side * other[row * 4 + class] + class as f64
    };
    let logits = (0..4 * rows).map(|at| logit(at / 4, at % 4)).collect();
    let head_weights = head.iter().map(|weight| direct * weight).collect();
    Columns::new(rows, 3)
        .with(TensorName::ConceptActivations, &[3], activations)
        .with(TensorName::TaskLogits, &[4], logits)
        .constants(RunConstants { head_weights, ..RunConstants::default() })
}

#[test]
fn the_side_channel_has_the_share_of_the_variance_that_it_adds() {
    let share = |direct, side| with_side_channel(4_000, direct, side, 2).score("side_channel_share");
    assert!(value(&share(1.0, 0.0)).abs() < 1e-12);
    assert!((value(&share(0.0, 1.0)) - 1.0).abs() < 1e-12);
    // Variances about the mean of four logits: Σ_l |w_l - w̄|² of the concepts, and 3 of the side channel.
    let columns = with_side_channel(4_000, 1.0, 1.5, 2);
    let head = &columns.fields.constants.head_weights;
    let centred = (0..12).map(|at| head[at] - (0..4).map(|class| head[class * 3 + at % 3]).sum::<f64>() / 4.0);
    let (concepts, side) = (centred.map(|w| w * w).sum::<f64>(), 3.0 * 1.5 * 1.5);
    let found = columns.score("side_channel_share");
    assert!((value(&found) - side / (side + concepts)).abs() < 3.0 * standard_error(&found), "{found:?}");
    assert!(standard_error(&found) < 0.02);
}

#[test]
fn what_all_logits_of_a_row_share_changes_nothing() {
    let columns = with_side_channel(200, 1.0, 1.0, 3);
    let moved = columns.clone().changed(TensorName::TaskLogits, |row, _, z| z + row as f64);
    assert!((columns.value("side_channel_share") - moved.value("side_channel_share")).abs() < 1e-9);
    let mut biased = columns.clone();
    biased.fields.constants.head_bias = vec![1.0, -2.0, 0.5, 3.0];
    assert!((columns.value("side_channel_share") - biased.value("side_channel_share")).abs() < 1e-9);
}

#[test]
fn logits_that_fit_no_head_have_a_reason() {
    let columns = with_side_channel(50, 1.0, 1.0, 4);
    let mut constant = columns.clone().changed(TensorName::TaskLogits, |_, class, _| class as f64 / 3.0);
    // The side channel takes back what the concepts say.
    assert!((constant.value("side_channel_share") - 0.5).abs() < 1e-12);
    constant.fields.constants.head_weights = vec![0.0; 12];
    let why = "task_logits and the head's part of them are the same in all rows";
    assert_eq!(constant.why("side_channel_share"), why);
    let wide = columns.clone().with(TensorName::TaskLogits, &[5], vec![0.5; 250]);
    assert_eq!(wide.why("side_channel_share"), "task_logits has 5 columns, head_weights 4 classes");
    let mut one = columns.clone().with(TensorName::TaskLogits, &[1], vec![0.5; 50]);
    one.fields.constants.head_weights.truncate(3);
    let why = "task_logits are all from 0 to 1: probabilities are no sums of contributions";
    assert_eq!(one.why("side_channel_share"), why);
}

#[test]
fn what_is_lost_without_concepts_is_the_difference_of_balanced_accuracies() {
    // The model finds all 3 rows of class 0 and 1 of class 1, and without concepts the frequent class.
    let columns = Columns::new(4, 1)
        .with(TensorName::TaskLabels, &[], vec![0.0, 0.0, 0.0, 1.0])
        .with(TensorName::TaskPredictions, &[], vec![0.0, 0.0, 0.0, 1.0])
        .with(TensorName::AblatedTaskPredictions, &[], vec![0.0; 4]);
    assert_eq!(columns.value("concept_ablation_drop"), 0.5);
    let same = columns.with(TensorName::AblatedTaskPredictions, &[], vec![0.0, 0.0, 0.0, 1.0]);
    assert_eq!(same.value("concept_ablation_drop"), 0.0);
    let numbers = Columns::new(4, 1)
        .continuous_labels(false, true)
        .with(TensorName::TaskLabels, &[], vec![1.0, 2.0, 3.0, 4.0])
        .with(TensorName::TaskPredictions, &[], vec![1.0, 2.0, 3.0, 4.0])
        .with(TensorName::AblatedTaskPredictions, &[], vec![2.5; 4]);
    assert!((numbers.value("concept_ablation_drop") - 1.0).abs() < 1e-12);
}
