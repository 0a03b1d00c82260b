//! Arithmetic on columns of one number a row. Each element is computed alone, or in a fixed order, so that every width
//! gives the same bits.

use super::width::every_width;

every_width! {
/// x → (x − mean) · weight.
pub fn centre(column: &mut [f64], mean: f64, weight: f64) {
    column.iter_mut().for_each(|x| *x = (*x - mean) * weight);
}
}

every_width! {
/// x → weight · x.
pub fn scale(column: &mut [f64], weight: f64) {
    column.iter_mut().for_each(|x| *x *= weight);
}
}

every_width! {
/// x → x + weight · y.
pub fn add(column: &mut [f64], weight: f64, other: &[f64]) {
    column.iter_mut().zip(other).for_each(|(x, y)| *x += weight * y);
}
}

every_width! {
/// x → x + y, y rounded to the distance between numbers of the size of `rounder`.
pub fn add_rounded(column: &mut [f64], rounder: f64, other: &[f64]) {
    column.iter_mut().zip(other).for_each(|(x, y)| *x += (y + rounder) - rounder);
}
}

every_width! {
/// Σ x², in sixteen partial sums that do not wait for each other.
pub fn sum_of_squares(column: &[f64]) -> f64 {
    let mut sums = [0.0; 16];
    let blocks = column.chunks_exact(sums.len());
    let rest: f64 = blocks.remainder().iter().map(|x| x * x).sum();
    for block in blocks {
        for (sum, x) in sums.iter_mut().zip(block) {
            *sum += x * x;
        }
    }
    sums.iter().sum::<f64>() + rest
}
}
