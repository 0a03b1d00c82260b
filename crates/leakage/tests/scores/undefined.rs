//! An undefined score has a reason that names the fault, and is never 0 or NaN.

use super::*;

fn present(values: Option<&[Option<f64>]>) -> Vec<bool> {
    values.unwrap().iter().map(Option::is_some).collect()
}

#[test]
fn a_task_of_one_class() {
    let columns = model(60, 2, 0.5, 31).changed(TensorName::TaskLabels, |_, _, _| 1.0);
    for id in [
        "ctl",
        "ctl_excess",
        "ctl_conditional",
        "concept_gap",
        "embedding_ct",
        "embedding_ct_positive",
        "embedding_ct_negative",
        "embedding_ct_conditional",
        "embedding_ct_conditional_positive",
    ] {
        assert_eq!(columns.why(id), "task_labels: there is one class only", "{id}");
    }
    assert!(columns.why("alignment_leakage").starts_with("concept 'c0': task labels of a group of "));
    assert!(columns.value("icl").is_finite() && columns.value("embedding_self") > 0.0);
}

#[test]
fn a_concept_that_never_occurs() {
    let columns = model(120, 3, 0.5, 32).changed(TensorName::ConceptLabels, |_, i, c| if i == 1 { 0.0 } else { c });
    for id in ["ctl", "ctl_excess", "embedding_self", "concept_auc", "alignment_leakage"] {
        let outcome = columns.score(id);
        let left_out = outcome.left_out().unwrap();
        assert!(left_out.why.contains("concept 'c1'") && left_out.why.contains("one class only"), "{id}");
        assert_eq!((&left_out.concepts[..], outcome.value().is_some()), (&[1][..], true), "{id}");
        assert_eq!(present(outcome.per_concept()), [true, false, true], "{id}");
    }
    for id in ["icl", "icl_excess", "icl_label", "icl_label_excess", "embedding_ic"] {
        let outcome = columns.score(id);
        // The information in c1's embedding about other concepts needs no label of c1: four of six pairs.
        let embedding = id == "embedding_ic";
        let left_out = outcome.left_out().unwrap();
        assert_eq!(left_out.why, "labels of concept 'c1': there is one class only", "{id}");
        assert_eq!((left_out.pairs, outcome.value().is_some()), if embedding { (2, true) } else { (4, false) }, "{id}");
        assert_eq!(present(outcome.per_concept()), [true, embedding, true], "{id}");
        let matrix = outcome.matrix().unwrap();
        assert!(matrix[0][2].is_some() && matrix[2][0].is_some() && matrix[0][1].is_none(), "{id}");
    }
    let never_predicted = columns.changed(TensorName::ConceptActivations, |_, i, a| if i == 1 { -a.abs() } else { a });
    let outcome = never_predicted.score("concept_f1");
    assert_eq!(outcome.left_out().unwrap().why, "concept 'c1': it is neither present nor predicted in any row");
    assert_eq!(present(outcome.per_concept()), [true, false, true]);
}

#[test]
fn an_activation_that_is_dead() {
    for (kind, reason) in [
        (ActivationKind::Logit, "a continuous variable is constant"),
        (ActivationKind::Hard, "there is one class only"),
    ] {
        let dead = |_: usize, i: usize, a: f64| match kind {
            _ if i == 1 => 0.0,
            ActivationKind::Hard => f64::from(u8::from(a > 0.0)),
            _ => a,
        };
        let columns = model(120, 3, 0.5, 33).kind(kind).changed(TensorName::ConceptActivations, dead);
        for id in ["ctl", "ctl_excess"] {
            let outcome = columns.score(id);
            assert_eq!(outcome.left_out().unwrap().why, format!("concept 'c1': activations: {reason}"), "{id}");
            assert_eq!(present(outcome.per_concept()), [true, false, true], "{id}");
        }
        for id in ["icl", "icl_excess", "icl_label", "icl_label_excess"] {
            let outcome = columns.score(id);
            let too_few = "; 2 of 6 pairs have a value, too little for a mean";
            let expected = match id {
                // The activation of c1 says nothing, and others may say something about its label.
                "icl_label" | "icl_label_excess" => (true, 2, String::new()),
                _ => (false, 4, format!("activations of concept 'c1': {reason}{too_few}")),
            };
            let left_out = outcome.left_out().unwrap();
            assert_eq!(left_out.why, format!("activations of concept 'c1': {reason}"), "{id}");
            let found = outcome.value().map_or_else(|| why(&outcome), |_| String::new());
            assert_eq!((outcome.value().is_some(), left_out.pairs, found), expected, "{id}");
            assert!(outcome.matrix().unwrap()[0][2].is_some(), "{id}");
        }
        assert_eq!(columns.score("concept_auc").per_concept().unwrap()[1], Some(0.5));
    }
}

#[test]
fn an_embedding_that_is_dead_is_not_blamed_on_labels() {
    let columns =
        model(120, 3, 0.5, 34).changed(TensorName::ConceptEmbeddings, |_, at, x| if at / 3 == 2 { 1.5 } else { x });
    let of_pairs = columns.score("embedding_ic");
    assert_eq!(of_pairs.left_out().unwrap().why, "embeddings of concept 'c2': a continuous variable is constant");
    for id in ["embedding_ct", "embedding_self"] {
        let outcome = columns.score(id);
        assert_eq!(outcome.left_out().unwrap().why, "concept 'c2': a continuous variable is constant", "{id}");
        assert_eq!(present(outcome.per_concept()), [true, true, false], "{id}");
    }
}

#[test]
fn too_few_rows() {
    let columns = model(200, 2, 0.5, 35);
    let few = columns.reordered(&[0, 1, 2, 3]);
    let few = few.changed(TensorName::TaskLabels, |row, _, _| (row % 2) as f64);
    let few = few.changed(TensorName::ConceptLabels, |row, i, _| ((row >> i) & 1) as f64);
    assert_eq!(few.why("ctl"), "concept 'c0': activations: 4 rows are too few: 3 neighbours need at least 5");
    assert_eq!(few.why("icl"), "activations of concept 'c0': 4 rows are too few: 3 neighbours need at least 5");
    assert_eq!(few.why("icl_label"), "activations of concept 'c0': 4 rows are too few: 3 neighbours need at least 5");
}

#[test]
fn one_concept_has_no_pairs() {
    let columns = model(100, 1, 0.5, 37);
    for id in ["icl", "icl_excess", "icl_label", "icl_label_excess", "embedding_ic"] {
        assert_eq!(columns.why(id), "there is one concept, pairs need at least two", "{id}");
    }
    assert!(columns.value("ctl") > 0.0);
}

#[test]
fn values_at_the_limits_of_the_number_range() {
    let signs = model(80, 2, 0.5, 38).changed(TensorName::ConceptActivations, |_, _, a| a.signum());
    for huge in [1e300, f64::MAX] {
        let columns = signs.clone().changed(TensorName::ConceptActivations, |_, _, sign| sign * huge);
        for columns in [columns.clone().changed(TensorName::ConceptEmbeddings, |_, _, a| a * (huge / 100.0)), columns] {
            for (id, outcome) in columns.available(PUBLISHED).into_iter().chain(columns.available(TIE_AWARE)) {
                let numbers = outcome.value().map(|value| [value.value, value.standard_error.unwrap_or_default()]);
                assert!(numbers.is_none_or(|numbers| numbers.iter().all(|x| x.is_finite())), "{id}: {outcome:?}");
            }
        }
    }
}
