//! Information does not depend on the units of the variables.

use information::{Strata, conditional_information};

use super::*;

const RATIOS: [f64; 6] = [1.0, 3.0, 10.0, 1e3, 1e6, 1e-6];

fn scaled(values: &[f64], factor: f64) -> Vec<f64> {
    values.iter().map(|value| factor * value).collect()
}

#[test]
fn gaussian_columns_have_their_information_at_any_ratio_of_units() {
    for correlation in [0.0, 0.5, 0.9] {
        let truth = -0.5 * (1.0_f64 - correlation * correlation).ln();
        let (x, y) = correlated(correlation, 2000, 3);
        let value = |x: &[f64], y: &[f64]| estimate(&scalar(x, X), &scalar(y, Y), &tie_aware(3));
        let in_one_unit = value(&x, &y);
        for ratio in RATIOS {
            for found in [value(&x, &scaled(&y, ratio)), value(&scaled(&x, ratio), &y)] {
                let error = found.sampling_error();
                assert!(
                    (found.unclipped - truth).abs() < 0.08,
                    "ρ = {correlation}, ratio {ratio}: {}",
                    found.unclipped
                );
                assert!((found.unclipped - in_one_unit.unclipped).abs() < error, "ρ = {correlation}, ratio {ratio}");
            }
        }
    }
}

#[test]
fn one_outlier_does_not_hide_the_other_rows() {
    let (x, y) = correlated(0.9, 2000, 4);
    let clean = estimate(&scalar(&x, X), &scalar(&y, Y), &tie_aware(3));
    for rows in [100, 2000] {
        let (x, mut y) = (x[..rows].to_vec(), y[..rows].to_vec());
        let clean = if rows == 2000 { clean.clone() } else { estimate(&scalar(&x, X), &scalar(&y, Y), &tie_aware(3)) };
        y[17] = 1e6;
        let found = estimate(&scalar(&x, X), &scalar(&y, Y), &tie_aware(3));
        assert!(
            (found.unclipped - clean.unclipped).abs() < 2.0 * clean.sampling_error(),
            "N = {rows}: {}",
            found.unclipped
        );
    }
}

#[test]
fn powers_of_two_do_not_change_a_bit() {
    let (x, y) = correlated(0.7, 400, 5);
    let coarse = |values: &[f64]| values.iter().map(|v| (v * 8.0).round() / 8.0).collect::<Vec<_>>();
    let narrow = |values: &[f64]| values.iter().map(|v| f64::from(*v as f32)).collect::<Vec<_>>();
    let triples = |values: &[f64]| -> Vec<f64> { values.iter().flat_map(|&v| [v, 0.3 * v * v, v.sin()]).collect() };
    for (name, x, y) in
        [("untied", x.clone(), y.clone()), ("float32", narrow(&x), narrow(&y)), ("coarse", coarse(&x), coarse(&y))]
    {
        let columns = estimate(&scalar(&x, X), &scalar(&y, Y), &tie_aware(3));
        let mixed = estimate(&vector(&triples(&x), 3, X), &scalar(&y, Y), &tie_aware(3));
        let labels: Vec<i32> = x.iter().map(|x| i32::from(*x > 0.2)).collect();
        let conditional = |x: &[f64], y: &[f64]| {
            let [x, y] = [scalar(x, X), scalar(y, Y)];
            conditional_information(&x, &y, &Variable::discrete(&labels), &tie_aware(3))
                .expect("it is defined")
                .estimate
        };
        for exponent in [-300, -20, -1, 1, 7, 300] {
            let factor = 2_f64.powi(exponent);
            assert_eq!(
                estimate(&scalar(&scaled(&x, factor), X), &scalar(&y, Y), &tie_aware(3)),
                columns,
                "{name}, 2^{exponent}"
            );
            assert_eq!(
                estimate(&scalar(&x, X), &scalar(&scaled(&y, factor), Y), &tie_aware(3)),
                columns,
                "{name}, 2^{exponent}"
            );
            let block = vector(&scaled(&triples(&x), factor), 3, X);
            assert_eq!(estimate(&block, &scalar(&y, Y), &tie_aware(3)), mixed, "{name}, 2^{exponent}");
            assert_eq!(conditional(&x, &scaled(&y, factor)), conditional(&x, &y), "{name}, 2^{exponent}");
        }
    }
}

#[test]
fn the_published_estimator_takes_columns_as_they_come() {
    let (x, y) = correlated(0.9, 1000, 6);
    let value = |factor: f64| estimate(&scalar(&x, X), &scalar(&scaled(&y, factor), Y), &published(3)).unclipped;
    assert!(value(1.0) > 0.75 && value(1e3) < 0.3, "{} and {}", value(1.0), value(1e3));
}

/// A stratum has a spread of its own.
#[test]
fn strata_are_brought_to_units_one_by_one() {
    let (x, y) = correlated(0.9, 2000, 7);
    let truth = -0.5 * (1.0_f64 - 0.81).ln();
    let labels: Vec<i32> = (0..2000).map(|row| row % 2).collect();
    let uneven: Vec<f64> = y.iter().enumerate().map(|(row, y)| if row % 2 == 0 { *y } else { 1e4 * y }).collect();
    let [x, y, c] = [scalar(&x, X), scalar(&uneven, Y), Variable::discrete(&labels)];
    let found = Strata::new(&x, &c, &tie_aware(3)).expect("both strata are large").information_with_each(&[&y]);
    let value = found[0].as_ref().expect("it is defined").estimate.unclipped;
    assert!((value - truth).abs() < 0.08, "{value}");
}
