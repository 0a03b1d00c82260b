//! Leakage of concept embeddings.

use super::inputs::{EMBEDDINGS_AND_LABELS, Input};
use super::memory::Memory;
use super::paper::Paper;
use super::row::{COVERED, ROW, Score};
use crate::score::conditional_null;
use crate::score::embedding::{self, Given};
use crate::tensor::TensorName::{ConceptEmbeddings, ConceptLabels, NegativeEmbeddings, PositiveEmbeddings, TaskLabels};

const EMBEDDINGS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];

/// The trust remark of scores from neighbours in vectors.
const WIDTH: &str = "Compare only models whose embeddings have the same dimension: Gaussian embeddings with a truth \
                     of 0.913 read 0.908 at d = 16 and 0.804 at d = 64.";

/// The information of the embedding of each concept.
const OF_CONCEPTS: Score = Score {
    paper: Paper::Leakage,
    unit: "share of H(y)",
    per_concept: true,
    trust: &[WIDTH],
    memory: Memory { inputs: 1.0, ..Memory::LINEAR },
    ..ROW
};

/// The information of the embedding of each concept about each other one.
const OF_PAIRS: Score =
    Score { unit: "share of H(c_j)", matrix: true, memory: Memory { inputs: 1.0, ..Memory::PAIRS }, ..OF_CONCEPTS };

pub(super) const ROWS: [Score; 14] = [
    Score {
        id: "embedding_ct",
        title: "Task information in embeddings, Ĩ(CT)",
        equation: "10",
        inputs: &[Input::Tensor(ConceptEmbeddings), Input::Tensor(TaskLabels)],
        help: "What each concept's weighted embedding reveals about the task.",
        trust: &[WIDTH, COVERED],
        compute: |p| embedding::concepts_task(p, Given::Nothing),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_ct_positive",
        title: "Task information in positive embeddings",
        equation: "10",
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the positive embeddings.",
        compute: |p| embedding::concepts_task_of(p, PositiveEmbeddings, Given::Nothing),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_ct_negative",
        title: "Task information in negative embeddings",
        equation: "10",
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the negative embeddings.",
        compute: |p| embedding::concepts_task_of(p, NegativeEmbeddings, Given::Nothing),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_ic",
        title: "Interconcept information in embeddings, Ĩ(IC)",
        equation: "11",
        inputs: EMBEDDINGS_AND_LABELS,
        help: "What each concept's weighted embedding reveals about the other true concepts, over ordered pairs.",
        compute: |p| embedding::interconcept(p, ConceptEmbeddings, Given::Nothing),
        ..OF_PAIRS
    },
    Score {
        id: "embedding_ic_positive",
        title: "Interconcept information in positive embeddings",
        equation: "11",
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(IC) of the positive embeddings.",
        compute: |p| embedding::interconcept(p, PositiveEmbeddings, Given::Nothing),
        ..OF_PAIRS
    },
    Score {
        id: "embedding_ic_negative",
        title: "Interconcept information in negative embeddings",
        equation: "11",
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(IC) of the negative embeddings.",
        compute: |p| embedding::interconcept(p, NegativeEmbeddings, Given::Nothing),
        ..OF_PAIRS
    },
    Score {
        id: "embedding_ct_conditional",
        title: "Conditional task information in embeddings",
        paper: Paper::Own,
        inputs: EMBEDDINGS_AND_ALL_LABELS,
        help: "ctl_conditional of each concept's weighted embedding.",
        compute: |p| embedding::concepts_task(p, Given::OwnLabel),
        test: Some(|p| conditional_null::embeddings_task(p, ConceptEmbeddings)),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_ct_conditional_positive",
        title: "Conditional task information in positive embeddings",
        paper: Paper::Own,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        help: "embedding_ct_conditional of the positive embeddings.",
        compute: |p| embedding::concepts_task_of(p, PositiveEmbeddings, Given::OwnLabel),
        test: Some(|p| conditional_null::embeddings_task(p, PositiveEmbeddings)),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_ct_conditional_negative",
        title: "Conditional task information in negative embeddings",
        paper: Paper::Own,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        help: "embedding_ct_conditional of the negative embeddings.",
        compute: |p| embedding::concepts_task_of(p, NegativeEmbeddings, Given::OwnLabel),
        test: Some(|p| conditional_null::embeddings_task(p, NegativeEmbeddings)),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_ic_conditional",
        title: "Conditional interconcept information in embeddings",
        paper: Paper::Own,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "icl_conditional of each concept's weighted embedding.",
        compute: |p| embedding::interconcept(p, ConceptEmbeddings, Given::OwnLabel),
        test: Some(conditional_null::embeddings_interconcept),
        ..OF_PAIRS
    },
    Score {
        id: "embedding_self",
        title: "Information of embeddings about their own concept, Ĩ(self)",
        equation: "12",
        unit: "share of H(c_i)",
        inputs: EMBEDDINGS_AND_LABELS,
        help: "What each concept's weighted embedding reveals about its own true concept.",
        compute: |p| embedding::own_concept(p, ConceptEmbeddings),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_self_positive",
        title: "Information of positive embeddings about their own concept",
        equation: "12",
        unit: "share of H(c_i)",
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(self) of the positive embeddings.",
        compute: |p| embedding::own_concept(p, PositiveEmbeddings),
        ..OF_CONCEPTS
    },
    Score {
        id: "embedding_self_negative",
        title: "Information of negative embeddings about their own concept",
        equation: "12",
        unit: "share of H(c_i)",
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(self) of the negative embeddings.",
        compute: |p| embedding::own_concept(p, NegativeEmbeddings),
        ..OF_CONCEPTS
    },
    Score {
        id: "alignment_leakage",
        title: "Alignment leakage, Ĩ(align)",
        paper: Paper::Leakage,
        equation: "13",
        unit: "share of H(y)",
        range: (-2.0, 2.0),
        per_concept: true,
        inputs: &[
            Input::Tensor(PositiveEmbeddings),
            Input::Tensor(NegativeEmbeddings),
            Input::Tensor(ConceptLabels),
            Input::Tensor(TaskLabels),
        ],
        help: "How much more embeddings that agree with the true concept reveal about the task than those that do \
               not. The larger group is cut to the smaller one's size.",
        trust: &["Needs rows of both classes of each concept.", COVERED, WIDTH],
        compute: embedding::alignment,
        ..ROW
    },
];
