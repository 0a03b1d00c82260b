//! TabularToy(δ), the synthetic task of arXiv 2504.14094, Appendix A.1, after Mahinpei et al. 2021 (arXiv 2106.13314)
//! and Espinosa Zarlenga et al. 2023 (doi:10.1609/aaai.v37i10.26392).
//!
//! Three latent variables z ~ N(0, Σ(δ)) with unit variances and every correlation δ; inputs
//! x = (sin z₁ + z₁, cos z₁ + z₁, sin z₂ + z₂, cos z₂ + z₂, sin z₃ + z₃, cos z₃ + z₃, z₁² + z₂² + z₃²);
//! concepts c_i = (z_i > 0); task y = (c₁ + c₂ + c₃ ≥ 2). Pairs of concepts agree more often the larger δ is:
//! P(c_i = 1, c_j = 1) = 1/4 + asin(δ)/(2π).

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use super::rows::Rows;
use crate::field_error::FieldError;

/// d, the width of an input.
pub const INPUTS: usize = 7;
/// k, the concepts of a row.
pub const CONCEPTS: usize = 3;
/// Rows of the paper's training, validation and test parts.
pub const SIZES: [usize; 3] = [7_000, 2_000, 1_000];

/// The task at one correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TabularToy {
    delta: f64,
}

/// A data set in three parts without common rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Split {
    pub training: Rows,
    pub validation: Rows,
    pub test: Rows,
}

impl TabularToy {
    /// δ, the correlation of the latent variables, in (−1/2, 1): three variables cannot all be correlated more
    /// negatively than that, though the paper allows δ down to −1.
    pub fn new(delta: f64) -> Result<Self, FieldError> {
        if delta > -0.5 && delta < 1.0 {
            return Ok(Self { delta });
        }
        Err(FieldError::new("delta", format!("got {delta}, expected a correlation above -0.5 and below 1")))
    }

    /// 10,000 rows in parts of [`SIZES`].
    pub fn split(&self, seed: u64) -> Split {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let [training, validation, test] = SIZES.map(|rows| self.draw(rows, &mut rng));
        Split { training, validation, test }
    }

    /// `rows` independent rows.
    pub fn rows(&self, rows: usize, seed: u64) -> Rows {
        self.draw(rows, &mut ChaCha8Rng::seed_from_u64(seed))
    }

    fn draw(&self, rows: usize, rng: &mut ChaCha8Rng) -> Rows {
        let mut inputs = Vec::with_capacity(rows * INPUTS);
        let mut concepts = Vec::with_capacity(rows * CONCEPTS);
        let mut tasks = Vec::with_capacity(rows);
        for _ in 0..rows {
            let z = self.latent(rng);
            inputs.extend(z.iter().flat_map(|z| [z.sin() + z, z.cos() + z]).map(|x| x as f32));
            inputs.push(z.iter().map(|z| z * z).sum::<f64>() as f32);
            concepts.extend(z.map(|z| f32::from(u8::from(z > 0.0))));
            tasks.push(f32::from(u8::from(z.iter().filter(|&&z| z > 0.0).count() >= 2)));
        }
        let table = |columns: usize, values: Vec<f32>| {
            Array2::from_shape_vec((rows, columns), values).expect("each row above adds `columns` values")
        };
        Rows::new(table(INPUTS, inputs), table(CONCEPTS, concepts), table(1, tasks))
    }

    /// Σ(δ)^½ times independent normal variables: Σ(δ) stretches their mean by √(1 + 2δ), and what deviates from it
    /// by √(1 − δ).
    fn latent(&self, rng: &mut ChaCha8Rng) -> [f64; CONCEPTS] {
        let independent: [f64; CONCEPTS] = std::array::from_fn(|_| rng.sample(StandardNormal));
        let mean = independent.iter().sum::<f64>() / CONCEPTS as f64;
        let along = (1.0 + 2.0 * self.delta).sqrt();
        let across = (1.0 - self.delta).sqrt();
        independent.map(|value| along * mean + across * (value - mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: usize = 40_000;

    #[test]
    fn latent_variables_have_unit_variance_and_correlation_delta() {
        for delta in [-0.4, 0.0, 0.25, 0.75] {
            let toy = TabularToy::new(delta).unwrap();
            let mut rng = ChaCha8Rng::seed_from_u64(11);
            let rows: Vec<[f64; CONCEPTS]> = (0..ROWS).map(|_| toy.latent(&mut rng)).collect();
            let mean = |of: &dyn Fn(&[f64; CONCEPTS]) -> f64| rows.iter().map(of).sum::<f64>() / ROWS as f64;
            // Four standard errors: var(z_i) = 1, var(z_i z_j) = 1 + δ², var(z_i²) = 2.
            let room = 4.0 / (ROWS as f64).sqrt();
            for i in 0..CONCEPTS {
                assert!(mean(&|z| z[i]).abs() < room);
                for j in 0..=i {
                    let expected = if i == j { 1.0 } else { delta };
                    let found = mean(&|z| z[i] * z[j]);
                    assert!((found - expected).abs() < room * 2.0_f64.sqrt(), "δ {delta}, ({i}, {j}): {found}");
                }
            }
        }
    }

    #[test]
    fn inputs_concepts_and_task_are_functions_of_one_latent_vector() {
        let toy = TabularToy::new(0.25).unwrap();
        let rows = toy.rows(200, 13);
        let mut rng = ChaCha8Rng::seed_from_u64(13);
        for row in 0..200 {
            let z = toy.latent(&mut rng);
            let [a, b, c] = z;
            let x = [a.sin() + a, a.cos() + a, b.sin() + b, b.cos() + b, c.sin() + c, c.cos() + c];
            let x = x.into_iter().chain([a * a + b * b + c * c]);
            assert!(rows.inputs().row(row).iter().zip(x).all(|(&found, x)| found == x as f32));
            let present = z.map(|z| z > 0.0);
            assert!(rows.concepts().row(row).iter().zip(present).all(|(&found, is)| (found == 1.0) == is));
            let majority = if present[0] == present[1] { present[0] } else { present[2] };
            assert_eq!(rows.tasks()[[row, 0]], f32::from(u8::from(majority)));
        }
    }

    #[test]
    fn a_split_has_the_papers_sizes_and_no_common_rows() {
        let toy = TabularToy::new(0.25).unwrap();
        let split = toy.split(1);
        let parts = [&split.training, &split.validation, &split.test];
        assert_eq!(parts.map(Rows::len), SIZES);
        let mut first_inputs: Vec<u32> = parts
            .iter()
            .flat_map(|part| part.inputs().rows().into_iter().map(|row| row[6].to_bits()).collect::<Vec<_>>())
            .collect();
        first_inputs.sort_unstable();
        first_inputs.dedup();
        assert!(first_inputs.len() > 9_950, "only chance rounds two squares alike: {}", first_inputs.len());
        assert_eq!(split, toy.split(1), "the same seed gives the same rows");
        assert_ne!(split, toy.split(2));
    }

    #[test]
    fn correlations_that_no_three_variables_can_have_are_refused() {
        for delta in [-0.5, -0.9, 1.0, 2.0, f64::NAN, f64::INFINITY] {
            let fault = TabularToy::new(delta).unwrap_err();
            assert_eq!(fault.field, "delta");
            assert!(fault.message.contains(&delta.to_string()) && fault.message.contains("-0.5"));
        }
    }
}
