//! The inputs that scores need, and the sets of them that several families share.

use std::fmt;

use crate::tensor::TensorName;
use TensorName::{ConceptActivations, ConceptEmbeddings, ConceptLabels, TaskLogits, TaskPredictions};

/// Something a score cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Tensor(TensorName),
    /// Labels that are declared as numbers.
    Numbers(TensorName),
    EitherTensor(TensorName, TensorName),
    ReferenceTaskAccuracy,
    HeadWeights,
    /// Activations that are declared as learnt without labels.
    Latents,
    ConceptParts,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(name) => write!(f, "{name}"),
            Self::Numbers(name) => write!(f, "{name} as numbers"),
            Self::EitherTensor(a, b) => write!(f, "{a} or {b}"),
            Self::ReferenceTaskAccuracy => f.write_str("reference_task_accuracy"),
            Self::HeadWeights => f.write_str("head_weights"),
            Self::Latents => f.write_str("latents"),
            Self::ConceptParts => f.write_str("concept_parts"),
        }
    }
}

pub(super) const ACTIVATIONS_AND_LABELS: &[Input] = &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels)];

pub(super) const TASK_PREDICTED: Input = Input::EitherTensor(TaskPredictions, TaskLogits);

pub(super) const EMBEDDINGS_AND_LABELS: &[Input] = &[Input::Tensor(ConceptEmbeddings), Input::Tensor(ConceptLabels)];
