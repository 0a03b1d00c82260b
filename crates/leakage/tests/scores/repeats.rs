//! Rows that are copies of others count once, and no other row is taken for a copy.

use leakage::repeats::distinct_rows;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::*;

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

fn float32(value: f64) -> f64 {
    f64::from(value as f32)
}

/// `k` concepts of a task with `classes`, as logits: what a head sees varies about ±2 with a part that all concepts share.
fn ordinary(rows: usize, k: usize, classes: usize, seed: u64) -> Columns {
    let mut random = random(seed);
    let prototypes = gaussians(classes * k, &mut random);
    let (mut activations, mut labels, mut task) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rows {
        let class = random.random_range(0..classes);
        let shared = gaussians(1, &mut random)[0];
        for concept in 0..k {
            let noise = gaussians(2, &mut random);
            let label = f64::from(u8::from(prototypes[class * k + concept] + noise[0] > 0.0));
            labels.push(label);
            activations.push(2.0 * (2.0 * label - 1.0) + 0.7 * shared + 0.7 * noise[1]);
        }
        task.push(class as f64);
    }
    Columns::new(rows, k)
        .with(TensorName::ConceptActivations, &[k], activations)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], task)
}

/// Class-level concepts: `least` to `most` rows of each class, whose labels are alike and whose logits are ±`height`.
fn class_level(k: usize, classes: usize, [least, most]: [usize; 2], height: f64, noise: f64, seed: u64) -> Columns {
    let mut random = random(seed);
    let prototypes: Vec<f64> = (0..classes * k).map(|_| coin(0.5, &mut random)).collect();
    let of_rows: Vec<usize> = (0..classes).flat_map(|class| vec![class; random.random_range(least..=most)]).collect();
    let labels: Vec<f64> = of_rows.iter().flat_map(|&class| prototypes[class * k..(class + 1) * k].to_vec()).collect();
    let activations =
        labels.iter().map(|label| height * (2.0 * label - 1.0) + noise * gaussians(1, &mut random)[0]).collect();
    Columns::new(of_rows.len(), k)
        .with(TensorName::ConceptActivations, &[k], activations)
        .with(TensorName::ConceptLabels, &[k], labels)
        .with(TensorName::TaskLabels, &[], of_rows.iter().map(|&class| class as f64).collect())
}

fn probabilities(logits: Columns, sharpness: f64) -> Columns {
    logits
        .changed(TensorName::ConceptActivations, |_, _, z| float32(sigmoid(sharpness * z)))
        .kind(ActivationKind::Probability)
}

/// `copies` of each row for which `of` is true, in random order, with noise of this many standard deviations of a column.
fn repeated(columns: &Columns, copies: usize, noise: f64, of: impl Fn(usize) -> bool, seed: u64) -> Columns {
    let mut random = random(seed);
    let mut order: Vec<usize> = (0..columns.rows).flat_map(|row| vec![row; if of(row) { copies } else { 1 }]).collect();
    order.shuffle(&mut random);
    let (dims, values) = &columns.arrays[&TensorName::ConceptActivations];
    let k = dims[0];
    let spreads: Vec<f64> =
        (0..k).map(|i| standard_deviation(&values.iter().skip(i).step_by(k).copied().collect::<Vec<_>>())).collect();
    let disturbed = gaussians(order.len() * k, &mut random);
    columns.clone().reordered(&order).changed(TensorName::ConceptActivations, |row, column, value| {
        if noise == 0.0 { value } else { value + noise * spreads[column] * disturbed[row * k + column] }
    })
}

/// The columns with one row of each group of copies.
fn once(columns: &Columns) -> Option<Columns> {
    distinct_rows(&columns.sample(), &columns.run()).map(|found| columns.clone().reordered(&found.rows))
}

/// Those that copies raise; of many concepts the fast ones.
fn scores_of(k: usize) -> &'static [&'static str] {
    if k > 20 { &["icl", "ctl"] } else { &["icl", "ctl", "icl_conditional", "ctl_conditional"] }
}

#[test]
fn copies_of_a_whole_set_count_once() {
    for (k, rows, copies, noise) in [
        (3, 250, 2, 0.0),
        (3, 250, 4, 0.01),
        (3, 1000, 2, 0.01),
        (3, 500, 8, 0.0),
        (7, 250, 8, 0.01),
        (7, 1000, 2, 0.0),
        (112, 250, 4, 0.0),
        (112, 250, 4, 0.01),
    ] {
        for is_probability in [false, true] {
            let logits = ordinary(rows, k, 2, 11);
            let prepare = |columns| if is_probability { probabilities(columns, 2.0) } else { columns };
            let original = prepare(logits.clone());
            let copied = prepare(repeated(&logits, copies, noise, |_| true, 12));
            let found = once(&copied).unwrap_or_else(|| panic!("{copies} copies of {rows} × {k}, noise {noise}"));
            let case = format!("{copies} copies of {rows} × {k}, noise {noise}, probabilities: {is_probability}");
            let share = found.rows as f64 / rows as f64;
            assert!((0.9..=1.25).contains(&share), "{case}: {} rows", found.rows);
            if noise == 0.0 {
                assert_eq!(found.rows, rows, "{case}");
            }
            for id in scores_of(k) {
                let [expected, value] = [&original, &found].map(|columns| columns.value(id));
                assert!((value - expected).abs() < 0.05, "{case}: {id} {value}, of the rows once {expected}");
            }
        }
    }
}

#[test]
fn copies_of_one_class_count_once() {
    for (k, noise, classes) in [(3, 0.0, 2), (3, 0.01, 2), (20, 0.01, 10), (112, 0.0, 5)] {
        let original = ordinary(800, k, classes, 21);
        let task = original.arrays[&TensorName::TaskLabels].1.clone();
        let copied = repeated(&original, 4, noise, |row| task[row] == 1.0, 22);
        let found = once(&copied).unwrap_or_else(|| panic!("one of {classes} classes, k = {k}, noise {noise}"));
        for id in scores_of(k) {
            let [expected, value] = [&original, &found].map(|columns| columns.value(id));
            let rows = found.rows;
            assert!(
                (value - expected).abs() < 0.05,
                "{rows} rows, k = {k}, noise {noise}: {id} {value}, once {expected}"
            );
        }
    }
}

/// Half of the rows of a steep model are exactly 0 or 1 in each column.
#[test]
fn copies_are_recognised_where_activations_saturate() {
    let original = probabilities(ordinary(1000, 3, 2, 31), 8.0);
    let found = once(&repeated(&original, 4, 0.0, |_| true, 32)).expect("four copies");
    assert!((900..=1100).contains(&found.rows), "{}", found.rows);
    for id in ["icl", "ctl", "icl_conditional", "ctl_conditional"] {
        let [expected, value] = [&original, &found].map(|columns| columns.value(id));
        assert!((value - expected).abs() < 0.05, "{id} {value}, of the rows once {expected}");
    }
}

#[test]
fn copies_of_any_number_count_once() {
    let original = ordinary(600, 4, 2, 51);
    let one_often: Vec<usize> = (0..600).chain([7; 300]).collect();
    let padded = original.clone().reordered(&one_often);
    for (case, copied) in [
        ("17 copies", repeated(&original, 17, 0.0, |_| true, 52)),
        ("17 copies of probabilities", probabilities(repeated(&original, 17, 0.0, |_| true, 53), 2.0)),
        ("one row 300 times more", padded),
        ("20 passes that differ by 0.5 %", repeated(&original, 20, 0.005, |_| true, 54)),
    ] {
        let found = once(&copied).unwrap_or_else(|| panic!("{case}"));
        assert!((590..=620).contains(&found.rows), "{case}: {} rows", found.rows);
    }
}

/// A row for each of five annotators, who err in a tenth of the labels.
#[test]
fn labels_that_differ_between_copies_stay_as_frequent_as_they_are() {
    let mut random = random(61);
    let mut order: Vec<usize> = (0..600).flat_map(|row| [row; 5]).collect();
    let original = ordinary(600, 4, 2, 62);
    let errs: Vec<bool> = (0..12_000).map(|_| coin(0.1, &mut random) == 1.0).collect();
    let annotated = original.clone().reordered(&order).changed(TensorName::ConceptLabels, |row, concept, label| {
        if errs[4 * row + concept] { 1.0 - label } else { label }
    });
    // Sorted by a label, as a table of votes may be.
    let labels = annotated.arrays[&TensorName::ConceptLabels].1.clone();
    order = (0..3000).collect();
    order.sort_by(|&a, &b| labels[4 * a].total_cmp(&labels[4 * b]));
    for annotated in [annotated.clone(), annotated.reordered(&order)] {
        let found = distinct_rows(&annotated.sample(), &annotated.run()).expect("five copies");
        assert_eq!((found.rows.len(), found.repeated), (600, 2400));
        assert!((900..1500).contains(&found.relabelled), "{}", found.relabelled);
        let scored = annotated.clone().reordered(&found.rows);
        let [value, expected] = [&scored, &annotated].map(|columns| columns.value("concept_accuracy"));
        assert!((value - expected).abs() < 0.01, "concept accuracy {value}, of all rows {expected}");
    }
}

#[test]
fn values_of_few_levels_and_rows_of_collapsed_classes_are_no_copies() {
    for seed in 0..40 {
        // Leaves of decision trees: levels at irregular distances, of which each concept has its own or all share one.
        for (k, leaves) in [(2, 8), (2, 30), (3, 5), (3, 12), (5, 4), (8, 20)] {
            let mut random = random(seed);
            let levels = gaussians(k * leaves, &mut random);
            let own: Vec<usize> = (0..2000 * k).map(|_| random.random_range(0..leaves)).collect();
            let trees = ordinary(2000, k, 2, seed).changed(TensorName::ConceptActivations, |row, column, _| {
                levels[column * leaves + own[row * k + column]]
            });
            let one_tree = trees
                .clone()
                .changed(TensorName::ConceptActivations, |row, column, _| levels[column * leaves + own[row * k]]);
            assert!(once(&trees).is_none(), "trees of {leaves} leaves, k = {k}, seed {seed}");
            assert!(once(&one_tree).is_none(), "one tree of {leaves} leaves, k = {k}, seed {seed}");
        }
    }
    for (k, classes, rows) in [(20, 20, [20, 60]), (112, 40, [20, 60]), (12, 200, [20, 40])] {
        let collapsed = class_level(k, classes, rows, 8.0, 0.02, 71);
        assert!(once(&collapsed).is_none(), "{classes} classes × {k}");
    }
}

#[test]
fn no_row_of_an_ordinary_sample_is_taken_for_a_copy() {
    let half =
        |columns: Columns| columns.changed(TensorName::ConceptActivations, |_, _, p| half::f16::from_f64(p).to_f64());
    let levels = |columns: Columns, levels: f64| {
        columns.changed(TensorName::ConceptActivations, move |_, _, p| (levels * p).round() / levels)
    };
    let hard = |columns: Columns| {
        columns
            .changed(TensorName::ConceptActivations, |_, _, z| f64::from(u8::from(z > 0.0)))
            .kind(ActivationKind::Hard)
    };
    for seed in 0..25 {
        for (k, rows) in [(2, 200), (2, 1000), (3, 200), (3, 2000), (7, 500), (20, 300)] {
            let logits = ordinary(rows, k, 2 + seed as usize % 5, seed);
            let latent = gaussians(rows, &mut random(seed));
            let one_latent = logits.clone().changed(TensorName::ConceptActivations, |row, column, _| {
                latent[row] * (1.0 + column as f64) - 0.3 * column as f64
            });
            let without_labels = [TensorName::ConceptLabels, TensorName::TaskLabels]
                .into_iter()
                .fold(logits.clone(), |columns, name| columns.changed(name, |_, _, _| 0.0));
            for (kind, columns) in [
                ("logits", logits.clone()),
                ("logits without labels", without_labels.clone()),
                ("half precision without labels", half(probabilities(without_labels, 2.0))),
                ("probabilities", probabilities(logits.clone(), 1.0)),
                ("steep probabilities", probabilities(logits.clone(), 6.0)),
                ("steeper probabilities", probabilities(logits.clone(), 15.0)),
                ("half precision", half(probabilities(logits.clone(), 2.0))),
                ("steep, half precision", half(probabilities(logits.clone(), 6.0))),
                ("ten levels", levels(probabilities(logits.clone(), 1.0), 10.0)),
                ("hundred levels", levels(probabilities(logits.clone(), 1.0), 100.0)),
                ("hard", hard(logits)),
                ("one latent", one_latent.clone()),
                ("one latent, half precision", half(probabilities(one_latent, 1.0))),
            ] {
                assert!(once(&columns).is_none(), "{kind}, {rows} × {k}, seed {seed}");
            }
        }
    }
}

#[test]
fn rows_of_a_saturated_class_are_no_copies() {
    for seed in 0..3 {
        for (k, classes, rows) in [(112, 200, [3, 10]), (12, 200, [3, 10]), (20, 20, [20, 40])] {
            for (height, noise) in [(4.0, 1.0), (8.0, 1.0), (8.0, 0.5), (10.0, 1.0), (16.0, 1.0), (30.0, 1.0)] {
                let logits = class_level(k, classes, rows, height, noise, seed);
                for columns in [probabilities(logits.clone(), 1.0), logits] {
                    assert!(
                        once(&columns).is_none(),
                        "{classes} classes × {k}, ±{height} with noise {noise}, seed {seed}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_order_and_the_ids_of_rows_do_not_matter() {
    let copied = repeated(&ordinary(300, 5, 2, 41), 3, 0.0, |_| true, 42);
    let mut order: Vec<usize> = (0..copied.rows).collect();
    order.shuffle(&mut random(43));
    let [a, b] = [copied.clone(), copied.reordered(&order)].map(|columns| once(&columns).expect("three copies"));
    assert_eq!((a.rows, b.rows), (300, 300));
    assert!((a.value("icl") - b.value("icl")).abs() < 1e-12);
}
