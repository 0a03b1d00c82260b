//! The parts of a linear head's logits: how many concepts make one up, and how much of it passes by the concepts.
//!
//! Source of NCC: Learning Concept Bottleneck Models from Mechanistic Explanations (De Santis et al. 2026, arXiv 2603.07343).

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::head::Head;
use super::misdeclared::are_probabilities;
use super::term::Term;

/// Share of a logit's absolute contributions that is to be explained.
const EXPLAINED: f64 = 0.95;

/// NCC: the least number of contributions |w·ĉ| that add up to 95 % of all of a logit, mean over classes and rows.
pub fn contributing_concepts(p: &Prepared) -> Result<Outcome, String> {
    let head = Head::of(p);
    let (activations, weights) = (head.inputs(p)?, head.sparse());
    let of_row = |row: usize| {
        p.pause();
        let row = &activations[row * head.columns..][..head.columns];
        let mut sizes = Vec::new();
        let of_class = |weights: &Vec<(usize, f64)>| {
            sizes.clear();
            sizes.extend(weights.iter().map(|(column, weight)| (weight * row[*column]).abs()));
            largest_that_explain(&mut sizes)
        };
        weights.iter().map(of_class).sum::<usize>() as f64 / head.classes as f64
    };
    Ok(Term::mean_of_rows(&parallel::map(p.rows(), &of_row)).outcome())
}

/// How many of the largest sizes add up to [`EXPLAINED`] of all; 0 where all are 0.
fn largest_that_explain(sizes: &mut [f64]) -> usize {
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    let wanted = EXPLAINED * sizes.iter().sum::<f64>();
    let mut explained = 0.0;
    for (count, size) in sizes.iter().enumerate() {
        if explained >= wanted {
            return count;
        }
        explained += size;
    }
    sizes.len()
}

/// The share of the side channel in the variances of the logits' two parts, V_s / (V_s + V_c): the linear head's part W ĉ + b, and
/// what the task logits have beside it. Variances are summed over classes. Softmax ignores what all logits of a row share, so
/// the parts are centred over classes first.
pub fn side_channel_share(p: &Prepared) -> Result<Outcome, String> {
    let head = Head::of(p);
    let activations = head.inputs(p)?;
    let logits = p.column(TensorName::TaskLogits).ok_or("there are no task logits")?;
    if logits.width() != head.classes {
        return Err(format!("task_logits has {} columns, head_weights {} classes", logits.width(), head.classes));
    }
    let width = head.classes;
    let whole = logits.block(0..width);
    if width == 1 && are_probabilities(&whole) {
        return Err("task_logits are all from 0 to 1: probabilities are no sums of contributions".into());
    }
    let weights = head.sparse();
    let of_row = |row: &[f64]| {
        let logit = |(weights, bias): (&Vec<(usize, f64)>, &f64)| {
            weights.iter().fold(*bias, |sum, (column, weight)| sum + weight * row[*column])
        };
        weights.iter().zip(&head.bias).map(logit).collect::<Vec<f64>>()
    };
    let mut concepts: Vec<f64> = activations.chunks(head.columns).flat_map(of_row).collect();
    let square = whole.iter().chain(&concepts).map(|z| z * z).sum::<f64>() / p.rows() as f64;
    let mut side: Vec<f64> = whole.iter().zip(&concepts).map(|(z, c)| z - c).collect();
    let variances = |part: &mut Vec<f64>| -> Vec<f64> {
        if width > 1 {
            part.chunks_mut(width).for_each(|row| centre(row.iter_mut()));
        }
        (0..width).for_each(|class| centre(part.iter_mut().skip(class).step_by(width)));
        part.chunks(width).map(|row| row.iter().map(|z| z * z).sum()).collect()
    };
    let (side, concepts) = (variances(&mut side), variances(&mut concepts));
    let n = p.rows() as f64;
    let (of_side, both) = (side.iter().sum::<f64>() / n, side.iter().chain(&concepts).sum::<f64>() / n);
    // Rounding leaves a little of what is constant.
    if both <= 1e-20 * square {
        return Err("task_logits and the head's part of them are the same in all rows".into());
    }
    let value = of_side / both;
    let influence = side.iter().zip(&concepts).map(|(s, c)| (s - value * (s + c)) / both).collect();
    Ok(Term { value, excess: value, influence, draw_variance: 0.0 }.outcome())
}

/// x → x less the mean.
fn centre<'a>(values: impl Iterator<Item = &'a mut f64>) {
    let values: Vec<&mut f64> = values.collect();
    let mean = values.iter().map(|x| **x).sum::<f64>() / values.len() as f64;
    values.into_iter().for_each(|x| *x -= mean);
}
