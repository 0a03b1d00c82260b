//! Unknown concept labels: every score of a concept or pair is that of the rows in which its labels are known.

use leakage::prepare::Prepared;

use super::*;

const ROWS: usize = 420;
const K: usize = 4;

/// The model with labels unknown where a hash of row and concept says so: a third of those of concept 0, a fifth of
/// concept 1, half of concept 2, none of concept 3.
fn unknown(row: usize, concept: usize) -> bool {
    let share = [33, 20, 50, 0][concept];
    (row * 7919 + concept * 104_729 + row * row * 31) % 100 < share
}

fn columns(seed: u64) -> Columns {
    let mut columns = model(ROWS, K, 0.6, seed)
        .changed(TensorName::ConceptLabels, |row, i, c| if unknown(row, i) { -1.0 } else { c });
    columns.fields.missing_concept_labels = true;
    columns
}

/// The rows in which all `concepts` are known, with these concepts alone.
fn restricted(columns: &Columns, concepts: &[usize]) -> Columns {
    let order: Vec<usize> = (0..columns.rows).filter(|&row| concepts.iter().all(|&i| !unknown(row, i))).collect();
    let mut of_rows = columns.clone().reordered(&order);
    // Numbers of concepts set, which are fewer here.
    of_rows.arrays.retain(|name, _| !name.text().ends_with("intervention_predictions"));
    of_rows.fields.missing_concept_labels = false;
    of_rows.of_concepts(concepts)
}

#[test]
fn a_concept_is_scored_as_if_the_rows_without_its_label_were_deleted() {
    let columns = columns(81);
    let of_concepts = [
        "ctl",
        "ctl_excess",
        "ctl_conditional",
        "concept_gap",
        "embedding_self",
        "embedding_ct_conditional",
        "embedding_ct_conditional_positive",
        "alignment_leakage",
        "concept_accuracy",
        "concept_f1",
        "concept_auc",
        "concept_average_precision",
        "binary_accuracy",
        "concept_trustworthiness",
    ];
    let scores = columns.scores(&of_concepts, TIE_AWARE);
    for i in 0..K {
        // With a second concept, so that scores of several concepts are defined; it does not matter for the first.
        let alone = restricted(&columns, &[i]).scores(&of_concepts, TIE_AWARE);
        for id in of_concepts {
            let of = |outcome: &Outcome, at: usize| outcome.per_concept().unwrap()[at].unwrap();
            near(of(&scores[id], i), of(&alone[id], 0), &format!("{id} of concept {i}"));
        }
    }
    // Half of the weight is on concepts without unknown labels: their rows count once.
    for id in ["ctl_excess", "concept_accuracy"] {
        let parts: Vec<f64> = scores[id].per_concept().unwrap().iter().flatten().copied().collect();
        near(value(&scores[id]), mean(&parts), id);
        assert!(scores[id].left_out().is_none() && standard_error(&scores[id]) > 0.0, "{id}");
    }
}

#[test]
fn a_pair_is_scored_as_if_the_rows_without_either_label_were_deleted() {
    let columns = columns(82);
    let of_pairs = [
        "icl",
        "icl_excess",
        "icl_label",
        "icl_label_excess",
        "embedding_ic",
        "icl_conditional",
        "embedding_ic_conditional",
    ];
    for settings in [TIE_AWARE, Settings { repeats: 2, ..PUBLISHED }] {
        let scores = columns.scores(&of_pairs, settings);
        for (i, j) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
            let alone = restricted(&columns, &[i, j]).scores(&of_pairs, settings);
            for id in of_pairs {
                let cell = |outcome: &Outcome, i: usize, j: usize| outcome.matrix().unwrap()[i][j];
                for ((i, j), of_two) in [((i, j), (0, 1)), ((j, i), (1, 0))] {
                    let what = format!("{id} of {i} and {j}");
                    match (cell(&scores[id], i, j), cell(&alone[id], of_two.0, of_two.1)) {
                        // The noise of the published estimator depends on the column's number.
                        (Some(a), Some(b)) if settings.kind == PUBLISHED.kind => {
                            assert!((a - b).abs() < 1e-3, "{what}: {a} and {b}");
                        }
                        (Some(a), Some(b)) => near(a, b, &what),
                        (a, b) => panic!("{what}: {a:?} and {b:?}, {:?}", alone[id]),
                    }
                }
            }
        }
    }
}

#[test]
fn the_error_of_a_mean_is_that_of_its_concepts() {
    // One concept: the error of the mean is that of the term on its rows.
    let two = columns(83);
    let scores = two.scores(&["ctl_excess", "concept_accuracy", "icl_label_excess"], TIE_AWARE);
    assert!(scores.values().all(|outcome| standard_error(outcome) > 0.0));
    for id in ["ctl_excess", "concept_accuracy"] {
        let errors: Vec<f64> = (0..K).map(|i| standard_error(&restricted(&two, &[i]).score(id))).collect();
        let independent = errors.iter().map(|error| error * error).sum::<f64>().sqrt() / K as f64;
        let together = errors.iter().sum::<f64>() / K as f64;
        let stated = standard_error(&scores[id]);
        assert!((0.5 * independent..=together * 1.01).contains(&stated), "{id}: {stated}, {independent}, {together}");
    }
}

#[test]
fn every_score_is_finite_and_networks_take_the_known_rows() {
    let columns = columns(84);
    for (id, outcome) in columns.available(TIE_AWARE) {
        // Heads read all concepts at once; all four labels are known in about a quarter of the rows.
        assert!(outcome.value().is_some_and(|value| value.value.is_finite()), "{id}: {outcome:?}");
        let errors = outcome.value().and_then(|value| value.standard_error);
        assert!(errors.is_none_or(f64::is_finite), "{id}");
    }
    let purity = columns.score("purity");
    // Concept 3 has every label: its own network learns on the rows of the plain choice.
    let plain = model(ROWS, K, 0.6, 84).score("purity");
    assert_eq!(purity.per_concept().unwrap()[3], plain.per_concept().unwrap()[3]);
}

#[test]
fn without_unknown_labels_the_declaration_changes_no_bit() {
    let plain = model(120, 3, 0.5, 85);
    let mut declared = plain.clone();
    declared.fields.missing_concept_labels = true;
    assert_eq!(declared.available(TIE_AWARE), plain.available(TIE_AWARE));
    let (sample, run) = (declared.sample(), declared.run());
    assert!(Prepared::new(&sample, &run, TIE_AWARE).concept_rows().is_empty());
}

#[test]
fn a_concept_known_in_fewer_than_50_rows_is_left_out() {
    let known = |rows: usize| {
        let mut columns = model(200, 4, 0.5, 86)
            .changed(TensorName::ConceptLabels, |row, i, c| if i == 2 && row >= rows { -1.0 } else { c });
        columns.fields.missing_concept_labels = true;
        columns
    };
    let columns = known(49);
    for id in ["ctl", "concept_accuracy", "embedding_self", "mig", "sap", "nis", "ctl_conditional"] {
        let outcome = columns.score(id);
        let left_out = outcome.left_out().unwrap_or_else(|| panic!("{id}"));
        assert_eq!(left_out.concepts, [2], "{id}");
        assert!(left_out.why.contains("known in 49 of 200 rows, expected at least 50"), "{id}: {}", left_out.why);
    }
    assert_eq!(columns.score("icl").left_out().unwrap().concepts, [2]);
    assert_eq!(columns.score("ois").left_out().unwrap().concepts, [2]);
    let (sample, run) = (columns.sample(), columns.run());
    assert_eq!(Prepared::new(&sample, &run, TIE_AWARE).concept_rows(), [200, 200, 49, 200]);
    assert!(known(60).score("ctl").left_out().is_none());
    let none = model(200, 4, 0.5, 86).changed(TensorName::ConceptLabels, |_, _, _| -1.0);
    let mut none = none;
    none.fields.missing_concept_labels = true;
    for id in ["ctl", "icl", "concept_accuracy", "ois", "nis", "mig", "sap"] {
        assert!(why(&none.score(id)).contains("known in 0 of 200 rows, expected at least 50"), "{id}");
    }
    assert!(none.value("task_accuracy") > 0.5);
}

#[test]
fn nan_is_an_unknown_label_of_floats() {
    let minus_one = columns(87);
    let nan = minus_one.clone().changed(TensorName::ConceptLabels, |_, _, c| if c < 0.0 { f64::NAN } else { c });
    let ids = ["ctl", "icl", "concept_accuracy", "embedding_ic"];
    assert_eq!(nan.scores(&ids, TIE_AWARE), minus_one.scores(&ids, TIE_AWARE));
    // Of measured labels, −1 is a measurement.
    let measured = |unknown_as: f64| {
        let mut columns = columns(88).continuous_labels(true, false);
        columns = columns.changed(TensorName::ConceptLabels, |row, i, c| {
            if c < 0.0 { unknown_as } else { c + 0.3 * ((row * 37 + i * 11) % 101) as f64 / 101.0 }
        });
        columns.value("ctl_excess")
    };
    assert!((measured(f64::NAN) - measured(-1.0)).abs() > 1e-6);
}

/// A head whose accuracy falls from 1 to 0 with all concepts set, in rows of which `known(row)` of ten labels are known; it
/// loses nothing in the others.
fn corrected(rows: usize, known: impl Fn(usize) -> usize) -> Columns {
    let class = |row: usize| (row % 2) as f64;
    let label = |row: usize, i: usize| if i < known(row) { ((row / 2 + i) % 2) as f64 } else { -1.0 };
    let labels = (0..rows).flat_map(|row| (0..10).map(move |i| (row, i))).map(|(row, i)| label(row, i)).collect();
    let set =
        (0..rows).flat_map(|row| [class(row), if known(row) >= 5 { 1.0 - class(row) } else { class(row) }]).collect();
    let mut columns = Columns::new(rows, 10)
        .with(TensorName::ConceptLabels, &[10], labels)
        .with(TensorName::TaskLabels, &[], (0..rows).map(class).collect())
        .with(TensorName::TaskPredictions, &[], (0..rows).map(class).collect())
        .with(TensorName::InterventionPredictions, &[2], set);
    columns.fields.missing_concept_labels = true;
    columns
}

#[test]
fn concepts_are_set_in_rows_of_which_half_of_the_labels_are_known() {
    // 60 of 600 rows, of which half lack five labels.
    let columns = corrected(600, |row| match row {
        0..30 => 10,
        30..60 => 5,
        _ => 4,
    });
    let scores = columns.scores(&["intervention_drop", "intervened_task_accuracy", "intervention_area"], TIE_AWARE);
    assert_eq!(scores["intervention_drop"].value().unwrap().value, 1.0);
    assert_eq!(
        scores["intervention_drop"].value().unwrap().curve.as_deref(),
        Some(&[(0.0, Some(1.0)), (1.0, Some(0.0))][..])
    );
    assert_eq!(scores["intervened_task_accuracy"].value().unwrap().value, 0.0);
    assert_eq!(scores["intervention_area"].value().unwrap().value, 0.5);
    // The error is that of these 60 rows.
    let alone = corrected(60, |_| 10);
    near_error(&scores["intervention_drop"], &alone.score("intervention_drop"));
    let few = corrected(600, |row| if row < 49 { 10 } else { 4 });
    let why = "concepts whose label is unknown cannot be set to it, and at least half of the concept labels are known in 49 of \
               600 rows, expected at least 50: log more rows with labels of all concepts, or declare only concepts that are \
               labelled in most rows";
    for id in ["intervention_drop", "intervened_task_accuracy", "intervention_area"] {
        assert_eq!(few.why(id), why, "{id}");
    }
}

fn near_error(a: &Outcome, b: &Outcome) {
    let [a, b] = [a, b].map(|outcome| outcome.value().unwrap().standard_error.unwrap());
    assert!((a - b).abs() < 1e-12, "{a} and {b}");
}
