//! The rows that carry a leak, on planted leaks, and the shares of classes.

use leakage::prepare::Prepared;
use leakage::run::Task;
use leakage::score::{LeakingRows, LeakingRowsOfAll, LeakingRowsOfTasks};
use rand::RngExt;

use super::*;

fn leaking(columns: &Columns, top: usize, settings: Settings) -> LeakingRowsOfAll {
    of_tasks(columns, top, settings).rows(0).unwrap().clone()
}

fn of_tasks(columns: &Columns, top: usize, settings: Settings) -> LeakingRowsOfTasks {
    let (sample, run) = (columns.sample(), columns.run());
    LeakingRowsOfTasks::of(&Prepared::new(&sample, &run, settings), top)
}

/// Logits of `k` binary concepts that a tenth of the rows shifts by `shift` times a number of the row's class. Row r leaks
/// where r is divisible by 10.
fn planted(rows: usize, k: usize, classes: usize, shift: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let (mut logits, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..rows {
        let class = random.random_range(0..classes);
        let noise = gaussians(k, &mut random);
        for noise in noise {
            let concept = coin(0.5, &mut random);
            let told = if row % 10 == 0 { 2.0 * class as f64 - (classes - 1) as f64 } else { 0.0 };
            logits.push(3.0 * (2.0 * concept - 1.0) + noise + shift * told);
            labels.push(concept);
        }
        task.push(class as f64);
    }
    Columns::new(rows, k)
        .with(TensorName::ConceptActivations, &[k], logits)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], task)
}

/// The share of the first rows that leak.
fn precision(found: &LeakingRows) -> f64 {
    found.rows.iter().filter(|row| row.id % 10 == 0).count() as f64 / found.rows.len() as f64
}

#[test]
fn four_fifths_of_the_first_tenth_are_rows_that_leak() {
    for (k, classes, shift) in [(1, 2, 6.0), (4, 2, 4.0), (20, 2, 2.5), (1, 10, 4.0), (8, 10, 1.0)] {
        let mut of_own = 0.0;
        let mut found = Vec::new();
        for seed in 1..4 {
            let rows = leaking(&planted(2_000, k, classes, shift, seed), 2_000, TIE_AWARE).mean;
            let mut by_term = rows.clone();
            by_term.rows.sort_by(|a, b| b.term.total_cmp(&a.term));
            by_term.rows.truncate(200);
            of_own += precision(&by_term) / 3.0;
            found.push(precision(&LeakingRows { rows: rows.rows[..200].to_vec(), ..rows }));
        }
        println!("{k} concepts, {classes} classes, shift {shift}: {found:.2?}, by own terms {of_own:.2}");
        assert!(found.iter().all(|precision| *precision >= 0.8), "{k} {classes} {shift}: {found:?}");
    }
}

#[test]
fn terms_and_shares_add_up_to_the_score() {
    let mut columns = planted(600, 3, 5, 1.0, 4);
    columns.fields.constants.concept_weights = vec![1.0, 2.0, 0.5];
    let unknown = {
        let mut columns =
            columns.clone().changed(TensorName::ConceptLabels, |row, i, c| if row % 3 == i { -1.0 } else { c });
        columns.fields.missing_concept_labels = true;
        columns
    };
    let alone =
        columns.clone().changed(TensorName::TaskLabels, |row, _, y| if row < 20 { 5.0 + row as f64 } else { y });
    for columns in [columns, unknown, alone] {
        for settings in [TIE_AWARE, PUBLISHED] {
            let found = leaking(&columns, 600, settings);
            let score = columns.scores(&["ctl_conditional"], settings).remove("ctl_conditional").unwrap();
            let parts = score.per_concept().unwrap();
            let of_concepts =
                found.concepts.iter().zip(parts).map(|(rows, value)| (rows.as_ref().unwrap(), value.unwrap()));
            for (rows, value) in of_concepts.chain([(&found.mean, value(&score))]) {
                assert!((rows.value - value).abs() < 1e-12);
                assert!((rows.by_class.iter().map(|class| class.share).sum::<f64>() - value).abs() < 1e-12);
                assert!((rows.rows.iter().map(|row| row.term).sum::<f64>() / 600.0 - value).abs() < 1e-12);
                assert_eq!(rows.by_class.iter().map(|class| class.rows).sum::<u64>(), 600);
                let sums = rows.by_class.iter().map(|class| class.mean * class.rows as f64 / 600.0 - class.share);
                assert!(sums.into_iter().all(|difference| difference.abs() < 1e-12));
                assert!(rows.rows.is_sorted_by(|a, b| a.local >= b.local));
            }
        }
    }
}

#[test]
fn a_class_that_alone_leaks_has_the_whole_share() {
    // The activations of one of four classes lie apart: its rows hold ln 4, and the others ln(4/3) each.
    let columns = planted(4_000, 1, 4, 0.0, 5);
    let task = columns.arrays[&TensorName::TaskLabels].1.clone();
    let columns =
        columns.changed(TensorName::ConceptActivations, |row, _, x| if task[row] == 2.0 { x + 40.0 } else { x });
    let found = leaking(&columns, 4_000, TIE_AWARE).mean;
    for class in &found.by_class {
        let truth = if class.label == 2 { 1.0 } else { (4.0_f64 / 3.0).ln() / 4.0_f64.ln() };
        assert!((class.mean - truth).abs() < 0.06, "{class:?}");
    }
    assert!(found.rows[..900].iter().all(|row| row.task_label == 2.0));
}

#[test]
fn a_group_that_alone_leaks_has_the_whole_score() {
    // Rows that leak are those divisible by 10: group 7 of 10.
    let columns = planted(3_000, 2, 2, 5.0, 11);
    let columns = columns.with(TensorName::Groups, &[], (0..3_000).map(|row| ((row + 7) % 10) as f64).collect());
    let found = leaking(&columns, 1, TIE_AWARE).mean;
    assert_eq!(found.by_group.iter().map(|group| group.label).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
    assert!((found.by_group.iter().map(|group| group.share).sum::<f64>() - found.value).abs() < 1e-12);
    for group in &found.by_group {
        // ln 2 / H(y) in each of its rows.
        assert!((group.mean - f64::from(u8::from(group.label == 7))).abs() < 0.2, "{group:?}");
    }
}

#[test]
fn the_order_and_the_scale_of_rows_change_nothing() {
    let columns = planted(400, 2, 3, 1.0, 6);
    let order: Vec<usize> = (0..400).map(|row| (row * 7) % 400).collect();
    let by_row = |found: &LeakingRowsOfAll, id: &dyn Fn(u64) -> u64| {
        let mut rows: Vec<(u64, f64, f64)> =
            found.mean.rows.iter().map(|row| (id(row.id), row.local, row.term)).collect();
        rows.sort_by_key(|(id, ..)| *id);
        rows
    };
    let before = by_row(&leaking(&columns, 400, TIE_AWARE), &|id| id);
    let scaled = columns.clone().changed(TensorName::ConceptActivations, |_, _, x| -4.0 * x);
    let changed = [
        by_row(&leaking(&columns.clone().reordered(&order), 400, TIE_AWARE), &|id| order[id as usize] as u64),
        by_row(&leaking(&scaled, 400, TIE_AWARE), &|id| id),
    ];
    for after in changed {
        for (before, after) in before.iter().zip(&after) {
            assert_eq!(before.0, after.0);
            assert!((before.1 - after.1).abs() < 1e-12 && (before.2 - after.2).abs() < 1e-12, "{before:?} {after:?}");
        }
    }
}

#[test]
fn rows_with_equal_activations_share_a_local_mean() {
    let columns = planted(500, 1, 2, 1.0, 7).changed(TensorName::ConceptActivations, |_, _, x| x.round());
    let (activations, labels, task) = (
        columns.arrays[&TensorName::ConceptActivations].1.clone(),
        columns.arrays[&TensorName::ConceptLabels].1.clone(),
        columns.arrays[&TensorName::TaskLabels].1.clone(),
    );
    let rows = leaking(&columns, 500, TIE_AWARE).mean.rows;
    let place = |id: u64| (activations[id as usize], labels[id as usize], task[id as usize]);
    for pair in rows.iter().flat_map(|a| rows.iter().map(move |b| (a, b))) {
        if place(pair.0.id) == place(pair.1.id) {
            assert_eq!(pair.0.local, pair.1.local);
        }
    }
}

#[test]
fn numbers_and_categorical_concepts_have_rows_too() {
    let columns = planted(400, 2, 2, 2.0, 8);
    let numbers = columns.clone().continuous_labels(true, true);
    let found = leaking(&numbers, 10, TIE_AWARE);
    assert!(found.mean.by_class.is_empty() && found.mean.rows.len() == 10);
    let hard = columns
        .clone()
        .kind(ActivationKind::Hard)
        .changed(TensorName::ConceptActivations, |_, _, x| f64::from(u8::from(x > 0.0)));
    assert_eq!(leaking(&hard, 10, TIE_AWARE).mean.rows.len(), 10);
    let mut random = random(9);
    let (mut activations, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..900 {
        let (label, class) = (random.random_range(0..3), random.random_range(0..2));
        let noise = gaussians(3, &mut random);
        let told = if row % 10 == 0 { 8.0 * class as f64 - 4.0 } else { 0.0 };
        activations.extend(
            (0..3).map(|at| if at == label { 4.0 } else { 0.0 } + noise[at] + if at == 0 { told } else { 0.0 }),
        );
        labels.push(label as f64);
        task.push(class as f64);
    }
    let categorical = Columns::new(900, 1)
        .cardinalities(&[3])
        .with(TensorName::ConceptActivations, &[3], activations)
        .with(TensorName::ConceptLabels, &[1], labels)
        .with(TensorName::TaskLabels, &[], task);
    let found = leaking(&categorical, 90, TIE_AWARE);
    assert!(precision(&found.mean) > 0.7, "{}", precision(&found.mean));
}

#[test]
fn without_a_score_there_is_a_reason() {
    let columns = planted(100, 1, 2, 1.0, 10).changed(TensorName::TaskLabels, |_, _, _| 0.0);
    let why = of_tasks(&columns, 10, TIE_AWARE).rows(0).unwrap_err();
    assert_eq!(why, columns.why("ctl_conditional"));
}

#[test]
fn several_tasks_have_the_rows_that_each_has_alone() {
    // The second task leaks, the first is noise, and the third has one class.
    let columns = planted(600, 2, 3, 2.0, 12);
    let own = columns.arrays[&TensorName::TaskLabels].1.clone();
    let noise: Vec<f64> = (0..600).map(|row| f64::from(row * 7919 % 13 > 5)).collect();
    let alone = |labels: &[f64]| columns.clone().with(TensorName::TaskLabels, &[], labels.to_vec());
    let mut whole = columns.clone().with(
        TensorName::TaskLabels,
        &[3],
        (0..600).flat_map(|row| [noise[row], own[row], 1.0]).collect(),
    );
    whole.fields.tasks = ["noise", "leak", "constant"]
        .map(|name| Task { name: name.into(), cardinality: 3, ..Task::default() })
        .to_vec();
    let found = of_tasks(&whole, 50, TIE_AWARE);
    assert_eq!(found.rows(0), Ok(&leaking(&alone(&noise), 50, TIE_AWARE)));
    assert_eq!(found.rows(1), Ok(&leaking(&alone(&own), 50, TIE_AWARE)));
    assert_eq!(found.rows(2).unwrap_err(), "task 'constant': task_labels: there is one class only");
    assert_eq!((found.task(None), found.name(1)), (Ok(1), Some("leak")), "the task that leaks most");
    assert_eq!(found.task(Some("noise")), Ok(0));
    assert_eq!(found.task(Some("nobody")).unwrap_err(), "got 'nobody', expected one of noise, leak, constant");
    let unnamed = of_tasks(&columns, 1, TIE_AWARE);
    assert_eq!((unnamed.task(None), unnamed.name(0)), (Ok(0), None));
    assert_eq!(unnamed.task(Some("leak")).unwrap_err(), "got 'leak', but the only task has no name; leave it out");
    // Rows whose label is unknown are those of no task, as if they had not been logged.
    let known: Vec<usize> = (0..600).filter(|row| row % 3 > 0).collect();
    let mut unknown =
        whole.changed(TensorName::TaskLabels, |row, task, y| if task == 1 && row % 3 == 0 { -1.0 } else { y });
    unknown.fields.missing_task_labels = true;
    let expected = leaking(&alone(&own).reordered(&known), 50, TIE_AWARE).mean;
    let rows = of_tasks(&unknown, 50, TIE_AWARE).rows(1).unwrap().mean.clone();
    assert!((rows.value - expected.value).abs() < 1e-12);
    let ids: Vec<u64> = expected.rows.iter().map(|row| known[row.id as usize] as u64).collect();
    assert_eq!(rows.rows.iter().map(|row| row.id).collect::<Vec<_>>(), ids);
}
