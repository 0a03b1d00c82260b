//! The task from the true concepts: the best of a linear model, a network and a table of concept patterns, chosen on held-out
//! rows of the training part.

use std::collections::HashMap;

use ndarray::{Array2, Axis};

use crate::parallel;

use super::folds::{FOLDS, Folds};
use super::learner::{FORMS, Form, Task, Training, loss};

/// The number of rows that the network's prediction for a pattern counts as; `None`: the table is not used.
const WEIGHTS: [Option<f32>; 4] = [None, Some(5.0), Some(0.5), Some(0.05)];

/// True concepts as numbers, and the pattern of each row.
pub struct Concepts {
    /// [n, d].
    pub inputs: Array2<f32>,
    /// Rows with equal numbers have equal concepts.
    pub patterns: Vec<usize>,
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    form: Form,
    /// Position among the lengths of training.
    length: usize,
    weight: Option<f32>,
}

/// For each fold, log probabilities [n, l] for the rows of that fold by models of all others; for every other row by models
/// that have seen neither its fold nor that one.
pub fn predictions(concepts: &Concepts, folds: &Folds, seed: u64, pause: &(dyn Fn() + Sync)) -> Vec<Array2<f32>> {
    let start = prior(&folds.task);
    let training = |form: Form, seed: u64| Training {
        form,
        inputs: &concepts.inputs,
        start: &start,
        task: &folds.task,
        seed,
        pause,
    };
    let pairs: Vec<[usize; 2]> = (0..FOLDS).flat_map(|a| (a + 1..FOLDS).map(move |b| [a, b])).collect();
    // For each pair of folds and form: predictions for both folds by models of the other two, at each length.
    let jobs: Vec<(usize, Form)> = (0..pairs.len()).flat_map(|pair| FORMS.map(|form| (pair, form))).collect();
    let out_of_pair: Vec<Vec<Array2<f32>>> = parallel::map(jobs.len(), &|at| {
        let (pair, form) = jobs[at];
        let training = training(form, seed ^ pair as u64);
        let (on, of) = (folds.without(&pairs[pair]), folds.within(&pairs[pair]));
        training.predictions(&on, &of, &training.lengths())
    });
    let held_out = |fold: usize, other: usize, choice: Choice| -> Array2<f32> {
        let both = [fold.min(other), fold.max(other)];
        let pair = pairs.iter().position(|pair| *pair == both).expect("every pair of folds has models");
        let of = folds.within(&both);
        let rows: Vec<usize> = (0..of.len()).filter(|&at| folds.of[of[at]] == other).collect();
        let form = FORMS.iter().position(|form| *form == choice.form).unwrap_or(0);
        let network = out_of_pair[FORMS.len() * pair + form][choice.length].select(Axis(0), &rows);
        tabled(network, choice.weight, concepts, &folds.task, &folds.without(&both), &folds.within(&[other]))
    };
    let for_fold = |fold: usize| {
        let others: Vec<usize> = (0..FOLDS).filter(|&other| other != fold).collect();
        let lengths = |form| training(form, 0).lengths();
        let choices = FORMS.into_iter().flat_map(|form| {
            (0..lengths(form).len()).flat_map(move |length| WEIGHTS.map(|weight| Choice { form, length, weight }))
        });
        let tried = choices.map(|choice| {
            let of_fold = |&other: &usize| {
                losses(&held_out(fold, other, choice), &folds.task, &folds.within(&[other])).iter().sum::<f64>()
            };
            (others.iter().map(of_fold).sum::<f64>(), choice)
        });
        let (_, best) = tried.min_by(|a, b| a.0.total_cmp(&b.0)).expect("there are forms to choose from");
        let mut all = Array2::zeros((folds.rows.len(), folds.task.classes));
        let mut put = |rows: &[usize], values: Array2<f32>| {
            rows.iter().zip(values.rows()).for_each(|(&row, values)| all.row_mut(row).assign(&values));
        };
        for &other in &others {
            put(&folds.within(&[other]), held_out(fold, other, best));
        }
        let (on, of) = (folds.without(&[fold]), folds.within(&[fold]));
        let length = lengths(best.form)[best.length];
        let network = training(best.form, seed ^ (0x100 + fold as u64)).predictions(&on, &of, &[length]).remove(0);
        put(&of, tabled(network, best.weight, concepts, &folds.task, &on, &of));
        all
    };
    parallel::map(FOLDS, &for_fold)
}

/// Log shares of the classes, for each row.
fn prior(task: &Task) -> Array2<f32> {
    let mut sizes = vec![0.0_f32; task.classes];
    task.labels.iter().for_each(|&label| sizes[label] += 1.0);
    Array2::from_shape_fn((task.labels.len(), task.classes), |(_, class)| {
        (sizes[class] / task.labels.len() as f32).ln()
    })
}

/// The network's predictions for the rows `of`, joined with the labels that rows `on` of the same pattern have.
fn tabled(
    network: Array2<f32>,
    weight: Option<f32>,
    concepts: &Concepts,
    task: &Task,
    on: &[usize],
    of: &[usize],
) -> Array2<f32> {
    let Some(weight) = weight else { return network };
    let mut table: HashMap<usize, Vec<usize>> = HashMap::new();
    on.iter().for_each(|&row| table.entry(concepts.patterns[row]).or_default().push(task.labels[row]));
    let mut joined = network;
    for (mut values, row) in joined.rows_mut().into_iter().zip(of) {
        let Some(seen) = table.get(&concepts.patterns[*row]) else { continue };
        values.mapv_inplace(|log| weight * log.exp());
        seen.iter().for_each(|&label| values[label] += 1.0);
        let total = weight + seen.len() as f32;
        values.mapv_inplace(|count| (count / total).max(f32::MIN_POSITIVE).ln());
    }
    joined
}

/// Returns the loss of each of the rows `of`, whose log probabilities are given.
pub fn losses(log_probabilities: &Array2<f32>, task: &Task, of: &[usize]) -> Vec<f64> {
    of.iter().zip(log_probabilities.rows()).map(|(&row, values)| loss(values, task.labels[row])).collect()
}
