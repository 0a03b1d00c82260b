use super::probabilities::Probabilities;
use super::shape::Shape;
use super::sums::LANES;
use super::tabulated::Shares;
use super::*;

/// All orders of the distances at r, one by one: [a in x], [b in y], [c in x], [c in y], [d in x].
fn by_counting(shape: Shape) -> Vec<f64> {
    let Shape { missing, only_here: a, only_there: b, both: c, beyond: d } = shape;
    let distances = a + b + 2 * c + d;
    let mut counts = vec![0.0; a + c + d + 1];
    let mut order: Vec<usize> = (0..distances).collect();
    each_permutation(&mut order, 0, &mut |position| {
        let joint = (0..a + b).map(|i| position[i]);
        let pairs = (0..c).map(|i| position[a + b + i].max(position[a + b + c + i]));
        let mut joint: Vec<usize> = joint.chain(pairs).collect();
        joint.sort_unstable();
        let boundary = joint[missing - 1];
        let here = (0..a).chain(a + b..a + b + c).chain(a + b + 2 * c..distances);
        counts[here.filter(|&i| position[i] < boundary).count()] += 1.0;
    });
    let total: f64 = counts.iter().sum();
    counts.iter().map(|count| count / total).collect()
}

fn each_permutation(order: &mut [usize], from: usize, visit: &mut impl FnMut(&[usize])) {
    if from == order.len() {
        return visit(order);
    }
    for at in from..order.len() {
        order.swap(from, at);
        each_permutation(order, from + 1, visit);
        order.swap(from, at);
    }
}

/// P(n), n the points at r before the boundary in this variable.
fn distribution(shape: Shape) -> Vec<f64> {
    let behind = shape.only_here + shape.only_there + shape.both - shape.missing;
    let probabilities = Probabilities::new(shape);
    let probabilities = probabilities.view();
    let last = shape.only_here + shape.both + shape.beyond;
    let probability = |n: usize| {
        let mut is_n = vec![0.0; last + 2 * LANES];
        is_n[1 + n] = 1.0;
        assert_eq!(
            thresholds::summation(size(1, shape.only_here, probabilities, behind, shape.beyond), None),
            Summation::Few
        );
        let few = tabulated::expectation(
            probabilities,
            behind,
            shape.beyond,
            &is_n,
            Binomials::get(),
            &mut Shares::default(),
        )
        .total();
        let many = direct::expectation(probabilities, behind, shape.beyond, &is_n);
        assert!((few - many).abs() < 1e-14, "{shape:?}: {few}, {many}");
        few
    };
    (0..=last).map(probability).collect()
}

#[test]
fn probabilities_are_those_of_all_orders() {
    let digamma = Digamma::up_to(100);
    let mut tried = 0;
    for (a, b, c, d) in (0..4 * 4 * 4 * 4).map(|i| (i % 4, i / 4 % 4, i / 16 % 4, i / 64)) {
        if a + b + 2 * c + d > 7 {
            continue;
        }
        for missing in 1..=(a + b + c).min(4) {
            let shape = Shape { missing, only_here: a, only_there: b, both: c, beyond: d };
            let expected = by_counting(shape);
            for (got, expected) in distribution(shape).iter().zip(&expected) {
                assert!((got - expected).abs() < 1e-13, "{shape:?}: {got}, {expected}");
            }
            for closer in [0, 1, 5] {
                if closer < b {
                    // Points of kind b are closer in this variable.
                    continue;
                }
                let got = Boundary { closer, shape }.expected_digamma(&digamma);
                let expected: f64 = expected.iter().zip(digamma.from(closer + 1)).map(|(p, psi)| p * psi).sum();
                assert!((got - expected).abs() < 1e-13, "{closer}, {shape:?}: {got}, {expected}");
                tried += 1;
            }
        }
    }
    assert!(tried > 300, "{tried}");
}

/// P(n) from the formulas as they stand, each case by its own logarithm.
fn by_cases(shape: Shape) -> Vec<f64> {
    let Shape { missing, only_here, only_there, both, beyond } = shape;
    let ln_factorial = |n: usize| (2..=n).map(|i| (i as f64).ln()).sum::<f64>();
    let ln_choose = |n: usize, k: usize| ln_factorial(n) - ln_factorial(k) - ln_factorial(n - k);
    let mut logs = vec![Vec::new(); only_here + both + beyond + 1];
    // The kind of the boundary, and whether it is at its distance in this variable.
    for (kind, near) in [(0, 1), (1, 0), (2, 0), (2, 1)] {
        let mut left = [only_here, only_there, both];
        if left[kind] == 0 {
            continue;
        }
        let count = (left[kind] as f64).ln();
        left[kind] -= 1;
        let [a, b, c] = left;
        for (alpha, gamma) in (0..=a).flat_map(|alpha| (0..=c).map(move |gamma| (alpha, gamma))) {
            let Some(beta) = (missing - 1).checked_sub(alpha + gamma).filter(|&beta| beta <= b) else { continue };
            for (delta, kappa) in (0..=c - gamma).flat_map(|d| (0..=beyond).map(move |kappa| (d, kappa))) {
                let before = alpha + beta + 2 * gamma + delta + kappa + usize::from(kind == 2);
                let behind = a - alpha + b - beta + c - gamma + beyond - kappa;
                let ways = ln_choose(a, alpha) + ln_choose(b, beta) + ln_choose(c, gamma);
                let ways = ways + ln_choose(c - gamma, delta) + ln_choose(beyond, kappa);
                let integral = ln_factorial(before) + ln_factorial(behind) - ln_factorial(before + behind + 1);
                let counted = usize::from(kind == 2) * near;
                logs[alpha + gamma + delta + kappa + counted].push(count + ways + integral);
            }
        }
    }
    let largest = logs.iter().flatten().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = logs.iter().map(|logs| logs.iter().map(|log| (log - largest).exp()).sum()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|weight| weight / total).collect()
}

#[test]
fn expectations_are_the_sums_of_all_cases() {
    let digamma = Digamma::up_to(6_000);
    for (missing, only_here, only_there, both, beyond) in [
        (1, 0, 0, 1, 1),
        (1, 1, 0, 0, 200),
        (1, 3, 2, 0, 30),
        (3, 3, 3, 0, 40),
        (2, 30, 10, 0, 50),
        (3, 0, 40, 0, 90),
        (1, 0, 0, 2, 0),
        (3, 0, 0, 5, 2),
        (2, 0, 0, 40, 60),
        (3, 2, 0, 4, 17),
        (3, 8, 9, 12, 33),
        (1, 1, 1, 90, 30),
        (10, 12, 3, 20, 9),
        (30, 10, 20, 9, 12),
        (2, 30, 20, 0, 300),
        (3, 25, 20, 2, 90),
        (3, 40, 40, 0, 60),
        (2, 1, 3, 0, 1500),
        (3, 8, 9, 2, 2000),
    ] {
        let shape = Shape { missing, only_here, only_there, both, beyond };
        let probabilities = by_cases(shape);
        for closer in [0, 1, 40].into_iter().filter(|&closer| closer >= only_there) {
            let got = Boundary { closer, shape }.expected_digamma(&digamma);
            let expected: f64 =
                probabilities.iter().zip(digamma.from(closer + 1)).map(|(probability, psi)| probability * psi).sum();
            assert!((got - expected).abs() < 1e-12, "{closer}, {shape:?}: {got}, {expected}");
        }
    }
}
