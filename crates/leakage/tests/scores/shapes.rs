//! Values per concept, matrices and errors of scores.

use std::ops::ControlFlow;

use leakage::prepare::Prepared;
use leakage::score::catalogue::{CATALOGUE, Input, find};
use leakage::score::{Wanted, evaluate};

use super::*;

#[test]
fn every_score_has_the_outputs_that_its_catalogue_row_declares() {
    for settings in [TIE_AWARE, PUBLISHED] {
        let columns = with_head_and_features(model(250, 3, 0.5, 11));
        let mut outcomes = columns.available(settings);
        assert!(CATALOGUE.iter().all(|score| outcomes.contains_key(score.id) == is_of_concepts(score)));
        let predicted = columns.arrays[&TensorName::TaskLabels].1.iter().map(|y| 0.8 * y).collect();
        let measured = columns.with(TensorName::TaskPredictions, &[], predicted).continuous_labels(true, true);
        let of_numbers = measured.available(settings);
        outcomes.extend(of_numbers.into_iter().filter(|(id, _)| find(id).is_some_and(is_of_numbers)));
        let of_latents = firing::hierarchy(1_000, 11, |is_child, _| is_child).available(settings);
        outcomes.extend(of_latents.into_iter().filter(|(id, _)| find(id).is_some_and(is_of_latents)));
        for score in CATALOGUE {
            let outcome = &outcomes[score.id];
            let value = outcome.value().unwrap_or_else(|| panic!("{} is undefined", score.id));
            assert!((score.range.0 - 0.1..=score.range.1 + 0.1).contains(&value.value), "{} {}", score.id, value.value);
            match score.no_standard_error {
                None => {
                    // Logits are not in the unit of the labels.
                    let most = if score.id == "concept_r2" { f64::INFINITY } else { 0.3 };
                    assert!(value.standard_error.is_some_and(|error| error > 0.0 && error < most), "{}", score.id);
                }
                Some(_) => assert_eq!(value.standard_error, None, "{}", score.id),
            }
            assert_eq!(value.per_concept.as_ref().map(Vec::len), score.per_concept.then_some(3), "{}", score.id);
            assert_eq!(value.matrix.as_ref().map(Vec::len), score.matrix.then_some(3), "{}", score.id);
            assert_eq!(value.curve.is_some(), score.curve.is_some(), "{}", score.id);
            if let Some(best) = score.curve.and_then(|curve| curve.best) {
                let at = outcomes[best].value().unwrap().value;
                let on = value.curve.iter().flatten().find(|(x, _)| *x == at);
                assert_eq!(on.and_then(|(_, y)| *y), Some(value.value), "{}", score.id);
            }
        }
    }
}

#[test]
fn per_concept_values_and_matrices_average_to_the_score() {
    for settings in [TIE_AWARE, PUBLISHED] {
        for (id, outcome) in model(250, 3, 0.5, 12).available(settings) {
            // Purity matrices have a different diagonal, and OIS is a root mean square: see impurity.rs.
            if find(&id).expect("the catalogue has it").matrix && trains_helpers(&id) {
                continue;
            }
            let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-14, "{id}: {a} {b}");
            if outcome.per_concept().is_none() {
                continue;
            }
            let per_concept = parts(&outcome);
            close(mean(&per_concept), value(&outcome));
            for (i, row) in outcome.matrix().unwrap_or_default().iter().enumerate() {
                assert_eq!(row[i], Some(0.0), "{id}: diagonal");
                close(row.iter().map(|cell| cell.unwrap()).sum::<f64>() / 2.0, per_concept[i]);
            }
        }
    }
}

#[test]
fn icl_is_symmetric_and_scores_against_labels_are_not() {
    let ids = ["icl", "icl_excess", "icl_label_excess", "embedding_ic"];
    let outcomes = model(250, 3, 0.5, 13).scores(&ids, TIE_AWARE);
    let transposed = |id: &str| -> Vec<Vec<Option<f64>>> {
        let matrix = outcomes[id].matrix().unwrap();
        (0..3).map(|i| matrix.iter().map(|row| row[i]).collect()).collect()
    };
    for id in &ids[..2] {
        assert_eq!(transposed(id), outcomes[*id].matrix().unwrap(), "{id}");
    }
    for id in &ids[2..] {
        assert_ne!(transposed(id), outcomes[*id].matrix().unwrap(), "{id}");
    }
}

#[test]
fn published_scores_are_the_excess_cut_at_0() {
    for seed in 0..4 {
        for leak in [0.0, 0.3] {
            let [exact, noisy] =
                [TIE_AWARE, PUBLISHED].map(|settings| model(200, 3, leak, seed).scores(&LEAKAGE_IDS, settings));
            for (published, excess) in LEAKAGE {
                let parts = |outcome: &Outcome| match outcome.matrix() {
                    Some(matrix) => matrix.concat(),
                    None => outcome.per_concept().unwrap().to_vec(),
                };
                for (clipped, raw) in parts(&exact[published]).iter().zip(parts(&exact[excess])) {
                    assert_eq!(clipped.unwrap(), raw.unwrap().max(0.0), "{published}");
                }
                for (clipped, raw) in parts(&noisy[published]).iter().zip(parts(&noisy[excess])) {
                    // The mean over repeats of clipped values is no lower than that of unclipped ones.
                    assert!(clipped.unwrap() >= 0.0 && raw.unwrap() <= clipped.unwrap() + 1e-9, "{published}");
                }
                // Both errors are those of the unclipped score.
                assert_eq!(standard_error(&exact[published]), standard_error(&exact[excess]));
            }
        }
    }
}

#[test]
fn ctl_is_weighted_by_the_concept_weights() {
    let columns = model(250, 3, 0.6, 14);
    let weights = vec![2.0, 0.0, 6.0];
    let weighted = columns.clone().constants(RunConstants { concept_weights: weights, ..RunConstants::default() });
    for id in ["ctl", "ctl_excess"] {
        let (plain, weighted) = (columns.score(id), weighted.score(id));
        assert_eq!(plain.per_concept(), weighted.per_concept());
        let per_concept = parts(&plain);
        assert!((value(&weighted) - (0.25 * per_concept[0] + 0.75 * per_concept[2])).abs() < 1e-15);
        assert_ne!(value(&weighted), value(&plain));
    }
    assert_eq!(weighted.value("concept_accuracy"), columns.value("concept_accuracy"), "only CTL is weighted");
}

/// The scores whose inputs are present. None may take any memory, so none is computed.
fn available(columns: &Columns) -> Vec<&'static str> {
    let (sample, run) = (columns.sample(), columns.run());
    let prepared = Prepared::new(&sample, &run, TIE_AWARE).with_memory(0);
    let scores = evaluate(&prepared, Wanted::Available, |_, _, _| ControlFlow::Continue(())).unwrap();
    scores.into_iter().map(|(score, _)| score.id).collect()
}

#[test]
fn a_score_without_its_inputs_is_left_out_or_names_them() {
    let of_classes = with_head_and_features(model(60, 2, 0.5, 15));
    for score in CATALOGUE {
        let whole = of_classes.clone();
        let mut whole = if is_of_numbers(score) { whole.continuous_labels(true, true) } else { whole };
        whole.fields.latents = is_of_latents(score).then_some(2);
        let without = |input: &Input| match input {
            Input::Tensor(name) | Input::Numbers(name) => whole.clone().without(*name),
            Input::EitherTensor(a, b) => {
                let given = [*a, *b]
                    .into_iter()
                    .filter(|name| whole.arrays.contains_key(name) || whole.texts.contains_key(name));
                given.fold(whole.clone(), |columns, name| columns.without(name))
            }
            Input::ReferenceTaskAccuracy => unreachable!("left out"),
            Input::HeadWeights | Input::ConceptParts => whole.clone().constants(RunConstants::default()),
            Input::Latents => of_classes.clone(),
        };
        // Without a stated reference accuracy, a head is trained on the labels.
        for input in score.inputs.iter().filter(|input| **input != Input::ReferenceTaskAccuracy) {
            let columns = without(input);
            assert!(!available(&columns).contains(&score.id), "{} without {input}", score.id);
            assert_eq!(columns.why(score.id), format!("needs {input}, which was not given"));
        }
    }
    let nothing = Columns::new(60, 2).with(TensorName::TaskLabels, &[], vec![0.0; 60]);
    assert_eq!(nothing.why("icl"), "needs concept_activations and concept_labels, which were not given");
}
