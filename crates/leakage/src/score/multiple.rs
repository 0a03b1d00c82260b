//! Many tests at once.

/// One-sided tail of the standard normal distribution: P(Z > z).
pub fn upper_tail(z: f64) -> f64 {
    0.5 * libm::erfc(z / std::f64::consts::SQRT_2)
}

/// Adjusted p-values: rejecting those up to q keeps the expected share of false rejections at most q, however the tests
/// depend on each other. Benjamini and Yekutieli 2001, doi:10.1214/aos/1013699998. `None` stays so and does not count.
pub fn false_discovery_rates(p_values: &[Option<f64>]) -> Vec<Option<f64>> {
    let mut tested: Vec<(f64, usize)> = p_values.iter().zip(0..).filter_map(|(p, at)| Some(((*p)?, at))).collect();
    tested.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let m = tested.len() as f64;
    let dependence: f64 = (1..=tested.len()).map(|rank| 1.0 / rank as f64).sum();
    let mut rates = vec![None; p_values.len()];
    let mut least = 1.0_f64;
    for (rank, (p, at)) in tested.into_iter().enumerate().rev() {
        least = least.min(dependence * m * p / (rank + 1) as f64);
        rates[at] = Some(least);
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_test_stays_what_it_is() {
        assert_eq!(false_discovery_rates(&[None, Some(0.03)]), [None, Some(0.03)]);
    }

    #[test]
    fn several_tests_are_those_of_the_papers() {
        let rates = false_discovery_rates(&[Some(0.5), Some(0.03), None, Some(0.01), Some(0.02)]);
        let dependence = 1.0 + 0.5 + 1.0 / 3.0 + 0.25;
        for (rate, expected) in rates.iter().zip([Some(1.0), Some(0.04), None, Some(0.04), Some(0.04)]) {
            let expected = expected.map(|expected: f64| (dependence * expected).min(1.0));
            assert!((rate.unwrap_or(9.0) - expected.unwrap_or(9.0)).abs() < 1e-12, "{rates:?}");
        }
    }

    #[test]
    fn the_tail_is_that_of_the_normal_distribution() {
        assert_eq!(upper_tail(0.0), 0.5);
        assert!((upper_tail(1.959_963_984_540_054) - 0.025).abs() < 1e-15);
    }
}
