//! Leakage: what learnt concepts say about the task and about each other beyond the true ones.

use super::inputs::{ACTIVATIONS_AND_LABELS, Input};
use super::memory::{self, Memory};
use super::paper::Paper;
use super::row::{Cost, ROW, Score};
use crate::score::{conditional, conditional_null, joint, leakage};
use crate::tensor::TensorName::{ConceptActivations, ConceptLabels, TaskLabels};

const FAMILY: &str = "leakage";

const ACTIVATIONS_AND_ALL_LABELS: &[Input] =
    &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)];

pub(super) const ROWS: [Score; 12] = [
    Score {
        id: "ctl",
        title: "Concepts-task leakage (CTL)",
        family: FAMILY,
        paper: Paper::Leakage,
        equation: "6-7",
        unit: "share of H(y)",
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "Information about the task in each learnt concept beyond what the true concept has, clipped at 0.",
        trust: &[
            "From 500 rows on. With two classes it follows what an intervention costs (r = 0.79 and 0.52 over 60 \
                 models each of TabularToy(0.25) and (0.75)); with ten it need not: r = 0.02 and 0.50 on digits with 7 \
                 and with 4 concepts, where ctl_conditional has 0.92 and 0.89. An exclusive or of two logits reads \
                 0.013.",
        ],
        memory: Memory { inputs: 2.0, ..Memory::LINEAR },
        compute: leakage::ctl,
        ..ROW
    },
    Score {
        id: "ctl_excess",
        title: "Concepts-task leakage, unclipped",
        plain: "unclipped concepts-task leakage",
        family: FAMILY,
        paper: Paper::Own,
        equation: "6-7 unclipped",
        unit: "share of H(y)",
        range: (-1.0, 1.0),
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "CTL without clipping: negative when concepts are badly learnt, and free of the upward bias that \
               clipping gives to noise. Trends and tests run on it.",
        trust: &[
            "As ctl: 0.06 for soft models on digits that lose 0.78 under intervention. Intervals of ±1.96 errors cover \
                 the expected value in 91 to 92 % of data sets (N = 400 and 600).",
        ],
        memory: Memory { inputs: 2.0, ..Memory::LINEAR },
        compute: leakage::ctl_excess,
        ..ROW
    },
    Score {
        id: "icl",
        title: "Interconcept leakage (ICL)",
        family: FAMILY,
        paper: Paper::Leakage,
        equation: "8-9",
        unit: "normalised MI",
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Normalised information between learnt concepts beyond that between the true ones, clipped at 0 per \
               pair. Comparable only at equal N: its normaliser grows with the number of rows.",
        trust: &[
            "It is 29 % lower at 10,000 rows than at 1,000 with the information unchanged. Where true concepts are \
                 correlated it may read 0: 0.0007 for a model of TabularToy(0.75) whose accuracy fell from 0.94 to \
                 0.11 under intervention. r with that loss is 0.36 on digits with 7 concepts, 0.73 on \
                 TabularToy(0.25). Half precision raises it from 0.25 to 0.28.",
        ],
        memory: Memory::PAIRS,
        compute: leakage::icl,
        ..ROW
    },
    Score {
        id: "icl_excess",
        title: "Interconcept leakage, unclipped",
        plain: "unclipped interconcept leakage",
        family: FAMILY,
        paper: Paper::Own,
        equation: "8-9 unclipped",
        unit: "normalised MI",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "ICL without clipping. Trends and tests run on it. Comparable only at equal N.",
        trust: &[
            "As icl. On digits with 7 concepts its mean is −0.06 for soft models that lose 0.78 under intervention, \
                 and for those that lose nothing. Intervals of ±1.96 errors cover the expected value in 90 to 92 % of \
                 data sets (N = 400 and 600).",
        ],
        memory: Memory::PAIRS,
        compute: leakage::icl_excess,
        ..ROW
    },
    Score {
        id: "icl_label",
        title: "Interconcept leakage against labels",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "Information about the other true concepts in each learnt concept beyond what the true concept has, \
               clipped at 0 per pair. Sensitive where concepts are correlated and ICL reads 0, but most clean models \
               show a little.",
        trust: &[
            "More sensitive and less specific than icl: over 60 models each of TabularToy(0.25) and (0.75) its AUC for \
                 S_int above 0.05 is 0.83 and 0.82 where icl has 0.78 and 0.72. On digits with 7 concepts r with the \
                 loss under intervention is 0.45, that of icl_conditional 0.92.",
        ],
        memory: Memory::PAIRS,
        compute: leakage::icl_label,
        ..ROW
    },
    Score {
        id: "icl_label_excess",
        title: "Interconcept leakage against labels, unclipped",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        range: (-1.0, 1.0),
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "icl_label without clipping. Trends and tests run on it.",
        trust: &[
            "As icl_label. Intervals of ±1.96 errors cover the expected value in 89 to 92 % of data sets (N = 400 \
                 and 600).",
        ],
        memory: Memory::PAIRS,
        compute: leakage::icl_label_excess,
        ..ROW
    },
    Score {
        id: "ctl_conditional",
        title: "Conditional concepts-task leakage",
        plain: "leakage to the task",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(y)",
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "I(ĉ_i; y | c_i) / H(y): information about the task in each learnt concept beyond its own true concept, \
               unclipped. Also above 0 when the model is merely unsure, and for noisy concept labels: compare with a \
               bottleneck that was trained without the task. Blind to information that only several concepts have \
               together.",
        trust: &[
            "r with the loss of accuracy under intervention is 0.92 and 0.89 over 50 bottlenecks each on digits with 7 \
                 and with 4 concepts. Those that lose more than 0.3 read at least 0.19 and 0.13, sound ones at most \
                 0.16 and 0.13. Logit models of TabularToy that lose nothing read 0.2, which is harmless. At 200 \
                 classes and 112 concepts independent noise reads 0.000 and a class shift of one standard deviation, \
                 which is severe, 0.07.",
        ],
        cost: Cost::Cheap,
        memory: Memory { inputs: 2.0, ..Memory::LINEAR },
        compute: conditional::concepts_task,
        test: Some(conditional_null::concepts_task),
        ..ROW
    },
    Score {
        id: "ctl_conditional_r2",
        title: "Conditional concepts-task leakage of a number, as R²",
        plain: "leakage to the task as R²",
        family: FAMILY,
        paper: Paper::Own,
        unit: "informational R²",
        range: (-1.0, 1.0),
        per_concept: true,
        inputs: &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), Input::Numbers(TaskLabels)],
        help: "1 - exp(-2 I(ĉ_i; y | c_i)) of a task that is a number: the share of its variance, beyond the true \
               concept, that the activation explains where all are jointly normal. ctl_conditional stays low there.",
        trust: &[
            "Of the same information as ctl_conditional. For regressions of known collapse see docs/diagnosis.md.",
        ],
        cost: Cost::Cheap,
        memory: Memory { inputs: 2.0, ..Memory::LINEAR },
        compute: conditional::concepts_task_of_variance,
        ..ROW
    },
    Score {
        id: "icl_conditional",
        title: "Conditional interconcept leakage",
        plain: "leakage between concepts",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(c_j)",
        per_concept: true,
        matrix: true,
        inputs: ACTIVATIONS_AND_LABELS,
        help: "I(ĉ_i; c_j | c_i) / H(c_j): information about every other true concept in each learnt concept beyond \
               its own true concept, unclipped, mean over ordered pairs. Blind to information about the task that no \
               annotated concept has.",
        trust: &[
            "r with the loss of accuracy under intervention is 0.92 (7 concepts) and 0.80 (4) on digits; 0.82 and 0.62 \
                 on TabularToy(0.25) and (0.75). On digits with 7 concepts soft models read 0.25 at λ = 0.01, 0.14 and \
                 0.10 at λ of 1 and 5.",
        ],
        memory: Memory { inputs: 3.0, ..Memory::PAIRS },
        compute: conditional::interconcept,
        test: Some(conditional_null::interconcept),
        ..ROW
    },
    Score {
        id: "concept_gap",
        title: "Task information not learnt",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(y)",
        range: (-1.0, 1.0),
        per_concept: true,
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        help: "ctl_conditional less ctl_excess of each concept, which estimates I(c_i; y | ĉ_i) / H(y): what CTL \
               subtracts from leakage. High where concepts are badly learnt; it shows no leakage.",
        trust: &["Says how much CTL hides. On digits with 7 concepts it is 0.24 in soft models at λ = 0.01, where \
                 ctl_conditional is 0.30 and ctl_excess 0.06, and 0.05 at λ = 5."],
        memory: Memory { inputs: 2.0, ..Memory::LINEAR },
        compute: conditional::gap,
        ..ROW
    },
    Score {
        id: "joint_leakage",
        title: "Joint leakage",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(y)",
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        cost: Cost::Slow,
        help: "I(y; ĉ | c) / H(y) of all concepts at once: the held-out log loss of a predictor of the task from the \
               true concepts less that of one from both, cross-fitted over four parts of at most 4,096 rows. Detects \
               information that only two concepts carry jointly, and misses what its predictors do not learn. \
               joint_leakage_baseline says what there is to explain. A regression target is binned into octiles; rows \
               of classes with fewer than four rows are left out. p_value: sign flips of the differences of the rows' \
               losses, less 0.001 of H(y).",
        trust: &[
            "At 2,048 rows, for a truth of 0.86: 0.74 for an exclusive or of two logits among 6 and 0.72 among 112; \
                 0.53 for the parity of three logits among 6. Honest activations read −0.003 to 0.000, also with 112 \
                 concepts and 200 classes. Missed: the parity of three logits among 112 (0.000 of 0.86) and a task \
                 that changes with every half standard deviation of a logit (0.38 among 6, 0.02 among 112). At 600 \
                 rows models chosen by chance can take it to −0.05. docs/peers.md has the distributions.",
        ],
        memory: Memory { more: memory::joint, ..Memory::LINEAR },
        compute: joint::joint,
        ..ROW
    },
    Score {
        id: "joint_leakage_baseline",
        title: "Task uncertainty left by the true concepts",
        family: FAMILY,
        paper: Paper::Own,
        unit: "share of H(y)",
        inputs: ACTIVATIONS_AND_ALL_LABELS,
        cost: Cost::Slow,
        help: "The first of the two losses of joint_leakage over H(y). Near 0: the true concepts determine the task, \
               and nothing can leak about it. Near 1: they say nothing of it. Above 1: too few rows to learn from.",
        trust: &[
            "0.00 where the task is the parity of 3 of 6 concepts, 0.01 with 200 classes of 112 noisy concepts at \
                 2,048 rows, 1.00 where concepts are unrelated to the task.",
        ],
        memory: Memory { more: memory::joint, ..Memory::LINEAR },
        compute: joint::joint_baseline,
        ..ROW
    },
];
