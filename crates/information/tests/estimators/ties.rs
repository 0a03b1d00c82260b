//! Ties of every degree: quantised and saturated values.

use half::{bf16, f16};
use information::self_information;

use super::oracle::{Boundary, ross, scalar_distances};
use super::*;

/// A sigmoid of `steepness` times the value, in float32 as a layer computes it.
fn sigmoids(values: &[f64], steepness: f64) -> Vec<f32> {
    values.iter().map(|v| 1.0 / (1.0 + (-(steepness * v) as f32).exp())).collect()
}

/// (name, column): the same activations at various precisions and degrees of saturation.
fn quantised(values: &[f64]) -> Vec<(&'static str, Vec<f64>)> {
    let soft = sigmoids(values, 2.0);
    let sharp = sigmoids(values, 12.0);
    vec![
        ("f32", soft.iter().map(|&v| f64::from(v)).collect()),
        ("f16", soft.iter().map(|&v| f16::from_f32(v).to_f64()).collect()),
        ("bf16", soft.iter().map(|&v| bf16::from_f32(v).to_f64()).collect()),
        ("two values", sharp.iter().map(|&v| f64::from(v.round())).collect()),
    ]
}

#[test]
fn ties_on_the_boundary_do_not_bias_ross() {
    // Half precision loses little of the values, so it must not move the estimate. Counting boundaries
    // strictly, as if no tie were on them, moves it far.
    let (x, labels) = shifted(0.8, 2, 2000, 4);
    let classes = Variable::discrete(&labels);
    let columns = quantised(&x);
    let full = estimate(&scalar(&columns[0].1, X), &classes, &tie_aware(3)).value;
    for (name, x) in &columns[1..3] {
        let value = estimate(&scalar(x, X), &classes, &tie_aware(3)).value;
        assert!((value - full).abs() < 0.015, "{name}: {value}, in float32 {full}");
    }
    // In bfloat16 most balls shrink to a point, where nothing is on their boundary.
    let (x, labels) = (&columns[1].1[..600], &labels[..600]);
    let [strict, random] =
        [Boundary::Strict, Boundary::Random].map(|boundary| ross(&scalar_distances(x), labels, 3, boundary));
    assert!(strict - random > 0.05, "strict {strict}, random {random}");
}

#[test]
fn ross_on_two_values_is_nearly_the_plug_in() {
    // With every distance tied, only the classes of the two values matter.
    let (x, labels) = shifted(1.5, 2, 2000, 5);
    let (_, x) = quantised(&x.iter().map(|v| v - 0.75).collect::<Vec<_>>()).pop().unwrap();
    let codes: Vec<i32> = x.iter().map(|&v| v as i32).collect();
    let labels = Variable::discrete(&labels);
    let ross = estimate(&scalar(&x, X), &labels, &tie_aware(3)).value;
    let plug_in = estimate(&Variable::discrete(&codes), &labels, &tie_aware(3)).value;
    assert!((ross - plug_in).abs() < 2e-3, "{ross}, plug-in {plug_in}");
}

#[test]
fn draw_variance_is_the_scatter_over_seeds() {
    let (x, y) = correlated(0.8, 300, 6);
    let coarse = |values: &[f64]| values.iter().map(|v| (v * 4.0).round()).collect::<Vec<_>>();
    let (x, y) = (scalar(&coarse(&x), X), scalar(&coarse(&y), Y));
    let estimates: Vec<Estimate> = (0..80).map(|seed| estimate(&x, &y, &Settings { seed, ..published(3) })).collect();
    let scatter = error_of_mean(&estimates.iter().map(|e| e.unclipped).collect::<Vec<_>>()).powi(2) * 80.0;
    let stated = mean(&estimates.iter().map(|e| e.draw_variance).collect::<Vec<_>>());
    assert!((0.5..2.0).contains(&(stated / scatter)), "stated {stated}, scatter {scatter}");
}

#[test]
fn both_estimators_agree_on_columns_with_few_ties() {
    let (x, y) = correlated(0.8, 1000, 12);
    let (x, y) = (quantised(&x).swap_remove(0).1, quantised(&y).swap_remove(0).1);
    let labels: Vec<i32> = y.iter().map(|&v| i32::from(v > 0.5)).collect();
    let (x, y, labels) = (scalar(&x, X), scalar(&y, Y), Variable::discrete(&labels));
    assert!(x.tie_fraction() < 0.01);
    for other in [&y, &labels] {
        let (new, old) = (estimate(&x, other, &tie_aware(3)).value, estimate(&x, other, &published(3)).value);
        assert!((new - old).abs() < 1e-3 * new, "{new} {old}");
    }
    let (new, old) = (self_information(&x, &tie_aware(3)).unwrap(), self_information(&x, &published(3)).unwrap());
    assert!((new.value - old.value).abs() < 1e-3 * new.value);
}
