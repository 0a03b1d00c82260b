//! A concept without a value of its own is left out of a score, and named; the others count as if it were not there.

use super::*;

fn never_occurs(columns: Columns, dead: &[usize]) -> Columns {
    columns.changed(TensorName::ConceptLabels, |_, i, c| if dead.contains(&i) { 0.0 } else { c })
}

#[test]
fn one_dead_concept_among_twenty_leaves_every_score_defined() {
    let columns = never_occurs(model(200, 20, 0.5, 61), &[7]);
    let others: Vec<usize> = (0..20).filter(|i| *i != 7).collect();
    let fewer = columns.clone().of_concepts(&others);
    let scores = columns.available(TIE_AWARE);
    let all = fewer.available(TIE_AWARE);
    // A gap compares the codes of all concepts, the dead one's too; the networks of others start from other numbers.
    let same = |id: &str| !trains_helpers(id) && id != "mig";
    let mut naming = Vec::new();
    for (id, outcome) in &scores {
        let value = outcome.value().unwrap_or_else(|| panic!("{id} is undefined: {}", why(outcome)));
        let Some(left_out) = &value.left_out else { continue };
        naming.push(id.as_str());
        assert_eq!((left_out.of, left_out.concepts.contains(&7) || left_out.pairs > 0), (20, true), "{id}");
        assert!(left_out.why.contains("'c7'"), "{id}: {}", left_out.why);
        assert!(value.per_concept.as_ref().unwrap().iter().filter(|value| value.is_none()).count() <= 1, "{id}");
        if same(id) && left_out.concepts == [7] {
            near(value.value, all[id].value().unwrap().value, id);
            if value.standard_error.is_some() {
                near(standard_error(outcome), standard_error(&all[id]), id);
            }
            assert!(all[id].left_out().is_none(), "{id}");
            let others: Vec<Option<f64>> =
                value.per_concept.iter().flatten().enumerate().filter(|(i, _)| *i != 7).map(|(_, x)| *x).collect();
            for (a, b) in others.iter().zip(all[id].per_concept().unwrap()) {
                near(a.unwrap(), b.unwrap(), id);
            }
        }
    }
    for id in [
        "ctl",
        "ctl_excess",
        "icl",
        "icl_excess",
        "icl_label",
        "icl_label_excess",
        "embedding_self",
        "embedding_ic",
        "alignment_leakage",
        "concept_auc",
        "concept_average_precision",
        "concept_trustworthiness",
        "mig",
        "sap",
        "ois",
        "purity",
        "oracle_purity",
        "alignment",
        "aligned_ois",
        "nis",
        "nis_scaled",
        "concept_alignment_score",
        "dci_completeness",
        "dci_informativeness",
        "r4",
    ] {
        assert!(naming.contains(&id), "{id} names what it leaves out");
    }
    for (id, pairs) in [("icl", 38), ("icl_label", 38), ("embedding_ic", 19), ("ctl", 0), ("ois", 38)] {
        assert_eq!(scores[id].left_out().unwrap().pairs, pairs, "{id}");
    }
    assert_eq!(scores["icl"].left_out().unwrap().to_string(), "over 19 of 20 concepts");
    assert_eq!(scores["embedding_ic"].left_out().unwrap().to_string(), "over 361 of 380 pairs");
}

#[test]
fn two_of_112_concepts_never_occur() {
    let columns = never_occurs(model(300, 112, 0.5, 62), &[3, 90]);
    for id in ["ctl", "icl_label", "icl_label_excess", "concept_auc", "embedding_self"] {
        let outcome = columns.score(id);
        let left_out = outcome.left_out().unwrap();
        assert_eq!((&left_out.concepts[..], left_out.of), (&[3, 90][..], 112), "{id}");
        assert_eq!(left_out.to_string(), "over 110 of 112 concepts", "{id}");
        assert!(value(&outcome).is_finite() && standard_error(&outcome) > 0.0, "{id}");
    }
}

#[test]
fn weights_of_the_others_are_renormalised() {
    let concept_weights = vec![5.0, 1.0, 2.0, 4.0];
    let constants = |columns: &Columns| RunConstants {
        concept_weights: concept_weights.clone(),
        ..columns.fields.constants.clone()
    };
    let columns = never_occurs(model(200, 4, 0.5, 63), &[2]);
    let columns = columns.clone().constants(constants(&columns));
    let fewer = columns.clone().of_concepts(&[0, 1, 3]);
    for id in ["ctl", "ctl_excess"] {
        near(columns.value(id), fewer.value(id), id);
        near(standard_error(&columns.score(id)), standard_error(&fewer.score(id)), id);
    }
    // What is left has 7 of 12 of the weight without c0, and 3 of 12 without c0 and c3.
    let heavy = |dead: &[usize]| never_occurs(model(200, 4, 0.5, 63), dead).constants(constants(&columns)).score("ctl");
    assert!(heavy(&[0]).value().is_some());
    assert!(why(&heavy(&[0, 3])).ends_with("; 2 of 4 concepts have a value, too little for a mean"));
}

#[test]
fn with_less_than_half_left_a_score_is_undefined_and_names_the_rest() {
    let dead = |concepts: &[usize]| never_occurs(model(200, 4, 0.5, 64), concepts);
    // Half of four concepts is enough for a mean over concepts; of their twelve pairs two remain.
    let half = dead(&[0, 1]);
    assert_eq!(half.score("ctl").left_out().unwrap().concepts, [0, 1]);
    let pairs = half.score("icl");
    assert_eq!(
        why(&pairs),
        "labels of concept 'c0': there is one class only; 2 of 12 pairs have a value, too little for a mean"
    );
    assert_eq!(pairs.left_out().unwrap().concepts, [0, 1]);
    assert!(pairs.matrix().unwrap()[2][3].is_some());
    let three = dead(&[0, 1, 3]).score("ctl");
    assert!(why(&three).ends_with("; 1 of 4 concepts have a value, too little for a mean"), "{}", why(&three));
    assert_eq!(dead(&[0, 1, 2, 3]).why("ctl"), "concept 'c0': labels: there is one class only");
}

/// A class with two rows is in both parts that networks are trained and tested on, whatever the seed.
#[test]
fn a_rare_class_of_two_rows_is_learnt_and_tested() {
    let rare = |rows: usize, k: usize| {
        model(rows, k, 0.5, 65).changed(TensorName::ConceptLabels, |row, i, c| match i {
            1 => f64::from(u8::from(row == 11 || row == 12)),
            _ => c,
        })
    };
    let columns = rare(150, 4);
    for seed in 0..8 {
        let ids = ["sap", "purity", "nis"];
        for (id, outcome) in columns.scores(&ids, Settings { seed, ..TIE_AWARE }) {
            assert!(outcome.value().is_some() && outcome.left_out().is_none(), "{id} with seed {seed}");
        }
    }
}
