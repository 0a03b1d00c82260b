//! Several tasks: each score of the task is, for each of them, that of a run with this task alone and the rows in which its
//! label is known; the others do not change.

use leakage::run::Task;
use leakage::score::catalogue::{CATALOGUE, Cost};
use leakage::score::expected::expected;
use leakage::score::reads_task;

use super::*;

const ROWS: usize = 420;
const K: usize = 4;

/// Runs over the same rows, each with a task of its own: the model's, and the first concept with noise.
fn single() -> [Columns; 2] {
    let mut first = model(ROWS, K, 0.6, 91);
    first.fields.constants.reference_task_accuracy = None;
    let logits: Vec<f64> = first.arrays[&TensorName::TaskLogits].1.chunks(2).map(|row| row[1]).collect();
    let first = first.with(TensorName::TaskLogits, &[1], logits);
    let concepts = first.arrays[&TensorName::ConceptLabels].1.clone();
    let flipped = |row: usize| (row * 7919 + row * row * 31) % 100 < 10;
    let second = first
        .clone()
        .changed(
            TensorName::TaskLabels,
            |row, _, _| if flipped(row) { 1.0 - concepts[row * K] } else { concepts[row * K] },
        )
        .changed(TensorName::TaskLogits, |row, _, logit| 0.3 * logit + 2.0 * concepts[row * K] - 1.0)
        .changed(TensorName::IntervenedTaskPredictions, |row, _, _| concepts[row * K]);
    [first, second]
}

/// One run with the tasks of all, each of its kind.
fn together(runs: &[Columns]) -> Columns {
    let mut whole = runs[0].clone();
    let t = runs.len();
    let task = |(at, run): (usize, &Columns)| Task {
        name: format!("task {at}"),
        cardinality: 2,
        label_kind: Some(run.fields.task_label_kind),
    };
    whole.fields.tasks = runs.iter().enumerate().map(task).collect();
    for (name, (dims, values)) in &mut whole.arrays {
        if !name.is_of_task() {
            continue;
        }
        let width: usize = dims.iter().product();
        let cell = |at: usize| runs.iter().map(move |run| run.arrays[name].1[at]);
        *values = (0..ROWS * width).flat_map(cell).collect();
        *dims = if *name == TensorName::TaskLogits { vec![t] } else { [dims.clone(), vec![t]].concat() };
    }
    whole
}

/// Scores that come without a part that a mean over tasks takes from elsewhere.
fn assert_each_is_its_own(whole: &Columns, single: &[Columns]) {
    let found = whole.available(TIE_AWARE);
    let expected: Vec<_> = single.iter().map(|run| run.available(TIE_AWARE)).collect();
    let mut of_tasks = 0;
    let is_expected = |id: &str| expected.iter().any(|scores| scores.contains_key(id));
    for score in CATALOGUE.iter().filter(|score| is_expected(score.id)) {
        let outcome = &found[score.id];
        if !reads_task(score) {
            assert_eq!(outcome, &expected[0][score.id], "{}", score.id);
            continue;
        }
        of_tasks += 1;
        // A score of numbers alone is no score of a task of classes.
        let of_classes = || Outcome::undefined("needs task_labels as numbers, which was not given");
        let own: Vec<Outcome> =
            expected.iter().map(|scores| scores.get(score.id).cloned().unwrap_or_else(of_classes)).collect();
        assert_eq!(outcome.per_task(), Some(&own[..]), "{}", score.id);
        let values: Vec<f64> = own.iter().filter_map(|one| Some(one.value()?.value)).collect();
        match outcome.value() {
            Some(value) => assert_eq!(value.value, mean(&values), "{}", score.id),
            None => assert!(values.is_empty(), "{}: {outcome:?}", score.id),
        }
    }
    assert!(of_tasks > 25, "{of_tasks}");
}

#[test]
fn two_tasks_are_scored_as_two_runs_over_the_same_rows() {
    let single = single();
    assert_each_is_its_own(&together(&single), &single);
}

/// The first task of [`single`], and the noisy number of concepts that a row has.
fn of_two_kinds() -> [Columns; 2] {
    let [first, _] = single();
    let concepts = first.arrays[&TensorName::ConceptLabels].1.clone();
    let number = |row: usize| concepts[row * K..(row + 1) * K].iter().sum::<f64>() + (row * 7919 % 101) as f64 / 101.0;
    let second = first
        .clone()
        .continuous_labels(false, true)
        .changed(TensorName::TaskLabels, |row, _, _| number(row))
        .changed(TensorName::TaskLogits, |row, _, logit| number(row) + 0.1 * logit)
        .changed(TensorName::IntervenedTaskPredictions, |row, _, _| number(row).round());
    [first, second]
}

#[test]
fn a_class_and_a_number_are_scored_as_two_runs_over_the_same_rows() {
    let single = of_two_kinds();
    let whole = together(&single);
    assert_each_is_its_own(&whole, &single);
    let scores = whole.scores(&["task_accuracy", "task_r2", "ctl_conditional_r2"], TIE_AWARE);
    let of_tasks =
        |id: &str| scores[id].per_task().unwrap().iter().map(|one| one.value().is_some()).collect::<Vec<_>>();
    assert_eq!(of_tasks("task_accuracy"), [true, false]);
    assert_eq!(why(&scores["task_accuracy"].per_task().unwrap()[1]), "the task labels are not classes");
    assert_eq!([of_tasks("task_r2"), of_tasks("ctl_conditional_r2")], [[false, true], [false, true]]);
    assert!(value(&scores["task_r2"]) > 0.9);
}

#[test]
fn unknown_labels_of_a_class_and_of_a_number_are_left_out() {
    let runs = of_two_kinds();
    // An unknown class is −1 or NaN, and an unknown number NaN alone.
    let mark = |row: usize, task: usize| if task == 0 && row.is_multiple_of(2) { -1.0 } else { f64::NAN };
    let is_unknown = |row: usize, task: usize| is_unknown(row + task, 1, 2);
    let mut whole = together(&runs)
        .changed(TensorName::TaskLabels, |row, task, y| if is_unknown(row, task) { mark(row, task) } else { y });
    whole.fields.missing_task_labels = true;
    let scores = whole.scores(&["ctl_conditional", "intervention_drop"], TIE_AWARE);
    for (task, run) in runs.into_iter().enumerate() {
        let known: Vec<usize> = (0..ROWS).filter(|&row| !is_unknown(row, task)).collect();
        let expected = run.reordered(&known).scores(&["ctl_conditional", "intervention_drop"], TIE_AWARE);
        for (id, outcome) in &scores {
            let (found, expected) = (value(&outcome.per_task().unwrap()[task]), value(&expected[id]));
            assert!((found - expected).abs() < 1e-9, "{id} of {task}: {found} {expected}");
        }
    }
}

#[test]
fn the_error_of_the_mean_is_the_mean_of_the_errors() {
    let outcome = together(&single()).score("ctl_conditional");
    let errors: Vec<f64> = outcome.per_task().unwrap().iter().map(standard_error).collect();
    assert_eq!(standard_error(&outcome), mean(&errors));
    let per_concept = outcome.per_concept().unwrap();
    let of_task = |task: usize, i: usize| outcome.per_task().unwrap()[task].per_concept().unwrap()[i].unwrap();
    assert!((0..K).all(|i| per_concept[i] == Some(mean(&[of_task(0, i), of_task(1, i)]))));
}

/// Without the label of a task in a third of the rows, unknown as `mark` says.
fn with_unknown(columns: &Columns, t: usize, mark: f64) -> Columns {
    let mut unknown =
        columns.clone().changed(TensorName::TaskLabels, |row, task, y| if is_unknown(row, task, t) { mark } else { y });
    unknown.fields.missing_task_labels = true;
    unknown
}

fn is_unknown(row: usize, task: usize, t: usize) -> bool {
    (row * 7919 + row * row * 31) % 100 < 33 && task + 1 == t
}

#[test]
fn a_third_of_the_labels_unknown_is_as_if_their_rows_were_deleted() {
    let [first, second] = single();
    let known: Vec<usize> = (0..ROWS).filter(|&row| !is_unknown(row, 1, 2)).collect();
    let of_known = second.clone().reordered(&known);
    let ids =
        ["ctl", "ctl_excess", "ctl_conditional", "task_accuracy", "task_auc", "intervention_drop", "embedding_ct"];
    let expected = of_known.scores(&ids, TIE_AWARE);
    let whole = with_unknown(&together(&[first.clone(), second.clone()]), 2, -1.0).scores(&ids, TIE_AWARE);
    let alone = with_unknown(&second, 1, -100.0).scores(&ids, TIE_AWARE);
    let untouched = first.scores(&ids, TIE_AWARE);
    for id in ids {
        assert_eq!(whole[id].per_task().unwrap()[0], untouched[id], "{id}");
        let found = [&whole[id].per_task().unwrap()[1], &alone[id]];
        for found in found {
            assert!((value(found) - value(&expected[id])).abs() < 1e-9, "{id}: {found:?} {:?}", expected[id]);
            assert_eq!(found.per_task(), None);
        }
    }
}

#[test]
fn a_task_with_few_known_labels_has_no_value_and_the_mean_is_over_the_others() {
    let runs = single();
    let rare = |row: usize, task: usize, y: f64| if task == 1 && row >= 49 { -1.0 } else { y };
    let mut columns = together(&runs).changed(TensorName::TaskLabels, rare);
    columns.fields.missing_task_labels = true;
    let outcome = columns.score("ctl_conditional");
    assert_eq!(value(&outcome), runs[0].value("ctl_conditional"));
    let of_second = &outcome.per_task().unwrap()[1];
    assert_eq!(why(of_second), "its label is known in 49 of 420 rows, expected at least 50");
    assert_eq!(value(&columns.score("icl_conditional")), runs[0].value("icl_conditional"));
}

#[test]
fn the_test_of_several_tasks_is_that_of_the_strongest_times_their_number() {
    let runs = single();
    let tested = |columns: &Columns| {
        let (sample, run) = (columns.sample(), columns.run());
        let prepared = leakage::prepare::Prepared::new(&sample, &run, TIE_AWARE);
        let go_on = |_: usize, _: usize, _: &_| std::ops::ControlFlow::Continue(());
        let tests = leakage::score::test(&prepared, |score| score.id == "ctl_conditional", go_on).unwrap();
        tests.into_iter().next().unwrap().1
    };
    let whole = tested(&together(&runs));
    let own: Vec<_> = runs.iter().map(tested).collect();
    assert_eq!(whole.per_task, own);
    let lowest = own.iter().filter_map(|one| one.p_value).fold(1.0, f64::min);
    assert_eq!(whole.p_value, Some((2.0 * lowest).min(1.0)));
    let mut outcome = together(&runs).score("ctl_conditional");
    outcome.add(whole);
    assert_eq!(outcome.per_task().unwrap()[0].p_value(), own[0].p_value);
}

#[test]
fn scores_of_each_task_are_expected_to_take_their_time() {
    let single = single();
    let of = |columns: &Columns, cost| expected(&columns.sample(), &columns.run(), cost);
    let (one, two) = (&single[0], &together(&single));
    assert_eq!(of(two, Cost::Cheap), 2 * of(one, Cost::Cheap));
    assert_eq!(of(two, Cost::Fast), of(one, Cost::Fast));
    assert!(of(two, Cost::Slow) > of(one, Cost::Slow));
}
