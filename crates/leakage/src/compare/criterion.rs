//! The Leakage Criterion.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, Section 5, doi:10.48550/arXiv.2504.14094: a sufficient
//! condition for A having higher leakage than B is that both CTL and ICL are higher in A with high statistical
//! confidence, or one is and the other takes statistically compatible values. It cannot be used where one is higher and
//! the other lower.

use serde::{Deserialize, Serialize};

use crate::score::catalogue::named;

use super::comparison::{Comparison, Verdict};
use super::side::Sided;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CriterionVerdict {
    ALeaksMore,
    BLeaksMore,
    /// Neither score differs with confidence. Not a proof that both leak alike.
    Compatible,
    /// One score is higher and the other lower: the criterion says nothing.
    Undecided,
    /// A score cannot be compared.
    Undefined,
}

/// The verdict, with its numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Criterion {
    pub verdict: CriterionVerdict,
    /// One clause for each of the two scores.
    pub why: String,
}

impl Criterion {
    /// `scores`: ids of concepts-task and of interconcept leakage.
    pub(super) fn between(a: &dyn Sided, b: &dyn Sided, scores: [&str; 2], confidence: f64) -> Self {
        let [ctl, icl] = scores.map(|score| Comparison::between(a, b, score, confidence));
        Self::of([(scores[0], &ctl), (scores[1], &icl)], a.name(), b.name())
    }

    /// `scores`: id and comparison of concepts-task and of interconcept leakage.
    pub(super) fn of(scores: [(&str, &Comparison); 2], a: &str, b: &str) -> Self {
        let verdicts = scores.map(|(_, comparison)| comparison.verdict);
        let verdict = if verdicts.contains(&Verdict::Undefined) {
            CriterionVerdict::Undefined
        } else {
            match (verdicts.contains(&Verdict::HigherInA), verdicts.contains(&Verdict::HigherInB)) {
                (true, true) => CriterionVerdict::Undecided,
                (true, false) => CriterionVerdict::ALeaksMore,
                (false, true) => CriterionVerdict::BLeaksMore,
                (false, false) => CriterionVerdict::Compatible,
            }
        };
        let clause = |(id, comparison): (&str, &Comparison)| format!("{} {}", named(id), comparison.in_words(a, b));
        Self { verdict, why: scores.map(clause).join("; ") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_criterion() {
        use CriterionVerdict::{ALeaksMore, BLeaksMore, Undecided, Undefined};
        use Verdict::{Compatible, HigherInA, HigherInB};
        let table = [
            (HigherInA, HigherInA, ALeaksMore),
            (HigherInA, Compatible, ALeaksMore),
            (Compatible, HigherInA, ALeaksMore),
            (HigherInB, HigherInB, BLeaksMore),
            (HigherInB, Compatible, BLeaksMore),
            (Compatible, HigherInB, BLeaksMore),
            (Compatible, Compatible, CriterionVerdict::Compatible),
            (HigherInA, HigherInB, Undecided),
            (HigherInB, HigherInA, Undecided),
            (Verdict::Undefined, HigherInA, Undefined),
            (Compatible, Verdict::Undefined, Undefined),
        ];
        for (ctl, icl, verdict) in table {
            let [ctl, icl] = [ctl, icl].map(|verdict| Comparison { verdict, ..Comparison::undefined("no values") });
            assert_eq!(Criterion::of([("ctl", &ctl), ("icl", &icl)], "a", "b").verdict, verdict, "{ctl:?} {icl:?}");
        }
    }
}
