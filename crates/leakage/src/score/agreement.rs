//! Agreement of scores with human ratings, and of the ratings with each other.
//!
//! Sources: Evaluating the Unseen: A Novel Framework for Assessing Unsupervised Concept Bottleneck Models, Appendices G
//! and I; Kendall 1945, doi:10.1093/biomet/33.3.239; Fleiss 1971, doi:10.1037/h0031619; Krippendorff 2004, Content
//! Analysis, chapter 11.

use super::concept_rows::distinct;

/// The level of measurement of ratings: what differences between two of them mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Equal or not.
    Nominal,
    /// Ranks: how many ratings lie between.
    Ordinal,
    /// Squared difference.
    Interval,
}

/// Kendall's τ-b of pairs (x, y): concordant minus discordant pairs, over the geometric mean of the pairs not tied in x
/// and those not tied in y; in [−1, 1]. Without ties that is eq. 18. Errors without pairs, and when either side does not
/// vary.
pub fn kendall_tau(pairs: &[(f64, f64)]) -> Result<f64, String> {
    if pairs.is_empty() {
        return Err("no item has both a score and a rating".into());
    }
    let (mut balance, mut varied_x, mut varied_y) = (0i64, 0u64, 0u64);
    for (at, (x, y)) in pairs.iter().enumerate() {
        for (other_x, other_y) in &pairs[..at] {
            let (by_x, by_y) = (x.total_cmp(other_x) as i64, y.total_cmp(other_y) as i64);
            // 0.0 and −0.0 are one value.
            let (by_x, by_y) = (if x == other_x { 0 } else { by_x }, if y == other_y { 0 } else { by_y });
            balance += by_x * by_y;
            varied_x += u64::from(by_x != 0);
            varied_y += u64::from(by_y != 0);
        }
    }
    if varied_x == 0 || varied_y == 0 {
        return Err("one side does not vary".into());
    }
    Ok(balance as f64 / (varied_x as f64 * varied_y as f64).sqrt())
}

/// Fleiss' κ, eq. 19, of items × raters; at most 1. Errors when an item lacks a rating, because κ needs equally many, or all
/// ratings are one category.
pub fn fleiss_kappa(ratings: &[Vec<Option<f64>>]) -> Result<f64, String> {
    let raters = ratings.first().map_or(0, Vec::len);
    if raters < 2 {
        return Err("there are fewer than two raters".into());
    }
    let rows: Option<Vec<Vec<f64>>> = ratings.iter().map(|item| item.iter().copied().collect()).collect();
    let rows = rows.ok_or("a rating is missing, and every item needs equally many")?;
    let categories = distinct(rows.iter().flatten().copied(), f64::total_cmp);
    let count = |item: &[f64], category: f64| item.iter().filter(|&&rating| rating == category).count() as f64;
    let (m, n) = (raters as f64, rows.len() as f64);
    let mut observed = 0.0;
    let mut shares = vec![0.0; categories.len()];
    for item in &rows {
        let counts: Vec<f64> = categories.iter().map(|&category| count(item, category)).collect();
        observed += (counts.iter().map(|c| c * c).sum::<f64>() - m) / (m * (m - 1.0)) / n;
        shares.iter_mut().zip(&counts).for_each(|(share, c)| *share += c / (n * m));
    }
    let expected: f64 = shares.iter().map(|share| share * share).sum();
    if categories.len() < 2 {
        Err("all ratings are the same".into())
    } else {
        Ok((observed - expected) / (1.0 - expected))
    }
}

/// Krippendorff's α of items × raters, missing ratings allowed; at most 1. Errors when no item has two ratings or all
/// ratings are the same.
pub fn krippendorff_alpha(ratings: &[Vec<Option<f64>>], level: Level) -> Result<f64, String> {
    let items: Vec<Vec<f64>> = ratings.iter().map(|item| item.iter().flatten().copied().collect()).collect();
    let paired: Vec<&Vec<f64>> = items.iter().filter(|item| item.len() > 1).collect();
    let values = distinct(paired.iter().flat_map(|item| item.iter().copied()), f64::total_cmp);
    if paired.is_empty() {
        return Err("no item has two ratings".into());
    }
    if values.len() < 2 {
        return Err("all ratings are the same".into());
    }
    let of = |item: &[f64], value: f64| item.iter().filter(|&&rating| rating == value).count() as f64;
    let totals: Vec<f64> = values.iter().map(|&value| paired.iter().map(|item| of(item, value)).sum()).collect();
    let difference = |a: usize, b: usize| match level {
        Level::Nominal => f64::from(a != b),
        Level::Ordinal => {
            let between = &totals[a.min(b)..=a.max(b)];
            (between.iter().sum::<f64>() - (totals[a] + totals[b]) / 2.0).powi(2)
        }
        Level::Interval => (values[a] - values[b]).powi(2),
    };
    let (mut observed, mut expected) = (0.0, 0.0);
    for a in 0..values.len() {
        for b in (0..values.len()).filter(|&b| b != a) {
            let together: f64 =
                paired.iter().map(|item| of(item, values[a]) * of(item, values[b]) / (item.len() - 1) as f64).sum();
            observed += together * difference(a, b);
            expected += totals[a] * totals[b] * difference(a, b);
        }
    }
    let n: f64 = totals.iter().sum();
    Ok(1.0 - (n - 1.0) * observed / expected)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// `tests/golden/agreement.py` computes them with scipy, statsmodels and krippendorff.
    #[test]
    fn statistics_are_those_of_the_public_packages() {
        let golden: Value = serde_json::from_str(include_str!("../../tests/golden/agreement.json")).unwrap();
        let cases = golden["cases"].as_array().unwrap();
        assert!(cases.len() >= 4);
        for case in cases {
            let row = |row: &Value| row.as_array().unwrap().iter().map(Value::as_f64).collect::<Vec<_>>();
            let ratings: Vec<Vec<Option<f64>>> = case["ratings"].as_array().unwrap().iter().map(row).collect();
            let scores: Vec<f64> = row(&case["scores"]).into_iter().flatten().collect();
            let close = |id: &str, got: f64| {
                let expected = case[id].as_f64().unwrap();
                assert!((got - expected).abs() < 1e-12, "{}: {id} {got} {expected}", case["name"]);
            };
            let mean =
                |item: &Vec<Option<f64>>| item.iter().flatten().sum::<f64>() / item.iter().flatten().count() as f64;
            let pairs: Vec<(f64, f64)> = scores.into_iter().zip(ratings.iter().map(mean)).collect();
            close("kendall_tau", kendall_tau(&pairs).unwrap());
            for (id, level) in [("nominal", Level::Nominal), ("ordinal", Level::Ordinal), ("interval", Level::Interval)]
            {
                close(id, krippendorff_alpha(&ratings, level).unwrap());
            }
            match case.get("fleiss_kappa") {
                Some(_) => close("fleiss_kappa", fleiss_kappa(&ratings).unwrap()),
                None => assert!(fleiss_kappa(&ratings).unwrap_err().contains("a rating is missing")),
            }
        }
    }

    #[test]
    fn what_does_not_vary_has_no_agreement() {
        assert_eq!(kendall_tau(&[(1.0, 2.0), (1.0, 3.0)]).unwrap_err(), "one side does not vary");
        assert!(kendall_tau(&[]).is_err());
        let same = vec![vec![Some(3.0); 4]; 5];
        assert_eq!(fleiss_kappa(&same).unwrap_err(), "all ratings are the same");
        assert_eq!(krippendorff_alpha(&same, Level::Ordinal).unwrap_err(), "all ratings are the same");
        let lonely = vec![vec![Some(1.0), None], vec![None, Some(2.0)]];
        assert_eq!(krippendorff_alpha(&lonely, Level::Nominal).unwrap_err(), "no item has two ratings");
        assert_eq!(fleiss_kappa(&[vec![Some(1.0)]]).unwrap_err(), "there are fewer than two raters");
    }
}
