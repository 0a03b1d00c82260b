//! Distributions whose mutual information is known.

use information::{mutual_information_with_each, self_information};

use super::*;

#[test]
fn bivariate_gaussian() {
    // (correlation, rows, tolerance): at k = 3 the estimator's standard deviation is about 1/√N.
    let table = [
        (0.0, 250, 0.12),
        (0.0, 1000, 0.07),
        (0.0, 4000, 0.035),
        (0.3, 1000, 0.07),
        (0.3, 4000, 0.035),
        (0.6, 250, 0.15),
        (0.6, 1000, 0.07),
        (0.6, 4000, 0.035),
        (-0.9, 250, 0.15),
        (-0.9, 1000, 0.08),
        (0.9, 4000, 0.04),
        (0.99, 4000, 0.05),
    ];
    for (correlation, rows, tolerance) in table {
        let truth = -0.5 * (1.0_f64 - correlation * correlation).ln();
        let (x, y) = correlated(correlation, rows, 11);
        let (x, y) = (scalar(&x, X), scalar(&y, Y));
        for settings in [tie_aware(3), published(3)] {
            let value = estimate(&x, &y, &settings).unclipped;
            let kind = settings.kind;
            assert!(
                (value - truth).abs() < tolerance,
                "{kind:?} ρ = {correlation}, N = {rows}: {value}, truth {truth}"
            );
        }
    }
}

#[test]
fn gaussian_vectors() {
    // Three independent pairs of coordinates, whose mutual information is additive.
    let rows = 2000;
    let (mut x, mut y) = (vec![0.0; 3 * rows], vec![0.0; 3 * rows]);
    let mut truth = 0.0;
    for (at, correlation) in [0.3, 0.5, 0.7_f64].into_iter().enumerate() {
        truth -= 0.5 * (1.0 - correlation * correlation).ln();
        let (a, b) = correlated(correlation, rows, 20 + at as u64);
        for row in 0..rows {
            (x[3 * row + at], y[3 * row + at]) = (a[row], b[row]);
        }
    }
    let value = estimate(&vector(&x, 3, X), &vector(&y, 3, Y), &tie_aware(3)).value;
    assert!((value - truth).abs() < 0.1, "{value}, truth {truth}");
}

#[test]
fn gaussian_classes() {
    // I(X;C) = h(X) − h(X|C), the first by numerical integration of the mixture.
    let truth = |shift: f64, classes: i32| {
        let density = |x: f64, mean: f64| (-(x - mean).powi(2) / 2.0).exp() / std::f64::consts::TAU.sqrt();
        let step = 1e-3;
        let entropy: f64 = (-10_000..30_000)
            .map(|at| f64::from(at) * step)
            .map(|x| (0..classes).map(|c| density(x, shift * f64::from(c))).sum::<f64>() / f64::from(classes))
            .filter(|p| *p > 0.0)
            .map(|p| -p * p.ln() * step)
            .sum();
        entropy - 0.5 * (std::f64::consts::TAU * std::f64::consts::E).ln()
    };
    for (shift, classes, rows, tolerance) in
        [(0.0, 2, 500, 0.08), (1.0, 2, 500, 0.08), (1.0, 2, 4000, 0.03), (2.0, 4, 2000, 0.05), (6.0, 3, 2000, 0.02)]
    {
        let truth = truth(shift, classes);
        let (x, labels) = shifted(shift, classes, rows, 5);
        let labels = Variable::discrete(&labels);
        // Coordinates that carry no information do not change that of a vector.
        let pairs: Vec<f64> =
            x.iter().zip(gaussians(rows, &mut random(6))).flat_map(|(&x, noise)| [x, 0.1 * noise]).collect();
        for (shape, x) in [("scalar", scalar(&x, X)), ("vector", vector(&pairs, 2, X))] {
            let value = estimate(&x, &labels, &tie_aware(3)).value;
            assert!((value - truth).abs() < tolerance, "{shape}, shift {shift}, N = {rows}: {value}, truth {truth}");
        }
    }
}

#[test]
fn independent_variables_scatter_about_zero_and_are_not_clipped() {
    let each = |pair: &dyn Fn(u64) -> (Variable, Variable)| -> Vec<f64> {
        (0..60).map(pair).map(|(x, y)| estimate(&x, &y, &tie_aware(3)).value).collect()
    };
    let continuous = each(&|seed| {
        let (x, y) = correlated(0.0, 300, seed);
        (scalar(&x, X), scalar(&y, Y))
    });
    let discrete = each(&|seed| {
        let (x, labels) = shifted(0.0, 3, 300, seed);
        (scalar(&x, X), Variable::discrete(&labels))
    });
    for values in [continuous, discrete] {
        assert!(mean(&values).abs() < 4.0 * error_of_mean(&values), "{}", mean(&values));
        assert!(values.iter().filter(|&&value| value < 0.0).count() > 15);
    }
    // The published estimator clips, which turns noise about 0 into a positive mean.
    let clipped: Vec<Estimate> = (0..60)
        .map(|seed| correlated(0.0, 300, seed))
        .map(|(x, y)| estimate(&scalar(&x, X), &scalar(&y, Y), &published(3)))
        .collect();
    assert!(clipped.iter().all(|estimate| estimate.value >= 0.0));
    assert!(clipped.iter().any(|estimate| estimate.unclipped < 0.0 && estimate.value == 0.0));
}

#[test]
fn discrete_tables() {
    // (x, y, number of rows).
    let table = |cells: &[(i32, i32, usize)]| {
        let column = |of: fn(&(i32, i32, usize)) -> i32| {
            Variable::discrete(&cells.iter().flat_map(|cell| vec![of(cell); cell.2]).collect::<Vec<_>>())
        };
        (column(|cell| cell.0), column(|cell| cell.1))
    };
    let ln2 = std::f64::consts::LN_2;
    type Cells = &'static [(i32, i32, usize)];
    let cases: [(Cells, f64); 4] = [
        (&[(0, 0, 5), (0, 1, 5), (1, 0, 5), (1, 1, 5)], 0.0),
        (&[(-3, 7, 8), (4, 2, 8)], ln2),
        (&[(0, 0, 3), (0, 1, 1), (1, 0, 1), (1, 1, 3)], 0.75 * 1.5_f64.ln() + 0.25 * 0.5_f64.ln()),
        (&[(0, 0, 4), (0, 1, 4)], 0.0),
    ];
    for (cells, truth) in cases {
        let (x, y) = table(cells);
        for settings in [tie_aware(3), published(3)] {
            assert!((estimate(&x, &y, &settings).value - truth).abs() < 1e-14, "{cells:?}");
        }
    }
    // Many classes on both sides take another path.
    let codes: Vec<i32> = (0..900).collect();
    let many = (Variable::discrete(&codes), Variable::discrete(&codes.iter().map(|c| c / 2).collect::<Vec<_>>()));
    assert!((estimate(&many.0, &many.1, &tie_aware(3)).value - 450_f64.ln()).abs() < 1e-12);
}

#[test]
fn self_information_is_the_entropy_or_a_function_of_rows_and_neighbours() {
    let entropy = |codes: &[i32]| self_information(&Variable::discrete(codes), &tie_aware(3)).unwrap().value;
    assert!((entropy(&[0, 0, 1, 1]) - std::f64::consts::LN_2).abs() < 1e-13);
    assert!((entropy(&[3, 3, 3, 9]) - (0.75 * (4.0_f64 / 3.0).ln() + 0.25 * 4_f64.ln())).abs() < 1e-13);
    assert_eq!(entropy(&[8; 5]), 0.0);
    // ψ(N) − ψ(k) = 1/k + … + 1/(N−1).
    for (rows, neighbours) in [(50, 1), (500, 3), (500, 10)] {
        let expected = (neighbours..rows).map(|n| 1.0 / n as f64).sum::<f64>() - 1.0 / neighbours as f64;
        let (x, y) = correlated(0.0, rows, 3);
        let pairs: Vec<f64> = x.iter().zip(&y).flat_map(|(&x, &y)| [x, y]).collect();
        for variable in [scalar(&x, X), vector(&pairs, 2, X)] {
            let exact = self_information(&variable, &tie_aware(neighbours)).unwrap();
            assert!((exact.value - expected).abs() < 1e-13);
            assert_eq!(exact.draw_variance, 0.0);
            let noisy = self_information(&variable, &published(neighbours)).unwrap();
            assert!((noisy.value - expected).abs() < 1e-3 * expected, "{} {expected}", noisy.value);
        }
        // A copy is not recognised as such, and gives the same value.
        let copy = estimate(&scalar(&x, X), &scalar(&x, Y), &tie_aware(neighbours));
        assert!((copy.value - expected).abs() < 1e-12, "{} {expected}", copy.value);
    }
}

#[test]
fn more_neighbours_bias_towards_zero() {
    let neighbours = [1, 3, 10, 40];
    let bias = |pair: &dyn Fn(u64) -> (Variable, Variable)| -> Vec<f64> {
        let of = |k: usize| (0..15).map(pair).map(|(x, y)| estimate(&x, &y, &tie_aware(k)).value).sum();
        neighbours.iter().map(|&k| of(k)).map(|sum: f64| sum / 15.0).collect()
    };
    let continuous = bias(&|seed| {
        let (x, y) = correlated(0.98, 250, seed);
        (scalar(&x, X), scalar(&y, Y))
    });
    // Narrow classes, so that a wide ball reaches the next one.
    let discrete = bias(&|seed| {
        let (x, labels) = shifted(3.0, 5, 250, seed);
        (scalar(&x, X), Variable::discrete(&labels))
    });
    assert!(continuous.is_sorted_by(|fewer, more| fewer > more), "{continuous:?}");
    for values in [continuous, discrete] {
        assert!(values[1] > values[3] + 0.02 && values[2] > values[3] + 0.02, "{values:?}");
    }
}

#[test]
fn standard_errors_are_the_scatter_over_samples() {
    let pairs: [&dyn Fn(u64) -> (Variable, Variable); 3] = [
        &|seed| {
            let (x, y) = correlated(0.7, 400, seed);
            (scalar(&x, X), scalar(&y, Y))
        },
        &|seed| {
            let (x, labels) = shifted(1.5, 2, 400, seed);
            (scalar(&x, X), Variable::discrete(&labels))
        },
        &|seed| {
            let (x, y) = correlated(0.7, 400, seed);
            let sign = |values: &[f64]| values.iter().map(|&v| i32::from(v > 0.0)).collect::<Vec<_>>();
            (Variable::discrete(&sign(&x)), Variable::discrete(&sign(&y)))
        },
    ];
    for pair in pairs {
        let samples: Vec<Estimate> = (0..150).map(pair).map(|(x, y)| estimate(&x, &y, &tie_aware(3))).collect();
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        let scatter = error_of_mean(&values) * 150_f64.sqrt();
        let stated = mean(&samples.iter().map(Estimate::sampling_error).collect::<Vec<_>>());
        assert!((0.75..1.35).contains(&(stated / scatter)), "stated {stated}, scatter {scatter}");
        assert!(samples.iter().all(|sample| sample.influence.iter().sum::<f64>().abs() < 1e-9));
    }
}

#[test]
fn estimates_with_each_label_are_those_of_one_label_at_a_time() {
    let (x, labels) = shifted(1.0, 3, 200, 9);
    let sparse: Vec<i32> = (0..200).map(|row| if row < 190 { row % 7 } else { row }).collect();
    let noise = gaussians(200 * 4, &mut random(10));
    let wide: Vec<f64> = (0..200).flat_map(|row| [x[row], noise[row], noise[200 + row], noise[400 + row]]).collect();
    let others = [
        Variable::discrete(&labels),
        scalar(&noise[600..], Y),
        Variable::discrete(&sparse),
        Variable::discrete(&[1; 200]),
        Variable::discrete(&[1, 2]),
    ];
    let others: Vec<&Variable> = others.iter().collect();
    for x in [scalar(&x, X), vector(&wide, 4, X), Variable::discrete(&labels)] {
        for settings in [tie_aware(3), published(3)] {
            let together = mutual_information_with_each(&x, &others, &settings);
            let alone: Vec<_> = others.iter().map(|y| mutual_information(&x, y, &settings)).collect();
            assert_eq!(together, alone);
        }
    }
}
