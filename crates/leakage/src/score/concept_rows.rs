//! The activations and labels of one concept.

use std::borrow::Cow;
use std::cmp::Ordering;

use information::{Scalar, Variable};

use crate::prepare::{KnownRows, Prepared, first_largest, nearest_class};
use crate::run::ActivationKind;
use crate::tensor::TensorName;

/// Why a concept whose labels are numbers has no value of a score of classes.
pub const NO_CLASSES: &str = "its labels are not classes";

/// One concept's columns, in the rows in which its label is known.
pub struct ConceptRows<'p> {
    /// [n, columns of the concept].
    pub activations: Cow<'p, [f64]>,
    pub labels: Vec<i32>,
    pub classes: i32,
    pub kind: ActivationKind,
    /// As a variable, where it is one number and all labels are known.
    scalar: Option<&'p Scalar>,
}

impl ConceptRows<'_> {
    /// Activations by which rows can be compared: of logits of several classes, which a shift of their row leaves as they
    /// are, the logarithms of their softmax.
    pub fn of_rows(&self) -> Cow<'_, [f64]> {
        let width = self.activations.len() / self.labels.len();
        if self.kind != ActivationKind::Logit || width == 1 {
            return Cow::Borrowed(&self.activations);
        }
        let mut values = self.activations.to_vec();
        for row in values.chunks_mut(width) {
            let largest = first_largest(row);
            let most = row[largest];
            let others = row.iter().enumerate().filter(|(at, _)| *at != largest).map(|(_, z)| (z - most).exp());
            // Exact also where the largest is almost certain.
            let rest = others.sum::<f64>().ln_1p();
            row.iter_mut().for_each(|z| *z = *z - most - rest);
        }
        Cow::Owned(values)
    }

    /// The predicted class of each row.
    pub fn predictions(&self) -> Result<Vec<i32>, String> {
        let threshold = self.kind.threshold().ok_or("it predicts no class")?;
        let numbers = self.activations.iter();
        Ok(match self.activations.len() / self.labels.len() {
            1 if self.kind == ActivationKind::Hard => numbers.map(|number| nearest_class(*number)).collect(),
            1 => numbers.map(|activation| i32::from(*activation > threshold)).collect(),
            width => self.activations.chunks(width).map(|row| first_largest(row) as i32).collect(),
        })
    }

    /// 1 for each row whose predicted class is the true one, 0 for the others.
    pub fn hits(&self) -> Result<Vec<f64>, String> {
        Ok(self.predictions()?.iter().zip(&self.labels).map(|(a, b)| f64::from(a == b)).collect())
    }

    /// The rows in ascending order of the activation, of which there is one.
    pub fn ascending(&self) -> Cow<'_, [u32]> {
        match self.scalar {
            Some(scalar) => Cow::Borrowed(scalar.ascending()),
            None => Cow::Owned(ascending(&self.activations)),
        }
    }
}

/// The rows in ascending order of their values.
pub fn ascending(values: &[f64]) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..values.len() as u32).collect();
    rows.sort_unstable_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]));
    rows
}

/// Each value once, in ascending order.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>, order: fn(&T, &T) -> Ordering) -> Vec<T> {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable_by(order);
    values.dedup();
    values
}

/// The rows in which a concept's label is known.
pub fn concept_rows<'p>(p: &'p Prepared, i: usize, rows: &KnownRows) -> Result<ConceptRows<'p>, String> {
    let column = p.column(TensorName::ConceptActivations).ok_or("there are no concept activations")?;
    let labels = rows.of(p.concept_classes(i).ok_or(NO_CLASSES)?, 1);
    let blocks = p.run().activation_blocks(column.width()).ok_or("its activations fit no layout")?;
    let scalar = match p.activations().filter(|_| rows.are_all()).and_then(|all| all.get(i)) {
        Some(Variable::Scalar(scalar)) => Some(scalar),
        _ => None,
    };
    // Columns of the sample lie row by row: to gather one reads them all.
    let activations = match scalar {
        Some(scalar) => Cow::Borrowed(scalar.values()),
        None => Cow::Owned(rows.of(column.block(blocks[i].clone()), blocks[i].len())),
    };
    Ok(ConceptRows {
        scalar,
        activations,
        labels,
        kind: p.run().activation_kind(i),
        classes: p.run().concepts[i].classes() as i32,
    })
}
