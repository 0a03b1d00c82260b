//! The table of all scores. A row is everything the rest of the program knows about a score: its JSON key, metric
//! families, page entry, documentation and the text of its refusal follow from here.

use std::fmt;

use crate::point::{Outcome, ScoreDescription};
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::{accuracy, embedding, intervention, leakage};

/// Goes up when a score's definition changes, so that its old and new points can be told apart.
pub const CATALOGUE_VERSION: u32 = 1;

/// One score.
pub struct Score {
    pub id: &'static str,
    pub title: &'static str,
    pub family: &'static str,
    pub paper: Paper,
    /// Number in the paper; empty for this project's own.
    pub equation: &'static str,
    pub unit: &'static str,
    /// Least and largest value the definition allows, estimation noise aside.
    pub range: (f64, f64),
    /// Gives a value for each concept.
    pub per_concept: bool,
    /// Gives a value for each pair of concepts.
    pub matrix: bool,
    pub inputs: &'static [Input],
    /// What it tells, and what it does not.
    pub help: &'static str,
    pub compute: fn(&Prepared) -> Outcome,
}

impl Score {
    /// The row without its function and inputs, for those who only show scores.
    pub fn describe(&self) -> ScoreDescription {
        ScoreDescription {
            id: self.id,
            title: self.title,
            family: self.family,
            paper: self.paper.citation(),
            equation: self.equation,
            unit: self.unit,
            range: self.range,
            per_concept: self.per_concept,
            matrix: self.matrix,
            help: self.help,
        }
    }
}

/// Something a score cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    Tensor(TensorName),
    EitherTensor(TensorName, TensorName),
    ReferenceTaskAccuracy,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tensor(name) => write!(f, "{name}"),
            Self::EitherTensor(a, b) => write!(f, "{a} or {b}"),
            Self::ReferenceTaskAccuracy => f.write_str("reference_task_accuracy"),
        }
    }
}

/// Where a score is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paper {
    /// Leakage and Interpretability in Concept-Based Models, arXiv:2504.14094.
    Leakage,
    /// Defined by this project.
    Own,
    /// Textbook statistics.
    Common,
}

impl Paper {
    pub const fn citation(self) -> &'static str {
        match self {
            Self::Leakage => "Leakage and Interpretability in Concept-Based Models, doi:10.48550/arXiv.2504.14094",
            Self::Own => "this project",
            Self::Common => "",
        }
    }
}

pub fn find(id: &str) -> Option<&'static Score> {
    CATALOGUE.iter().find(|score| score.id == id)
}

use TensorName::{
    ConceptActivations, ConceptEmbeddings, ConceptLabels, IntervenedTaskPredictions, NegativeEmbeddings,
    PositiveEmbeddings, TaskLabels, TaskLogits, TaskPredictions,
};

const LEAKAGE: &str = "leakage";
const EMBEDDING: &str = "embedding leakage";
const ACCURACY: &str = "accuracy";

const ACTIVATIONS_AND_LABELS: &[Input] = &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels)];
const ACTIVATIONS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];
const EMBEDDINGS_AND_LABELS: &[Input] = &[Input::Tensor(ConceptEmbeddings), Input::Tensor(ConceptLabels)];

pub static CATALOGUE: &[Score] = &[
    Score {
        id: "ctl",
        title: "Concepts-task leakage (CTL)",
        family: LEAKAGE,
        paper: Paper::Leakage,
        equation: "6-7",
        unit: "share of H(y)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "Information about the task in each learnt concept beyond what the true concept has, clipped at 0.",
        compute: leakage::ctl,
    },
    Score {
        id: "ctl_excess",
        title: "Concepts-task leakage, unclipped",
        family: LEAKAGE,
        paper: Paper::Own,
        equation: "6-7 unclipped",
        unit: "share of H(y)",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "CTL without clipping: negative when concepts are badly learnt, and free of the upward bias that \
               clipping gives to noise. Trends and tests run on it.",
        compute: leakage::ctl_excess,
    },
    Score {
        id: "icl",
        title: "Interconcept leakage (ICL)",
        family: LEAKAGE,
        paper: Paper::Leakage,
        equation: "8-9",
        unit: "normalised MI",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Normalised information between learnt concepts beyond that between the true ones, clipped at 0 per \
               pair. Comparable only at equal N: its normaliser grows with the number of rows.",
        compute: leakage::icl,
    },
    Score {
        id: "icl_excess",
        title: "Interconcept leakage, unclipped",
        family: LEAKAGE,
        paper: Paper::Own,
        equation: "8-9 unclipped",
        unit: "normalised MI",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "ICL without clipping. Trends and tests run on it. Comparable only at equal N.",
        compute: leakage::icl_excess,
    },
    Score {
        id: "icl_label",
        title: "Interconcept leakage against labels",
        family: LEAKAGE,
        paper: Paper::Own,
        equation: "",
        unit: "share of H(c_j)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Information about the other true concepts in each learnt concept beyond what the true concept has, \
               clipped at 0 per pair. This project's own score: it stays sensitive where concepts are correlated and \
               ICL reads 0, and is less specific, for most clean models show a little. It stands beside ICL, never \
               in its place.",
        compute: leakage::icl_label,
    },
    Score {
        id: "icl_label_excess",
        title: "Interconcept leakage against labels, unclipped",
        family: LEAKAGE,
        paper: Paper::Own,
        equation: "",
        unit: "share of H(c_j)",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "icl_label without clipping. Trends and tests run on it.",
        compute: leakage::icl_label_excess,
    },
    Score {
        id: "embedding_ct",
        title: "Task information in embeddings, Ĩ(CT)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: &[Input::Tensor(ConceptEmbeddings), Input::Tensor(TaskLabels)],
        help: "Normalised information between each concept's weighted embedding and the task.",
        compute: embedding::concepts_task,
    },
    Score {
        id: "embedding_ct_positive",
        title: "Task information in positive embeddings",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the positive embeddings.",
        compute: embedding::concepts_task_positive,
    },
    Score {
        id: "embedding_ct_negative",
        title: "Task information in negative embeddings",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the negative embeddings.",
        compute: embedding::concepts_task_negative,
    },
    Score {
        id: "embedding_ic",
        title: "Interconcept information in embeddings, Ĩ(IC)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "Normalised information between each concept's weighted embedding and every other true concept. The \
               paper's sum runs over j < i; as in its authors' code, all ordered pairs are averaged.",
        compute: embedding::interconcept,
    },
    Score {
        id: "embedding_self",
        title: "Information of embeddings about their own concept, Ĩ(self)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "Normalised information between each concept's weighted embedding and its own true concept.",
        compute: embedding::own_concept,
    },
    Score {
        id: "alignment_leakage",
        title: "Alignment leakage, Ĩ(align)",
        family: EMBEDDING,
        paper: Paper::Leakage,
        equation: "13",
        unit: "share of H(y)",
        range: (-2.0, 2.0),
        per_concept: true,
        matrix: false,
        inputs: &[
            Input::Tensor(PositiveEmbeddings),
            Input::Tensor(NegativeEmbeddings),
            Input::Tensor(ConceptLabels),
            Input::Tensor(TaskLabels),
        ],
        help: "How much more embeddings that agree with the true concept tell about the task than those that do not. \
               For each concept both groups are cut to the smaller one's size, so that N is equal in the subtraction.",
        compute: embedding::alignment,
    },
    Score {
        id: "intervention_score",
        title: "Intervention score, S_int",
        family: ACCURACY,
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        range: (-1.0, 1.0),
        per_concept: false,
        matrix: false,
        inputs: &[Input::Tensor(IntervenedTaskPredictions), Input::Tensor(TaskLabels), Input::ReferenceTaskAccuracy],
        help: "Accuracy a head reaches on true concepts, less the accuracy of this head after all concepts were \
               replaced by their true values.",
        compute: intervention::intervention_score,
    },
    Score {
        id: "intervened_task_accuracy",
        title: "Task accuracy after intervention",
        family: ACCURACY,
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        range: (0.0, 1.0),
        per_concept: false,
        matrix: false,
        inputs: &[Input::Tensor(IntervenedTaskPredictions), Input::Tensor(TaskLabels)],
        help: "Share of rows whose task is right after all concepts were replaced by their true values.",
        compute: intervention::intervened_task_accuracy,
    },
    Score {
        id: "task_accuracy",
        title: "Task accuracy",
        family: ACCURACY,
        paper: Paper::Common,
        equation: "",
        unit: "accuracy",
        range: (0.0, 1.0),
        per_concept: false,
        matrix: false,
        inputs: &[Input::EitherTensor(TaskPredictions, TaskLogits), Input::Tensor(TaskLabels)],
        help: "Share of rows whose predicted class is the true one.",
        compute: accuracy::task_accuracy,
    },
    Score {
        id: "concept_accuracy",
        title: "Concept accuracy",
        family: ACCURACY,
        paper: Paper::Common,
        equation: "",
        unit: "accuracy",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Share of rows whose predicted concept is the true one, mean over concepts. It does not show leakage.",
        compute: accuracy::concept_accuracy,
    },
    Score {
        id: "concept_f1",
        title: "Concept F1 (macro)",
        family: ACCURACY,
        paper: Paper::Common,
        equation: "",
        unit: "F1",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "F1 of each concept's presence, mean over concepts; for categorical concepts the mean over classes.",
        compute: accuracy::concept_f1,
    },
    Score {
        id: "concept_auc",
        title: "Concept AUC",
        family: ACCURACY,
        paper: Paper::Common,
        equation: "",
        unit: "AUC",
        range: (0.0, 1.0),
        per_concept: true,
        matrix: false,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Probability that a row with the concept has a higher activation than one without, mean over concepts; \
               for categorical concepts the mean over pairs of classes.",
        compute: accuracy::concept_auc,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_unique_metric_and_json_names() {
        for (at, score) in CATALOGUE.iter().enumerate() {
            assert!(score.id.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'), "{}", score.id);
            assert!(CATALOGUE[..at].iter().all(|earlier| earlier.id != score.id), "{} stands twice", score.id);
            assert!(score.range.0 < score.range.1 && !score.help.is_empty() && !score.inputs.is_empty());
        }
    }
}
