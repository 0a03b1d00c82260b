//! How far the probabilities of concepts are those of the labels.
//!
//! Sources: Brier 1950, doi:10.1175/1520-0493(1950)078<0001:VOFEIT>2.0.CO;2; expected calibration error: Naeini, Cooper &
//! Hauskrecht 2015, doi:10.1609/aaai.v29i1.9602; the confidence of the predicted class: Guo et al. 2017, arXiv:1706.04599.

use crate::point::Outcome;
use crate::prepare::{Prepared, first_largest};
use crate::run::ActivationKind;

use super::accuracy::{over_concepts, predicts_class};
use super::concept_rows::ConceptRows;
use super::term::Term;

const BINS: usize = 15;
const NO_PROBABILITIES: &str = "its activations are no probabilities";

/// Mean of (p − c)², mean over concepts; of a categorical concept half of the sum over its classes, which for two classes is
/// the same.
pub fn brier(p: &Prepared) -> Result<Outcome, String> {
    over_concepts(p, has_probabilities, |concept| {
        let (probabilities, width) = probabilities(concept)?;
        let row = |(row, &label): (&[f64], &i32)| match row {
            [present] => (present - f64::from(label)).powi(2),
            several => {
                let error = |(class, p): (usize, &f64)| (p - f64::from(u8::from(class == label as usize))).powi(2);
                several.iter().enumerate().map(error).sum::<f64>() / 2.0
            }
        };
        Ok(Term::mean_of_rows(&probabilities.chunks(width).zip(&concept.labels).map(row).collect::<Vec<_>>()))
    })
}

/// Σ over 15 equal bins of their share of rows × |mean probability − share of rows with the concept|, mean over concepts. For
/// a categorical concept: of the probability of the predicted class, and the share of rows in which it is right.
pub fn expected_error(p: &Prepared) -> Result<Outcome, String> {
    over_concepts(p, has_probabilities, |concept| {
        let (probabilities, width) = probabilities(concept)?;
        let row = |(row, &label): (&[f64], &i32)| match row {
            [present] => (*present, f64::from(label)),
            several => {
                let class = first_largest(several);
                (several[class], f64::from(u8::from(class == label as usize)))
            }
        };
        let rows: Vec<(f64, f64)> = probabilities.chunks(width).zip(&concept.labels).map(row).collect();
        let bin = |p: f64| ((p * BINS as f64) as usize).min(BINS - 1);
        let mut excess = [0.0; BINS];
        rows.iter().for_each(|(p, hit)| excess[bin(*p)] += p - hit);
        // With the sign of its bin, a row's difference is its part of the sum of absolute values.
        Ok(Term::mean_of_rows(&rows.iter().map(|(p, hit)| excess[bin(*p)].signum() * (p - hit)).collect::<Vec<_>>()))
    })
}

fn has_probabilities(kind: ActivationKind) -> Result<(), &'static str> {
    if kind == ActivationKind::Hard { Err(NO_PROBABILITIES) } else { predicts_class(kind) }
}

/// The probabilities of a concept's classes, or of its presence, in [0, 1], with their number a row.
fn probabilities(concept: &ConceptRows) -> Result<(Vec<f64>, usize), String> {
    let width = concept.activations.len() / concept.labels.len();
    let mut values = concept.activations.to_vec();
    match concept.kind {
        ActivationKind::Probability => match values.iter().find(|p| !(0.0..=1.0).contains(*p)) {
            // Rounding in half precision.
            Some(p) if !(-1e-2..=1.0 + 1e-2).contains(p) => return Err(format!("{p} is no probability")),
            Some(_) => values.iter_mut().for_each(|p| *p = p.clamp(0.0, 1.0)),
            None => {}
        },
        ActivationKind::Logit if width == 1 => values.iter_mut().for_each(|z| *z = 1.0 / (1.0 + (-*z).exp())),
        ActivationKind::Logit => values.chunks_mut(width).for_each(softmax),
        ActivationKind::Hard | ActivationKind::Continuous => return Err(NO_PROBABILITIES.into()),
    }
    Ok((values, width))
}

fn softmax(row: &mut [f64]) {
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    row.iter_mut().for_each(|z| *z = (*z - most).exp());
    let sum: f64 = row.iter().sum();
    row.iter_mut().for_each(|p| *p /= sum);
}
