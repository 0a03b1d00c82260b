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
/// Compared by default between groups, whose table has a column for each that [`fits`]. A row of the list of runs holds
/// the same scores, and the report of a run draws their curves in this order: those that decide first.
pub const USUAL_OF_GROUPS: [&str; 10] = [
    "ctl_conditional",
    "ctl_conditional_r2",
    "icl_conditional",
    "intervention_drop",
    "concept_accuracy",
    "concept_r2",
    "task_accuracy",
    "task_r2",
    "ctl",
    "icl",
];
/// Scores of classes, and those of numbers in their place.
const OF_CLASSES_AND_NUMBERS: [[&str; 2]; 3] =
    [["ctl_conditional", "ctl_conditional_r2"], ["concept_accuracy", "concept_r2"], ["task_accuracy", "task_r2"]];

/// Whether a score is to be shown, given which have a value: one of classes is not where that of numbers stands for it.
/// Both have their place where some concepts, or tasks, are classes and others numbers. Of leakage one is shown: that of
/// numbers where all tasks are, since it says nothing of other tasks.
pub fn fits(score: &str, tasks_are_numbers: bool, has_value: impl Fn(&str) -> bool) -> bool {
    match OF_CLASSES_AND_NUMBERS.iter().find(|pair| pair.contains(&score)) {
        Some(["ctl_conditional", numbers]) => (score == *numbers) == (tasks_are_numbers && has_value(numbers)),
        Some([_, numbers]) if score == *numbers => has_value(numbers),
        Some([classes, numbers]) => !has_value(numbers) || has_value(classes),
        None => true,
    }
}

/// The scores that a comparison of groups reads by default: those of its table, its verdicts and its criterion.
pub const OF_GROUPS: [&str; 14] = [
    "ctl_conditional",
    "ctl_conditional_r2",
    "icl_conditional",
    "joint_leakage",
    "embedding_ct_conditional",
    "embedding_ic_conditional",
    "intervention_drop",
    "concept_accuracy",
    "concept_r2",
    "task_accuracy",
    "task_balanced_accuracy",
    "task_r2",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_for_classes_where_they_have_values() {
        let of = |valued: &[&str], numbers| -> Vec<&str> {
            USUAL_OF_GROUPS.into_iter().filter(|id| fits(id, numbers, |id| valued.contains(&id))).collect()
        };
        let classes = ["ctl_conditional", "icl_conditional", "intervention_drop", "concept_accuracy", "task_accuracy"];
        // Without a value they stay, with the reason.
        assert_eq!(of(&[], true)[..5], classes);
        let valued = ["ctl_conditional", "ctl_conditional_r2", "concept_accuracy", "concept_r2", "task_r2"];
        let regression = of(&valued, true);
        assert_eq!(
            regression[..6],
            ["ctl_conditional_r2", "icl_conditional", "intervention_drop", "concept_accuracy", "concept_r2", "task_r2"]
        );
        let of_both_kinds = of(&valued, false);
        assert!(of_both_kinds.contains(&"ctl_conditional") && !of_both_kinds.contains(&"ctl_conditional_r2"));
    }
}
