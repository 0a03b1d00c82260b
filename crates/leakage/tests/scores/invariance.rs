//! Transformations that must not change a score.

use leakage::score::catalogue::find;
use rand::seq::SliceRandom;

use super::*;

#[test]
fn the_order_of_rows() {
    let columns = model(200, 3, 0.5, 21);
    let mut order: Vec<usize> = (0..200).collect();
    order.shuffle(&mut random(1));
    let (before, after) = (columns.available(TIE_AWARE), columns.reordered(&order).available(TIE_AWARE));
    for (id, outcome) in &before {
        // The order of rows determines which ones a group of alignment_leakage keeps.
        if id == "alignment_leakage" || trains_helpers(id) {
            continue;
        }
        // Sums of fractions round differently in another order.
        let of_fractions = ["concept_brier", "concept_ece", "side_channel_share"].contains(&id.as_str())
            || ["clarity", "text and image", "trustworthiness"]
                .contains(&find(id).expect("the catalogue has it").family);
        if of_fractions {
            assert!((value(outcome) - value(&after[id])).abs() < 1e-14, "{id}");
        } else {
            assert_eq!(value(outcome), value(&after[id]), "{id}");
            let parts = (after[id].per_concept(), after[id].matrix());
            assert_eq!((outcome.per_concept(), outcome.matrix()), parts, "{id}");
        }
        let error = |outcome: &Outcome| outcome.value().and_then(|value| value.standard_error).unwrap_or_default();
        assert!((error(outcome) - error(&after[id])).abs() < 1e-12, "{id}");
    }
}

#[test]
fn the_order_of_concepts_moves_their_values_along() {
    let columns = model(200, 3, 0.5, 22);
    let order = [2, 0, 1];
    let permuted = columns.clone().of_concepts(&order);
    let (before, after) = (columns.available(TIE_AWARE), permuted.available(TIE_AWARE));
    for (id, outcome) in before.iter().filter(|(id, _)| !trains_helpers(id)) {
        assert!((value(outcome) - value(&after[id])).abs() < 1e-14, "{id}");
        if outcome.per_concept().is_none() {
            continue;
        }
        let (old, new) = (parts(outcome), parts(&after[id]));
        for (at, &i) in order.iter().enumerate() {
            assert!((new[at] - old[i]).abs() < 1e-14, "{id}");
        }
        let Some((old, new)) = outcome.matrix().zip(after[id].matrix()) else { continue };
        for (row, &i) in order.iter().enumerate() {
            for (column, &j) in order.iter().enumerate() {
                assert_eq!(new[row][column], old[i][j], "{id}: {i} {j}");
            }
        }
    }
}

#[test]
fn scaling_and_mirroring_activations() {
    let columns = model(200, 3, 0.5, 23);
    let before = columns.scores(&LEAKAGE_IDS, TIE_AWARE);
    // Exact in binary: products with a power of two.
    for factor in [2.0, -1.0, -0.25, 1024.0] {
        let scaled = columns.clone().changed(TensorName::ConceptActivations, |_, _, activation| factor * activation);
        assert_eq!(before, scaled.scores(&LEAKAGE_IDS, TIE_AWARE), "times {factor}");
    }
    // A single concept, and embeddings.
    let mirrored = columns
        .clone()
        .changed(TensorName::ConceptActivations, |_, i, activation| if i == 1 { -activation } else { activation });
    assert_eq!(before, mirrored.scores(&LEAKAGE_IDS, TIE_AWARE));
    let embedding = ["embedding_ct", "embedding_ic", "embedding_self"];
    let scaled = columns.clone().changed(TensorName::ConceptEmbeddings, |_, _, coordinate| -4.0 * coordinate);
    assert_eq!(columns.scores(&embedding, TIE_AWARE), scaled.scores(&embedding, TIE_AWARE));
}

#[test]
fn adding_a_constant_that_is_exact() {
    // Activations on a grid of 2⁻²⁰, so that adding 4 rounds nothing.
    let grid = |value: f64| (value * 1_048_576.0).round() / 1_048_576.0;
    let columns = model(200, 2, 0.5, 24).changed(TensorName::ConceptActivations, |_, _, activation| grid(activation));
    let moved = columns.clone().changed(TensorName::ConceptActivations, |_, _, activation| activation + 4.0);
    assert_eq!(columns.scores(&LEAKAGE_IDS, TIE_AWARE), moved.scores(&LEAKAGE_IDS, TIE_AWARE));
}

#[test]
fn the_names_of_classes() {
    let columns = model(200, 2, 0.5, 25);
    let renamed =
        columns.clone().without(TensorName::TaskLogits).changed(TensorName::TaskLabels, |_, _, y| 9.0 - 7.0 * y);
    let ids = ["ctl", "ctl_excess", "embedding_ct", "alignment_leakage"];
    assert_eq!(columns.scores(&ids, TIE_AWARE), renamed.scores(&ids, TIE_AWARE));
    let present = columns.clone().changed(TensorName::ConceptLabels, |_, _, c| 1.0 - c);
    assert_eq!(columns.scores(&LEAKAGE_IDS, TIE_AWARE), present.scores(&LEAKAGE_IDS, TIE_AWARE));
}

#[test]
fn monte_carlo_samples_count_as_their_mean() {
    let columns = model(150, 2, 0.5, 26);
    let grid = |value: f64| (value * 1024.0).round() / 1024.0;
    let averaged = columns.changed(TensorName::ConceptActivations, |_, _, activation| grid(activation));
    let values = averaged.arrays[&TensorName::ConceptActivations].1.clone();
    // Four samples whose mean is the activation, to the last bit.
    let samples = values.iter().flat_map(|value| [value - 3.0, value + 1.0, value + 1.5, value + 0.5]).collect();
    let sampled = averaged.clone().with(TensorName::ConceptActivations, &[2, 4], samples);
    assert_eq!(averaged.available(TIE_AWARE), sampled.available(TIE_AWARE));
}

#[test]
fn the_number_of_threads() {
    let tied = model(300, 3, 0.5, 27)
        .changed(TensorName::ConceptActivations, |_, _, activation| (activation * 4.0).round() / 4.0);
    let with = |threads: usize, settings| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| serde_json::to_string(&tied.available(settings)).unwrap())
    };
    for settings in [TIE_AWARE, PUBLISHED] {
        assert_eq!(with(1, settings), with(2, settings));
    }
    let seeded = |seed| with(1, Settings { seed, ..PUBLISHED });
    assert_ne!(seeded(0), seeded(1), "the noise follows the seed");
}
