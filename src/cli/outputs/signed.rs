//! Concept labels in other codes than 0 and 1. Those of −1 and +1 mean absent and present in some data sets, unknown
//! and present in others.

use bytes::Bytes;

use leakage::field_error::FieldError;
use leakage::run::Concept;
use leakage::tensor::{DataType, Tensor, TensorName};

use super::array::each_element;

const FIELD: &str = TensorName::ConceptLabels.text();

/// Errors where a binary concept has labels of −1 and 1 and none of 0.
pub fn check_unsigned(labels: &Tensor, concepts: &[Concept]) -> Result<(), FieldError> {
    let mut seen = vec![[false; 3]; concepts.len()]; // −1, 0, 1
    each_element(labels, |_, column, label| {
        let value = [-1.0, 0.0, 1.0].iter().position(|value| *value == label);
        if let (Some(seen), Some(value)) = (seen.get_mut(column), value) {
            seen[value] = true;
        }
    });
    let found =
        concepts.iter().zip(&seen).find(|(concept, seen)| !concept.is_categorical() && **seen == [true, false, true]);
    match found {
        Some((concept, _)) => Err(FieldError::new(
            FIELD,
            format!(
                "concept '{}' has -1 and 1 and no 0: if -1 means absent, recode it to 0 or pass --signed-labels; if it means \
                 unknown, write NaN and pass --missing-labels",
                concept.name
            ),
        )),
        None => Ok(()),
    }
}

/// Labels with 0 and 1 in place of −1 and 1 for binary concepts. With `missing`, 0 and NaN are unknown.
pub fn unsigned(labels: &Tensor, concepts: &[Concept], missing: bool) -> Result<Tensor, FieldError> {
    let code = |column: usize, label: f64| match label {
        _ if concepts.get(column).is_none_or(Concept::is_categorical) || label.is_nan() => Some(label),
        -1.0 => Some(0.0),
        1.0 => Some(1.0),
        0.0 if missing => Some(-1.0),
        _ => None,
    };
    let unknown = if missing { ", or 0 where unknown" } else { "" };
    recoded(labels, concepts, code, &format!("-1 or 1 with --signed-labels{unknown}"))
}

/// The labels as `code` changes them, each with its column. Errors where it takes one for no label.
pub fn recoded(
    labels: &Tensor,
    concepts: &[Concept],
    mut code: impl FnMut(usize, f64) -> Option<f64>,
    expected: &str,
) -> Result<Tensor, FieldError> {
    let mut data = Vec::with_capacity(labels.rows() * labels.width() * size_of::<f64>());
    let mut wrong = None;
    each_element(labels, |row, column, label| match code(column, label) {
        Some(recoded) => data.extend(recoded.to_le_bytes()),
        None => wrong = wrong.or(Some((row, column, label))),
    });
    if let Some((row, column, label)) = wrong {
        let name = &concepts[column].name;
        return Err(FieldError::new(FIELD, format!("row {row} has {label} for concept '{name}', expected {expected}")));
    }
    let shape: Vec<u64> = labels.shape().iter().map(|&dim| dim as u64).collect();
    Tensor::numbers(labels.name(), DataType::Float64, &shape, Bytes::from(data))
}
