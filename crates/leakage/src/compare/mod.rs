//! Compares runs over repeated evaluations or folds, groups of runs by a label, and two splits of one run.
//!
//! Source: the Leakage Criterion (Section 5), the range of λ of least leakage (Section 7 and Appendix E) of Leakage and
//! Interpretability in Concept-Based Models, doi:10.48550/arXiv.2504.14094.

mod class;
mod comparison;
mod criterion;
mod groups;
mod interval;
mod pair;
mod side;
mod splits;
mod usual;
mod weighed;

pub use class::Class;
pub use comparison::{Comparison, Verdict};
pub use criterion::{Criterion, CriterionVerdict};
pub use groups::{Group, GroupReport, GroupScore, Least, Training, compare_groups};
pub use interval::{Error, Estimate, Interval, Measured};
pub use pair::{ConceptComparison, PairReport, ScoreComparison, SideReport, compare_pair};
pub use side::{Evaluations, Made, Side, Sided};
pub use splits::{SplitReport, compare_splits};
pub use usual::{OF_GROUPS, PUBLISHED, UNCLIPPED, USUAL, USUAL_OF_GROUPS, USUAL_OF_SPLITS, fits};
pub use weighed::{Weighed, WeighedVerdict};
