//! Intervention curves: closed forms of heads whose behaviour is known.

use leakage::score::Wanted;

use super::*;

const CORRECT: TensorName = TensorName::InterventionPredictions;
const WRONG: TensorName = TensorName::WrongInterventionPredictions;

/// Rows of two classes in turn; column j of `tensor` is right in the first `right[j]` of them.
fn curve(columns: Columns, tensor: TensorName, right: &[usize]) -> Columns {
    let rows = columns.rows;
    let predicted = |row: usize, right: usize| if row < right { row % 2 } else { 1 - row % 2 };
    let values = (0..rows).flat_map(|row| right.iter().map(move |&right| predicted(row, right) as f64)).collect();
    columns.with(tensor, &[right.len()], values)
}

fn task(rows: usize, k: usize) -> Columns {
    Columns::new(rows, k).with(TensorName::TaskLabels, &[], (0..rows).map(|row| (row % 2) as f64).collect())
}

fn counts(columns: Columns, counts: &[u32]) -> Columns {
    columns.constants(RunConstants { intervention_counts: counts.to_vec(), ..RunConstants::default() })
}

fn points(columns: &Columns, id: &str) -> Vec<(f64, Option<f64>)> {
    columns.score(id).value().and_then(|value| value.curve.clone()).unwrap_or_else(|| panic!("{id} has a curve"))
}

#[test]
fn the_drop_is_the_first_accuracy_less_the_last() {
    let columns = curve(task(80, 4), CORRECT, &[72, 60, 44, 30, 20]);
    assert!((columns.value("intervention_drop") - 0.65).abs() < 1e-15);
    let expected = [(0.0, 0.9), (0.25, 0.75), (0.5, 0.55), (0.75, 0.375), (1.0, 0.25)];
    assert_eq!(points(&columns, "intervention_drop"), expected.map(|(share, accuracy)| (share, Some(accuracy))));
    assert_eq!(points(&columns, "intervention_area"), points(&columns, "intervention_drop"));
    // 26 of 40 rows of each class lose a hit, none gains one: the rows are paired. Half a row's scatter is added.
    let share: f64 = 26.0 / 40.0;
    let error = (share * (1.0 - share) / 80.0 + 0.5 / 80.0_f64.powi(2)).sqrt();
    assert!((standard_error(&columns.score("intervention_drop")) - error).abs() < 1e-15);
}

#[test]
fn a_head_that_ignores_its_concepts_loses_nothing() {
    let ignoring = [48; 4];
    let columns = curve(curve(task(60, 3), CORRECT, &ignoring), WRONG, &ignoring);
    for id in ["intervention_drop", "wrong_intervention_drop"] {
        assert_eq!(columns.value(id), 0.0, "{id}");
        assert!((standard_error(&columns.score(id)) - 0.5_f64.sqrt() / 60.0).abs() < 1e-15, "{id}");
    }
    assert!((columns.value("intervention_area") - 0.8).abs() < 1e-15);
}

#[test]
fn a_head_that_reads_its_concepts_gains_from_true_ones_and_loses_from_wrong_ones() {
    let columns = curve(curve(task(60, 3), CORRECT, &[48, 52, 56, 60]), WRONG, &[48, 30, 12, 0]);
    assert!((columns.value("intervention_drop") + 0.2).abs() < 1e-15);
    assert!((columns.value("wrong_intervention_drop") - 0.8).abs() < 1e-15);
    assert_eq!(points(&columns, "wrong_intervention_drop").last(), Some(&(1.0, Some(0.0))));
}

#[test]
fn the_area_weighs_accuracies_by_the_share_of_concepts_between_them() {
    let columns = counts(curve(task(40, 8), CORRECT, &[40, 20, 10]), &[0, 2, 8]);
    let area = 0.25 * (1.0 + 0.5) / 2.0 + 0.75 * (0.5 + 0.25) / 2.0;
    assert!((columns.value("intervention_area") - area).abs() < 1e-15);
    // Evenly spaced, the mean weighs the ends by one half.
    let even = curve(task(40, 8), CORRECT, &[40, 20, 10]);
    assert!((even.value("intervention_area") - (0.5 + 0.5 + 0.125) / 2.0).abs() < 1e-15);
}

#[test]
fn undeclared_counts_are_evenly_spaced() {
    let shares = |k: usize, m: usize| -> Vec<usize> {
        let columns = curve(task(10, k), CORRECT, &vec![5; m]);
        points(&columns, "intervention_drop").iter().map(|(share, _)| (share * k as f64).round() as usize).collect()
    };
    assert_eq!(shares(7, 8), (0..=7).collect::<Vec<_>>());
    assert_eq!(shares(7, 2), [0, 7]);
    assert_eq!(shares(7, 3), [0, 4, 7]);
    assert_eq!(shares(112, 11), [0, 11, 22, 34, 45, 56, 67, 78, 90, 101, 112]);
}

#[test]
fn the_end_point_alone_gives_the_drop() {
    let predictions = |right: usize| (0..50).map(|row| ((row % 2) ^ usize::from(row >= right)) as f64).collect();
    let columns = task(50, 3).with(TensorName::TaskPredictions, &[], predictions(45)).with(
        TensorName::IntervenedTaskPredictions,
        &[],
        predictions(25),
    );
    assert!((columns.value("intervention_drop") - 0.4).abs() < 1e-15);
    assert_eq!(columns.score("intervention_drop").value().unwrap().curve, None);
    assert_eq!(columns.why("intervention_area"), "needs intervention_predictions, which was not given");
    // Missing ends of a curve are taken from the model's own predictions and the end point.
    let inner = counts(curve(columns.clone(), CORRECT, &[35]), &[1]);
    assert!((inner.value("intervention_drop") - 0.4).abs() < 1e-15);
    let area = (0.9 + 0.7) / 2.0 / 3.0 + (0.7 + 0.5) / 2.0 * 2.0 / 3.0;
    assert!((inner.value("intervention_area") - area).abs() < 1e-15);
    let open = inner.without(TensorName::IntervenedTaskPredictions);
    for id in ["intervention_drop", "intervention_area", "intervened_task_accuracy"] {
        assert_eq!(open.why(id), "intervention_predictions has no column with all concepts set", "{id}");
    }
}

#[test]
fn the_last_column_stands_in_for_the_end_point() {
    let columns = curve(task(80, 2), CORRECT, &[72, 60, 20]);
    assert_eq!(columns.value("intervened_task_accuracy"), 0.25);
    let stated = RunConstants { reference_task_accuracy: Some(1.0), ..RunConstants::default() };
    assert_eq!(columns.constants(stated).value("intervention_score"), 0.75);
}

#[test]
fn a_head_that_fails_leaves_the_score_undefined() {
    let columns = curve(curve(task(20, 2), CORRECT, &[15, 12, 10]), WRONG, &[15, 8, 2]);
    let failed = |column: usize| {
        columns.clone().changed(CORRECT, |row, at, class| if row < 3 && at == column { -1.0 } else { class })
    };
    let why = "intervention_predictions: the head gave no prediction for 3 of 20 rows at 100 % of the concepts";
    assert_eq!(failed(2).why("intervention_drop"), why);
    assert_eq!(failed(2).why("intervention_area"), why);
    // The ends are enough for the drop; the curve has a gap.
    assert_eq!(failed(1).value("intervention_drop"), 0.25);
    assert_eq!(points(&failed(1), "intervention_drop")[1], (0.5, None));
    assert!(failed(1).why("intervention_area").contains("at 50 % of the concepts"));
    assert!((failed(0).value("wrong_intervention_drop") - 0.65).abs() < 1e-15);
}

#[test]
fn a_curve_of_another_head_means_nothing() {
    // The model is right in all rows but the first `wrong`.
    let of = |right: usize, wrong: usize| {
        let own = (0..100).map(|row| ((row + usize::from(row < wrong)) % 2) as f64).collect();
        curve(task(100, 2), CORRECT, &[right, 50, 50]).with(TensorName::TaskPredictions, &[], own)
    };
    let drop = |right, wrong| of(right, wrong).value("intervention_drop");
    assert!((drop(96, 0) - 0.46).abs() < 1e-15);
    let why = "intervention_predictions with no concept set differ from the model's predictions in 30 % of rows and are less \
               accurate, so `head` is not the model's. Where its one output is a probability, pass Head(head, threshold=0.5)";
    for score in ["intervention_drop", "intervention_area", "intervened_task_accuracy"] {
        assert_eq!(of(70, 0).why(score), why);
    }
    // As accurate as the model: one that averages samples.
    assert!((drop(70, 30) - 0.2).abs() < 1e-15);
    let remark = "intervention_predictions with no concept set differ from the model's predictions in 60 % of rows: check \
                  that `head` is the model's";
    assert_eq!(of(70, 30).warnings(Wanted::Available), [remark]);
}

/// `rare` of `rows` rows are of class 1; the head answers 0 for all but the first `found` of them.
fn rare_class(rows: usize, rare: usize, found: [usize; 2]) -> Columns {
    let classes = |count: usize| (0..rows).map(|row| f64::from(u8::from(row < count))).collect::<Vec<_>>();
    let predictions = (0..rows).flat_map(|row| found.map(|found| f64::from(u8::from(row < found)))).collect();
    Columns::new(rows, 2).with(TensorName::TaskLabels, &[], classes(rare)).with(CORRECT, &[2], predictions).with(
        TensorName::TaskPredictions,
        &[],
        classes(found[0]),
    )
}

#[test]
fn a_collapse_of_a_rare_class_shows_in_balanced_accuracy_alone() {
    // 1 in 24 rows; 13 in 25 of them are found, and none under intervention.
    let columns = rare_class(2400, 100, [52, 0]);
    assert!((columns.value("task_balanced_accuracy") - 0.76).abs() < 1e-12);
    assert!((columns.value("intervened_task_balanced_accuracy") - 0.5).abs() < 1e-12);
    assert!((columns.value("intervention_drop") - 0.26).abs() < 1e-12);
    let lost = columns.value("task_accuracy") - columns.value("intervened_task_accuracy");
    assert!((lost - 52.0 / 2400.0).abs() < 1e-12);
    let (share, n): (f64, f64) = (0.52, 100.0);
    let error = (share * (1.0 - share) / (4.0 * n) + 0.5 / (2.0 * n).powi(2)).sqrt();
    assert!((standard_error(&columns.score("intervention_drop")) - error).abs() < 1e-12);
}

#[test]
fn a_class_whose_rows_move_the_score_across_its_limit_is_named() {
    let remarks = |rare| rare_class(600, rare, [rare, 0]).warnings(Wanted::Available);
    let remark =
        "task_labels: class 1 has 2 rows: each of them moves balanced accuracy by 0.25. Evaluate more rows of it";
    assert_eq!(remarks(2), [remark]);
    assert_eq!(remarks(10), [] as [&str; 0]);
    // All that the rows show is not known exactly: the interval of a drop of one half reaches 0.15.
    let error = standard_error(&rare_class(600, 2, [2, 0]).score("intervention_drop"));
    assert!((0.17..0.18).contains(&error), "{error}");
}

/// A task that is a number: y from −1 to 1, of variance v; predictions are y plus an error of ±e, so that R² = 1 − e²/v.
fn measured(errors: &[f64]) -> (Columns, f64) {
    let rows = 101;
    let y: Vec<f64> = (0..rows).map(|row| (row as f64 - 50.0) / 50.0).collect();
    let variance = y.iter().map(|y| y * y).sum::<f64>() / rows as f64;
    let side = |row: usize| if row.is_multiple_of(2) { 1.0 } else { -1.0 };
    let predictions = (0..rows).flat_map(|row| {
        let y = y[row];
        errors.iter().map(move |error| y + side(row) * error)
    });
    let columns = Columns::new(rows, errors.len() - 1).continuous_labels(false, true);
    let columns = columns.with(CORRECT, &[errors.len()], predictions.collect());
    (columns.with(TensorName::TaskLabels, &[], y), variance)
}

#[test]
fn numbers_from_0_to_1_as_task_logits_are_no_probabilities() {
    let (columns, _) = measured(&[0.1, 0.2]);
    let logits = (0..columns.rows).map(|row| (row % 5) as f64 / 4.0).collect();
    let said = columns.with(TensorName::TaskLogits, &[1], logits).warnings(Wanted::Available);
    assert!(!said.iter().any(|warning| warning.contains("probabilities of class 1")), "{said:?}");
}

#[test]
fn of_a_task_that_is_a_number_the_drop_is_that_of_r2() {
    let (columns, variance) = measured(&[0.1, 0.2, 0.4]);
    let r2 = |error: f64| 1.0 - error * error / variance;
    assert!((columns.value("intervention_drop") - (r2(0.1) - r2(0.4))).abs() < 1e-12);
    assert!((columns.value("intervened_task_r2") - r2(0.4)).abs() < 1e-12);
    let area = 0.25 * r2(0.1) + 0.5 * r2(0.2) + 0.25 * r2(0.4);
    assert!((columns.value("intervention_area") - area).abs() < 1e-12);
    let shares: Vec<f64> = points(&columns, "intervention_drop").iter().map(|(share, _)| *share).collect();
    assert_eq!(shares, [0.0, 0.5, 1.0]);
    // A head of a target that is scaled otherwise than the predictions.
    let own = columns.arrays[&TensorName::TaskLabels].1.clone();
    let scaled = columns.clone().with(TensorName::TaskPredictions, &[], own).changed(CORRECT, |_, _, y| 3.0 * y + 1.0);
    let why = scaled.why("intervention_drop");
    assert!(
        why.ends_with(
            "or predicts in another unit than task_predictions: undo the scaling of the target in `head`, too"
        )
    );
    // Whatever unit the task is measured in.
    let in_grams = columns
        .clone()
        .changed(TensorName::TaskLabels, |_, _, y| 1000.0 * y + 7.0)
        .changed(CORRECT, |_, _, y| 1000.0 * y + 7.0);
    assert!((in_grams.value("intervention_drop") - columns.value("intervention_drop")).abs() < 1e-9);
    // Worse than a constant is as good as one.
    let (useless, _) = measured(&[0.1, 50.0]);
    assert!((useless.value("intervention_drop") - r2(0.1)).abs() < 1e-12);
    let (nothing, _) = measured(&[40.0, 50.0]);
    let why = "the model predicts the task no better than a constant, with and without intervention";
    assert_eq!(nothing.why("intervention_drop"), why);
    // Without a column of no concepts the model's own predictions are compared.
    let own = columns.clone().with(TensorName::TaskPredictions, &[], columns.arrays[&TensorName::TaskLabels].1.clone());
    assert_eq!((own.value("task_r2"), own.value("task_mae")), (1.0, 0.0));
    let off =
        own.clone().changed(TensorName::TaskPredictions, |row, _, y| if row % 2 == 0 { y + 0.5 } else { y - 0.25 });
    assert!((off.value("task_mae") - (51.0 * 0.5 + 50.0 * 0.25) / 101.0).abs() < 1e-12);
    // Classes have no R², numbers no accuracy.
    assert!(own.score("task_accuracy").value().is_none());
    assert!(own.score("intervened_task_accuracy").value().is_none());
    let classes = curve(task(60, 3), CORRECT, &[48, 52, 56, 60]);
    assert!(classes.score("intervened_task_r2").value().is_none());
}

#[test]
fn a_prediction_that_is_no_number_is_none() {
    let (columns, _) = measured(&[0.1, 0.4]);
    let without = columns.changed(CORRECT, |row, at, y| if (row, at) == (3, 1) { f64::NAN } else { y });
    let why = without.why("intervention_drop");
    assert!(why.contains("no prediction for 1 of 101 rows at 100 %"), "{why}");
}
