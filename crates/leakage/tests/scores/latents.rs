//! Activations that were learnt without labels: k' latents, of which none belongs to a concept.

use leakage::run::ActivationColumns;
use leakage::score::catalogue::CATALOGUE;

use super::*;

/// The columns with these activation columns in place of the concepts' own, as latents.
fn as_latents(columns: &Columns, width: usize, latent: impl Fn(&[f64], usize) -> f64) -> Columns {
    let values = columns.arrays[&TensorName::ConceptActivations].1.clone();
    let rows = values.chunks(columns.k());
    let latents = rows.flat_map(|row| (0..width).map(|i| latent(row, i)).collect::<Vec<_>>()).collect();
    let mut columns = columns.clone().with(TensorName::ConceptActivations, &[width], latents);
    columns.fields.latents = Some(width as u32);
    columns
}

/// A number that depends on the row and says nothing about its concepts.
fn unrelated(row: &[f64], i: usize) -> f64 {
    (row[0] * 1e6 + 37.0 * i as f64).sin()
}

const LATENT_SCORES: [&str; 6] = ["alignment", "aligned_ois", "oracle_purity", "mig", "sap", "nis"];

fn matched(outcome: &Outcome) -> Vec<f64> {
    let curve = outcome.value().and_then(|value| value.curve.as_ref()).expect("alignment has a curve");
    curve.iter().map(|(_, latent)| latent.unwrap()).collect()
}

#[test]
fn latents_are_matched_to_the_concepts_wherever_they_stand() {
    // With fewer rows the networks take too few steps to fit.
    let model = model(2_500, 3, 0.3, 71);
    // Concept j is latent 5 - j; others are unrelated. Latent 4 falls where its concept is present.
    let at = |row: &[f64], i: usize| match i {
        3 => row[2],
        4 => -row[1],
        5 => row[0],
        _ => unrelated(row, i),
    };
    let latents = as_latents(&model, 8, at);
    let outcomes = latents.scores(&LATENT_SCORES, TIE_AWARE);
    assert_eq!(matched(&outcomes["alignment"]), [5.0, 4.0, 3.0]);
    let aucs = outcomes["alignment"].per_concept().unwrap();
    assert!(aucs.iter().all(|auc| auc.unwrap() > 0.75), "{aucs:?}");
    let matrix = outcomes["alignment"].matrix().unwrap();
    assert!((0..3).all(|j| matrix[j][j] == aucs[j]), "row j is of the latent matched to concept j");
    for id in LATENT_SCORES {
        assert!(outcomes[id].value().is_some(), "{id}: {:?}", outcomes[id]);
        assert_eq!(outcomes[id].per_concept().unwrap().len(), 3, "{id}");
    }
}

#[test]
fn latents_that_are_the_concepts_activations_score_as_these() {
    let model = model(400, 3, 0.5, 72);
    let latents = as_latents(&model, 3, |row, i| row[i]);
    let (own, as_latents) = (model.scores(&LATENT_SCORES, TIE_AWARE), latents.scores(&LATENT_SCORES, TIE_AWARE));
    assert_eq!(matched(&own["alignment"]), [0.0, 1.0, 2.0]);
    assert_eq!(matched(&as_latents["alignment"]), [0.0, 1.0, 2.0]);
    assert_eq!(own["alignment"].per_concept(), as_latents["alignment"].per_concept());
    for id in LATENT_SCORES.into_iter().filter(|id| *id != "alignment") {
        assert_eq!(own[id], as_latents[id], "{id}");
    }
}

#[test]
fn unrelated_latents_change_no_matched_score() {
    let model = model(400, 3, 0.5, 73);
    let few = as_latents(&model, 3, |row, i| row[i]).scores(&LATENT_SCORES, TIE_AWARE);
    let many = as_latents(&model, 300, |row, i| if i < 3 { row[i] } else { unrelated(row, i) });
    let many = many.scores(&["alignment", "aligned_ois", "oracle_purity"], TIE_AWARE);
    for (id, outcome) in &many {
        assert_eq!(outcome, &few[id], "{id}");
    }
}

#[test]
fn scores_of_each_concept_s_own_activation_are_undefined_for_latents() {
    let latents = as_latents(&model(200, 3, 0.5, 74), 6, |row, i| row[i % 3]);
    let outcomes = latents.available(TIE_AWARE);
    for id in ["ctl", "icl", "icl_label_excess", "concept_accuracy", "concept_auc", "ois", "purity", "precision"] {
        let why = why(&outcomes[id]);
        assert!(
            why.starts_with("concept_activations hold 6 latents, of which none belongs to a concept"),
            "{id}: {why}"
        );
    }
    // Whatever reads no activation has the value it has without them.
    let without = latents.without(TensorName::ConceptActivations);
    let mut others = 0;
    for (id, outcome) in without.available(TIE_AWARE) {
        if !["ois", "purity", "oracle_purity", "alignment", "aligned_ois", "nis", "nis_scaled"].contains(&id.as_str()) {
            assert_eq!(outcome, outcomes[&id], "{id}");
            others += 1;
        }
    }
    assert!(others > 10, "{others}");
    assert!(CATALOGUE.iter().filter(|score| score.latents).count() >= LATENT_SCORES.len());
}

#[test]
fn a_concept_whose_labels_do_not_vary_has_no_latent() {
    let model = model(300, 4, 0.5, 75).changed(TensorName::ConceptLabels, |_, i, c| if i == 1 { 0.0 } else { c });
    let latents = as_latents(&model, 6, |row, i| if i < 4 { row[3 - i] } else { unrelated(row, i) });
    let outcomes = latents.scores(&["alignment", "aligned_ois"], TIE_AWARE);
    for (id, outcome) in &outcomes {
        let left_out = outcome.left_out().unwrap_or_else(|| panic!("{id}: {outcome:?}"));
        assert_eq!(left_out.concepts, [1], "{id}");
        assert!(left_out.why.starts_with("labels of concept 'c1': there is one class only"), "{id}: {}", left_out.why);
    }
    let curve = outcomes["alignment"].value().unwrap().curve.clone().unwrap();
    assert_eq!(curve, [(0.0, Some(3.0)), (1.0, None), (2.0, Some(1.0)), (3.0, Some(0.0))]);
}

#[test]
fn the_tie_fraction_of_latents_is_that_of_their_columns() {
    let latents = as_latents(&model(100, 3, 0.5, 76), 4, |row, i| if i == 0 { 0.0 } else { row[i - 1] });
    let (sample, run) = (latents.sample(), latents.run());
    let prepared = leakage::prepare::Prepared::new(&sample, &run, TIE_AWARE);
    assert_eq!(prepared.tie_fraction(), 0.25);
}

#[test]
fn two_columns_for_a_binary_concept_are_absent_and_present() {
    let one = model(300, 2, 0.5, 77).cardinalities(&[2, 2]);
    let values = one.arrays[&TensorName::ConceptActivations].1.iter().flat_map(|x| [0.0, *x]).collect();
    let mut two = one.clone().with(TensorName::ConceptActivations, &[4], values);
    two.fields.activation_columns = ActivationColumns::TwoPerConcept;
    for id in ["concept_accuracy", "concept_f1"] {
        assert_eq!(one.score(id), two.score(id), "{id}");
    }
    assert!((one.value("ctl_excess") - two.value("ctl_excess")).abs() < 1e-12);
}
