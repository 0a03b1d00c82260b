//! The scores that are compared unless others are named, and those that need equal numbers of rows.

/// The scores of the Leakage Criterion.
pub const PUBLISHED: [&str; 2] = ["ctl", "icl"];
/// The same without clipping at 0, which turns noise into leakage.
pub const UNCLIPPED: [&str; 2] = ["ctl_excess", "icl_excess"];
/// Scores that say which of two sides leaks more, as far as both have them: information beyond each concept, and what it
/// does.
pub(super) const WEIGHED: [&str; 7] = [
    "ctl_conditional",
    "ctl_conditional_r2",
    "icl_conditional",
    "joint_leakage",
    "embedding_ct_conditional",
    "embedding_ic_conditional",
    "intervention_drop",
];
/// Compared by default between two runs, as far as both have them.
pub const USUAL: [&str; 20] = [
    "ctl_conditional",
    "ctl_conditional_r2",
    "icl_conditional",
    "joint_leakage",
    "intervention_drop",
    "concept_accuracy",
    "task_accuracy",
    "task_balanced_accuracy",
    "ctl",
    "icl",
    "icl_label",
    "embedding_ct",
    "embedding_ct_conditional",
    "embedding_ic",
    "embedding_ic_conditional",
    "embedding_self",
    "alignment_leakage",
    "intervention_score",
    "ois",
    "nis",
];
/// Compared by default between groups, whose table has a column for each. A row of the list of runs holds the same scores,
/// and the report of a run draws their curves in this order: those that decide first.
pub const USUAL_OF_GROUPS: [&str; 7] =
    ["ctl_conditional", "icl_conditional", "intervention_drop", "concept_accuracy", "task_accuracy", "ctl", "icl"];
/// The scores that a comparison of groups reads by default: those of its table, its verdicts and its criterion.
pub const OF_GROUPS: [&str; 12] = [
    "ctl_conditional",
    "ctl_conditional_r2",
    "icl_conditional",
    "joint_leakage",
    "embedding_ct_conditional",
    "embedding_ic_conditional",
    "intervention_drop",
    "concept_accuracy",
    "task_accuracy",
    "task_balanced_accuracy",
    "ctl",
    "icl",
];
/// Compared by default between two splits of one run: what the model gets right in both, and what interventions do.
pub const USUAL_OF_SPLITS: [&str; 10] = [
    "concept_accuracy",
    "concept_auc",
    "task_accuracy",
    "task_balanced_accuracy",
    "intervention_drop",
    "ctl_conditional",
    "icl_conditional",
    "ctl",
    "icl",
    "icl_label",
];
/// Scores whose normaliser grows with the number of rows.
pub(super) const AT_EQUAL_ROWS: [&str; 2] = ["icl", "icl_excess"];
/// Relative difference of N beyond which those are not compared: the same that restarts alerts.
pub(super) const ROWS_TOLERANCE: f64 = 0.01;
