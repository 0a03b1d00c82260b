//! R⁴: whether each true concept is a function of one activation, and that activation one of the concept.
//!
//! Source: Benchmarks, Algorithms, and Metrics for Hierarchical Disentanglement (Ross & Doshi-Velez 2021, arXiv 2106.05241),
//! Section 5, as the impurity paper computes it for its Table 1: for each concept the largest √(R²(ĉ_i → c) · R²(c → ĉ_i))
//! over the activations, each R² of gradient-boosted trees on held-out rows and at least 0, mean over five choices of
//! these rows. Of classes the R² is an accuracy, as in the authors' code, so that an unrelated activation has not 0.

use crate::parallel;
use crate::point::{Outcome, ScoreValue};
use crate::prepare::{Prepared, first_largest};
use crate::run::ActivationKind;
use crate::tensor::TensorName;
use crate::trees::{Loss, Ordered, fit_column};

use super::concept_rows::{NO_CLASSES, distinct};
use super::holdout::Holdout;
use super::matching::{midranks, most_predictive};
use super::term::{Term, mean_over_concepts};

/// Choices of held-out rows.
const DRAWS: u64 = 5;

/// Mean over concepts.
pub fn r4(p: &Prepared) -> Result<Outcome, String> {
    if p.run().is_all_continuous() {
        return Err("the concepts are continuous and have no classes to predict".into());
    }
    let activations = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
    let kinds = p.run().column_kinds(activations.width());
    let hard = |at: usize| kinds[at] == ActivationKind::Hard;
    let columns: Vec<Vec<f64>> = parallel::map(activations.width(), &|at| activations.floats(at));
    let of_all = (0..DRAWS).map(|draw| Holdout::of(p, draw)).collect::<Result<Vec<_>, _>>()?;
    let sides = |values: &[f64], draws: &[Holdout], classes| -> Vec<Side> {
        draws.iter().map(|draw| Side::new(values, draw, classes)).collect()
    };
    let inputs_of_all: Vec<Vec<Side>> = parallel::map(columns.len(), &|at| sides(&columns[at], &of_all, hard(at)));
    let ranks: Vec<Vec<f64>> = parallel::map(columns.len(), &|at| midranks(&columns[at]));
    let concept = |i: usize| {
        p.pause();
        let labels = p.concept_classes(i).ok_or(NO_CLASSES)?;
        let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
        let of_known = if rows.are_all() {
            None
        } else {
            let draw = |draw| Holdout::of_concepts(p, draw, &[i], &rows);
            Some((0..DRAWS).map(draw).collect::<Result<Vec<_>, _>>()?)
        };
        let numbers: Vec<f64> = labels.iter().map(|&label| f64::from(label)).collect();
        let truth = sides(&numbers, of_known.as_ref().unwrap_or(&of_all), true);
        if let Some(side) = truth.iter().find(|side| side.classes.len() < 2) {
            return Err(format!("labels: there is one class only among the {} rows to train on", side.train.len()));
        }
        let both_ways = |at: usize| {
            let of_known = of_known.as_ref().map(|draws| sides(&columns[at], draws, hard(at)));
            let pairs = || of_known.as_ref().unwrap_or(&inputs_of_all[at]).iter().zip(&truth);
            let forth = pairs().map(|(input, label)| explained(input, label)).sum::<f64>() / DRAWS as f64;
            let back = pairs().map(|(input, label)| explained(label, input)).sum::<f64>() / DRAWS as f64;
            (forth.max(0.0) * back.max(0.0)).sqrt()
        };
        let value = most_predictive(&ranks, &labels).into_iter().map(both_ways).fold(0.0, f64::max);
        Ok(Term { value, excess: value, influence: vec![0.0; p.rows()], draw_variance: 0.0 })
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &concept);
    let mean = mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value);
    // The largest of several has no error that rows give.
    Ok(mean.map(|value| ScoreValue { standard_error: None, ..value }))
}

/// One variable on the rows of a draw, to predict from or to be predicted.
struct Side {
    ordered: Ordered,
    train: Vec<f64>,
    test: Vec<f64>,
    /// The classes among the rows to train on, ascending; empty where the variable is a number rather than a class.
    classes: Vec<f64>,
}

impl Side {
    fn new(values: &[f64], holdout: &Holdout, classes: bool) -> Self {
        let at = |rows: &[usize]| rows.iter().map(|&row| values[row]).collect::<Vec<f64>>();
        let (train, test) = (at(&holdout.train), at(&holdout.test));
        let classes = if classes { distinct(train.iter().copied(), f64::total_cmp) } else { Vec::new() };
        Self { ordered: Ordered::new(train.clone()), train, test, classes }
    }
}

/// R² of trees that predict `target` from `input` on the rows to test on, or their accuracy where it is a class.
fn explained(input: &Side, target: &Side) -> f64 {
    let fitted = |targets: &[f64], loss| -> Vec<f64> {
        let column = input.ordered.cut(targets);
        let outputs = fit_column(&column, targets, loss);
        column.bins_of(&input.test).into_iter().map(|bin| outputs[bin as usize]).collect()
    };
    if target.classes.is_empty() {
        let outputs = fitted(&target.train, Loss::Squared);
        let mean = target.test.iter().sum::<f64>() / target.test.len() as f64;
        let spread: f64 = target.test.iter().map(|value| (value - mean).powi(2)).sum();
        let left: f64 = target.test.iter().zip(outputs).map(|(value, output)| (value - output).powi(2)).sum();
        // A constant target has no variance to explain.
        return if spread > 0.0 { 1.0 - left / spread } else { 0.0 };
    }
    let odds = |class: f64| {
        let flags: Vec<f64> = target.train.iter().map(|&value| f64::from(u8::from(value == class))).collect();
        fitted(&flags, Loss::Logistic)
    };
    let predicted: Vec<f64> = match target.classes[..] {
        [only] => vec![only; target.test.len()],
        [absent, present] => {
            odds(present).into_iter().map(|output| if output > 0.0 { present } else { absent }).collect()
        }
        _ => {
            let odds: Vec<Vec<f64>> = target.classes.iter().map(|&class| odds(class)).collect();
            let likeliest = |row: usize| {
                let odds: Vec<f64> = odds.iter().map(|odds| odds[row]).collect();
                target.classes[first_largest(&odds)]
            };
            (0..target.test.len()).map(likeliest).collect()
        }
    };
    let hits = target.test.iter().zip(predicted).filter(|(value, predicted)| *value == predicted);
    hits.count() as f64 / target.test.len() as f64
}
