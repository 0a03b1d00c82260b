//! Conditional information against closed forms, brute force and the chain rule.

use information::{
    Conditional, Permutations, Strata, Undefined, conditional_information, conditional_information_with_each,
    values_together,
};
use proptest::prelude::*;
use rand::RngExt;
use rand::seq::SliceRandom;

use super::oracle::{Boundary, ross};
use super::*;

/// I(X;Y|C) of a continuous c.
fn given_number(x: &Variable, y: &Variable, c: &[f64], k: usize) -> Conditional {
    let c = scalar(c, Key { tensor: 3, coordinate: 0 });
    conditional_information(x, y, &c, &tie_aware(k)).expect("the variables vary and have enough rows")
}

fn conditional(x: &Variable, y: &Variable, c: &[i32], settings: &Settings) -> Conditional {
    conditional_information(x, y, &Variable::discrete(c), settings).expect("the variables vary and have enough rows")
}

fn classes(rows: usize, count: i32, random: &mut ChaCha8Rng) -> Vec<i32> {
    (0..rows).map(|_| random.random_range(0..count)).collect()
}

/// A value within this many standard errors of the truth.
fn near(found: &Conditional, truth: f64, errors: f64) {
    let Estimate { value, .. } = found.estimate;
    let error = found.estimate.sampling_error();
    assert!((value - truth).abs() < errors * error + 1e-12, "{value} ± {error}, not {truth}");
}

#[test]
fn of_gaussians_within_strata_it_is_their_information_whatever_the_strata() {
    let (rows, correlation) = (3000, 0.6_f64);
    let (x, y) = correlated(correlation, rows, 1);
    let c = classes(rows, 3, &mut random(2));
    // Far apart between strata, which the plain information counts and the conditional one does not.
    let [x, y] = [x, y].map(|column| column.iter().zip(&c).map(|(x, &c)| x + 5.0 * f64::from(c)).collect::<Vec<_>>());
    let truth = -0.5 * (1.0 - correlation * correlation).ln();
    for settings in [tie_aware(3), published(3)] {
        let (x, y) = (scalar(&x, X), scalar(&y, Y));
        near(&conditional(&x, &y, &c, &settings), truth, 4.0);
        assert!(estimate(&x, &y, &settings).value > truth + 0.5);
        near(&conditional(&y, &x, &c, &settings), truth, 4.0);
    }
}

#[test]
fn what_is_independent_within_strata_has_none() {
    let rows = 2048;
    let mut random = random(3);
    let y = classes(rows, 200, &mut random);
    let c: Vec<i32> = y.iter().map(|y| y % 2).collect();
    let noise = gaussians(rows, &mut random);
    let logits: Vec<f64> = noise.iter().zip(&c).map(|(x, &c)| x + 8.0 * f64::from(c) - 4.0).collect();
    let sigmoids: Vec<f64> = logits.iter().map(|x| f64::from((1.0 / (1.0 + (-4.0 * x).exp())) as f32)).collect();
    let hard: Vec<i32> = logits.iter().map(|&x| i32::from(x > 3.5)).collect();
    let vectors: Vec<f64> = logits.iter().zip(gaussians(rows, &mut random)).flat_map(|(&a, b)| [a, b]).collect();
    let x = [scalar(&logits, X), scalar(&sigmoids, X), Variable::discrete(&hard), vector(&vectors, 2, X)];
    for x in x {
        for (y, label) in [(Variable::discrete(&y), "classes"), (scalar(&gaussians(rows, &mut random), Y), "numbers")] {
            let found = conditional(&x, &y, &c, &tie_aware(3));
            println!("{label}: {} ± {}", found.estimate.value, found.estimate.sampling_error());
            near(&found, 0.0, 4.0);
        }
        let y = Variable::discrete(&y);
        assert!(estimate(&x, &y, &tie_aware(3)).value > 0.3, "without strata it is at least that of the concept");
    }
}

#[test]
fn an_exclusive_or_is_all_information_within_strata_and_none_without() {
    let rows = 2000;
    let mut random = random(4);
    let (c, bit) = (classes(rows, 2, &mut random), classes(rows, 2, &mut random));
    let y: Vec<i32> = c.iter().zip(&bit).map(|(c, bit)| c ^ bit).collect();
    let soft: Vec<f64> = bit.iter().zip(gaussians(rows, &mut random)).map(|(&b, z)| 20.0 * f64::from(b) + z).collect();
    let y = Variable::discrete(&y);
    for x in [Variable::discrete(&bit), scalar(&soft, X)] {
        for settings in [tie_aware(3), published(3)] {
            let found = conditional(&x, &y, &c, &settings);
            assert!((found.estimate.value - 2.0_f64.ln()).abs() < 2e-3, "{}", found.estimate.value);
            assert!(estimate(&x, &y, &settings).value < 0.01);
        }
    }
}

#[test]
fn counted_without_adjustment_it_obeys_the_chain_rule() {
    let rows = 900;
    let mut random = random(5);
    let [x, y, c] = [4, 5, 3].map(|count| classes(rows, count, &mut random));
    let x: Vec<i32> = x.iter().zip(&y).zip(&c).map(|((&x, &y), &c)| if x == 0 { y } else { x + c }).collect();
    let [x_, y_, c_] = [&x, &y, &c].map(|codes| Variable::discrete(codes));
    let settings = published(3);
    let plain = |a: &Variable, b: &Variable| estimate(a, b, &settings).value;
    let [forward, backward] = [conditional(&x_, &y_, &c, &settings), conditional(&c_, &y_, &x, &settings)];
    assert_eq!((forward.left_out.len(), backward.left_out.len()), (0, 0));
    let difference = forward.estimate.value - backward.estimate.value;
    assert!((difference - (plain(&x_, &y_) - plain(&c_, &y_))).abs() < 1e-12);
    // The adjustment lowers it by about (classes of x − 1)(classes of y − 1)/2N in each stratum.
    let adjusted = conditional(&x_, &y_, &c, &tie_aware(3)).estimate.value;
    assert!((forward.estimate.value - adjusted - 3.0 * 20.0 / (2.0 * rows as f64)).abs() < 0.01);
}

/// Ross's estimator within each stratum by brute force: the value, and the rows left out.
fn by_brute_force(x: &[Vec<f64>], y: &[i32], c: &[i32], k: usize) -> Option<(f64, usize)> {
    let mut strata = c.to_vec();
    strata.sort_unstable();
    strata.dedup();
    let (mut sum, mut kept) = (0.0, 0);
    for stratum in strata {
        let rows: Vec<usize> = (0..c.len()).filter(|&row| c[row] == stratum).collect();
        let labels: Vec<i32> = rows.iter().map(|&row| y[row]).collect();
        let paired: Vec<i32> =
            labels.iter().copied().filter(|label| labels.iter().filter(|other| *other == label).count() > 1).collect();
        kept += paired.len();
        let distances: Vec<Vec<f64>> = rows
            .iter()
            .map(|&a| rows.iter().map(|&b| x[a].iter().zip(&x[b]).map(|(a, b)| (a - b).powi(2)).sum()).collect())
            .collect();
        if paired.iter().any(|label| *label != paired[0]) {
            sum += paired.len() as f64 * ross(&distances, &labels, k, Boundary::Random);
        }
    }
    (2 * kept >= c.len()).then(|| (sum / kept.max(1) as f64, c.len() - kept))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn it_is_the_brute_force_estimate_with_any_ties_and_any_strata(
        seed: u64,
        rows in 6..90_usize,
        strata in 1..5_i32,
        count in 2..8_i32,
        levels in prop_oneof![Just(3.0), Just(1e6)],
        width in 1..3_usize,
        k in 1..5_usize,
    ) {
        let mut random = random(seed);
        let values: Vec<f64> =
            gaussians(rows * width, &mut random).iter().map(|x| f64::from(((x * levels).round() / levels) as f32)).collect();
        let (y, c) = (classes(rows, count, &mut random), classes(rows, strata, &mut random));
        let x = if width == 1 { scalar(&values, X) } else { vector(&values, width, X) };
        let found = conditional_information(&x, &Variable::discrete(&y), &Variable::discrete(&c), &tie_aware(k));
        let points: Vec<Vec<f64>> = values.chunks(width).map(<[f64]>::to_vec).collect();
        match (found, by_brute_force(&points, &y, &c, k)) {
            (Ok(found), Some((value, left_out))) => {
                prop_assert!((found.estimate.value - value).abs() < 1e-11, "{} and {value}", found.estimate.value);
                prop_assert_eq!(found.left_out.len(), left_out);
            }
            (Err(Undefined::MostlyAlone { .. }), None) => {}
            (Err(Undefined::TooFewRows { .. } | Undefined::Constant), _) => {}
            (found, expected) => prop_assert!(false, "{found:?} and {expected:?}"),
        }
    }

    #[test]
    fn names_of_classes_order_of_rows_and_company_do_not_matter(seed: u64, rows in 40..120_usize) {
        let mut random = random(seed);
        let values: Vec<f64> = gaussians(rows, &mut random).iter().map(|x| (8.0 * x).round() / 8.0).collect();
        let (y, c) = (classes(rows, 4, &mut random), classes(rows, 3, &mut random));
        let numbers = gaussians(rows, &mut random);
        let settings = tie_aware(3);
        let found = |values: &[f64], y: &[i32], c: &[i32], numbers: &[f64]| {
            let (x, c) = (scalar(values, X), Variable::discrete(c));
            let labels = [Variable::discrete(y), scalar(numbers, Y), Variable::discrete(c_of(numbers).as_slice())];
            let together = conditional_information_with_each(&x, &labels.each_ref(), &c, &settings);
            for (label, together) in labels.iter().zip(&together) {
                assert_eq!(&conditional_information(&x, label, &c, &settings), together);
            }
            together.into_iter().map(|found| found.map(|found| found.estimate.value)).collect::<Vec<_>>()
        };
        let before = found(&values, &y, &c, &numbers);
        let renamed = |codes: &[i32]| codes.iter().map(|code| 100 - 7 * code).collect::<Vec<_>>();
        prop_assert_eq!(&found(&values, &renamed(&y), &renamed(&c), &numbers), &before);
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut random);
        fn reordered<T: Copy>(column: &[T], order: &[usize]) -> Vec<T> {
            order.iter().map(|&row| column[row]).collect()
        }
        let after = found(
            &reordered(&values, &order), &reordered(&y, &order), &reordered(&c, &order), &reordered(&numbers, &order),
        );
        prop_assert_eq!(after, before);
    }
}

fn c_of(numbers: &[f64]) -> Vec<i32> {
    numbers.iter().map(|x| i32::from(*x > 0.0)).collect()
}

#[test]
fn strata_without_variation_count_0_at_their_full_weight() {
    let rows = 600;
    let mut random = random(8);
    let bit = classes(rows, 2, &mut random);
    let x: Vec<f64> = bit.iter().zip(gaussians(rows, &mut random)).map(|(&b, z)| 50.0 * f64::from(b) + z).collect();
    let c: Vec<i32> = (0..rows as i32).map(|row| row % 3).collect();
    let at = |stratum: i32, of: &dyn Fn(usize) -> f64, other: f64| -> Vec<f64> {
        (0..rows).map(|row| if c[row] == stratum { other } else { of(row) }).collect()
    };
    let whole = conditional(&scalar(&x, X), &Variable::discrete(&bit), &c, &tie_aware(3)).estimate.value;
    assert!((whole - 2.0_f64.ln()).abs() < 0.01);
    // y has one class in a stratum, and x one value in another: a third each.
    let y: Vec<i32> = at(1, &|row| f64::from(bit[row]), 1.0).iter().map(|&y| y as i32).collect();
    let constant = at(2, &|row| x[row], 0.25);
    for settings in [tie_aware(3), published(3)] {
        let found = conditional(&scalar(&x, X), &Variable::discrete(&y), &c, &settings);
        assert!((found.estimate.value - 2.0 / 3.0 * whole).abs() < 0.02 && found.left_out.is_empty());
        let found = conditional(&scalar(&constant, X), &Variable::discrete(&y), &c, &settings);
        assert!((found.estimate.value - 1.0 / 3.0 * whole).abs() < 0.02);
        let found = conditional(&scalar(&constant, X), &scalar(&x, Y), &c, &settings);
        assert!(found.estimate.value > 0.0 && found.left_out.is_empty());
    }
}

#[test]
fn rows_alone_in_their_class_are_left_out_and_too_many_of_them_are_an_error() {
    let values: Vec<f64> = (0..12).map(|row| f64::from(row * row)).collect();
    let c = [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1];
    let some = [0, 0, 1, 1, 2, 3, 0, 0, 1, 1, 2, 3];
    let found = conditional(&scalar(&values, X), &Variable::discrete(&some), &c, &tie_aware(3));
    assert_eq!(found.left_out.len(), 4);
    assert!([4, 5, 10, 11].into_iter().all(|row| found.estimate.influence[row] == 0.0));
    let most = [0, 0, 1, 2, 3, 4, 0, 0, 1, 2, 3, 4];
    let why = |x: &Variable| {
        conditional_information(x, &Variable::discrete(&most), &Variable::discrete(&c), &tie_aware(3)).unwrap_err()
    };
    for x in [scalar(&values, X), Variable::discrete(&some)] {
        assert_eq!(why(&x), Undefined::MostlyAlone { left_out: 8, rows: 12 });
    }
    let text = why(&scalar(&values, X)).to_string();
    assert!(text.starts_with("8 of 12 rows are alone") && text.ends_with("expected at most half"), "{text}");
    // Of two numbers, strata of fewer than k + 2 rows.
    let tiny = [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2];
    let found = conditional(&scalar(&values, X), &scalar(&values, Y), &tiny, &tie_aware(3));
    assert_eq!(found.left_out.len(), 4);
}

#[test]
fn faults_of_whole_variables_are_those_of_plain_estimates() {
    let c = Variable::discrete(&[0, 1, 0, 1, 0, 1]);
    let y = Variable::discrete(&[0, 0, 1, 1, 0, 0]);
    let why =
        |x: &[f64], neighbours| conditional_information(&scalar(x, X), &y, &c, &tie_aware(neighbours)).unwrap_err();
    assert_eq!(why(&[1.0; 6], 3), Undefined::Constant);
    assert_eq!(why(&[1.0, 2.0, f64::NAN, 0.0, 1.0, 5.0], 3), Undefined::NotFinite);
    assert_eq!(why(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 5), Undefined::TooFewRows { rows: 6, neighbours: 5 });
    assert_eq!(why(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 0), Undefined::NoNeighbours);
    assert_eq!(why(&[1.0, 2.0, 3.0], 1), Undefined::UnequalRows(3, 6));
    let short = Variable::discrete(&[0, 1]);
    let x = scalar(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], X);
    assert_eq!(conditional_information(&x, &short, &c, &tie_aware(3)).unwrap_err(), Undefined::UnequalRows(6, 2));
}

#[test]
fn permutations_have_mean_0_and_the_variance_that_is_interpolated_for_others() {
    let rows = 400;
    let mut random = random(9);
    let c = classes(rows, 2, &mut random);
    let values = gaussians(rows, &mut random);
    let coarse: Vec<f64> = values.iter().map(|x| (2.0 * x).round()).collect();
    let pairs: Vec<f64> = values.iter().flat_map(|x| [*x, x * x]).collect();
    let hard: Vec<i32> = coarse.iter().map(|&x| x as i32).collect();
    let settings = tie_aware(3);
    for x in [scalar(&values, X), scalar(&coarse, X), vector(&pairs, 2, X), Variable::discrete(&hard)] {
        let given = Variable::discrete(&c);
        let strata = Strata::new(&x, &given, &settings).unwrap();
        let mut permutations = Permutations::new(&strata, 600, 7);
        for share in [0.02, 0.1, 0.37, 0.5] {
            let y: Vec<i32> = (0..rows).map(|_| i32::from(random.random::<f64>() < share)).collect();
            let y = Variable::discrete(&y);
            let drawn = permutations.values(&y, 1200, || ()).unwrap();
            assert!(mean(&drawn).abs() < 4.0 * error_of_mean(&drawn), "{} ± {}", mean(&drawn), error_of_mean(&drawn));
            let variance = drawn.iter().map(|x| x * x).sum::<f64>() / 1200.0;
            let moments = permutations.moments(&y, || ()).unwrap();
            let ratio = moments.variance / variance;
            assert!(moments.mean == 0.0 && (0.75..1.35).contains(&ratio), "{share}: {ratio}");
        }
        // Of many classes the label itself is drawn.
        let y = Variable::discrete(&classes(rows, 5, &mut random));
        let drawn = permutations.values(&y, 1200, || ()).unwrap();
        let variance = drawn.iter().map(|x| x * x).sum::<f64>() / 1200.0;
        let ratio = permutations.moments(&y, || ()).unwrap().variance / variance;
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
        let again = Permutations::new(&strata, 600, 7).values(&y, 1200, || ()).unwrap();
        assert_eq!(again, drawn, "what was drawn before does not matter");
    }
}

#[test]
fn given_a_number_gaussians_have_the_information_of_their_partial_correlation() {
    let rows = 4000;
    let mut random = random(10);
    let [c, noise_x, noise_y] = [0, 1, 2].map(|_| gaussians(rows, &mut random));
    let x: Vec<f64> = c.iter().zip(&noise_x).map(|(c, z)| c + z).collect();
    for correlation in [0.0, 0.7_f64] {
        let rest = (1.0 - correlation * correlation).sqrt();
        let y: Vec<f64> = (0..rows).map(|row| c[row] + correlation * noise_x[row] + rest * noise_y[row]).collect();
        let truth = -0.5 * (1.0 - correlation * correlation).ln();
        let found = given_number(&scalar(&x, X), &scalar(&y, Y), &c, 3);
        println!("{} ± {}", found.estimate.value, found.estimate.sampling_error());
        assert!((found.estimate.value - truth).abs() < 0.04 && found.left_out.is_empty());
        assert!(estimate(&scalar(&x, X), &scalar(&y, Y), &tie_aware(3)).value > truth + 0.1);
        // Increasing transformations change nothing, and the pair has no order.
        let [odd, exponential] = [&x, &c].map(|column| column.iter().map(|x| x.exp()).collect::<Vec<_>>());
        let bent = given_number(&scalar(&odd, X), &scalar(&y, Y), &exponential, 3);
        assert_eq!(bent.estimate.value, found.estimate.value);
        assert_eq!(given_number(&scalar(&y, Y), &scalar(&x, X), &c, 3).estimate.value, found.estimate.value);
    }
}

#[test]
fn given_a_number_classes_and_hard_activations_are_mixtures() {
    let rows = 3000;
    let mut random = random(11);
    let c = gaussians(rows, &mut random);
    let bit = classes(rows, 2, &mut random);
    let noise = gaussians(rows, &mut random);
    // y is the sign of c turned by a bit that x carries.
    let y: Vec<i32> = c.iter().zip(&bit).map(|(c, bit)| i32::from(*c > 0.0) ^ bit).collect();
    let soft: Vec<f64> = bit.iter().zip(&noise).map(|(&b, z)| 20.0 * f64::from(b) + z).collect();
    let y = Variable::discrete(&y);
    for x in [scalar(&soft, X), Variable::discrete(&bit)] {
        let found = given_number(&x, &y, &c, 3).estimate.value;
        assert!((found - 2.0_f64.ln()).abs() < 0.06, "{found}");
        let found = given_number(&scalar(&noise, X), &y, &c, 3);
        assert!(found.estimate.value.abs() < 0.03, "{}", found.estimate.value);
        // Rounded values tie everywhere.
        let rounded: Vec<f64> = c.iter().map(|c| (8.0 * c).round() / 8.0).collect();
        let found = given_number(&x, &y, &rounded, 3).estimate.value;
        assert!((found - 2.0_f64.ln()).abs() < 0.1, "{found}");
    }
}

/// Frenzel and Pompe by brute force over rows without ties, on columns of normal scores.
fn frenzel_pompe([x, y, c]: [&[f64]; 3], k: usize) -> f64 {
    let rows = x.len();
    let scores = |values: &[f64]| -> Vec<f64> {
        let rank = |value: &f64| values.iter().filter(|other| *other < value).count() as f64;
        let normal = statrs::distribution::Normal::standard();
        let score =
            |value| statrs::distribution::ContinuousCDF::inverse_cdf(&normal, (rank(value) + 0.5) / rows as f64);
        values.iter().map(score).collect()
    };
    let columns = [x, y, c].map(scores);
    let far = |of: &[usize], a: usize, b: usize| {
        of.iter().map(|&column| (columns[column][a] - columns[column][b]).abs()).fold(0.0, f64::max)
    };
    let term = |row: usize| {
        let others = || (0..rows).filter(move |&other| other != row);
        let mut joint: Vec<f64> = others().map(|other| far(&[0, 1, 2], row, other)).collect();
        joint.sort_by(f64::total_cmp);
        let radius = joint[k - 1];
        let [xc, yc] = [[0, 2], [1, 2]];
        if joint.iter().filter(|distance| **distance == radius).count() == 1 {
            let near = |of: &[usize]| others().filter(|&other| far(of, row, other) < radius).count() + 1;
            return oracle::psi(k) - oracle::psi(near(&xc)) - oracle::psi(near(&yc)) + oracle::psi(near(&[2]));
        }
        // Columns share their scores, so that distances in different columns may be equal: Mesner and Shalizi.
        let near = |of: &[usize]| others().filter(|&other| far(of, row, other) <= radius).count();
        oracle::psi(near(&[0, 1, 2])) - oracle::psi(near(&xc)) - oracle::psi(near(&yc)) + oracle::psi(near(&[2]))
    };
    (0..rows).map(term).sum::<f64>() / rows as f64
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    #[test]
    fn given_a_number_it_is_the_brute_force_estimate_in_any_order_of_rows(
        seed: u64, rows in 6..150_usize, k in 1..5_usize, strength in 0.0..3.0_f64,
    ) {
        let mut random = random(seed);
        let [c, x, y] = [0, 1, 2].map(|_| gaussians(rows, &mut random));
        let x: Vec<f64> = x.iter().zip(&c).map(|(x, c)| x + strength * c).collect();
        let y: Vec<f64> = y.iter().zip(&x).map(|(y, x)| y + strength * x).collect();
        prop_assume!(rows >= k + 2);
        let found = |order: &[usize]| {
            let [x, y, c] = [&x, &y, &c].map(|column| order.iter().map(|&row| column[row]).collect::<Vec<_>>());
            given_number(&scalar(&x, X), &scalar(&y, Y), &c, k).estimate.value
        };
        let mut order: Vec<usize> = (0..rows).collect();
        let before = found(&order);
        prop_assert!((before - frenzel_pompe([&x, &y, &c], k)).abs() < 1e-10);
        order.shuffle(&mut random);
        prop_assert_eq!(found(&order), before);
    }
}

#[test]
fn of_labels_together_the_statistic_is_the_sum_of_their_estimates_but_for_a_constant() {
    let rows = 300;
    let mut random = random(12);
    let c = Variable::discrete(&classes(rows, 2, &mut random));
    let mut labels: Vec<Vec<i32>> = (0..70).map(|_| classes(rows, 2, &mut random)).collect();
    (10..40).for_each(|at| labels[at] = labels[3].clone());
    let values: Vec<f64> =
        gaussians(rows, &mut random).iter().zip(&labels[3]).map(|(x, &y)| x + 2.0 * f64::from(y)).collect();
    let curve: Vec<f64> = values.iter().flat_map(|x| [*x, 0.1 * x * x]).collect();
    let hard: Vec<i32> = values.iter().map(|&x| i32::from(x > 1.0) + i32::from(x > 2.0)).collect();
    let labels: Vec<Variable> = labels.iter().map(|label| Variable::discrete(label)).collect();
    let labels: Vec<&Variable> = labels.iter().collect();
    // Without the mean under permutation, which is the same for all orders.
    let settings = tie_aware(3);
    for x in [scalar(&values, X), vector(&curve, 2, X), Variable::discrete(&hard)] {
        let strata = Strata::new(&x, &c, &settings).unwrap();
        let (found, drawn) = values_together(&strata, &labels, 40, 5, || ()).unwrap();
        let sum = |labels: &[&Variable]| -> f64 {
            let found = strata.information_with_each(labels);
            found.into_iter().map(|found| rows as f64 * found.unwrap().estimate.value).sum()
        };
        let of = sum(&labels);
        assert!(found > drawn.iter().copied().fold(f64::NEG_INFINITY, f64::max), "x tells of some labels");
        // Orders have a mean of 0 each, so the constant is their mean; 32 neighbours are nearly always enough.
        let scatter = error_of_mean(&drawn);
        assert!(
            (found - mean(&drawn) - of).abs() < 4.0 * scatter + 0.01 * of,
            "{} and {of} ± {scatter}",
            found - mean(&drawn)
        );
        assert_eq!(values_together(&strata, &labels, 40, 5, || ()).unwrap(), (found, drawn));
    }
    let number = scalar(&values, Y);
    let strata_of = scalar(&values, X);
    let strata = Strata::new(&strata_of, &c, &settings).unwrap();
    assert!(values_together(&strata, &[&number], 3, 0, || ()).is_err());
    assert_eq!(values_together(&strata, &[], 3, 0, || ()).unwrap().1.len(), 3);
}
