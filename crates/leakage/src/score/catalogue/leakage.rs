//! Leakage: what learnt concepts say about the task and about each other beyond the true ones.

use super::inputs::{ACTIVATIONS_AND_LABELS, Input};
use super::memory::{self, Memory};
use super::paper::Paper;
use super::row::{COVERED, Cost, ROW, Score};
use crate::score::{conditional, conditional_null, joint, leakage};
use crate::tensor::TensorName::{ConceptActivations, ConceptLabels, TaskLabels};

const ACTIVATIONS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];

/// A score of each concept's information about the task.
const OF_CONCEPTS: Score = Score {
    paper: Paper::Own,
    unit: "share of H(y)",
    per_concept: true,
    inputs: ACTIVATIONS_AND_ALL_LABELS,
    memory: Memory { inputs: 2.0, ..Memory::LINEAR },
    ..ROW
};

/// A score of each concept's information about each other one.
const OF_PAIRS: Score = Score {
    paper: Paper::Own,
    unit: "share of H(c_j)",
    per_concept: true,
    matrix: true,
    inputs: ACTIVATIONS_AND_LABELS,
    memory: Memory::PAIRS,
    ..ROW
};

pub(super) const ROWS: [Score; 12] = [
    Score {
        id: "ctl",
        title: "Concepts-task leakage (CTL)",
        paper: Paper::Leakage,
        equation: "6-7",
        help: "What each activation reveals about the task less what its true concept does, clipped at 0.",
        trust: &["From 500 rows on. On more than two classes it need not follow the intervention drop: \
                  docs/reproduce.md. An exclusive or of two logits reads 0.013."],
        compute: leakage::ctl,
        ..OF_CONCEPTS
    },
    Score {
        id: "ctl_excess",
        title: "Concepts-task leakage, unclipped",
        plain: "unclipped concepts-task leakage",
        equation: "6-7 unclipped",
        range: (-1.0, 1.0),
        help: "CTL without clipping, for trends: negative where concepts are badly learnt.",
        trust: &["On digits 0.06 for soft models that lose 0.78 under intervention.", COVERED],
        compute: leakage::ctl_excess,
        ..OF_CONCEPTS
    },
    Score {
        id: "icl",
        title: "Interconcept leakage (ICL)",
        paper: Paper::Leakage,
        equation: "8-9",
        unit: "normalised MI",
        help: "What activations reveal about each other less what the true concepts do, normalised, clipped at 0 per \
               pair. Compare at equal N only: the normaliser grows with it.",
        trust: &[
            "29 % lower at 10,000 rows than at 1,000 with the information unchanged. May read 0 where true concepts \
             are correlated: 0.0007 for a model of TabularToy(0.75) whose accuracy fell from 0.94 to 0.11 under \
             intervention. Half precision raises it from 0.25 to 0.28.",
        ],
        compute: leakage::icl,
        ..OF_PAIRS
    },
    Score {
        id: "icl_excess",
        title: "Interconcept leakage, unclipped",
        plain: "unclipped interconcept leakage",
        equation: "8-9 unclipped",
        unit: "normalised MI",
        range: (-1.0, 1.0),
        help: "ICL without clipping, for trends. Compare at equal N only.",
        trust: &[
            "On digits −0.06 for soft models that lose 0.78 under intervention, and for those that lose nothing.",
            COVERED,
        ],
        compute: leakage::icl_excess,
        ..OF_PAIRS
    },
    Score {
        id: "icl_label",
        title: "Interconcept leakage against labels",
        help: "What each activation reveals about the other true concepts less what its own true concept does, \
               clipped at 0 per pair. Sensitive where icl reads 0, but sound models show a little, too.",
        trust: &["AUC for a drop above 0.05: 0.83 on TabularToy(0.25), that of icl 0.78 (docs/reproduce.md)."],
        compute: leakage::icl_label,
        ..OF_PAIRS
    },
    Score {
        id: "icl_label_excess",
        title: "Interconcept leakage against labels, unclipped",
        range: (-1.0, 1.0),
        help: "icl_label without clipping, for trends.",
        trust: &[COVERED],
        compute: leakage::icl_label_excess,
        ..OF_PAIRS
    },
    Score {
        id: "ctl_conditional",
        title: "Conditional concepts-task leakage",
        plain: "leakage to the task",
        help: "I(ĉ_i; y | c_i) / H(y): what an activation reveals about the task beyond its concept's true value, \
               unclipped. Also above 0 when the model is merely unsure or concept labels are noisy. Blind to \
               information that only several concepts have together.",
        trust: &["r with the intervention drop is 0.92 and 0.89 on digits with 7 and 4 concepts: docs/reproduce.md. \
                  Logit models of TabularToy that lose nothing read 0.2: harmless. At 200 classes and 112 concepts \
                  independent noise reads 0.000, and a severe class shift of one standard deviation 0.07."],
        cost: Cost::Cheap,
        compute: conditional::concepts_task,
        test: Some(conditional_null::concepts_task),
        ..OF_CONCEPTS
    },
    Score {
        id: "ctl_conditional_r2",
        title: "Conditional concepts-task leakage of a number, as R²",
        plain: "leakage to the task as R²",
        unit: "informational R²",
        range: (-1.0, 1.0),
        inputs: &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), Input::Numbers(TaskLabels)],
        help: "1 - exp(-2 I(ĉ_i; y | c_i)) of a numeric task: the share of its variance that an activation explains \
               beyond its concept's true value, where all are jointly normal. ctl_conditional stays low there.",
        trust: &["See docs/diagnosis.md."],
        cost: Cost::Cheap,
        compute: conditional::concepts_task_of_variance,
        ..OF_CONCEPTS
    },
    Score {
        id: "icl_conditional",
        title: "Conditional interconcept leakage",
        plain: "leakage between concepts",
        help: "I(ĉ_i; c_j | c_i) / H(c_j): what an activation reveals about the other true concepts beyond its own \
               concept's true value, unclipped, mean over ordered pairs. Blind to task information that no annotated \
               concept has.",
        trust: &["r with the intervention drop is 0.92 and 0.80 on digits with 7 and 4 concepts."],
        memory: Memory { inputs: 3.0, ..Memory::PAIRS },
        compute: conditional::interconcept,
        test: Some(conditional_null::interconcept),
        ..OF_PAIRS
    },
    Score {
        id: "concept_gap",
        title: "Task information not learnt",
        range: (-1.0, 1.0),
        help: "ctl_conditional less ctl_excess, an estimate of I(c_i; y | ĉ_i) / H(y): what CTL subtracts from \
               leakage. High where concepts are badly learnt; it shows no leakage.",
        trust: &["On digits 0.24 in soft models at λ = 0.01, and 0.05 at λ = 5."],
        compute: conditional::gap,
        ..OF_CONCEPTS
    },
    Score {
        id: "joint_leakage",
        title: "Joint leakage",
        paper: Paper::Own,
        unit: "share of H(y)",
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        cost: Cost::Slow,
        help: "I(y; ĉ | c) / H(y) of all concepts at once: how much lower the held-out log loss of a task predictor \
               becomes when it sees activations beside the true concepts, cross-fitted over four parts of at most \
               4,096 rows. Sees what two concepts reveal only together. Numeric tasks are binned into octiles; \
               classes with fewer than four rows are left out.",
        trust: &[
            "At 2,048 rows honest activations read −0.003 to 0.000, at 600 rows down to −0.05. docs/peers.md shows \
             what it finds and misses.",
        ],
        memory: Memory { more: memory::joint, ..Memory::LINEAR },
        compute: joint::joint,
        ..ROW
    },
    Score {
        id: "joint_leakage_baseline",
        title: "Task uncertainty left by the true concepts",
        paper: Paper::Own,
        unit: "share of H(y)",
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        cost: Cost::Slow,
        help: "The first of joint_leakage's two losses over H(y). Near 0: the true concepts determine the task, so \
               nothing can leak. Near 1: they say nothing about it. Above 1: too few rows.",
        trust: &["0.00 for the parity of 3 of 6 concepts, 1.00 where concepts are unrelated to the task."],
        memory: Memory { more: memory::joint, ..Memory::LINEAR },
        compute: joint::joint_baseline,
        ..ROW
    },
];
