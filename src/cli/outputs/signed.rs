//! Concept labels of −1 and +1: absent and present in some data sets, unknown and present in others.

use bytes::Bytes;

use leakage::field_error::FieldError;
use leakage::run::Concept;
use leakage::tensor::{DataType, Tensor, TensorName};

const FIELD: &str = TensorName::ConceptLabels.text();

/// Errors where a binary concept has labels of −1 and 1 and none of 0.
pub fn check_unsigned(labels: &Tensor, concepts: &[Concept]) -> Result<(), FieldError> {
    let mut seen = vec![[false; 3]; concepts.len()]; // −1, 0, 1
    for row in 0..labels.rows() {
        let mut seen = seen.iter_mut();
        labels.for_each_float(row, |label| {
            if let (Some(seen), Some(at)) = (seen.next(), [-1.0, 0.0, 1.0].iter().position(|value| *value == label)) {
                seen[at] = true;
            }
        });
    }
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
pub fn recoded(labels: &Tensor, concepts: &[Concept], missing: bool) -> Result<Tensor, FieldError> {
    let mut data = Vec::with_capacity(labels.rows() * labels.width() * size_of::<f32>());
    for row in 0..labels.rows() {
        let (mut concepts, mut wrong) = (concepts.iter(), None);
        labels.for_each_float(row, |label| {
            let concept = concepts.next();
            let signed = concept.is_some_and(|concept| !concept.is_categorical());
            let recoded = match label {
                _ if !signed => label,
                -1.0 => 0.0,
                0.0 if missing => -1.0,
                _ => label,
            };
            if signed && !label.is_nan() && label.abs() != 1.0 && !(missing && label == 0.0) {
                wrong = wrong.or(concept.map(|concept| (label, &concept.name)));
            }
            // f32 has all class numbers, and takes no more than the sample that follows.
            data.extend((recoded as f32).to_le_bytes());
        });
        if let Some((label, name)) = wrong {
            let unknown = if missing { ", or 0 where unknown" } else { "" };
            let message =
                format!("row {row} has {label} for concept '{name}', expected -1 or 1 with --signed-labels{unknown}");
            return Err(FieldError::new(FIELD, message));
        }
    }
    let shape: Vec<u64> = labels.shape().iter().map(|&dim| dim as u64).collect();
    Tensor::numbers(labels.name(), DataType::Float32, &shape, Bytes::from(data))
}
