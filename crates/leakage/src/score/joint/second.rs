//! The task from activations, on top of what the true concepts predict.

use ndarray::{Array2, Axis};

use crate::parallel;

use super::baseline::losses;
use super::folds::{FOLDS, Folds};
use super::learner::{FORMS, Form, Training};
use super::structure::Structure;

/// Log probabilities [n, l] for every row by models of the other folds. `baselines` are those of
/// [`super::baseline::predictions`]. Where no model helps by more than its standard error on held-out rows
/// of the training part, they are the baseline's own.
pub fn predictions(
    structure: &Structure,
    baselines: &[Array2<f32>],
    folds: &Folds,
    seed: u64,
    pause: &(dyn Fn() + Sync),
) -> Array2<f32> {
    let for_fold = |fold: usize| {
        let start = &baselines[fold];
        let of = folds.within(&[fold]);
        // Trained on two folds, chosen on the third, and then trained again on all three.
        let held_out = (fold + 1) % FOLDS;
        let (on, choose) = (folds.without(&[fold, held_out]), folds.within(&[held_out]));
        let training = |inputs, form: Form, step: u64| Training {
            form,
            inputs,
            start,
            task: &folds.task,
            seed: seed ^ (0x1000 * step + fold as u64),
            pause,
        };
        let inputs = structure.inputs(&on, residuals(start, folds, &on).view(), seed);
        let without = losses(&start.select(Axis(0), &choose), &folds.task, &choose);
        let mut best: (f64, Option<(Form, usize)>) = (0.0, None);
        for form in FORMS {
            let training = training(&inputs, form, 1);
            let lengths = training.lengths();
            for (predicted, &length) in training.predictions(&on, &choose, &lengths).iter().zip(&lengths) {
                let gain = sure_gain(&without, &losses(predicted, &folds.task, &choose));
                if gain > best.0 {
                    best = (gain, Some((form, length)));
                }
            }
        }
        let Some((form, length)) = best.1 else { return start.select(Axis(0), &of) };
        let on = folds.without(&[fold]);
        let inputs = structure.inputs(&on, residuals(start, folds, &on).view(), seed);
        training(&inputs, form, 2).predictions(&on, &of, &[length]).remove(0)
    };
    let by_fold: Vec<Array2<f32>> = parallel::map(FOLDS, &for_fold);
    let mut all = Array2::zeros(baselines[0].raw_dim());
    for (fold, values) in by_fold.iter().enumerate() {
        let rows = folds.within(&[fold]);
        rows.iter().zip(values.rows()).for_each(|(&row, values)| all.row_mut(row).assign(&values));
    }
    all
}

/// The mean fall of the losses, less its standard error: a model that helps by chance on some hundred rows costs more on
/// others than it gains.
fn sure_gain(before: &[f64], after: &[f64]) -> f64 {
    let n = before.len().max(1) as f64;
    let falls: Vec<f64> = before.iter().zip(after).map(|(before, after)| before - after).collect();
    let mean = falls.iter().sum::<f64>() / n;
    let variance = falls.iter().map(|fall| (fall - mean) * (fall - mean)).sum::<f64>() / n;
    mean - (variance / n).sqrt()
}

/// Returns the residuals of the rows `on`: 1 for the row's class and 0 for the others, less their probabilities.
fn residuals(log_probabilities: &Array2<f32>, folds: &Folds, on: &[usize]) -> Array2<f32> {
    let mut residuals = log_probabilities.select(Axis(0), on);
    residuals.mapv_inplace(|log| -log.exp());
    for (mut row, &at) in residuals.rows_mut().into_iter().zip(on) {
        row[folds.task.labels[at]] += 1.0;
    }
    residuals
}
