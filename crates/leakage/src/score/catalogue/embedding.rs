//! Leakage of concept embeddings.

use super::inputs::{EMBEDDINGS_AND_LABELS, Input};
use super::memory::Memory;
use super::paper::Paper;
use super::row::{COVERED, ROW, Score};
use crate::score::{conditional_embedding, conditional_null, embedding};
use crate::tensor::TensorName::{ConceptEmbeddings, ConceptLabels, NegativeEmbeddings, PositiveEmbeddings, TaskLabels};

const EMBEDDINGS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];

/// The trust remark of scores from neighbours in vectors.
const WIDTH: &str = "Compare only models whose embeddings have the same dimension: Gaussian embeddings with a truth \
                     of 0.913 read 0.908 at d = 16 and 0.804 at d = 64.";

pub(super) const ROWS: [Score; 14] = [
    Score {
        id: "embedding_ct",
        title: "Task information in embeddings, Ĩ(CT)",
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(ConceptEmbeddings), Input::Tensor(TaskLabels)],
        help: "What each concept's weighted embedding reveals about the task.",
        trust: &[WIDTH, COVERED],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: embedding::concepts_task,
        ..ROW
    },
    Score {
        id: "embedding_ct_positive",
        title: "Task information in positive embeddings",
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the positive embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| embedding::concepts_task_of(p, PositiveEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_ct_negative",
        title: "Task information in negative embeddings",
        paper: Paper::Leakage,
        equation: "10",
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(TaskLabels)],
        help: "Ĩ(CT) of the negative embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| embedding::concepts_task_of(p, NegativeEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_ic",
        title: "Interconcept information in embeddings, Ĩ(IC)",
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "What each concept's weighted embedding reveals about the other true concepts, over ordered pairs.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::PAIRS },
        compute: |p| embedding::interconcept(p, ConceptEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_ic_positive",
        title: "Interconcept information in positive embeddings",
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(IC) of the positive embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::PAIRS },
        compute: |p| embedding::interconcept(p, PositiveEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_ic_negative",
        title: "Interconcept information in negative embeddings",
        paper: Paper::Leakage,
        equation: "11",
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(IC) of the negative embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::PAIRS },
        compute: |p| embedding::interconcept(p, NegativeEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_ct_conditional",
        title: "Conditional task information in embeddings",
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: EMBEDDINGS_AND_ALL_LABELS,
        help: "ctl_conditional of each concept's weighted embedding.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: conditional_embedding::concepts_task,
        test: Some(|p| conditional_null::embeddings_task(p, ConceptEmbeddings)),
        ..ROW
    },
    Score {
        id: "embedding_ct_conditional_positive",
        title: "Conditional task information in positive embeddings",
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        help: "embedding_ct_conditional of the positive embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| conditional_embedding::concepts_task_of(p, PositiveEmbeddings),
        test: Some(|p| conditional_null::embeddings_task(p, PositiveEmbeddings)),
        ..ROW
    },
    Score {
        id: "embedding_ct_conditional_negative",
        title: "Conditional task information in negative embeddings",
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
        help: "embedding_ct_conditional of the negative embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| conditional_embedding::concepts_task_of(p, NegativeEmbeddings),
        test: Some(|p| conditional_null::embeddings_task(p, NegativeEmbeddings)),
        ..ROW
    },
    Score {
        id: "embedding_ic_conditional",
        title: "Conditional interconcept information in embeddings",
        paper: Paper::Own,
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "icl_conditional of each concept's weighted embedding.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::PAIRS },
        compute: conditional_embedding::interconcept,
        test: Some(conditional_null::embeddings_interconcept),
        ..ROW
    },
    Score {
        id: "embedding_self",
        title: "Information of embeddings about their own concept, Ĩ(self)",
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        per_concept: true,
        inputs: EMBEDDINGS_AND_LABELS,
        help: "What each concept's weighted embedding reveals about its own true concept.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| embedding::own_concept(p, ConceptEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_self_positive",
        title: "Information of positive embeddings about their own concept",
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        per_concept: true,
        inputs: &[Input::Tensor(PositiveEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(self) of the positive embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| embedding::own_concept(p, PositiveEmbeddings),
        ..ROW
    },
    Score {
        id: "embedding_self_negative",
        title: "Information of negative embeddings about their own concept",
        paper: Paper::Leakage,
        equation: "12",
        unit: "share of H(c_i)",
        per_concept: true,
        inputs: &[Input::Tensor(NegativeEmbeddings), Input::Tensor(ConceptLabels)],
        help: "Ĩ(self) of the negative embeddings.",
        trust: &[WIDTH],
        memory: Memory { inputs: 1.0, ..Memory::LINEAR },
        compute: |p| embedding::own_concept(p, NegativeEmbeddings),
        ..ROW
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
