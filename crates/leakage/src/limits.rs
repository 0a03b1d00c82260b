//! The limits at which scores count as evidence, for alerts and the diagnosis alike, with the data that fixed each.
//!
//! A limit means the same for 2 and for 200 classes, and for 3 and for 112 concepts: conditional leakage is a share of
//! the task's entropy, the others are areas under a curve and differences of accuracies. docs/evidence.md has the runs
//! behind the limits of alerts: nine data sets, soft and logit bottlenecks, four concept weights.

use crate::point::Point;
pub use crate::score::{HEAD_GAP, REFERENCE_ACCURACY};

/// Balanced accuracy that heads on an incomplete concept set reach at most: the highest in Table 3 of arXiv:2504.14094. Where
/// one class is frequent, their accuracy is high whatever they read.
pub const INCOMPLETE: f64 = 0.84;

/// `intervention_drop` above which the task rests on something else than the concepts. Models that end with a drop above
/// 0.3 are beyond it in most evaluations, those that end below 0.02 in at most three in a row.
pub const INTERVENTION_DROP: f64 = 0.25;

/// `ctl_conditional` above which a model holds more about the task than sound ones do: in docs/evidence.md nineteen of
/// twenty sound models end with at most 0.16, nineteen of twenty that collapse under intervention with at least 0.17.
pub const CTL_CONDITIONAL: f64 = 0.16;

/// `ctl_conditional` of one concept above which its activation reveals the task, however low the mean is: of 51 sound models
/// of docs/evidence.md whose mean is below its limit, the highest has 0.30.
pub const CTL_OF_ONE: f64 = 0.4;

/// `icl_excess` and `ctl_excess` above which the published scores are high. No sound run is beyond them in two evaluations
/// in a row; of runs that collapse on more than two classes most are not either.
pub const ICL_HIGH: f64 = 0.25;
pub const CTL_HIGH: f64 = 0.45;

/// `ctl_conditional` above and `concept_auc` below which activations predict the task instead of their concepts. Models
/// that collapse end with at least 0.12, nineteen of twenty with at least 0.17; sound ones pass through 0.2 while they
/// learn, and end with a concept AUC of at least 0.98. Both together hold in sound runs in at most two evaluations in a
/// row.
pub const CTL_UNLEARNT: f64 = 0.12;
pub const CONCEPT_AUC: f64 = 0.85;

/// `concept_accuracy` below which concepts are not learnt. High conditional leakage with well learnt concepts is
/// information that an intervention removes without harm: logit bottlenecks have 0.2 at a drop near 0.
pub const CONCEPT_ACCURACY: f64 = 0.9;

/// `concept_auc` of a single concept below which it is hardly learnt: nearer to chance, one half, than to certainty.
pub const UNLEARNT_AUC: f64 = 0.75;

/// `task_accuracy` less the better of `reference_accuracy_linear` and `reference_accuracy_mlp`, above which a model
/// predicts what the true concepts do not determine.
pub const TASK_EXCESS: f64 = 0.1;

/// `ctl_conditional_r2` above which a regression holds more about its number than sound ones do. Of 24 small regressions
/// of three kinds of data the 11 with λ = 0.01 or 0.1 that lose more than 1 in R² under intervention end with 0.13 to 0.52,
/// the 8 with λ = 1 or 10 and a complete concept set with at most 0.05.
pub const CTL_R2: f64 = 0.12;

/// `icl_conditional` above which activations hold more about other concepts than those of nineteen in twenty sound models.
/// Most models that collapse are above it, not all.
pub const ICL_CONDITIONAL: f64 = 0.16;

/// `joint_leakage` above which activations together hold more about the task than the concepts together: between the
/// largest of sound models and the least of collapsing ones on digits with an incomplete concept set. With a complete set
/// it is 0 in both.
pub const JOINT_LEAKAGE: f64 = 0.13;

/// `intervention_drop` and `intervention_score` below which an intervention does no harm, and above which it does: sound
/// models are below it in nearly all evaluations, collapsing ones above it. In Table 1 of arXiv:2504.14094 the models that
/// leak lose 0.139 or more, the others 0.000.
pub const INTERVENTION_HARM: f64 = 0.05;

/// `ctl_excess` and `icl_excess` that show leakage where the conditional scores are missing. Below them they show nothing,
/// because what was not learnt is subtracted. From the recorded runs in docs/alerts.md after their last epoch: with λ = 0.01,
/// 39 of 40 are above one of them with their whole interval; with λ of 1 or 5 none of 80 is, and the highest CTL is 0.148.
pub const CTL_EXCESS: f64 = 0.15;
pub const ICL_EXCESS: f64 = 0.05;

/// `alignment_leakage`, a difference of shares of the task's entropy, below which it is too small to matter, as a loss of
/// accuracy of that size is. Without alignment leakage it is 0 (Section 8 of arXiv:2504.14094).
pub const ALIGNMENT: f64 = 0.05;

/// Jump of the tie fraction that moves ICL.
pub const TIES: f64 = 0.2;

/// Rows below which standard errors are as large as the limits.
pub const ROWS: f64 = 500.0;

/// Rise of a leakage score or of `intervention_drop` over a run's own baseline from which on it matters: less of it is
/// found in sound runs, and noise of standard deviation 0.01 that is correlated by 0.9 from one evaluation to the next
/// rises further in 1 of 100 runs of 80 evaluations.
pub const LEAST_RISE: f64 = 0.035;

/// The same of `ctl_conditional`, which says less about harm: of 291 sound runs of docs/evidence.md none rises further,
/// and 2 by 0.05.
pub const CTL_RISE: f64 = 0.08;

/// The same of `ctl_conditional_r2`.
pub const CTL_R2_RISE: f64 = 0.08;

/// Evaluations in a row for which interventions do harm before a run is advised to stop. Of 291 sound runs of
/// docs/evidence.md 2 do harm for as long while they learn, of 393 that collapse all.
pub const HARM_LASTS: u32 = 10;

/// Evaluations of a run that are not judged, because a model that learns its concepts passes through every limit.
pub const WARM_UP: u32 = 2;

/// Limits to show beside values, from which the diagnosis concludes: catalogue id, limit, and whether values above it are
/// the bad ones.
pub const SHOWN: [(&str, f64, bool); 9] = [
    ("ctl_conditional", CTL_CONDITIONAL, true),
    ("ctl_conditional_r2", CTL_R2, true),
    ("icl_conditional", ICL_CONDITIONAL, true),
    ("joint_leakage", JOINT_LEAKAGE, true),
    ("embedding_ct_conditional", CTL_CONDITIONAL, true),
    ("alignment_leakage", ALIGNMENT, true),
    ("intervention_drop", INTERVENTION_HARM, true),
    ("concept_accuracy", CONCEPT_ACCURACY, false),
    ("concept_auc", CONCEPT_ACCURACY, false),
];

/// Half-width of an interval in standard errors: 95 % of a normal distribution, as on the page.
pub const INTERVAL: f64 = 1.96;

/// Returns the half-width of the 95 % interval as it follows a value, such as " ± 0.0098"; empty without an error.
pub fn plus_minus(standard_error: Option<f64>) -> String {
    standard_error.map_or_else(String::new, |error| format!(" ± {:.4}", INTERVAL * error))
}

/// Whether predictions suffer when concepts are set to their true values, and no more when they are set to wrong ones: the
/// head reads neither.
pub fn reads_no_concept(point: &Point) -> bool {
    let measured = |score: &str| {
        let found = point.score(score)?.value()?;
        Some((found.value, INTERVAL * found.standard_error.unwrap_or(0.0)))
    };
    let Some((at_true, error)) = measured("intervention_drop") else { return false };
    let Some((at_wrong, error_at_wrong)) = measured("wrong_intervention_drop") else { return false };
    at_true - error > INTERVENTION_HARM && at_wrong - at_true + error.hypot(error_at_wrong) < INTERVENTION_HARM
}
