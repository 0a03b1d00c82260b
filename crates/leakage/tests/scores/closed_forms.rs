//! Models whose leakage is known.

use super::*;

const LN_2: f64 = std::f64::consts::LN_2;

/// `copies` copies of all combinations of three bits: independent, balanced concepts; the task is the first.
fn every_combination(copies: usize) -> Columns {
    let rows = 8 * copies;
    let bit = |row: usize, i: usize| (row >> i & 1) as f64;
    let labels: Vec<f64> = (0..rows).flat_map(|row| (0..3).map(move |i| bit(row, i))).collect();
    Columns::new(rows, 3)
        .kind(ActivationKind::Hard)
        .with(TensorName::ConceptActivations, &[3], labels.clone())
        .with(TensorName::ConceptLabels, &[3], labels)
        .with(TensorName::TaskLabels, &[], (0..rows).map(|row| bit(row, 0)).collect())
}

#[test]
fn perfect_hard_concepts_leak_nothing_at_all() {
    let labels = model(300, 3, 0.0, 1).arrays[&TensorName::ConceptLabels].1.clone();
    let perfect = model(300, 3, 0.0, 1).kind(ActivationKind::Hard).with(TensorName::ConceptActivations, &[3], labels);
    for settings in [TIE_AWARE, PUBLISHED] {
        for (id, outcome) in perfect.scores(&LEAKAGE_IDS, settings) {
            assert_eq!(value(&outcome), 0.0, "{id}");
            assert_eq!(standard_error(&outcome), 0.0, "{id}");
            assert!(outcome.per_concept().unwrap().iter().all(|value| *value == Some(0.0)), "{id}");
        }
    }
    for id in ["concept_accuracy", "concept_f1", "concept_auc"] {
        assert_eq!(perfect.value(id), 1.0, "{id}");
    }
}

#[test]
fn a_hard_concept_that_copies_the_task_leaks_all_of_it() {
    // Concept 1 is independent of the task and copies it; concept 2 stays true; concept 0 is the task.
    let copied = every_combination(25).changed(TensorName::ConceptActivations, |row, i, activation| match i {
        1 => (row & 1) as f64,
        _ => activation,
    });
    let ctl = copied.score("ctl");
    let expected = [0.0, 1.0, 0.0];
    for (got, expected) in ctl.per_concept().unwrap().iter().zip(expected) {
        assert!((got.unwrap() - expected).abs() < 1e-12, "{got:?}, expected {expected}");
    }
    assert!((value(&ctl) - 1.0 / 3.0).abs() < 1e-12);
    // ĉ_0 and ĉ_1 are equal, their labels independent: one pair of three in ICL, and I(ĉ_1, c_0) alone in icl_label.
    assert!((copied.value("icl") - 1.0 / 3.0).abs() < 1e-12);
    assert!((copied.value("icl_label") - 1.0 / 6.0).abs() < 1e-12);
}

#[test]
fn a_concept_that_forgets_has_negative_excess_and_no_leakage() {
    // Concept 0 is the task; its activations are those of concept 1 and carry no information about it.
    let forgot = every_combination(25).changed(TensorName::ConceptActivations, |row, i, activation| match i {
        0 => (row >> 1 & 1) as f64,
        _ => activation,
    });
    assert_eq!(forgot.score("ctl").per_concept().unwrap()[0], Some(0.0));
    assert!((forgot.score("ctl_excess").per_concept().unwrap()[0].unwrap() + 1.0).abs() < 1e-12);
}

#[test]
fn logits_that_hold_the_task_leak_its_entropy() {
    // The sign encodes the concept, the size the task, with gaps wider than neighbour distances. I(ĉ, y) = H(y), I(c,
    // y) = 0.
    let mut random = random(3);
    let rows = 800;
    let labels: Vec<f64> = (0..rows).map(|row| (row & 1) as f64).collect();
    let task: Vec<f64> = (0..rows).map(|row| (row >> 1 & 1) as f64).collect();
    let noise = gaussians(rows, &mut random);
    let activations =
        (0..rows).map(|row| (2.0 * labels[row] - 1.0) * (10.0 + 100.0 * task[row]) + noise[row].clamp(-4.0, 4.0));
    let columns = Columns::new(rows, 1)
        .with(TensorName::ConceptActivations, &[1], activations.collect())
        .with(TensorName::ConceptLabels, &[1], labels)
        .with(TensorName::TaskLabels, &[], task);
    assert!((columns.value("ctl") - 1.0).abs() < 0.02, "{}", columns.value("ctl"));
    // With two classes predicted without error the estimate is ψ(N) − ψ(N/2), a little above ln 2.
    assert!((columns.value("ctl") - (LN_2 + 0.5 / rows as f64) / LN_2).abs() < 1e-2);
}

#[test]
fn noise_has_no_excess_but_a_clipped_score_above_0() {
    let sets: Vec<_> = (0..60)
        .map(|seed| {
            let noise = gaussians(2 * 300, &mut random(1000 + seed));
            let labels: Vec<f64> = (0..600).map(|at| coin(0.5, &mut random(seed * 1000 + at))).collect();
            let task: Vec<f64> = (0..300).map(|row| coin(0.5, &mut random(1 << 32 | seed << 16 | row))).collect();
            Columns::new(300, 2)
                .with(TensorName::ConceptActivations, &[2], noise)
                .with(TensorName::ConceptLabels, &[2], labels)
                .with(TensorName::TaskLabels, &[], task)
                .scores(&LEAKAGE_IDS, TIE_AWARE)
        })
        .collect();
    for (published, excess) in LEAKAGE {
        let of = |id: &str| sets.iter().map(|set| value(&set[id])).collect::<Vec<f64>>();
        let (clipped, excess) = (of(published), of(excess));
        let error = standard_deviation(&excess) / (excess.len() as f64).sqrt();
        // The labels' own plug-in information, 1/2N over ln 2, is subtracted.
        assert!(mean(&excess).abs() < 3.0 * error + 0.003, "{published}: excess {} ± {error}", mean(&excess));
        assert!(mean(&clipped) > mean(&excess) + 3.0 * error, "{published}: clipped {}", mean(&clipped));
    }
}

#[test]
fn the_intervention_score_is_what_the_head_loses() {
    let columns = every_combination(10)
        .with(TensorName::IntervenedTaskPredictions, &[], (0..80).map(|row| f64::from(u8::from(row < 20))).collect())
        .constants(RunConstants { reference_task_accuracy: Some(0.9), ..RunConstants::default() });
    assert_eq!(columns.value("intervened_task_accuracy"), 0.5);
    assert!((columns.value("intervention_score") - 0.4).abs() < 1e-15);
    assert!((standard_error(&columns.score("intervention_score")) - (0.25_f64 / 80.0).sqrt()).abs() < 1e-15);
}

#[test]
fn without_a_stated_reference_heads_learn_it_from_the_true_concepts() {
    // y = c0 xor c1: no linear head can predict it, an MLP can.
    let exclusive = |row: usize| ((row & 1) ^ (row >> 1 & 1)) as f64;
    let columns = every_combination(100).with(TensorName::TaskLabels, &[], (0..800).map(exclusive).collect()).with(
        TensorName::IntervenedTaskPredictions,
        &[],
        (0..800).map(|row| if row < 200 { exclusive(row) } else { 1.0 - exclusive(row) }).collect(),
    );
    let linear = columns.value("reference_accuracy_linear");
    assert!((0.3..0.8).contains(&linear), "{linear}");
    assert_eq!(columns.value("reference_accuracy_mlp"), 1.0);
    assert!((columns.value("intervention_score") - 0.75).abs() < 1e-12);
    // To a run with a linear head neither reference says what interventions cost. The concepts determine the task all the
    // same.
    let known = columns.clone().with(TensorName::TaskPredictions, &[], (0..800).map(exclusive).collect());
    let constants = RunConstants { head_weights: vec![1.0; 6], ..RunConstants::default() };
    let headed = known.constants(constants);
    let why = headed.why("intervention_score");
    assert!(why.starts_with("reference_task_accuracy is not stated, and on the true concepts a linear head"), "{why}");
    assert_eq!(headed.value("task_excess"), 0.0);
    let one = columns.changed(TensorName::TaskLabels, |_, _, _| 1.0);
    assert_eq!(
        one.why("intervention_score"),
        "reference_task_accuracy is not stated, and task_labels: there is one class only"
    );
}

#[test]
fn the_task_excess_is_what_true_concepts_do_not_determine() {
    // y = c0 in three rows of four; the model knows y.
    let noisy = |row: usize| f64::from(u8::from((row & 1 == 1) != (row / 8).is_multiple_of(4)));
    let labels: Vec<f64> = (0..800).map(noisy).collect();
    let columns = every_combination(100).with(TensorName::TaskLabels, &[], labels.clone()).with(
        TensorName::TaskPredictions,
        &[],
        labels,
    );
    let best = columns.value("reference_accuracy_linear").max(columns.value("reference_accuracy_mlp"));
    assert!((best - 0.75).abs() < 0.08, "{best}");
    // It is balanced; on a fifth of the rows the classes are not quite equal.
    assert!((columns.value("task_excess") - (1.0 - best)).abs() < 0.05);
    let stated = RunConstants { reference_task_accuracy: Some(0.8), ..RunConstants::default() };
    assert!((columns.clone().constants(stated).value("task_excess") - 0.2).abs() < 1e-12);
    // Heads on the true concepts learn nothing of classes with a few rows each.
    let classes = columns.changed(TensorName::TaskLabels, |row, _, _| (row % 100) as f64);
    let why =
        "task_labels: got 8 rows for each of 100 classes, expected at least 10 to train heads on the true concepts";
    assert_eq!(classes.why("task_excess"), why);
}

/// Forty concepts determine each of 20 classes, and the model knows the task, but 1,600 rows do not teach it.
#[test]
fn heads_that_would_learn_more_from_more_rows_are_no_reference() {
    let (rows, k, classes) = (2_000, 40, 20);
    let mut random = random(3);
    let weights = gaussians(classes * k, &mut random);
    let labels: Vec<f64> = (0..rows * k).map(|_| coin(0.5, &mut random)).collect();
    let of_row = |c: &[f64]| {
        let logit = |of: usize| (0..k).map(|i| weights[of * k + i] * (c[i] - 0.5)).sum::<f64>();
        (0..classes).max_by(|&a, &b| logit(a).total_cmp(&logit(b))).unwrap() as f64
    };
    let task: Vec<f64> = labels.chunks(k).map(of_row).collect();
    let columns = Columns::new(rows, k)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], task.clone())
        .with(TensorName::TaskPredictions, &[], task);
    let why = "heads on the true concepts learn too little from so few rows: they reach an accuracy of 0.";
    for id in ["task_excess", "reference_accuracy_linear", "reference_accuracy_mlp"] {
        assert!(columns.why(id).starts_with(why), "{id}: {}", columns.why(id));
    }
    let stated = RunConstants { reference_task_accuracy: Some(1.0), ..RunConstants::default() };
    assert_eq!(columns.constants(stated).value("task_excess"), 0.0);
}

#[test]
fn weights_of_classes_are_no_task_excess() {
    // y in one of five rows with c0 and c1; the model's head was trained on true concepts with weights of classes.
    let both = |row: usize| row & 3 == 3;
    let rare = |row: usize| f64::from(u8::from(both(row) && (row / 8).is_multiple_of(5)));
    let columns = every_combination(100).with(TensorName::TaskLabels, &[], (0..800).map(rare).collect()).with(
        TensorName::TaskPredictions,
        &[],
        (0..800).map(|row| f64::from(u8::from(both(row)))).collect(),
    );
    assert!((columns.value("task_balanced_accuracy") - 0.895).abs() < 0.01);
    let excess = columns.value("task_excess");
    assert!(excess.abs() < 0.05, "{excess}");
    let knowing = columns.with(TensorName::TaskPredictions, &[], (0..800).map(rare).collect());
    let excess = knowing.value("task_excess");
    assert!((excess - 0.105).abs() < 0.05, "{excess}");
}

#[test]
fn alignment_distinguishes_aligned_from_unaligned_embeddings() {
    let columns = model(400, 2, 0.0, 5);
    // ĉ⁺ predicts the task only where the concept is present, ĉ⁻ only where it is absent.
    let known = columns.value("alignment_leakage");
    assert!(known > 0.4, "{known}");
    let positive = columns.arrays[&TensorName::PositiveEmbeddings].1.clone();
    let negative = columns.arrays[&TensorName::NegativeEmbeddings].1.clone();
    let swapped = columns.with(TensorName::PositiveEmbeddings, &[2, 3], negative).with(
        TensorName::NegativeEmbeddings,
        &[2, 3],
        positive,
    );
    assert!((swapped.value("alignment_leakage") + known).abs() < 1e-12);
}
