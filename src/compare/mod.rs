//! Compares runs over repeated evaluations or folds, groups of runs by a label, and two splits of one run.
//!
//! Source: the Leakage Criterion (Section 5), the range of λ of least leakage (Section 7 and Appendix E) of Leakage and
//! Interpretability in Concept-Based Models, doi:10.48550/arXiv.2504.14094.

mod criterion;
mod groups;
mod interval;
mod pair;
mod side;
mod splits;

pub use criterion::{Criterion, CriterionVerdict};
pub use groups::{Group, GroupReport, GroupScore, Least, Training, compare_groups};
pub use interval::{Error, Estimate, Interval, Measured};
pub use pair::{Comparison, ConceptComparison, PairReport, ScoreComparison, SideReport, Verdict, compare_pair};
pub use side::{Evaluations, Side};
pub use splits::{SplitReport, compare_splits};

/// The scores of the Leakage Criterion.
pub const PUBLISHED: [&str; 2] = ["ctl", "icl"];
/// The same without clipping at 0, which turns noise into leakage.
pub const UNCLIPPED: [&str; 2] = ["ctl_excess", "icl_excess"];
/// Compared by default between two runs, as far as both have them.
pub const USUAL: [&str; 12] = [
    "ctl",
    "icl",
    "icl_label",
    "embedding_ct",
    "embedding_ic",
    "embedding_self",
    "alignment_leakage",
    "intervention_score",
    "ois",
    "nis",
    "concept_accuracy",
    "task_accuracy",
];
/// Compared by default between groups, whose table has a column for each.
pub const USUAL_OF_GROUPS: [&str; 6] =
    ["ctl", "icl", "icl_label", "intervention_score", "concept_accuracy", "task_accuracy"];
/// Compared by default between two splits of one run: what the model gets right in both.
pub const USUAL_OF_SPLITS: [&str; 6] = ["concept_accuracy", "concept_auc", "task_accuracy", "ctl", "icl", "icl_label"];
/// Scores whose normaliser grows with the number of rows.
const AT_EQUAL_ROWS: [&str; 2] = ["icl", "icl_excess"];
/// Relative difference of N beyond which those are not compared: the same that restarts alerts.
const ROWS_TOLERANCE: f64 = 0.01;
