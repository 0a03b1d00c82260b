//! Brier scores and calibration errors against closed forms.

use rand::RngExt;

use super::*;

/// One concept that is present with the probability that its activation states, to the power of `power`.
fn calibrated(rows: usize, power: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let activations: Vec<f64> = (0..rows).map(|_| random.random::<f64>()).collect();
    let labels = activations.iter().map(|p| coin(p.powf(power), &mut random)).collect();
    Columns::new(rows, 1)
        .kind(ActivationKind::Probability)
        .with(TensorName::ConceptActivations, &[1], activations)
        .with(TensorName::ConceptLabels, &[1], labels)
}

fn with(kind: ActivationKind, activations: &[f64], labels: &[f64]) -> Columns {
    Columns::new(labels.len(), 1).kind(kind).with(TensorName::ConceptActivations, &[1], activations.to_vec()).with(
        TensorName::ConceptLabels,
        &[1],
        labels.to_vec(),
    )
}

#[test]
fn by_hand() {
    use ActivationKind::{Logit, Probability};
    let columns = with(Probability, &[0.9, 0.9, 0.2, 0.2], &[1.0, 0.0, 0.0, 0.0]);
    assert!((columns.value("concept_brier") - (0.01 + 0.81 + 0.04 + 0.04) / 4.0).abs() < 1e-12);
    // Two bins of two rows: 0.9 against 0.5, and 0.2 against 0.
    assert!((columns.value("concept_ece") - (0.4 + 0.2) / 2.0).abs() < 1e-12);
    let logits = with(Logit, &[9.0_f64.ln(), 9.0_f64.ln(), -(4.0_f64.ln()), -(4.0_f64.ln())], &[1.0, 0.0, 0.0, 0.0]);
    for id in ["concept_brier", "concept_ece"] {
        assert!((columns.value(id) - logits.value(id)).abs() < 1e-12, "{id}");
    }
    let right = with(Probability, &[1.0, 0.0, 1.0], &[1.0, 0.0, 1.0]);
    assert_eq!([right.value("concept_brier"), right.value("concept_ece")], [0.0, 0.0]);
}

#[test]
fn two_columns_for_a_concept_and_one_have_the_same_brier_score() {
    let columns = calibrated(300, 1.0, 1);
    let pairs = columns.arrays[&TensorName::ConceptActivations].1.iter().flat_map(|p| [1.0 - p, *p]).collect();
    let mut two = columns.clone().with(TensorName::ConceptActivations, &[2], pairs);
    two.fields.activation_columns = leakage::run::ActivationColumns::TwoPerConcept;
    assert!((columns.value("concept_brier") - two.value("concept_brier")).abs() < 1e-12);
}

#[test]
fn of_right_probabilities_the_brier_score_is_a_sixth_and_the_calibration_error_its_bias() {
    for rows in [500, 2_000, 8_000] {
        let sets: Vec<Columns> = (0..40).map(|seed| calibrated(rows, 1.0, 10 + seed)).collect();
        let of = |id: &str| mean(&sets.iter().map(|set| set.value(id)).collect::<Vec<_>>());
        assert!((of("concept_brier") - 1.0 / 6.0).abs() < 0.003, "E p(1 - p) of a uniform p");
        // In a bin of n/15 rows the mean of |N(0, σ² 15/n)|, where σ² = p(1 - p).
        let deviation: f64 = (0..15).map(|bin| (bin as f64 + 0.5) / 15.0).map(|p| (p * (1.0 - p)).sqrt() / 15.0).sum();
        let bias = deviation * (2.0 / std::f64::consts::PI * 15.0 / rows as f64).sqrt();
        println!("{rows} rows: {:.4}, expected {bias:.4}", of("concept_ece"));
        assert!((of("concept_ece") / bias - 1.0).abs() < 0.06, "{rows}");
    }
}

#[test]
fn the_error_of_wrong_probabilities_is_their_distance() {
    // Present with probability p²: E (p - p²) of a uniform p is 1/6.
    let columns = calibrated(20_000, 2.0, 3);
    let found = columns.score("concept_ece");
    assert!((value(&found) - 1.0 / 6.0).abs() < 3.0 * standard_error(&found), "{found:?}");
    let scatter: Vec<f64> = (0..80).map(|seed| calibrated(500, 2.0, 100 + seed).value("concept_ece")).collect();
    let ratio = standard_error(&calibrated(500, 2.0, 99).score("concept_ece")) / standard_deviation(&scatter);
    assert!((0.8..1.3).contains(&ratio), "{ratio}");
}

#[test]
fn unknown_labels_are_left_out_and_what_is_no_probability_is_named() {
    let mut columns = calibrated(400, 1.0, 4);
    let known = columns.clone().reordered(&(0..200).collect::<Vec<_>>());
    columns.fields.missing_concept_labels = true;
    let columns = columns.changed(TensorName::ConceptLabels, |row, _, c| if row < 200 { c } else { -1.0 });
    for id in ["concept_brier", "concept_ece"] {
        assert!((columns.value(id) - known.value(id)).abs() < 1e-12, "{id}");
        let hard =
            known.clone().changed(TensorName::ConceptActivations, |_, _, p| p.round()).kind(ActivationKind::Hard);
        assert_eq!(hard.why(id), "concept 'c0': its activations are no probabilities");
        let outside = known.clone().changed(TensorName::ConceptActivations, |row, _, p| if row == 3 { 1.5 } else { p });
        assert_eq!(outside.why(id), "concept 'c0': 1.5 is no probability");
        let numbers = known.clone().continuous_labels(true, false);
        assert_eq!(numbers.why(id), "the concepts are continuous, they predict no class");
    }
}
