//! Comparison with brute force over all pairs of rows, written from the formulas.

use proptest::prelude::*;

use super::*;

/// ψ(n).
pub fn psi(n: usize) -> f64 {
    (1..n).map(|m| 1.0 / m as f64).sum::<f64>() - 0.577_215_664_901_532_9
}

/// How the points at r_i enter the estimate.
#[derive(Clone, Copy, PartialEq)]
pub enum Boundary {
    /// Equal distances in random order, in expectation.
    Random,
    /// Counted strictly; for a radius of 0, all duplicates count.
    Strict,
}

/// Ross's estimator from a matrix of distances.
pub fn ross(distances: &[Vec<f64>], labels: &[i32], k: usize, boundary: Boundary) -> f64 {
    let n = labels.len();
    let size = |label: i32| labels.iter().filter(|&&other| other == label).count();
    let kept: Vec<usize> = (0..n).filter(|&row| size(labels[row]) > 1).collect();
    let term = |&row: &usize| {
        let others = || kept.iter().copied().filter(|&other| other != row);
        let own = || others().filter(|&other| labels[other] == labels[row]);
        let k = k.min(size(labels[row]) - 1);
        let mut near: Vec<f64> = own().map(|other| distances[row][other]).collect();
        near.sort_by(f64::total_cmp);
        let r = near[k - 1];
        let closer = others().filter(|&other| distances[row][other] < r).count();
        let at_radius = others().filter(|&other| distances[row][other] == r).count();
        let own_at_radius = own().filter(|&other| distances[row][other] == r).count();
        let missing = k - near.iter().filter(|&&d| d < r).count();
        let inside = match boundary {
            Boundary::Strict if r == 0.0 => psi(at_radius + 1),
            Boundary::Strict => psi(closer + 1),
            Boundary::Random => expectation_by_drawing(closer, at_radius, own_at_radius, missing),
        };
        psi(k) - psi(size(labels[row])) - inside
    };
    psi(kept.len()) + kept.iter().map(term).sum::<f64>() / kept.len() as f64
}

/// Draws the points at the radius one by one without replacement, following the probability of every number of own ones
/// so far, up to the draw of own number `missing`.
fn expectation_by_drawing(closer: usize, at_radius: usize, of_class: usize, missing: usize) -> f64 {
    let mut probability = vec![0.0; missing];
    probability[0] = 1.0;
    let mut expectation = 0.0;
    for drawn in 0..at_radius {
        let left = (at_radius - drawn) as f64;
        expectation += probability[missing - 1] * (of_class + 1 - missing) as f64 / left * psi(closer + drawn + 1);
        for own in (0..missing).rev() {
            let another = (of_class - own) as f64 / left;
            let from_below = if own > 0 { probability[own - 1] * (of_class + 1 - own) as f64 / left } else { 0.0 };
            probability[own] = probability[own] * (1.0 - another) + from_below;
        }
    }
    expectation
}

/// KSG's term of one row, E(ψ(n_x + 1) + ψ(n_y + 1)) over random orders of the distances equal to r_i.
fn ksg_term(dx: &[f64], dy: &[f64], row: usize, k: usize) -> f64 {
    let others = || (0..dx.len()).filter(|&other| other != row);
    let mut joint: Vec<f64> = others().map(|other| dx[other].max(dy[other])).collect();
    joint.sort_by(f64::total_cmp);
    let r = joint[k - 1];
    let missing = k - joint.iter().filter(|&&d| d < r).count();
    let side = |here: &[f64], there: &[f64]| {
        let closer = others().filter(|&other| here[other] < r).count();
        let at_radius = |holds: &dyn Fn(f64) -> bool| others().filter(|&o| here[o] == r && holds(there[o])).count();
        let only_there = others().filter(|&other| here[other] < r && there[other] == r).count();
        expectation_by_integration(
            closer,
            missing,
            [at_radius(&|d| d < r), only_there, at_radius(&|d| d == r), at_radius(&|d| d > r)],
        )
    };
    side(dx, dy) + side(dy, dx)
}

/// Every distance at r is a uniform number; the boundary's is t. Follows how many points are complete before t, and how
/// many of their x are, point by point, and integrates over t, which is exact for polynomials.
fn expectation_by_integration(closer: usize, missing: usize, [a, b, c, d]: [usize; 4]) -> f64 {
    let (mut total, mut expectation) = (0.0, 0.0);
    for (t, weight) in gauss_legendre((a + b + 2 * c + d) / 2 + 2) {
        // The boundary is one of a, of b, or of c with the later of its two distances in y or in x.
        let boundaries = [(a, [1, 0, 0], 1.0, 0), (b, [0, 1, 0], 1.0, 0), (c, [0, 0, 1], t, 1), (c, [0, 0, 1], t, 0)];
        for (count, taken, density, counted) in boundaries.into_iter().filter(|boundary| boundary.0 > 0) {
            let mut probability = vec![vec![0.0; a + c + d + 1]; missing];
            probability[0][0] = 1.0;
            let kinds = [
                (a - taken[0], vec![(1, 1, t), (0, 0, 1.0 - t)]),
                (b - taken[1], vec![(1, 0, t), (0, 0, 1.0 - t)]),
                (c - taken[2], vec![(1, 1, t * t), (0, 1, t * (1.0 - t)), (0, 0, 1.0 - t)]),
                (d, vec![(0, 1, t), (0, 0, 1.0 - t)]),
            ];
            for (points, ways) in kinds {
                for _ in 0..points {
                    let mut next = vec![vec![0.0; a + c + d + 1]; missing];
                    for (complete, row) in probability.iter().enumerate() {
                        for (near, &probability) in row.iter().enumerate().filter(|cell| *cell.1 > 0.0) {
                            for &(one, in_x, p) in &ways {
                                if complete + one < missing && near + in_x < row.len() {
                                    next[complete + one][near + in_x] += probability * p;
                                }
                            }
                        }
                    }
                    probability = next;
                }
            }
            for (near, &probability) in probability[missing - 1].iter().enumerate() {
                let mass = weight * count as f64 * density * probability;
                total += mass;
                expectation += mass * psi(closer + near + counted + 1);
            }
        }
    }
    expectation / total
}

/// Nodes and weights on [0, 1].
fn gauss_legendre(n: usize) -> Vec<(f64, f64)> {
    let node = |i: usize| {
        let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
        loop {
            let (mut before, mut value) = (1.0, x);
            for m in 2..=n {
                (before, value) = (value, ((2 * m - 1) as f64 * x * value - (m - 1) as f64 * before) / m as f64);
            }
            let slope = n as f64 * (x * value - before) / (x * x - 1.0);
            let step = value / slope;
            x -= step;
            if step.abs() < 1e-15 {
                return (0.5 * (x + 1.0), 1.0 / ((1.0 - x * x) * slope * slope));
            }
        }
    };
    (0..n).map(node).collect()
}

fn matrix(columns: &[Vec<f64>], join: impl Fn(f64, f64) -> f64) -> Vec<Vec<f64>> {
    let n = columns[0].len();
    let distance = |i: usize, j: usize| columns.iter().map(|c| (c[i] - c[j]).abs()).fold(0.0, &join);
    (0..n).map(|i| (0..n).map(|j| distance(i, j)).collect()).collect()
}

pub fn scalar_distances(values: &[f64]) -> Vec<Vec<f64>> {
    matrix(&[values.to_vec()], f64::max)
}

/// `None` where the units are a matter of rounding.
fn ksg(x: &Variable, y: &Variable, k: usize) -> Option<f64> {
    let columns = |variable: &Variable| match variable {
        Variable::Scalar(v) => vec![v.values().to_vec()],
        Variable::Vector(v) => (0..v.block().width()).map(|at| v.block().coordinate(at).to_vec()).collect(),
        Variable::Discrete(_) => unreachable!("KSG takes continuous variables"),
    };
    let [x, y] = in_common_units([columns(x), columns(y)])?;
    let (dx, dy) = (matrix(&x, f64::max), matrix(&y, f64::max));
    Some(ksg_of_terms(dx.len(), k, |row| ksg_term(&dx[row], &dy[row], row, k)))
}

/// The side of the smaller spread, times the power of two nearest to the ratio of the spreads; `None` where two are as near.
fn in_common_units([x, y]: [Vec<Vec<f64>>; 2]) -> Option<[Vec<Vec<f64>>; 2]> {
    let spread = |columns: &[Vec<f64>]| {
        let squares = columns.iter().map(|column| deviation(column).powi(2)).sum::<f64>();
        (squares / columns.len() as f64).sqrt()
    };
    let octaves = (spread(&x) / spread(&y)).log2();
    if ((octaves - octaves.floor()) - 0.5).abs() < 1e-9 {
        return None;
    }
    let octaves = octaves.round();
    let times = |columns: Vec<Vec<f64>>, octaves: f64| -> Vec<Vec<f64>> {
        let factor = octaves.max(0.0).exp2();
        columns.into_iter().map(|column| column.into_iter().map(|value| factor * value).collect()).collect()
    };
    Some([times(x, -octaves), times(y, octaves)])
}

/// Standard deviation without the outermost 0.5 % on either side, at least one value; of all values where that is 0.
fn deviation(column: &[f64]) -> f64 {
    let mut sorted = column.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let clipped = |cut: usize| {
        let (low, high) = (sorted[cut], sorted[n - 1 - cut]);
        let values: Vec<f64> = sorted.iter().map(|value| value.clamp(low, high)).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n as f64).sqrt()
    };
    let clipped_once = clipped(((0.005 * n as f64).ceil() as usize).min((n - 1) / 2));
    if clipped_once > 0.0 { clipped_once } else { clipped(0) }
}

fn ksg_of_terms(rows: usize, k: usize, term: impl Fn(usize) -> f64) -> f64 {
    psi(rows) + psi(k) - (0..rows).map(term).sum::<f64>() / rows as f64
}

/// Ross's estimator without a matrix of all distances.
fn ksg_of_many(x: &[f64], y: &[f64], k: usize) -> Option<f64> {
    let from = |values: &[f64], row: usize| -> Vec<f64> { values.iter().map(|v| (v - values[row]).abs()).collect() };
    let [x, y] = in_common_units([vec![x.to_vec()], vec![y.to_vec()]])?;
    Some(ksg_of_terms(x[0].len(), k, |row| ksg_term(&from(&x[0], row), &from(&y[0], row), row, k)))
}

/// Values with ties, both zeros, the smallest and nearly the largest of float32, whose differences are none, and plain
/// ones.
fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => (-6..6_i32).prop_map(|v| f64::from(v) / 4.0),
        4 => -3.0..3.0_f64,
        2 => (0_u16..u16::MAX).prop_map(|bits| half::f16::from_bits(bits).to_f64()).prop_filter("finite", |v| v.is_finite()),
        1 => Just(-0.0),
        1 => Just(0.0),
        1 => (1..5_u32).prop_map(|bits| f64::from(f32::from_bits(bits))),
        1 => Just(1e38),
        1 => Just(-1e38),
        1 => prop_oneof![Just(f64::from(3e38_f32)), Just(f64::from(-3e38_f32))],
    ]
}

/// Nearly the largest of float32 and the smallest, a few of which repeat.
fn huge() -> impl Strategy<Value = f64> {
    (any::<bool>(), 0..100_u32).prop_map(|(negative, below)| {
        let size = f32::from_bits(f32::MAX.to_bits() - 5000 * below);
        f64::from(if negative { -size } else { size })
    })
}

/// In float32, many of their distances are equal by rounding alone, in particular to 0.5 and 1.
fn steep_sigmoid(z: f64) -> f64 {
    f64::from((1.0 / (1.0 + (-80.0 * (20.0 * z).round() / 20.0).exp())) as f32)
}

fn varies(values: &[f64]) -> bool {
    values.iter().any(|v| *v != values[0])
}

type Rows = Vec<(f64, f64, i32)>;

/// Many or few rows of (x, y, class), and k. In half of the cases all values are float32.
fn sample() -> impl Strategy<Value = (Rows, usize)> {
    sample_up_to(300)
}

fn sample_up_to(most: usize) -> impl Strategy<Value = (Rows, usize)> {
    let rows = prop_oneof![5..40_usize, 5..most];
    (1..6_i32, 1..10_usize, rows, any::<bool>()).prop_flat_map(|(classes, k, rows, narrow)| {
        let value = move || value().prop_map(move |v| if narrow { f64::from(v as f32) } else { v });
        let row = (value(), value(), prop_oneof![9 => 0..classes, 1 => 100..130_i32]);
        (prop::collection::vec(row, rows.max(k + 2)), Just(k))
    })
}

/// Columns of any shape with few repeated values: about 1 % at most, because the oracle is slow for them.
fn many_scalars() -> impl Strategy<Value = (Vec<f64>, Vec<f64>)> {
    type Shape = fn(f64) -> f64;
    let shape = || {
        prop_oneof![
            3 => Just((|z| z) as Shape),
            3 => Just((|z| f64::from(z as f32)) as Shape),
            1 => Just((|z| f64::from((1.0 / (1.0 + (-3.0 * z).exp())) as f32)) as Shape),
            1 => Just((|z| z * z * z) as Shape),
            1 => Just((|z| (100.0 * z).round() + 1e-3 * z) as Shape),
        ]
    };
    let scale = prop_oneof![4 => Just(1.0), 1 => Just(10.0), 1 => Just(1e-3)];
    let dependence = prop_oneof![2 => Just(0.0), 1 => Just(0.9), 1 => Just(0.999)];
    (shape(), shape(), scale, dependence, 1500..3000_usize, 0..30_usize, any::<u64>()).prop_map(
        |(of_x, of_y, scale, dependence, rows, ties, seed)| {
            let (x, y) = correlated(dependence, rows, seed);
            let mut x: Vec<f64> = x.into_iter().map(|z| scale * of_x(z)).collect();
            let mut y: Vec<f64> = y.into_iter().map(of_y).collect();
            (0..ties).for_each(|tie| x[40 * tie] = x[40 * tie + 7]);
            (0..ties / 2).for_each(|tie| y[40 * tie + 9] = y[40 * tie]);
            (x, y)
        },
    )
}

/// The estimate of two columns is that of brute force, where their units are no matter of rounding.
fn check_ksg(x: &Variable, y: &Variable, k: usize) -> Result<(), TestCaseError> {
    let found = estimate(x, y, &tie_aware(k));
    prop_assert_eq!(found.draw_variance, 0.0);
    check_near(found.value, ksg(x, y, k))
}

fn check_near(got: f64, expected: Option<f64>) -> Result<(), TestCaseError> {
    let expected = expected.ok_or_else(|| TestCaseError::reject("units are a matter of rounding"))?;
    prop_assert!((got - expected).abs() < 1e-12 * expected.abs().max(1.0), "{} {}", got, expected);
    Ok(())
}

/// The estimate of a column and classes is that of brute force, where there is one.
fn check_ross(x: &[f64], labels: &[i32], k: usize) -> Result<(), TestCaseError> {
    if let Ok(got) = mutual_information(&scalar(x, X), &Variable::discrete(labels), &tie_aware(k)) {
        let expected = ross(&scalar_distances(x), labels, k, Boundary::Random);
        prop_assert!((got.value - expected).abs() < 1e-11, "{} {}", got.value, expected);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn ksg_on_many_scalars((x, y) in many_scalars(), k in 1..=10_usize) {
        check_near(estimate(&scalar(&x, X), &scalar(&y, Y), &tie_aware(k)).value, ksg_of_many(&x, &y, k))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn ross_on_scalars((rows, k) in sample()) {
        let (x, labels): (Vec<f64>, Vec<i32>) = rows.iter().map(|row| (row.0, row.2)).unzip();
        check_ross(&x, &labels, k)?;
    }

    #[test]
    fn ross_on_vectors((rows, k) in sample(), width in 2..5_usize) {
        let flat: Vec<f64> = rows.iter().flat_map(|row| [row.0, row.1, row.0 + row.1, 1.0]).collect();
        let x: Vec<f64> = flat.chunks(4).flat_map(|row| &row[..width]).copied().collect();
        let labels: Vec<i32> = rows.iter().map(|row| row.2).collect();
        if let Ok(estimate) = mutual_information(&vector(&x, width, X), &Variable::discrete(&labels), &tie_aware(k)) {
            let columns: Vec<Vec<f64>> = (0..width).map(|at| x.iter().skip(at).step_by(width).copied().collect()).collect();
            let expected = ross(&matrix(&columns, |sum, along| sum + along * along), &labels, k, Boundary::Random);
            prop_assert!((estimate.value - expected).abs() < 1e-11, "{} {}", estimate.value, expected);
        }
    }

    #[test]
    fn ksg_on_scalars((rows, k) in sample_up_to(120)) {
        let (x, y): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| (row.0, row.1)).unzip();
        prop_assume!(varies(&x) && varies(&y));
        check_ksg(&scalar(&x, X), &scalar(&y, Y), k)?;
    }

    #[test]
    fn ksg_on_few_levels(
        (levels_x, levels_y) in (prop::collection::vec(value(), 2..12), prop::collection::vec(value(), 2..12)),
        rows in prop::collection::vec((0..100_usize, 0..100_usize), 12..80),
        k in 1..=10_usize,
    ) {
        // About a third of the rows depend on each other, and low levels have more rows than high ones.
        let of = |levels: &[f64], at: usize| levels[at * at / 100 % levels.len()];
        let x: Vec<f64> = rows.iter().map(|row| of(&levels_x, row.0)).collect();
        let y: Vec<f64> = rows.iter().map(|row| of(&levels_y, if row.1 < 30 { row.0 } else { row.1 })).collect();
        prop_assume!(varies(&x) && varies(&y));
        check_ksg(&scalar(&x, X), &scalar(&y, Y), k)?;
    }

    #[test]
    fn estimates_of_steep_sigmoids(
        rows in prop::collection::vec((-1.0..1.0_f64, -1.0..1.0_f64, 0..3_i32), 20..150), k in 1..5_usize,
    ) {
        let (x, y): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| (steep_sigmoid(row.0), steep_sigmoid(row.1))).unzip();
        check_ross(&x, &rows.iter().map(|row| row.2).collect::<Vec<_>>(), k)?;
        prop_assume!(varies(&x) && varies(&y));
        check_ksg(&scalar(&x, X), &scalar(&y, Y), k)?;
    }

    #[test]
    fn differences_may_leave_the_range_of_float32(
        rows in prop::collection::vec((huge(), huge(), 0..2_i32), 12..60),
        k in 1..=10_usize,
    ) {
        let (x, y): (Vec<f64>, Vec<f64>) = rows.iter().map(|row| (row.0, row.1)).unzip();
        prop_assume!(varies(&x) && varies(&y));
        check_ross(&x, &rows.iter().map(|row| row.2).collect::<Vec<_>>(), k)?;
        check_ksg(&scalar(&x, X), &scalar(&y, Y), k)?;
    }

    #[test]
    fn ksg_on_vectors((rows, k) in sample_up_to(60)) {
        let x: Vec<f64> = rows.iter().flat_map(|row| [row.0, row.1]).collect();
        // The spread of a difference would often be √2 times that of the pair.
        let y: Vec<f64> = rows.iter().map(|row| row.1 - 0.75 * row.0).collect();
        prop_assume!(varies(&y));
        check_ksg(&vector(&x, 2, X), &scalar(&y, Y), k)?;
    }

    #[test]
    fn published_without_a_mean_adds_no_noise((rows, k) in sample()) {
        // Mirrored values have mean 0, so the noise has scale 0 and the boundaries are counted strictly.
        let x: Vec<f64> = rows.iter().map(|row| row.0.clamp(-8.0, 8.0)).flat_map(|v| [v, -v]).collect();
        let labels: Vec<i32> = rows.iter().flat_map(|row| [row.2, row.2 % 2]).collect();
        let mean = { let mut sorted = x.clone(); sorted.sort_by(f64::total_cmp); sorted.iter().map(|v| v + 0.0).sum::<f64>() };
        prop_assume!(mean == 0.0);
        if let Ok(estimate) = mutual_information(&scalar(&x, X), &Variable::discrete(&labels), &published(k)) {
            let expected = ross(&scalar_distances(&x), &labels, k, Boundary::Strict);
            prop_assert!((estimate.unclipped - expected).abs() < 1e-11, "{} {}", estimate.unclipped, expected);
        }
    }
}
