//! Transformations that must not change a bit of an estimate.

use std::sync::Arc;

use information::self_information;
use rand::seq::SliceRandom;

use super::*;

/// (name, column, another column, classes).
type Named = (&'static str, Vec<f64>, Vec<f64>, Vec<i32>);

/// Tied and untied samples.
fn samples() -> Vec<Named> {
    let (x, y) = correlated(0.8, 150, 31);
    let labels: Vec<i32> = x.iter().map(|v| (v * 2.0) as i32).collect();
    let coarse = |values: &[f64]| values.iter().map(|v| (v * 8.0).round() / 8.0).collect::<Vec<_>>();
    let saturated =
        |values: &[f64]| values.iter().map(|v| f64::from(1.0 / (1.0 + ((-20.0 * v) as f32).exp()))).collect();
    vec![
        ("untied", x.clone(), y.clone(), labels.clone()),
        ("coarse", coarse(&x), coarse(&y), labels.clone()),
        ("one side tied", x.clone(), coarse(&y), labels.clone()),
        ("saturated", saturated(&x), saturated(&y), labels),
    ]
}

fn pairs_of(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).flat_map(|(&x, &y)| [x, y, x - y]).collect()
}

#[test]
fn exchanging_the_two_variables() {
    for (name, x, y, labels) in samples() {
        let variables = [
            scalar(&x, X),
            scalar(&y, Y),
            Variable::discrete(&labels),
            vector(&pairs_of(&x, &y), 3, Key { tensor: 3, ..X }),
        ];
        for settings in [tie_aware(3), published(3), tie_aware(1), published(7)] {
            for a in &variables {
                for b in &variables {
                    let (forward, backward) = (estimate(a, b, &settings), estimate(b, a, &settings));
                    assert_eq!(forward, backward, "{name}, {settings:?}");
                }
            }
        }
    }
    // The same key on both sides must not make the order of the arguments matter either.
    let (x, y) = correlated(0.3, 50, 1);
    let (x, y) = (scalar(&x, X), scalar(&y, X));
    assert_eq!(estimate(&x, &y, &published(3)), estimate(&y, &x, &published(3)));
}

#[test]
fn the_order_of_the_rows() {
    for (name, x, y, labels) in samples() {
        let rows = x.len();
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut random(8));
        let with = |order: &[usize]| {
            // Identities may be hashes or indices.
            let ids: Arc<[u64]> = order.iter().map(|&row| (row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
            let gather = |values: &[f64]| order.iter().map(|&row| values[row]).collect::<Vec<_>>();
            let vectors = pairs_of(&gather(&x), &gather(&y));
            [
                Variable::scalar(gather(&x), &ids, X),
                Variable::scalar(gather(&y), &ids, Y),
                Variable::discrete(&order.iter().map(|&row| labels[row]).collect::<Vec<_>>()),
                Variable::vector(&vectors, 3, &ids, Key { tensor: 3, ..X }),
            ]
        };
        let sorted = with(&(0..rows).collect::<Vec<_>>());
        let shuffled = with(&order);
        for settings in [tie_aware(3), published(3)] {
            for a in 0..4 {
                for b in a..4 {
                    let before = estimate(&sorted[a], &sorted[b], &settings);
                    let after = estimate(&shuffled[a], &shuffled[b], &settings);
                    let bits = |estimate: &Estimate| {
                        [estimate.value, estimate.unclipped, estimate.draw_variance].map(f64::to_bits)
                    };
                    assert_eq!(bits(&before), bits(&after), "{name}, {a} and {b}, {settings:?}");
                    let moved: Vec<f64> = order.iter().map(|&row| before.influence[row]).collect();
                    assert_eq!(moved, after.influence, "{name}, {a} and {b}, {settings:?}");
                }
            }
        }
    }
}

#[test]
fn what_was_computed_before() {
    let (_, x, y, labels) = samples().swap_remove(1);
    let fresh = || (scalar(&x, X), scalar(&y, Y), Variable::discrete(&labels));
    let used = fresh();
    for settings in [tie_aware(3), Settings { seed: 2, ..published(3) }, tie_aware(5), tie_aware(3)] {
        let new = fresh();
        assert_eq!(estimate(&used.0, &used.1, &settings), estimate(&new.0, &new.1, &settings));
        assert_eq!(estimate(&used.0, &used.2, &settings), estimate(&new.0, &new.2, &settings));
        assert_eq!(self_information(&used.0, &settings), self_information(&new.0, &settings));
    }
}

#[test]
fn the_seed_where_noise_is_added_and_only_there() {
    for (name, x, y, labels) in samples() {
        let (x, y, labels) = (scalar(&x, X), scalar(&y, Y), Variable::discrete(&labels));
        for other in [&y, &labels] {
            let with = |seed, settings| estimate(&x, other, &Settings { seed, ..settings });
            assert_eq!(with(1, tie_aware(3)), with(2, tie_aware(3)), "{name}");
        }
        let with = |seed| estimate(&x, &y, &Settings { seed, ..published(3) }).repeats;
        assert_eq!(with(1), with(1), "{name}");
        // Noise matters only where there are ties.
        assert!(x.tie_fraction() == 0.0 || with(1) != with(2), "{name}");
    }
}
