//! Many tests at once, with the false discovery rate controlled.

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

/// Indices of the hypotheses to reject so that the expected share of false rejections is at most `rate`, most
/// significant first (Benjamini and Hochberg 1995, doi:10.1111/j.2517-6161.1995.tb02031.x). `None` is left out.
pub fn discoveries(p_values: &[Option<f64>], rate: f64) -> Vec<usize> {
    let mut tested: Vec<(f64, usize)> = p_values.iter().enumerate().filter_map(|(at, p)| Some(((*p)?, at))).collect();
    tested.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let m = tested.len() as f64;
    let last = tested.iter().enumerate().rposition(|(rank, (p, _))| *p <= rate * (rank + 1) as f64 / m);
    tested.iter().take(last.map_or(0, |last| last + 1)).map(|(_, at)| *at).collect()
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
    fn the_example_of_the_paper_rejects_four() {
        // Benjamini and Hochberg (1995), section 3.2: 15 p-values at 0.05.
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0,
        ];
        assert_eq!(discoveries(&p.map(Some), 0.05), [0, 1, 2, 3]);
    }

    #[test]
    fn what_is_undefined_neither_counts_nor_is_found() {
        assert_eq!(discoveries(&[None, Some(0.04), None], 0.05), [1]);
        assert!(discoveries(&[None, None], 0.05).is_empty());
        assert!(discoveries(&[Some(0.04), Some(0.5), Some(0.6)], 0.05).is_empty());
    }

    #[test]
    fn the_tail_is_that_of_the_normal_distribution() {
        for (z, p) in [(0.0, 0.5), (1.644853627, 0.05), (3.090232306, 0.001), (-1.0, 0.841344746)] {
            assert!((upper_tail(z) - p).abs() < 1e-9, "{z}");
        }
    }
}
