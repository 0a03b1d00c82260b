//! Labels of binary concepts that are certainties, or the share of annotators who saw the concept.

use std::str::FromStr;

use leakage::field_error::FieldError;
use leakage::run::{Concept, LabelKind};
use leakage::tensor::Tensor;

use super::signed::recoded;

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
        let (mut soft, mut unknown) = (0_usize, 0_usize);
        let code = |column: usize, label: f64| {
            // Columns of another number are refused later.
            let is_soft =
                |concept: &Concept| !concept.is_categorical() && stated[column] != Some(LabelKind::Continuous);
            if !concepts.get(column).is_some_and(is_soft) {
                return Some(label);
            }
            let recoded = match label {
                _ if label > self.high && label <= 1.0 => 1.0,
                _ if label < self.low && label >= 0.0 => 0.0,
                _ if (0.0..=1.0).contains(&label) || (missing && (label == -1.0 || label.is_nan())) => -1.0,
                _ => return None,
            };
            soft += 1;
            unknown += usize::from(recoded == -1.0);
            Some(recoded)
        };
        let or = if missing { ", or -1 or NaN where unknown" } else { "" };
        let labels = recoded(labels, concepts, code, &format!("0 to 1 with --soft-labels{or}"))?;
        let Self { low, high } = self;
        let remark = (unknown > 0).then(|| {
            let rule = if low == high { format!("of exactly {low}") } else { format!("from {low} to {high}") };
            format!("concept_labels: {unknown} of {soft} labels are unknown, being certainties {rule}")
        });
        Ok((labels, remark))
    }
}
