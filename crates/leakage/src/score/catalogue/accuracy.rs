//! Accuracies: of task and concepts, under interventions, and of heads that the score trains.

use super::inputs::{ACTIVATIONS_AND_LABELS, Input, TASK_PREDICTED};
use super::memory::{self, Memory};
use super::paper::Paper;
use super::row::{Cost, MEANS, ROW, Score};
use crate::point::CurveDescription;
use crate::score::{
    accuracy, calibration, completeness, concordance, contributions, intervention, random_concepts, reference, task,
};
use crate::tensor::TensorName::{
    AblatedTaskPredictions, ConceptActivations, ConceptEmbeddings, ConceptLabels, IntervenedTaskPredictions,
    InterventionPredictions, TaskLabels, TaskLogits, WrongInterventionPredictions,
};

const INTERVENED: Input = Input::EitherTensor(IntervenedTaskPredictions, InterventionPredictions);

const OVER_INTERVENTIONS: CurveDescription = CurveDescription {
    x: "share of concepts set to their true values",
    y: "Balanced task accuracy, or R²",
    best: None,
    beside: Some("wrong_intervention_drop"),
};

const OVER_WRONG_INTERVENTIONS: CurveDescription = CurveDescription {
    x: "share of concepts set to wrong values",
    y: "Balanced task accuracy, or R²",
    best: None,
    beside: None,
};

/// The range of a ratio whose divisor may be small.
const UNBOUNDED: (f64, f64) = (-1e6, 1e6);

/// The trust remark of means over classes.
const RARE: &str = "Only as certain as the rarest class: in a class of 10 rows, one of two classes, each row moves \
                    it by 0.05.";

/// The trust remark of heads that the score trains.
const FIFTH: &str =
    "Heads are tested on a fifth of the rows: at N = 2,000 the standard error of an accuracy of 0.9 is 0.015.";

/// A mean over the concepts that predict classes.
const OF_CONCEPTS: Score = Score {
    per_concept: true,
    inputs: ACTIVATIONS_AND_LABELS,
    trust: &[MEANS],
    memory: Memory { inputs: 2.0, ..Memory::LINEAR },
    ..ROW
};

/// A score of heads that are trained on the concepts.
const HEADS: Score = Score {
    unit: "accuracy",
    inputs: &[Input::Tensor(ConceptLabels), Input::Tensor(TaskLabels)],
    cost: Cost::Slow,
    trust: &[FIFTH],
    memory: Memory { more: memory::heads_on_concepts, ..Memory::LINEAR },
    ..ROW
};

/// A score of the task after interventions.
const INTERVENTION: Score = Score {
    paper: Paper::Own,
    unit: "accuracy",
    inputs: &[INTERVENED, Input::Tensor(TaskLabels)],
    trust: &[MEANS],
    cost: Cost::Cheap,
    ..ROW
};

/// A score of the task.
const TASK: Score = Score {
    unit: "accuracy",
    inputs: &[TASK_PREDICTED, Input::Tensor(TaskLabels)],
    trust: &[MEANS],
    memory: Memory { inputs: 2.0, ..Memory::LINEAR },
    ..ROW
};

pub(super) const ROWS: [Score; 29] = [
    Score {
        id: "intervention_score",
        title: "Intervention score, S_int",
        paper: Paper::Leakage,
        equation: "5",
        unit: "accuracy",
        range: (-1.0, 1.0),
        inputs: &[INTERVENED, Input::Tensor(TaskLabels), Input::ReferenceTaskAccuracy],
        help: "Accuracy of a head trained on true concepts, less that of the model's head after all concepts were \
               set to their true values. Without reference_task_accuracy both are balanced, and the reference head \
               is linear for a run with head_weights (undefined where an MLP is far better), else the better of two.",
        trust: &["Only as good as the predictions: logits set to 0 and 1 gave 0.69 where their 5th and 95th \
                  percentiles gave 0.89."],
        cost: Cost::Cheap,
        memory: Memory { more: memory::heads_on_concepts, ..Memory::LINEAR },
        compute: intervention::intervention_score,
        ..ROW
    },
    Score {
        id: "reference_accuracy_linear",
        title: "Reference accuracy, linear head",
        paper: Paper::Leakage,
        equation: "5",
        help: "Test accuracy of a linear head trained on the true concepts. Lower than the MLP's: a linear head is \
               misspecified. Both low: the concept set is incomplete. Undefined below 0.92 where half of the rows would \
               teach heads less by more than 0.05.",
        compute: reference::linear,
        ..HEADS
    },
    Score {
        id: "reference_accuracy_mlp",
        title: "Reference accuracy, MLP head",
        paper: Paper::Leakage,
        equation: "5",
        help: "Test accuracy of a head with one hidden layer of 64 units trained on the true concepts.",
        compute: reference::mlp,
        ..HEADS
    },
    Score {
        id: "concept_completeness",
        title: "Concept completeness",
        paper: Paper::Completeness,
        equation: "Definition 3.1",
        unit: "share of the model's accuracy",
        range: UNBOUNDED,
        inputs: &[Input::Tensor(ConceptActivations), TASK_PREDICTED, Input::Tensor(TaskLabels)],
        latents: true,
        help: "(a_c - a_r) / (a_f - a_r): accuracy of the better of a linear and an MLP head trained on the \
               activations, over the model's, both above the share of the most frequent class. Near 1 where the \
               bottleneck holds all that the model knows about the task, leaked or not.",
        memory: Memory { more: memory::heads_on_activations, ..Memory::LINEAR },
        compute: completeness::of_activations,
        ..HEADS
    },
    Score {
        id: "label_completeness",
        title: "Completeness of the true concepts",
        paper: Paper::Own,
        unit: "share of the model's accuracy",
        range: UNBOUNDED,
        inputs: &[Input::Tensor(ConceptLabels), TASK_PREDICTED, Input::Tensor(TaskLabels)],
        help: "Concept completeness of the true concepts. Below 1 the concept set is incomplete, or the model uses \
               leaked information.",
        compute: completeness::of_labels,
        ..HEADS
    },
    Score {
        id: "random_concept_baseline",
        title: "Accuracy of random concepts",
        paper: Paper::Guidance,
        inputs: &[
            Input::EitherTensor(ConceptEmbeddings, ConceptActivations),
            Input::Tensor(ConceptLabels),
            Input::Tensor(TaskLabels),
        ],
        latents: true,
        help: "Balanced task accuracy of a linear head on a random concept for each concept: a random direction through \
               the embeddings, or activations, cut at the label's prevalence; cross-fitted over four parts. Where \
               task_balanced_accuracy is not above it, the model gains nothing from what its concepts mean.",
        trust: &[
            "From 112 normal activations, 112 random concepts predict four classes, the signs of two of these, with 0.50, \
             and 4 with 0.28 (2,048 rows). The error includes the draw of directions.",
        ],
        compute: random_concepts::baseline,
        ..HEADS
    },
    Score {
        id: "task_excess",
        title: "Task accuracy beyond the true concepts",
        paper: Paper::Own,
        unit: "accuracy",
        range: (-1.0, 1.0),
        inputs: &[TASK_PREDICTED, Input::Tensor(TaskLabels), Input::ReferenceTaskAccuracy],
        help: "Balanced task accuracy less that of heads on the true concepts, with or without weights of classes, or \
               task accuracy less the run's reference_task_accuracy. Above 0 the model predicts what the concepts do \
               not determine. Undefined with fewer than 10 rows a class.",
        trust: &[
            FIFTH,
            "Of 213 sound models none ended above 0.02, of 317 that collapse one in twenty above 0.29: it sees only \
             what no concept determines.",
        ],
        cost: Cost::Cheap,
        memory: Memory { more: memory::heads_on_concepts, ..Memory::LINEAR },
        compute: reference::task_excess,
        ..ROW
    },
    Score {
        id: "intervened_task_accuracy",
        title: "Task accuracy after intervention",
        paper: Paper::Leakage,
        equation: "5",
        help: "Share of rows whose task is right after all concepts were set to their true values.",
        compute: intervention::intervened_task_accuracy,
        ..INTERVENTION
    },
    Score {
        id: "intervened_task_balanced_accuracy",
        title: "Balanced task accuracy after intervention",
        help: "Balanced task accuracy after intervention on all concepts.",
        trust: &[RARE, MEANS],
        compute: intervention::intervened_task_balanced_accuracy,
        ..INTERVENTION
    },
    Score {
        id: "intervened_task_r2",
        title: "Task R² after intervention",
        unit: "R²",
        inputs: &[INTERVENED, Input::Numbers(TaskLabels)],
        help: "R² of a numeric task after intervention, at least 0.",
        compute: intervention::intervened_task_r2,
        ..INTERVENTION
    },
    Score {
        id: "intervention_drop",
        title: "Accuracy lost by intervention",
        plain: "intervention drop",
        range: (-1.0, 1.0),
        curve: Some(OVER_INTERVENTIONS),
        help: "Balanced task accuracy, or R² of a numeric task, lost when all concepts are set to their true values. \
               Near 0 or below where the head reads concepts as concepts; large where it reads what leaked into \
               them.",
        trust: &[
            "Leakage scores are judged by it: 0.78 at λ = 0.01 and −0.08 at λ = 5 in soft models on digits. Does not \
             see harmless leakage.",
            MEANS,
        ],
        compute: intervention::intervention_drop,
        ..INTERVENTION
    },
    Score {
        id: "intervention_area",
        title: "Area under the intervention curve",
        curve: Some(OVER_INTERVENTIONS),
        inputs: &[Input::Tensor(InterventionPredictions), Input::Tensor(TaskLabels)],
        help: "Mean balanced task accuracy, or R², over the share of concepts set to their true values, from none to \
               all. Compare runs that set concepts in the same order.",
        compute: intervention::intervention_area,
        ..INTERVENTION
    },
    Score {
        id: "wrong_intervention_drop",
        title: "Accuracy lost by wrong interventions",
        plain: "drop under wrong interventions",
        range: (-1.0, 1.0),
        curve: Some(OVER_WRONG_INTERVENTIONS),
        inputs: &[Input::Tensor(WrongInterventionPredictions), Input::Tensor(TaskLabels)],
        help: "Balanced task accuracy, or R², lost when all concepts are set to wrong values. High in a model that \
               predicts through its concepts; near 0 in one that ignores them.",
        compute: intervention::wrong_intervention_drop,
        ..INTERVENTION
    },
    Score {
        id: "task_accuracy",
        title: "Task accuracy",
        help: "Share of rows whose predicted class is right.",
        cost: Cost::Cheap,
        compute: accuracy::task_accuracy,
        ..TASK
    },
    Score {
        id: "task_balanced_accuracy",
        title: "Balanced task accuracy",
        help: "Recall, mean over the classes that occur.",
        trust: &[RARE, MEANS],
        cost: Cost::Cheap,
        compute: accuracy::task_balanced_accuracy,
        ..TASK
    },
    Score {
        id: "task_r2",
        title: "Task R²",
        unit: "R²",
        range: UNBOUNDED,
        inputs: &[TASK_PREDICTED, Input::Numbers(TaskLabels)],
        help: "Share of a numeric task's variance that the predictions explain; below 0 where a constant would do \
               better.",
        trust: &[MEANS],
        cost: Cost::Cheap,
        compute: intervention::task_r2,
        ..ROW
    },
    Score {
        id: "task_mae",
        title: "Task MAE",
        unit: "the task's unit",
        range: (0.0, f64::INFINITY),
        inputs: &[TASK_PREDICTED, Input::Numbers(TaskLabels)],
        help: "Mean absolute error of the predictions of a numeric task.",
        trust: &[MEANS],
        cost: Cost::Cheap,
        compute: intervention::task_mae,
        ..ROW
    },
    Score {
        id: "task_f1",
        title: "Task F1 (macro)",
        unit: "F1",
        help: "F1 of class 1 of two; with more classes the mean over those that occur or are predicted.",
        compute: task::task_f1,
        ..TASK
    },
    Score {
        id: "task_auc",
        title: "Task AUC (one class against the rest)",
        unit: "AUC",
        inputs: &[Input::Tensor(TaskLogits), Input::Tensor(TaskLabels)],
        help: "Probability that a row of class 1 has the higher logit; with more classes the mean of each against \
               the rest, by the softmax.",
        compute: task::task_auc,
        ..TASK
    },
    Score {
        id: "concept_accuracy",
        title: "Concept accuracy",
        unit: "accuracy",
        help: "Share of rows whose predicted concept is right, mean over concepts. Does not show leakage.",
        trust: &[
            "Follows collapse better than any published leakage score (docs/reproduce.md), but does not see leakage \
             through well learnt concepts.",
            MEANS,
        ],
        cost: Cost::Cheap,
        compute: accuracy::concept_accuracy,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_balanced_accuracy",
        title: "Balanced concept accuracy",
        unit: "accuracy",
        help: "Recall of a concept's classes, mean over classes and concepts.",
        trust: &[RARE, MEANS],
        cost: Cost::Cheap,
        compute: accuracy::concept_balanced_accuracy,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_f1",
        title: "Concept F1 (macro)",
        unit: "F1",
        help: "F1 of each concept's presence, mean over concepts, or classes of categorical ones.",
        compute: accuracy::concept_f1,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_auc",
        title: "Concept AUC",
        unit: "AUC",
        help: "Probability that a row with the concept has the higher activation of two, mean over concepts; for \
               categorical concepts over pairs of classes; for numeric ones by the higher label.",
        cost: Cost::Cheap,
        compute: accuracy::concept_auc,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_r2",
        title: "Concept R²",
        unit: "R²",
        range: UNBOUNDED,
        inputs: &[Input::Tensor(ConceptActivations), Input::Numbers(ConceptLabels)],
        help: "Share of a numeric label's variance that its activation explains, mean over concepts; below 0 where a \
               constant would do better.",
        cost: Cost::Cheap,
        compute: concordance::r2,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_average_precision",
        title: "Concept mean average precision (mAP)",
        unit: "average precision",
        help: "Precision at the activation of each row with the concept, mean over these rows and concepts, or \
               classes of categorical ones.",
        compute: accuracy::concept_average_precision,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_brier",
        title: "Brier score of concepts",
        unit: "squared error",
        help: "Mean squared difference of a concept's probability and its label, mean over concepts; of a \
               categorical one half of the sum over classes. Logits go through a sigmoid or softmax.",
        compute: calibration::brier,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_ece",
        title: "Expected calibration error of concepts (ECE)",
        unit: "probability",
        help: "Distance of a concept's mean probability from the share of rows that have it, mean over the rows of \
               15 equal bins and over concepts; of a categorical concept, by the predicted class.",
        trust: &[
            "Biased upwards: calibrated probabilities, uniform in [0, 1], read 0.054 at 500 rows and 0.027 at 2,000. \
             Compare at equal N.",
        ],
        compute: calibration::expected_error,
        ..OF_CONCEPTS
    },
    Score {
        id: "concept_ablation_drop",
        title: "Accuracy lost without concepts",
        range: (-1.0, 1.0),
        inputs: &[Input::Tensor(AblatedTaskPredictions), TASK_PREDICTED, Input::Tensor(TaskLabels)],
        help: "For models with a residual or side channel: balanced task accuracy, or R², lost when all concepts are \
               set to their means. Near 0 where the task bypasses the concepts; up to the model's accuracy less that \
               of guessing where it passes through them.",
        trust: &["Does not show leakage into the concepts.", RARE, MEANS],
        compute: intervention::concept_ablation_drop,
        ..INTERVENTION
    },
    Score {
        id: "side_channel_share",
        title: "Share of the logits that bypasses the concepts",
        plain: "side channel share",
        paper: Paper::Own,
        unit: "share of variance",
        inputs: &[Input::HeadWeights, Input::Tensor(ConceptActivations), Input::Tensor(TaskLogits)],
        help: "For models with a residual or side channel beside a linear head: V(s) / (V(s) + V(W ĉ + b)), where s \
               is what the task logits have beside W ĉ + b, and V the variance over rows, summed over classes. 0 \
               where all passes through the concepts, 1 where nothing does.",
        trust: &[
            "Exact for the logits of its rows; head_bias may be left out. Does not show leakage into the concepts.",
        ],
        memory: Memory { inputs: 4.0, ..Memory::LINEAR },
        compute: contributions::side_channel_share,
        ..ROW
    },
];
