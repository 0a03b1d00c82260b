//! The error of a score's change between two samples.

use leakage::prepare::Prepared;
use leakage::score::Influences;
use leakage::score::catalogue::Cost;
use rand_distr::Distribution;

use super::*;

fn influences(columns: &Columns, ids: &[u64]) -> Influences {
    let (sample, run) = (columns.sample(), columns.run());
    let prepared = Prepared::new(&sample, &run, TIE_AWARE);
    Influences::of(&prepared, ids, Cost::AT_ONCE)
}

/// The same rows slightly later, with every activation slightly changed.
fn later(columns: &Columns, seed: u64) -> Columns {
    let mut random = random(seed);
    let moves: Vec<f64> =
        (0..columns.rows * columns.k()).map(|_| -> f64 { rand_distr::StandardNormal.sample(&mut random) }).collect();
    let k = columns.k();
    columns.clone().changed(TensorName::ConceptActivations, |row, i, value| value + 0.2 * moves[row * k + i])
}

#[test]
fn rows_in_common_are_paired_and_others_are_not() {
    let (before, n) = (model(400, 3, 0.5, 41), 400);
    let after = later(&before, 42);
    let ids: Vec<u64> = (0..n).collect();
    let other: Vec<u64> = (n..2 * n).collect();
    let earlier = influences(&before, &ids);
    assert!(earlier.change_errors(&earlier).iter().all(|(_, error)| *error < 1e-12), "nothing has changed");
    let errors = |columns: &Columns, ids: &[u64]| influences(columns, ids).change_errors(&earlier);
    let (same, none) = (errors(&after, &ids), errors(&after, &other));
    // The second half of the rows, and the first half with new identities.
    let order: Vec<usize> = (0..400).map(|row| (row + 200) % 400).collect();
    let some = errors(&after.clone().reordered(&order), &(n / 2..n / 2 + n).collect::<Vec<u64>>());
    assert_eq!(same.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), TRENDS);
    for (at, (id, unpaired)) in none.iter().enumerate() {
        let apart = standard_error(&before.score(id)).hypot(standard_error(&after.score(id)));
        assert!((unpaired / apart - 1.0).abs() < 1e-9, "{id}: {unpaired} and {apart}");
        assert!(same[at].1 < 0.95 * apart && same[at].1 < some[at].1 && some[at].1 < *unpaired, "{id}");
    }
}

#[test]
fn the_error_is_the_scatter_of_changes_over_data_sets() {
    const SETS: u64 = 60;
    let mut found = vec![(Vec::new(), Vec::new()); TRENDS.len()];
    for seed in 0..SETS {
        let before = model(400, 3, 0.5, 1000 + seed);
        let after = later(&before, 2000 + seed);
        let ids: Vec<u64> = (0..400).collect();
        let errors = influences(&after, &ids).change_errors(&influences(&before, &ids));
        let [after, before] = [&after, &before].map(|columns| columns.scores(&TRENDS, TIE_AWARE));
        for ((changes, stated), (id, error)) in found.iter_mut().zip(errors) {
            changes.push(value(&after[&id]) - value(&before[&id]));
            stated.push(error);
        }
    }
    for (id, (changes, stated)) in TRENDS.iter().zip(&found) {
        let ratio = mean(stated) / standard_deviation(changes);
        println!("{id}: stated {:.4}, scatter {:.4}, ratio {ratio:.2}", mean(stated), standard_deviation(changes));
        // 60 sets give a standard deviation to within 9 %; errors of neighbours are too small, as those of the values
        // are.
        assert!((0.65..1.35).contains(&ratio), "{id}: {ratio}");
    }
}
