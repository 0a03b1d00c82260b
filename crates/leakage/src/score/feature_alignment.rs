//! Whether the last feature map keeps the place of things: the terms that the cross-layer and the cross-image alignment
//! module of P3 train on.
//!
//! Source: On the Concept Trustworthiness in Concept Bottleneck Models, eq. 4 and 5. The authors' code differs from both:
//! it takes means in place of sums, and cuts differences of similarities below 0.2. Both forms are scores of their own.
//! Maps are reduced on arrival (`sample::features`).

use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::sample::{SCALES, windows};
use crate::tensor::TensorName;

use super::term::Term;

/// Differences of similarities up to this count as 0 in the authors' training.
const THRESHOLD: f64 = 0.2;

/// Eq. 4: the squared differences between the similarities of every two windows in the deep and in the shallow map, summed
/// over ordered pairs, mean over the two window sizes; mean over rows.
pub fn cross_layer(p: &Prepared) -> Result<Outcome, String> {
    over_scales(p, |_, difference| difference * difference, 1.0 / SCALES as f64)
}

/// The same as the authors train on it: for each window size the mean over pairs of max(0, |difference| − 0.2), summed.
pub fn cross_layer_of_authors(p: &Prepared) -> Result<Outcome, String> {
    over_scales(p, |windows, difference| (difference.abs() - THRESHOLD).max(0.0) / (windows * windows), 1.0)
}

/// Eq. 5: the squared length of f(Aug(x)) − Aug(f(x)); mean over rows.
pub fn cross_image(p: &Prepared) -> Result<Outcome, String> {
    over_differences(p, |squares, _| squares)
}

/// The same over the number of the map's values, as the authors train on it.
pub fn cross_image_of_authors(p: &Prepared) -> Result<Outcome, String> {
    over_differences(p, |squares, count| squares / count)
}

/// Mean over rows of the sum of `term` over scales and ordered pairs of windows. A window and itself do not differ.
fn over_scales(p: &Prepared, term: impl Fn(f64, f64) -> f64, weight: f64) -> Result<Outcome, String> {
    let maps = p.column(TensorName::DeepFeatures).zip(p.column(TensorName::ShallowFeatures));
    let (deep, shallow) = maps.ok_or("there are no deep_features and shallow_features")?;
    let (width, deep, shallow) = (deep.width(), deep.block(0..deep.width()), shallow.block(0..shallow.width()));
    let row = |(deep, shallow): (&[f64], &[f64])| {
        let (height, columns) = (deep[0] as usize, deep[1] as usize);
        let mut pairs = deep[2..].iter().zip(&shallow[2..]);
        let of_scale = |scale: usize| {
            let count = windows(scale, height, columns);
            let sum: f64 = pairs
                .by_ref()
                .take(count * count.saturating_sub(1) / 2)
                .map(|(deep, shallow)| term(count as f64, deep - shallow))
                .sum();
            2.0 * sum
        };
        weight * (1..=SCALES).map(of_scale).sum::<f64>()
    };
    let rows: Vec<f64> = deep.chunks(width).zip(shallow.chunks(width)).map(row).collect();
    Ok(Term::mean_of_rows(&rows).outcome())
}

fn over_differences(p: &Prepared, value: impl Fn(f64, f64) -> f64) -> Result<Outcome, String> {
    let column = p.column(TensorName::CrossImageDifference).ok_or("there is no cross_image_difference")?;
    let rows: Vec<f64> = column.block(0..column.width()).chunks(2).map(|row| value(row[0], row[1])).collect();
    Ok(Term::mean_of_rows(&rows).outcome())
}
