//! Disentanglement, completeness and informativeness of the learnt concepts.
//!
//! Source: A Framework for the Quantitative Evaluation of Disentangled Representations (Eastwood & Williams 2018), with
//! the predictor of Challenging Common Assumptions (Locatello et al. 2019, arXiv 1811.12359), which the impurity paper
//! compares with: gradient-boosted trees, one classifier for each true concept that reads every activation. Trees read
//! ranks alone, so that probabilities and their logits have the same scores.

use std::ops::Range;
use std::sync::Arc;

use crate::parallel;
use crate::point::{Outcome, ScoreValue};
use crate::prepare::{Prepared, first_largest};
use crate::sample::Column;
use crate::tensor::TensorName;
use crate::trees::{Classifier, Ordered};

use super::concept_rows::{NO_CLASSES, distinct};
use super::holdout::Holdout;
use super::matching::{MOST_COLUMNS, midranks, most_predictive};
use super::pairs::Matrix;
use super::term::{Term, mean_over_concepts};

/// D: 1 less the entropy of a column's importances over the concepts, in units of ln k; mean over columns, each weighted
/// by its share of all importance. The matrix has the importance of a concept's columns (row) for the concept (column), of
/// sum 1 for each concept.
pub fn disentanglement(p: &Prepared) -> Result<Outcome, String> {
    let dci = dci(p)?;
    let defined: Vec<&Vec<f64>> = dci.concepts.iter().flatten().map(|concept| &concept.importances).collect();
    if defined.len() < 2 {
        return Err("importances are spread over concepts, which takes two with an importance".to_owned());
    }
    let (mut value, mut total) = (0.0, 0.0);
    for column in 0..dci.columns {
        let shares: Vec<f64> = defined.iter().map(|importances| importances[column]).collect();
        let importance: f64 = shares.iter().sum();
        if importance > 0.0 {
            value += importance * concentration(&shares);
            total += importance;
        }
    }
    if total == 0.0 {
        return Err("no activation has any importance for a concept".to_owned());
    }
    let blocks = p.run().activation_blocks(dci.columns).filter(|_| p.latents().is_none());
    let matrix: Option<Matrix> = blocks.map(|blocks| {
        let importance = |block: &Range<usize>, concept: &Result<Concept, String>| {
            concept.as_ref().ok().map(|concept| concept.importances[block.clone()].iter().sum())
        };
        blocks.iter().map(|block| dci.concepts.iter().map(|concept| importance(block, concept)).collect()).collect()
    });
    Ok(Outcome::Value(ScoreValue { value: value / total, matrix, ..ScoreValue::default() }))
}

/// C: 1 less the entropy of a concept's importances over the columns, in units of ln of their number; mean over concepts.
pub fn completeness(p: &Prepared) -> Result<Outcome, String> {
    let completeness = |concept: &Concept| {
        let value = concentration(&concept.importances);
        Term { value, excess: value, influence: vec![0.0; p.rows()], draw_variance: 0.0 }
    };
    // Its scatter is that of the fit, which rows do not give.
    Ok(over_concepts(p, completeness)?.map(|value| ScoreValue { standard_error: None, ..value }))
}

/// I: test accuracy of the trees; mean over concepts.
pub fn informativeness(p: &Prepared) -> Result<Outcome, String> {
    over_concepts(p, |concept| concept.accuracy.clone())
}

fn over_concepts(p: &Prepared, term: impl Fn(&Concept) -> Term) -> Result<Outcome, String> {
    let dci = dci(p)?;
    let terms: Vec<Result<Term, String>> =
        dci.concepts.iter().map(|concept| concept.as_ref().map(&term).map_err(String::clone)).collect();
    Ok(mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value))
}

/// 1 − H(shares) / ln(number of shares), of shares that need not sum to 1; 1 where one has everything.
fn concentration(shares: &[f64]) -> f64 {
    let total: f64 = shares.iter().sum();
    let entropy: f64 =
        shares.iter().filter(|share| **share > 0.0).map(|share| -share / total * (share / total).ln()).sum();
    1.0 - entropy / (shares.len() as f64).ln()
}

struct Dci {
    columns: usize,
    concepts: Vec<Result<Concept, String>>,
}

/// The result of the trees of one concept.
struct Concept {
    /// The importances of the columns, which sum to 1; means over classes for a categorical concept.
    importances: Vec<f64>,
    accuracy: Term,
}

fn dci(p: &Prepared) -> Result<Arc<Dci>, String> {
    p.try_shared("boosted trees", || {
        if p.run().is_all_continuous() {
            return Err("the concepts are continuous and have no classes to predict".into());
        }
        let activations = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
        let columns = activations.width();
        if columns < 2 {
            return Err("there is one activation column, importances are spread over at least two".into());
        }
        let of_all = Inputs::new(activations, Holdout::of(p, 0)?);
        let concept = |i: usize| {
            let labels = p.concept_classes(i).ok_or(NO_CLASSES)?;
            let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
            if rows.are_all() {
                return concept(p, &of_all, &labels);
            }
            concept(p, &Inputs::new(activations, Holdout::of_concepts(p, 0, &[i], &rows)?), &labels)
        };
        Ok(Dci { columns, concepts: parallel::map(p.concepts(), &concept) })
    })
}

/// The activation columns on the rows to train on and on those to test on.
struct Inputs {
    train: Vec<Ordered>,
    test: Vec<Vec<f64>>,
    /// The ranks of the rows to train on in each column, where columns are chosen by them.
    ranks: Vec<Vec<f64>>,
    holdout: Holdout,
}

impl Inputs {
    fn new(activations: &Column, holdout: Holdout) -> Self {
        let width = activations.width();
        let column = |at: usize| {
            let values = activations.floats(at);
            let of = |rows: &[usize]| rows.iter().map(|&row| values[row]).collect::<Vec<f64>>();
            let (train, test) = (of(&holdout.train), of(&holdout.test));
            let ranks = if width > MOST_COLUMNS { midranks(&train) } else { Vec::new() };
            (Ordered::new(train), (test, ranks))
        };
        let columns: Vec<_> = parallel::map(width, &column);
        let (train, others): (_, Vec<_>) = columns.into_iter().unzip();
        let (test, ranks) = others.into_iter().unzip();
        Self { train, test, ranks, holdout }
    }
}

/// `labels` are those of all rows.
fn concept(p: &Prepared, inputs: &Inputs, labels: &[i32]) -> Result<Concept, String> {
    let of = |rows: &[usize]| rows.iter().map(|&row| labels[row]).collect::<Vec<i32>>();
    let (train, test) = (of(&inputs.holdout.train), of(&inputs.holdout.test));
    let classes = distinct(train.iter().copied(), i32::cmp);
    if classes.len() < 2 {
        return Err(format!("labels: there is one class only among the {} rows to train on", train.len()));
    }
    let read = most_predictive(&inputs.ranks, &train);
    let mut importances = vec![0.0; inputs.train.len()];
    let mut outputs = Vec::new();
    // Two classes have one classifier between them, more have one each against the others.
    let fitted = if classes.len() == 2 { &classes[1..] } else { &classes[..] };
    for &class in fitted {
        p.pause();
        let targets: Vec<f64> = train.iter().map(|&label| f64::from(u8::from(label == class))).collect();
        let columns: Vec<_> = read.iter().map(|&column| inputs.train[column].cut(&targets)).collect();
        let classifier = Classifier::fit(&columns.iter().collect::<Vec<_>>(), &targets);
        for (&column, importance) in read.iter().zip(&classifier.importances) {
            importances[column] += importance / fitted.len() as f64;
        }
        let bins: Vec<Vec<u8>> =
            columns.iter().zip(&read).map(|(column, &at)| column.bins_of(&inputs.test[at])).collect();
        outputs.push(classifier.outputs(&bins));
    }
    if importances.iter().all(|importance| *importance == 0.0) {
        return Err("activations: none says anything about it".into());
    }
    let predicted = |row: usize| match &outputs[..] {
        [output] => classes[usize::from(output[row] > 0.0)],
        several => {
            let odds: Vec<f64> = several.iter().map(|output| output[row]).collect();
            classes[first_largest(&odds)]
        }
    };
    let hits: Vec<f64> = test.iter().enumerate().map(|(row, &label)| f64::from(predicted(row) == label)).collect();
    Ok(Concept { importances, accuracy: inputs.holdout.spread(&Term::mean_of_rows(&hits)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn importance_in_one_place_is_concentrated_and_evenly_spread_is_not() {
        assert_eq!(concentration(&[0.0, 3.0, 0.0]), 1.0);
        assert!(concentration(&[0.2; 4]).abs() < 1e-15);
        // Two of four equally: ln 2 / ln 4.
        assert!((concentration(&[1.0, 0.0, 1.0, 0.0]) - 0.5).abs() < 1e-15);
    }
}
