//! Arithmetic on columns of one number a row. Each element is computed alone, so that every width gives the same bits.

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
