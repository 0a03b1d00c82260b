//! The diagnosis of a run from its scores alone, each line with its numbers.
//!
//! Source of most rules: Leakage and Interpretability in Concept-Based Models, Sections 7 to 9,
//! doi:10.48550/arXiv.2504.14094. The rules are one table, [`RULES`].

mod assessment;
mod causes;
mod curve;
mod findings;
mod heads;
mod judgement;
mod leakage;
mod rules;
mod sample;
mod tasks;
mod verdict;

use crate::point::Point;
use crate::run::Run;

pub use assessment::{Action, Assessment};
pub use curve::Curve;
pub use findings::{Diagnosis, Line, State};
use judgement::is_found;
pub use judgement::{Evidence, Judgement, Reading};
use rules::LABEL_ORDER;
pub use rules::{RULES, Rule};
use sample::{OF_OTHERS, labels_in_another_order};
pub use tasks::verdict;
pub use verdict::{FARTHEST, LOOKED_BACK, Moment, StopAdvised, Verdict, VerdictState};

/// Rules about leakage.
const OF_LEAKAGE: [&str; 6] = [
    "interventions_fail",
    "insufficient_supervision",
    "over_expressive_encoding",
    "removable_information",
    "beyond_true_concepts",
    "alignment_leakage",
];

/// Applies every rule to a split's finished evaluations, oldest first. `None` without any.
pub fn diagnose(run: &Run, points: &[Point]) -> Option<Diagnosis> {
    tasks::diagnose(run, points, |points| diagnose_one(run, points))
}

/// The same of a run with one task.
fn diagnose_one(run: &Run, points: &[Point]) -> Option<Diagnosis> {
    let curve = Curve::new(run, points)?;
    let newest = curve.newest();
    let in_another_order = is_found(&labels_in_another_order(&curve));
    let judge = |rule: &Rule| match [LABEL_ORDER, "too_few_rows"].contains(&rule.id) {
        false if in_another_order => Err(OF_OTHERS.to_owned()),
        _ if OF_LEAKAGE.contains(&rule.id) && !run.training.can_leak() => {
            Err("the concepts were trained without the task: what they hold is no leakage".to_owned())
        }
        _ => (rule.judge)(&curve),
    };
    let line = |rule: &Rule| {
        let (state, text, evidence) = match judge(rule) {
            Ok(Reading { found: true, text, evidence }) => (State::Found, text, evidence),
            Ok(Reading { found: false, text, evidence }) => (State::Absent, text, evidence),
            Err(why) => (State::Unknown, why, Vec::new()),
        };
        let [rule, title, subject, source, action] =
            [rule.id, rule.title, rule.subject, rule.source, rule.action].map(str::to_owned);
        Line { rule, title, subject, source, action, state, text, evidence }
    };
    Some(Diagnosis {
        run: newest.run.to_string(),
        split: newest.split.to_string(),
        step: newest.step,
        epoch: newest.epoch,
        rows: newest.rows,
        incomplete: newest.incomplete,
        lines: RULES.iter().map(line).collect(),
    })
}
