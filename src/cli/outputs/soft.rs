//! Labels of binary concepts that are certainties, or the share of annotators who saw the concept.

use std::str::FromStr;

use bytes::Bytes;

use leakage::field_error::FieldError;
use leakage::run::{Concept, LabelKind};
use leakage::tensor::{DataType, Tensor, TensorName};

const FIELD: &str = TensorName::ConceptLabels.text();

/// The rule: present above `high`, absent below `low`, and unknown from one to the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Soft {
    low: f64,
    high: f64,
}

impl FromStr for Soft {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "threshold" {
            return Ok(Self { low: 0.5, high: 0.5 });
        }
        let bounds = text.split_once(',').and_then(|(low, high)| Some((low.parse().ok()?, high.parse().ok()?)));
        match bounds {
            Some((low, high)) if (0.0..=1.0).contains(&low) && (low..=1.0).contains(&high) => Ok(Self { low, high }),
            _ => Err(format!("got '{text}', expected threshold, or LOW,HIGH with 0 <= LOW <= HIGH <= 1")),
        }
    }
}

impl Soft {
    /// The labels with 0, 1 and, where unknown, −1 for binary concepts that are not stated to be continuous, and how many
    /// are unknown. Errors where one is no certainty. With `missing` −1 and NaN are unknown as well.
    pub fn recoded(
        self,
        labels: &Tensor,
        concepts: &[Concept],
        stated: &[Option<LabelKind>],
        missing: bool,
    ) -> Result<(Tensor, Option<String>), FieldError> {
        let is_soft = |i: usize| !concepts[i].is_categorical() && stated[i] != Some(LabelKind::Continuous);
        let mut data = Vec::with_capacity(labels.rows() * labels.width() * size_of::<f64>());
        let (mut soft, mut unknown) = (0_usize, 0_usize);
        for row in 0..labels.rows() {
            let (mut i, mut wrong) = (0, None);
            labels.for_each_float(row, |label| {
                let mut recoded = label;
                // Columns of another number are refused later.
                if i < concepts.len() && is_soft(i) {
                    recoded = match label {
                        _ if label > self.high && label <= 1.0 => 1.0,
                        _ if label < self.low && label >= 0.0 => 0.0,
                        _ if (0.0..=1.0).contains(&label) || (missing && (label == -1.0 || label.is_nan())) => -1.0,
                        _ => {
                            wrong = wrong.or(Some((label, i)));
                            label
                        }
                    };
                    soft += 1;
                    unknown += usize::from(recoded == -1.0);
                }
                data.extend(recoded.to_le_bytes());
                i += 1;
            });
            if let Some((label, i)) = wrong {
                let (name, or) = (&concepts[i].name, if missing { ", or -1 or NaN where unknown" } else { "" });
                let message =
                    format!("row {row} has {label} for concept '{name}', expected 0 to 1 with --soft-labels{or}");
                return Err(FieldError::new(FIELD, message));
            }
        }
        let shape: Vec<u64> = labels.shape().iter().map(|&dim| dim as u64).collect();
        let Self { low, high } = self;
        let remark = (unknown > 0).then(|| {
            let rule = if low == high { format!("of exactly {low}") } else { format!("from {low} to {high}") };
            format!("concept_labels: {unknown} of {soft} labels are unknown, being certainties {rule}")
        });
        Ok((Tensor::numbers(labels.name(), DataType::Float64, &shape, Bytes::from(data))?, remark))
    }
}
