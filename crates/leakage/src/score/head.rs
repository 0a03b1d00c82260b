//! How few concepts the linear head needs: the number of effective concepts, and the accuracy of the head when it is cut
//! down to so many.
//!
//! Source: VLG-CBM: Training Concept Bottleneck Models with Vision-Language Guidance (Srivastava, Yan & Weng 2024,
//! arXiv 2408.01432), Section 4. A head with many weights reaches the accuracy of the model's backbone from concepts that
//! mean nothing, so accuracies are comparable only at equal numbers of effective concepts.

use crate::point::{Outcome, ScoreValue};
use crate::prepare::{Prepared, first_largest};
use crate::tensor::TensorName;

use super::labels::task_classes;
use super::term::Term;

/// A smaller weight counts as 0, as in the authors' code.
const SMALLEST: f64 = 1e-5;
/// Numbers of effective concepts that ANEC averages over.
const LEVELS: [usize; 6] = [5, 10, 15, 20, 25, 30];

/// NEC: weights of the head that are not 0, over the number of classes.
pub fn effective_concepts(p: &Prepared) -> Result<Outcome, String> {
    let head = Head::of(p);
    let effective = head.weights.iter().filter(|weight| weight.abs() > SMALLEST).count();
    Ok(Outcome::Value(ScoreValue { value: effective as f64 / head.classes as f64, ..ScoreValue::default() }))
}

/// ANEC: the task accuracy with the head cut to its largest weights, mean over 5, 10, … 30 effective concepts; levels
/// above the number of columns are those of the whole head. The paper solves an elastic net for each level before it
/// cuts, so its heads are at least as accurate.
pub fn accuracy_at_effective_concepts(p: &Prepared) -> Result<Outcome, String> {
    let head = Head::of(p);
    let activations = head.inputs(p)?;
    let labels = task_classes(p)?;
    if head.classes < 2 {
        return Err("head_weights has one class, an accuracy needs at least two".into());
    }
    if let Some(label) = labels.iter().find(|&&label| label as usize >= head.classes) {
        return Err(format!("task_labels has class {label}, head_weights has {} classes", head.classes));
    }
    let (mut mean, mut curve) = (vec![0.0; p.rows()], Vec::new());
    for level in LEVELS {
        p.pause();
        let hits = head.cut(level).hits(&activations, &labels);
        curve.push((level as f64, Some(hits.iter().sum::<f64>() / hits.len() as f64)));
        mean.iter_mut().zip(hits).for_each(|(sum, hit)| *sum += hit / LEVELS.len() as f64);
    }
    Ok(Term::mean_of_rows(&mean).outcome().map(|value| ScoreValue { curve: Some(curve), ..value }))
}

/// The run's linear head.
pub struct Head {
    /// [classes, columns], row-major.
    pub weights: Vec<f64>,
    pub bias: Vec<f64>,
    pub classes: usize,
    pub columns: usize,
}

impl Head {
    pub fn of(p: &Prepared) -> Self {
        let constants = &p.run().constants;
        let columns = p.run().head_columns();
        let classes = constants.head_weights.len() / columns;
        let bias = if constants.head_bias.is_empty() { vec![0.0; classes] } else { constants.head_bias.clone() };
        Self { weights: constants.head_weights.clone(), bias, classes, columns }
    }

    /// The activations, [n, columns]; an error where the head has weights for other columns.
    pub fn inputs(&self, p: &Prepared) -> Result<Vec<f64>, String> {
        let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
        if column.width() != self.columns {
            return Err(format!(
                "head_weights has {} weights a class, but there are {} activation columns",
                self.columns,
                column.width()
            ));
        }
        Ok(column.block(0..self.columns))
    }

    /// The head with its largest weights alone, `level` for each class on average; the first of equals.
    fn cut(&self, level: usize) -> Self {
        let mut order: Vec<usize> = (0..self.weights.len()).collect();
        order.sort_by(|&a, &b| self.weights[b].abs().total_cmp(&self.weights[a].abs()));
        let mut weights = vec![0.0; self.weights.len()];
        order.iter().take(level * self.classes).for_each(|&at| weights[at] = self.weights[at]);
        Self { weights, bias: self.bias.clone(), ..*self }
    }

    /// 1 for each row whose class has the largest logit.
    fn hits(&self, activations: &[f64], labels: &[i32]) -> Vec<f64> {
        let sparse = self.sparse();
        let hit = |(row, label): (&[f64], &i32)| {
            let logit = |(weights, bias): (&Vec<(usize, f64)>, &f64)| {
                weights.iter().fold(*bias, |sum, (column, weight)| sum + weight * row[*column])
            };
            let logits: Vec<f64> = sparse.iter().zip(&self.bias).map(logit).collect();
            f64::from(first_largest(&logits) == *label as usize)
        };
        activations.chunks(self.columns).zip(labels).map(hit).collect()
    }

    /// The weights of each class that are not 0, with their columns. Most weights of a cut head are.
    pub fn sparse(&self) -> Vec<Vec<(usize, f64)>> {
        let of_class =
            |weights: &[f64]| weights.iter().copied().enumerate().filter(|(_, weight)| *weight != 0.0).collect();
        self.weights.chunks(self.columns).map(of_class).collect()
    }
}
