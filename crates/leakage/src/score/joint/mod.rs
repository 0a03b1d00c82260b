//! Joint leakage: what all activations together tell of the task beyond all true concepts, I(y; ĉ | c) / H(y).
//!
//! Cross-fitted: the held-out log loss of a predictor of y from c less that of one from (c, ĉ). It is neither bound, for it
//! errs by the difference of the two predictors' regrets. So the baseline is the best of three forms, and the second predictor
//! starts from its log probabilities and reads of ĉ only what is left within the rows of equal labels: a poorly predicted
//! baseline is not mistaken for leakage. Cost: 22 trainings of networks of at most 64 units, whose work is bounded, and
//! a screen of O(N k²).

mod baseline;
pub mod folds;
mod learner;
mod second;
mod structure;

use std::collections::HashMap;
use std::sync::Arc;

use ndarray::Array2;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;
use crate::run::ActivationKind;
use crate::sample::priority::priority;
use crate::tensor::TensorName;

use super::concept_rows::distinct;
use super::labels::task_classes;
use super::term::Term;
use baseline::Concepts;
use folds::{FOLDS, Folds};
use learner::loss;
use structure::{Activation, Structure};

/// Classes into which a continuous task is cut, of equal numbers of rows.
const CLASSES: usize = 8;
/// Share of H(y) by which the second predictor may be ahead because it trained longer. Where the concepts determine the task
/// every row gains a millionth, which flips of signs would call significant: the test is of what is above this.
const NEGLIGIBLE: f64 = 1e-3;
/// Sign flips of the test.
const FLIPS: usize = 999;
const STREAM: u64 = 0x6a6f_696e_7400_0001;

/// I(y; ĉ | c) / H(y), unclipped. `p_value`: sign flips of the rows' differences of the two losses, less
/// [`NEGLIGIBLE`], one-sided.
pub fn joint(p: &Prepared) -> Result<Outcome, String> {
    let losses = losses(p)?;
    let differences: Vec<f64> =
        losses.rows.iter().map(|(_, from_c, from_both)| (from_c - from_both) / losses.entropy).collect();
    let beyond: Vec<f64> = differences.iter().map(|difference| difference - NEGLIGIBLE).collect();
    let p_value = Some(sign_flips(&beyond, priority(p.settings().seed, STREAM)));
    Ok(mean(p, &losses, &differences)?.map(|value| ScoreValue { p_value, ..value }))
}

/// The held-out log loss of the predictor of y from c, over H(y): what the true concepts leave open.
pub fn joint_baseline(p: &Prepared) -> Result<Outcome, String> {
    let losses = losses(p)?;
    let shares: Vec<f64> = losses.rows.iter().map(|(_, from_c, _)| from_c / losses.entropy).collect();
    mean(p, &losses, &shares)
}

/// The mean over the rows. Predictors differ from fold to fold, which rows of one fold share: the error is that of the
/// means of the folds where these scatter more than their rows let expect.
fn mean(p: &Prepared, losses: &Losses, values: &[f64]) -> Result<Outcome, String> {
    let mut rows = vec![None; p.rows()];
    losses.rows.iter().zip(values).for_each(|((row, ..), value)| rows[*row] = Some(*value));
    let term = Term::mean_of_some_rows(&rows).ok_or("there are no rows")?;
    let (mut sums, mut counts) = ([0.0; FOLDS], [0.0; FOLDS]);
    for (&fold, value) in losses.folds.iter().zip(values) {
        sums[fold] += value;
        counts[fold] += 1.0;
    }
    let folds = FOLDS as f64;
    let squares = (0..FOLDS).map(|fold| (sums[fold] / counts[fold] - term.value).powi(2));
    let of_folds = squares.sum::<f64>() / (folds * (folds - 1.0));
    let draw_variance = (of_folds - term.standard_error().powi(2)).max(0.0);
    Ok(Term { draw_variance, ..term }.outcome())
}

/// Share of sign flips, this one included, whose sum is at least the sum of the values.
fn sign_flips(values: &[f64], seed: u64) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let observed: f64 = values.iter().sum();
    let flipped = |rng: &mut ChaCha8Rng| -> f64 {
        let of_word = |(values, word): (&[f64], u64)| -> f64 {
            values.iter().enumerate().map(|(bit, value)| if word >> bit & 1 == 1 { *value } else { -value }).sum()
        };
        values.chunks(64).map(|values| of_word((values, rng.random::<u64>()))).sum()
    };
    let least = observed - 1e-12 * values.iter().map(|value| value.abs()).sum::<f64>();
    let as_high = (0..FLIPS).filter(|_| flipped(&mut rng) >= least).count();
    (1 + as_high) as f64 / (1 + FLIPS) as f64
}

/// Held-out losses in nats.
struct Losses {
    /// Row of the sample, loss from c, loss from (c, ĉ).
    rows: Vec<(usize, f64, f64)>,
    /// The fold of each.
    folds: Vec<usize>,
    /// H(y) of these rows.
    entropy: f64,
}

fn losses(p: &Prepared) -> Result<Arc<Losses>, String> {
    p.try_shared("joint leakage", || {
        let folds = Folds::new(&task(p)?, p.ids(), p.settings().seed);
        if folds.task.classes < 2 {
            return Err(format!("task_labels: fewer than two classes have {FOLDS} rows"));
        }
        let concepts = concepts(p, &folds.rows)?;
        let activations = activations(p, &folds.rows)?;
        let (seed, pause) = (p.settings().seed, || p.pause());
        let baselines = baseline::predictions(&concepts, &folds, seed, &pause);
        let structure = Structure::new(&activations, &concepts.inputs);
        let both = second::predictions(&structure, &baselines, &folds, seed, &pause);
        let of_row = |(at, &row): (usize, &usize)| {
            let label = folds.task.labels[at];
            (row, loss(baselines[folds.of[at]].row(at), label), loss(both.row(at), label))
        };
        let rows = folds.rows.iter().enumerate().map(of_row).collect();
        Ok(Losses { rows, entropy: folds.entropy(), folds: folds.of })
    })
}

/// Class numbers of the task; of a continuous one, which eighth of the rows a value is in.
fn task(p: &Prepared) -> Result<Vec<i32>, String> {
    let column = p.column(TensorName::TaskLabels).ok_or("there are no task labels")?;
    if !p.run().has_continuous_labels(TensorName::TaskLabels) {
        return task_classes(p);
    }
    let values = column.floats(0);
    let mut ascending = values.clone();
    ascending.sort_by(f64::total_cmp);
    let eighth = |value: &f64| (CLASSES * ascending.partition_point(|x| x < value) / ascending.len()) as i32;
    Ok(values.iter().map(eighth).collect())
}

/// True concepts of some rows: 0 or 1 for two classes, a column for each of more, a continuous one's distance from its mean.
/// An unknown label is a class of its own.
fn concepts(p: &Prepared, rows: &[usize]) -> Result<Concepts, String> {
    let mut columns: Vec<Vec<f32>> = Vec::new();
    for i in 0..p.concepts() {
        let all = p.concept_numbers(i).ok_or("there are no concept labels")?;
        let values: Vec<f64> = rows.iter().map(|&row| all[row]).collect();
        if p.run().is_continuous(i) {
            columns.push(distances(&values));
            if values.iter().any(|value| value.is_nan()) {
                columns.push(values.iter().map(|value| f32::from(u8::from(value.is_nan()))).collect());
            }
        } else {
            let classes = distinct(values.iter().copied(), f64::total_cmp);
            let flags = |class: &f64| values.iter().map(|value| f32::from(u8::from(value == class))).collect();
            // Two classes need one column only, and a constant concept needs none.
            columns.extend(classes.iter().skip(if classes.len() > 2 { 0 } else { 1 }).map(flags));
        }
    }
    let inputs =
        Array2::from_shape_fn((rows.len(), columns.len().max(1)), |(row, at)| columns.get(at).map_or(0.0, |c| c[row]));
    let mut known: HashMap<Vec<u32>, usize> = HashMap::new();
    let pattern = |row: ndarray::ArrayView1<f32>| {
        let next = known.len();
        *known.entry(row.iter().map(|x| x.to_bits()).collect()).or_insert(next)
    };
    let patterns = inputs.rows().into_iter().map(pattern).collect();
    Ok(Concepts { inputs, patterns })
}

/// Distances from the mean in standard deviations; 0 where the value is unknown.
fn distances(values: &[f64]) -> Vec<f32> {
    let known = || values.iter().filter(|value| !value.is_nan());
    let n = known().count().max(1) as f64;
    let mean = known().sum::<f64>() / n;
    let deviation = (known().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
    let scale = if deviation > 0.0 { 1.0 / deviation } else { 0.0 };
    values.iter().map(|x| if x.is_nan() { 0.0 } else { ((x - mean) * scale) as f32 }).collect()
}

/// The activation columns of some rows, with the labels of their concepts.
fn activations(p: &Prepared, rows: &[usize]) -> Result<Vec<Activation>, String> {
    let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
    let blocks = p.run().activation_blocks(column.width()).ok_or("the activations fit no layout")?;
    let mut activations = Vec::new();
    for (i, block) in blocks.into_iter().enumerate() {
        let label = p.concept_numbers(i).ok_or("there are no concept labels")?;
        let label: Vec<f64> = rows.iter().map(|&row| label[row]).collect();
        let continuous = p.run().is_continuous(i);
        let classes = if continuous { Vec::new() } else { distinct(label.iter().copied(), f64::total_cmp) };
        let strata: Vec<Option<usize>> = label
            .iter()
            .map(|label| match continuous {
                true => (!label.is_nan()).then_some(0),
                false => classes.binary_search_by(|class| class.total_cmp(label)).ok().filter(|_| *label >= 0.0),
            })
            .collect();
        for at in block {
            let all = column.floats(at);
            let values: Vec<f64> = rows.iter().map(|&row| all[row]).collect();
            let values = if continuous { without_line(&values, &label) } else { values };
            let number_of_classes = p.run().concepts[i].classes() as usize;
            if p.run().activation_kind(i) == ActivationKind::Hard && number_of_classes > 2 {
                for class in distinct(values.iter().copied(), f64::total_cmp) {
                    let flags = values.iter().map(|value| f64::from(u8::from(*value == class))).collect();
                    activations.push(Activation { values: flags, strata: strata.clone() });
                }
            } else {
                activations.push(Activation { values, strata: strata.clone() });
            }
        }
    }
    Ok(activations)
}

/// Returns the residual of an activation from its regression line on a continuous concept, where that is known.
fn without_line(values: &[f64], label: &[f64]) -> Vec<f64> {
    let known = || values.iter().zip(label).filter(|(_, c)| !c.is_nan());
    let n = known().count().max(1) as f64;
    let (mean, mean_label) = (known().map(|(x, _)| x).sum::<f64>() / n, known().map(|(_, c)| c).sum::<f64>() / n);
    let (mut square, mut product) = (0.0, 0.0);
    for (x, c) in known() {
        square += (c - mean_label) * (c - mean_label);
        product += (c - mean_label) * (x - mean);
    }
    let slope = if square > 0.0 { product / square } else { 0.0 };
    values.iter().zip(label).map(|(x, c)| x - slope * (c - mean_label)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_of_one_sign_are_as_rare_as_can_be_and_no_difference_is_no_evidence() {
        assert_eq!(sign_flips(&[0.1; 100], 1), 0.001);
        assert_eq!(sign_flips(&[0.0; 100], 1), 1.0);
        assert_eq!(sign_flips(&[-0.1; 100], 1), 1.0);
        // Two rows: a quarter of the flips is as high.
        assert!((sign_flips(&[1.0, 1.0], 1) - 0.25).abs() < 0.05);
    }
}
