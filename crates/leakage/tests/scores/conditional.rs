//! Conditional leakage against closed forms and its identity with CTL.

use leakage::prepare::Prepared;
use rand::RngExt;

use super::*;

const CONDITIONAL: [&str; 3] = ["ctl_conditional", "icl_conditional", "concept_gap"];
const OF_EMBEDDINGS: [&str; 4] = [
    "embedding_ct_conditional",
    "embedding_ct_conditional_positive",
    "embedding_ct_conditional_negative",
    "embedding_ic_conditional",
];

/// Binary concepts that a task of 200 classes determines; logits ±4 with noise of deviation 1 and a shift by class of
/// deviation `shift`.
fn of_two_hundred_classes(rows: usize, k: usize, shift: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let concepts: Vec<f64> = (0..200 * k).map(|_| coin(0.5, &mut random)).collect();
    let shifts = gaussians(200 * k, &mut random);
    let y: Vec<usize> = (0..rows).map(|_| random.random_range(0..200)).collect();
    let noise = gaussians(rows * k, &mut random);
    let cell = |at: usize| y[at / k] * k + at % k;
    let labels = (0..rows * k).map(|at| concepts[cell(at)]).collect();
    let logit = |at: usize| 8.0 * concepts[cell(at)] - 4.0 + noise[at] + shift * shifts[cell(at)];
    let logits = (0..rows * k).map(|at| f64::from(logit(at) as f32)).collect();
    Columns::new(rows, k)
        .with(TensorName::ConceptActivations, &[k], logits)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], y.iter().map(|&y| y as f64).collect())
}

#[test]
fn less_the_gap_it_is_the_excess() {
    let weights = RunConstants { concept_weights: vec![1.0, 2.0, 5.0], ..RunConstants::default() };
    for columns in [model(400, 3, 0.5, 1), model(400, 3, 0.0, 2).constants(weights)] {
        for settings in [TIE_AWARE, PUBLISHED] {
            let scores = columns.scores(&["ctl_conditional", "concept_gap", "ctl_excess"], settings);
            let [conditional, gap, excess] = ["ctl_conditional", "concept_gap", "ctl_excess"].map(|id| &scores[id]);
            assert!((value(conditional) - value(gap) - value(excess)).abs() < 1e-12);
            for ((conditional, gap), excess) in parts(conditional).iter().zip(parts(gap)).zip(parts(excess)) {
                assert!((conditional - gap - excess).abs() < 1e-12);
            }
            assert!(standard_error(gap) > 0.0);
        }
    }
}

#[test]
fn a_shift_by_class_shows_among_two_hundred_classes_and_noise_does_not() {
    for (shift, truth, tolerance) in [(0.0, 0.0, 0.004), (0.3, 0.01, 0.006), (1.0, 0.07, 0.015), (3.0, 0.22, 0.02)] {
        let columns = of_two_hundred_classes(2048, 6, shift, 7);
        let scores = columns.scores(&["ctl_conditional", "icl_conditional"], TIE_AWARE);
        let found = value(&scores["ctl_conditional"]);
        println!("{shift}: {found} ± {}", standard_error(&scores["ctl_conditional"]));
        assert!((found - truth).abs() < tolerance, "{shift}: {found}");
        if shift == 0.0 {
            for id in ["ctl_conditional", "icl_conditional"] {
                assert!(value(&scores[id]).abs() < 4.0 * standard_error(&scores[id]), "{id}");
            }
        }
    }
}

#[test]
fn rows_left_out_are_counted_in_a_warning() {
    let columns = of_two_hundred_classes(1024, 2, 0.0, 8);
    let (sample, run) = (columns.sample(), columns.run());
    let prepared = Prepared::new(&sample, &run, TIE_AWARE);
    assert!(prepared.warnings().is_empty());
    let score = leakage::score::catalogue::find("ctl_conditional").unwrap();
    assert!((score.compute)(&prepared).unwrap().value().is_some());
    let warnings = prepared.warnings();
    assert!(warnings.len() == 1 && warnings[0].starts_with("ctl_conditional leaves out rows"), "{warnings:?}");
    // Another class for every row: nothing to compare a row with.
    let apart = columns.changed(TensorName::TaskLabels, |row, _, _| row as f64);
    assert!(apart.why("ctl_conditional").contains("1024 of 1024 rows are alone in their class"));
}

#[test]
fn a_concept_that_was_not_learnt_does_not_hide_its_leak() {
    // Activations tell the task and nothing of their own concept, which is half of the task.
    let rows = 2000;
    let mut random = random(9);
    let bits: Vec<f64> = (0..2 * rows).map(|_| coin(0.5, &mut random)).collect();
    let task: Vec<f64> = bits.chunks(2).map(|bits| 2.0 * bits[0] + bits[1]).collect();
    let noise = gaussians(2 * rows, &mut random);
    // Each activation carries the other concept.
    let logits = (0..2 * rows).map(|at| 20.0 * bits[at ^ 1] + noise[at]).collect();
    let columns = Columns::new(rows, 2)
        .with(TensorName::ConceptActivations, &[2], logits)
        .with(TensorName::ConceptLabels, &[2], bits)
        .with(TensorName::TaskLabels, &[], task);
    let near = |id: &str, truth: f64| {
        let found = columns.value(id);
        assert!((found - truth).abs() < 0.01, "{id}: {found}, not {truth}");
    };
    near("ctl_excess", 0.0);
    near("ctl_conditional", 0.5);
    near("concept_gap", 0.5);
    near("icl_conditional", 1.0);
}

#[test]
fn parity_of_true_concepts_is_no_leak_and_the_fine_structure_of_one_logit_is() {
    let (rows, k) = (2000, 3);
    let mut random = random(10);
    let labels: Vec<f64> = (0..k * rows).map(|_| coin(0.5, &mut random)).collect();
    let parity: Vec<f64> = labels.chunks(k).map(|row| row.iter().sum::<f64>() % 2.0).collect();
    let noise = gaussians(k * rows, &mut random);
    let logits: Vec<f64> = (0..k * rows).map(|at| 8.0 * labels[at] - 4.0 + noise[at]).collect();
    let columns = Columns::new(rows, k)
        .with(TensorName::ConceptActivations, &[k], logits)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], parity.clone());
    for id in ["ctl_conditional", "icl_conditional"] {
        let score = columns.score(id);
        assert!(value(&score).abs() < 4.0 * standard_error(&score), "{id}: {}", value(&score));
    }
    let leaking = columns.changed(TensorName::ConceptActivations, |row, i, x| {
        if i == 0 { 10.0 * x.signum() + parity[row] + 0.01 * x } else { x }
    });
    let found = parts(&leaking.score("ctl_conditional"));
    assert!((found[0] - 1.0).abs() < 0.02 && found[1].abs() < 0.02 && found[2].abs() < 0.02, "{found:?}");
}

#[test]
fn every_kind_of_activation_and_task_has_a_value() {
    let columns = model(400, 3, 0.5, 3);
    let hard = columns
        .clone()
        .kind(ActivationKind::Hard)
        .changed(TensorName::ConceptActivations, |_, _, x| f64::from(u8::from(x > 0.0)));
    let probabilities = columns
        .clone()
        .kind(ActivationKind::Probability)
        .changed(TensorName::ConceptActivations, |_, _, x| 1.0 / (1.0 + (-x).exp()));
    let noise = gaussians(400, &mut random(4));
    let regression = |columns: &Columns| {
        columns.clone().changed(TensorName::TaskLabels, |row, _, y| y + noise[row]).continuous_labels(false, true)
    };
    for settings in [TIE_AWARE, PUBLISHED] {
        for columns in [&columns, &hard, &probabilities] {
            for (columns, what) in [(columns.clone(), "classes"), (regression(columns), "a number")] {
                for (id, outcome) in columns.scores(&CONDITIONAL, settings) {
                    assert!(value(&outcome).is_finite() && standard_error(&outcome) > 0.0, "{id} of {what}");
                    assert!(value(&outcome) > -4.0 * standard_error(&outcome), "{id} of {what}: {}", value(&outcome));
                }
            }
            for (id, outcome) in columns.scores(&OF_EMBEDDINGS, settings) {
                assert!(value(&outcome).is_finite() && standard_error(&outcome) > 0.0, "{id}");
            }
        }
    }
}

#[test]
fn concepts_that_are_numbers_are_conditioned_on_as_numbers() {
    let rows = 600;
    let mut random = random(5);
    let [first, second, noise, other] = [0, 1, 2, 3].map(|_| gaussians(rows, &mut random));
    let labels: Vec<f64> = first.iter().zip(&second).flat_map(|(a, b)| [*a, *b]).collect();
    // The second activation carries the first concept too.
    let activation = |row: usize| [first[row] + 0.3 * noise[row], second[row] + first[row] + 0.3 * other[row]];
    let columns = Columns::new(rows, 2)
        .kind(ActivationKind::Continuous)
        .with(TensorName::ConceptActivations, &[2], (0..rows).flat_map(activation).collect())
        .with(TensorName::ConceptLabels, &[2], labels)
        .with(TensorName::TaskLabels, &[], first.iter().map(|x| f64::from(u8::from(*x > 0.0))).collect())
        .continuous_labels(true, false);
    let task = parts(&columns.score("ctl_conditional"));
    assert!(task[0].abs() < 0.12 && task[1] > 0.3, "{task:?}");
    let others = parts(&columns.score("icl_conditional"));
    assert!(others[0].abs() < 0.05 && others[1] > others[0] + 0.1, "{others:?}");
}

#[test]
fn of_a_number_it_is_the_share_of_explained_variance() {
    // Given c, activation and task are jointly normal with correlation ρ.
    for (rho, seed) in [(0.0_f64, 1), (0.4, 2), (0.8, 3)] {
        let (n, mut random) = (3000, random(seed));
        let noise = gaussians(2 * n, &mut random);
        let labels: Vec<f64> = (0..n).map(|row| (row % 2) as f64).collect();
        let activations: Vec<f64> = labels.iter().zip(&noise).map(|(c, z)| 2.0 * c + z).collect();
        let task = |unit: f64| -> Vec<f64> {
            let of =
                |(row, c): (usize, &f64)| unit * (c + rho * noise[row] + (1.0 - rho * rho).sqrt() * noise[n + row]);
            labels.iter().enumerate().map(of).collect()
        };
        let columns = |unit| {
            Columns::new(n, 1)
                .kind(ActivationKind::Logit)
                .with(TensorName::ConceptActivations, &[1], activations.clone())
                .with(TensorName::ConceptLabels, &[1], labels.clone())
                .with(TensorName::TaskLabels, &[], task(unit))
                .continuous_labels(false, true)
        };
        let found = columns(1.0).score("ctl_conditional_r2");
        let value = found.value().unwrap().value;
        assert!((value - rho * rho).abs() < 3.0 * standard_error(&found) + 0.02, "{rho}: {value}");
        assert_eq!(columns(1024.0).value("ctl_conditional_r2"), value, "in another unit");
        let share = columns(1.0).value("ctl_conditional");
        assert!(rho == 0.0 || share < 0.5 * value, "{share}: a number knows more of itself than it can be told");
    }
    let classes = model(200, 2, 0.0, 1);
    assert_eq!(classes.why("ctl_conditional_r2"), "needs task_labels as numbers, which was not given");
}
