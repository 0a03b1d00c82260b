//! Clarity, and the sparsity of heads.

use super::inputs::{Input, TASK_PREDICTED};
use super::paper::Paper;
use super::row::{MEANS, ROW, Score};
use crate::point::CurveDescription;
use crate::run::MAX_LATENTS;
use crate::score::{clarity, contributions, head};
use crate::tensor::TensorName::{ActiveConcepts, ConceptActivations, ConceptLabels, TaskLabels};

const ACTIVITY: Input = Input::EitherTensor(ActiveConcepts, ConceptActivations);

const ACTIVITY_AND_ALL_LABELS: &[Input] =
    &[ACTIVITY, Input::Tensor(ConceptLabels), TASK_PREDICTED, Input::Tensor(TaskLabels)];

const SWEPT: &[Input] =
    &[Input::Tensor(ConceptActivations), Input::Tensor(ConceptLabels), TASK_PREDICTED, Input::Tensor(TaskLabels)];

/// A score of the active concepts.
const ACTIVE: Score =
    Score { paper: Paper::Clarity, unit: "harmonic mean", inputs: ACTIVITY_AND_ALL_LABELS, trust: &[MEANS], ..ROW };

pub(super) const ROWS: [Score; 11] = [
    Score {
        id: "sparsity",
        title: "Sparsity",
        unit: "share of concepts",
        per_concept: true,
        inputs: &[ACTIVITY],
        help: "Mean share of inactive concepts in a row. Active are active_concepts; else the active_top_k largest \
               activations; else contributions |w_yj ĉ_j| of head_weights above activity_threshold (by default that \
               of highest Clarity); else activations above it (by default the decision threshold).",
        compute: clarity::sparsity,
        ..ACTIVE
    },
    Score {
        id: "precision",
        title: "Precision of active concepts",
        unit: "share of active concepts",
        inputs: &[ACTIVITY, Input::Tensor(ConceptLabels)],
        help: "Share of active concepts that are present, mean over rows that have an active concept.",
        compute: clarity::precision,
        ..ACTIVE
    },
    Score {
        id: "rows_without_active",
        title: "Rows without an active concept",
        paper: Paper::Own,
        unit: "share of rows",
        inputs: &[ACTIVITY],
        help: "Share of rows without an active concept, which have no precision.",
        trust: &[MEANS],
        compute: clarity::rows_without_active,
        ..ROW
    },
    Score {
        id: "binary_accuracy",
        title: "Binary accuracy of active concepts",
        unit: "accuracy",
        per_concept: true,
        inputs: &[ACTIVITY, Input::Tensor(ConceptLabels)],
        help: "Share of rows in which a concept is active if and only if it is present, mean over concepts.",
        compute: clarity::binary_accuracy,
        ..ACTIVE
    },
    Score {
        id: "clarity",
        title: "Clarity",
        equation: "23",
        help: "Harmonic mean of sparsity, precision and task accuracy, weighted by clarity_weights. docs/clarity.md \
               says which of the paper's rows have this form.",
        compute: clarity::clarity,
        ..ACTIVE
    },
    Score {
        id: "clarity_dense",
        title: "Clarity without sparsity",
        equation: "23 without sparsity",
        help: "Harmonic mean of precision and task accuracy, for models that do not aim at sparsity.",
        compute: clarity::clarity_dense,
        ..ACTIVE
    },
    Score {
        id: "clarity_best",
        title: "Highest Clarity over thresholds",
        equation: "23",
        curve: Some(CurveDescription {
            x: "activity threshold τ",
            y: "Clarity",
            best: Some("clarity_best_threshold"),
            beside: None,
        }),
        inputs: SWEPT,
        help: "Clarity at the best of the paper's 17 thresholds on contributions |w_yj ĉ_j|, or on activations \
               without head_weights; the curve has all. Unlike the paper it does not retrain the head.",
        trust: &["The highest of 17 values on the same rows, so biased upwards, which its standard error ignores."],
        compute: clarity::clarity_best,
        ..ACTIVE
    },
    Score {
        id: "clarity_best_threshold",
        title: "Threshold of highest Clarity",
        paper: Paper::Clarity,
        unit: "threshold",
        range: (1e-4, 0.9),
        inputs: SWEPT,
        no_standard_error: Some("it is one of 17 values"),
        help: "The threshold of clarity_best, the lowest of equals.",
        trust: &["Jumps between 17 values."],
        compute: clarity::clarity_best_threshold,
        ..ROW
    },
    Score {
        id: "nec",
        title: "Number of effective concepts (NEC)",
        paper: Paper::Guidance,
        equation: "Section 4, NEC",
        unit: "concepts a class",
        range: (0.0, MAX_LATENTS as f64),
        inputs: &[Input::HeadWeights],
        latents: true,
        no_standard_error: Some("it counts weights"),
        help: "Weights of head_weights above 1e-5 per class.",
        trust: &["Exact: no row enters it."],
        compute: head::effective_concepts,
        ..ROW
    },
    Score {
        id: "anec",
        title: "Accuracy at few effective concepts (ANEC)",
        paper: Paper::Guidance,
        equation: "Section 4, ANEC-avg",
        unit: "accuracy",
        curve: Some(CurveDescription { x: "effective concepts (NEC)", y: "Task accuracy", best: None, beside: None }),
        inputs: &[Input::HeadWeights, Input::Tensor(ConceptActivations), Input::Tensor(TaskLabels)],
        latents: true,
        help: "Task accuracy of the head cut to its largest weights, mean over 5, 10, 15, 20, 25 and 30 effective \
               concepts; the curve has each. The authors fit a sparse head for each level.",
        trust: &[MEANS],
        compute: head::accuracy_at_effective_concepts,
        ..ROW
    },
    Score {
        id: "number_of_contributing_concepts",
        title: "Number of contributing concepts (NCC)",
        paper: Paper::Mechanistic,
        equation: "NCC",
        unit: "concepts a logit",
        range: (0.0, MAX_LATENTS as f64),
        inputs: &[Input::HeadWeights, Input::Tensor(ConceptActivations)],
        latents: true,
        help: "The least number of contributions |w ĉ| that add up to 95 % of all of a logit, mean over classes and \
               rows, as in the authors' code. At most nec. Log activations as the head reads them.",
        trust: &["Depends on the zero of an activation: sigmoids of absent concepts contribute little, standardised \
             logits as much as present ones."],
        compute: contributions::contributing_concepts,
        ..ROW
    },
];
