//! The spread of a column: what is the same share of it in any unit.
//!
//! KSG compares distances in x with distances in y, so its value depends on the units of the two: of a regression target in
//! grams every distance is larger than any in the activation. Columns are therefore brought to a common spread, as other
//! implementations do (scikit-learn divides by the standard deviation). Here the factor is a power of two: it keeps every
//! bit of what is compared, so columns of rounded values keep their ties, and the ratio of two spreads is at most √2.
//!
//! Ranks or normal scores would estimate steep marginals better, but they also count fine structure that no head can use.

/// Share of the values at either end that do not count: one outlier of a million must not hide the others.
const CLIPPED: f64 = 0.005;

/// The standard deviation of ascending finite values after clipping at the 0.5 % and 99.5 % quantiles, at least one value on
/// either side; of all values where that is 0. Times a power of two where the values are.
pub fn spread(ascending: &[f64]) -> f64 {
    let n = ascending.len();
    let cut = ((CLIPPED * n as f64).ceil() as usize).min(n.saturating_sub(1) / 2);
    match clipped_deviation(ascending, cut) {
        0.0 => clipped_deviation(ascending, 0),
        spread => spread,
    }
}

fn clipped_deviation(ascending: &[f64], cut: usize) -> f64 {
    let (Some(&first), Some(&last)) = (ascending.get(cut), ascending.get(ascending.len() - 1 - cut)) else {
        return 0.0;
    };
    // Squares of what is divided by this are numbers, whatever the unit.
    let unit = power_of_two(exponent(first.abs().max(last.abs())) - 1);
    let n = ascending.len() as f64;
    let values = || ascending.iter().map(|value| value.clamp(first, last) / unit);
    let mean = values().sum::<f64>() / n;
    unit * (values().map(|value| (value - mean).powi(2)).sum::<f64>() / n).sqrt()
}

/// Returns the root mean square of spreads, in any unit.
pub fn root_mean_square(spreads: &[f64]) -> f64 {
    let unit = power_of_two(exponent(spreads.iter().copied().fold(0.0, f64::max)) - 1);
    unit * (spreads.iter().map(|spread| (spread / unit).powi(2)).sum::<f64>() / spreads.len() as f64).sqrt()
}

/// The power of two nearest to the ratio of two positive spreads, as its exponent. That of the inverse is its negative.
pub fn nearest_exponent(numerator: f64, denominator: f64) -> i32 {
    let ((a, high), (b, low)) = (libm::frexp(numerator), libm::frexp(denominator));
    let whole = high - low;
    // a/b is above 1/2 and below 2.
    if a * a > 2.0 * b * b {
        whole + 1
    } else if b * b > 2.0 * a * a {
        whole - 1
    } else {
        whole
    }
}

/// e where |value| is at least 2^(e − 1) and below 2^e; 0 for 0.
pub fn exponent(value: f64) -> i32 {
    libm::frexp(value).1
}

/// 2^e, for e of finite numbers.
pub fn power_of_two(exponent: i32) -> f64 {
    libm::ldexp(1.0, exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_outlier_does_not_count() {
        let mut values: Vec<f64> = (0..100).map(|i| f64::from(i) / 100.0).collect();
        let without = spread(&values);
        values.push(1e6);
        assert!((spread(&values) / without - 1.0).abs() < 0.05, "{}", spread(&values));
        assert!((without - 1.0 / 12_f64.sqrt()).abs() < 0.01, "a uniform column has {without}");
    }

    #[test]
    fn a_column_that_is_nearly_constant_has_the_spread_of_all_its_values() {
        let mut values = vec![0.0; 999];
        values.push(2.0);
        assert!((spread(&values) - 2.0 * (0.001_f64 * 0.999).sqrt()).abs() < 1e-12);
        assert_eq!(spread(&[1.0; 5]), 0.0);
        assert_eq!(spread(&[0.0, 1.0]), 0.5);
    }

    #[test]
    fn powers_of_two_scale_it_to_the_last_bit() {
        let values: Vec<f64> = (0..300).map(|i| f64::from(i).sin().powi(3)).collect();
        let ascending = |values: &[f64]| {
            let mut values = values.to_vec();
            values.sort_by(f64::total_cmp);
            values
        };
        for exponent in [-900, -60, -1, 1, 60, 900] {
            let factor = power_of_two(exponent);
            let scaled: Vec<f64> = values.iter().map(|value| value * factor).collect();
            assert_eq!(spread(&ascending(&scaled)), factor * spread(&ascending(&values)), "2^{exponent}");
        }
    }

    #[test]
    fn the_nearest_exponent_is_antisymmetric_and_within_half_an_octave() {
        for (a, b) in [(1.0, 1.0), (3.0, 2.0), (1.41, 1.0), (1.42, 1.0), (7e-200, 3e100), (0.6, 1e6), (1e-320, 1.0)] {
            let found = nearest_exponent(a, b);
            assert_eq!(nearest_exponent(b, a), -found);
            let octaves = f64::log2(a) - f64::log2(b);
            assert!((octaves - f64::from(found)).abs() <= 0.5 + 1e-9, "{a}/{b}: 2^{found}");
        }
    }
}
