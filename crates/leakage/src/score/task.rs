//! F1 and AUC of the task, as P0 lists them beside its accuracy (Table 1). They do not show leakage.

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::accuracy::{auc, f1, mean, predicted_task};
use super::concept_rows::distinct;
use super::labels::task_classes;

/// Classes whose terms are held at once.
const TOGETHER: usize = 64;

/// F1 of class 1 where labels and predictions are 0 and 1, else the mean over classes that occur or are predicted in
/// some row.
pub fn task_f1(p: &Prepared) -> Result<Outcome, String> {
    let (predictions, labels) = (predicted_task(p)?, task_classes(p)?);
    let classes = distinct(labels.iter().chain(&predictions).copied(), i32::cmp);
    let logits = p.column(TensorName::TaskLogits).map_or(2, |column| column.width());
    let term = match logits <= 2 && classes.iter().all(|class| (0..2).contains(class)) {
        true => f1(&predictions, &labels, 1),
        false => mean(classes.len(), classes.iter().map(|&class| f1(&predictions, &labels, class))),
    };
    Ok(term?.outcome())
}

/// Two classes: probability that a row of class 1 has the higher logit (difference of two logits), ties counting one
/// half. More: the mean over classes that occur of each against the rest, by the softmax of the logits.
pub fn task_auc(p: &Prepared) -> Result<Outcome, String> {
    let labels = task_classes(p)?;
    let column = p.column(TensorName::TaskLogits).ok_or("there are no task logits")?;
    let width = column.width();
    let logits = column.block(0..width);
    let against_rest =
        |scores: &[f64], class: i32| auc(scores, &labels.iter().map(|&label| Some(label == class)).collect::<Vec<_>>());
    let area = match width {
        1 => against_rest(&logits, 1),
        2 => against_rest(&logits.chunks(2).map(|row| row[1] - row[0]).collect::<Vec<_>>(), 1),
        _ => {
            // The logarithm of the softmax: the same order, without values that round to 0 or 1.
            let normalisers: Vec<f64> = logits.chunks(width).map(log_sum_exp).collect();
            let of_class = |class: i32| {
                let column = logits.iter().skip(class as usize).step_by(width);
                against_rest(&column.zip(&normalisers).map(|(z, total)| z - total).collect::<Vec<_>>(), class)
            };
            let classes = distinct(labels.iter().copied(), i32::cmp);
            let together = |classes: &[i32]| parallel::map(classes.len(), &|at| of_class(classes[at]));
            mean(classes.len(), classes.chunks(TOGETHER).flat_map(together))
        }
    };
    Ok(area?.outcome())
}

fn log_sum_exp(row: &[f64]) -> f64 {
    let largest = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    largest + row.iter().map(|z| (z - largest).exp()).sum::<f64>().ln()
}
