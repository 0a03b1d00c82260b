//! Leakage counted above that of a reference run.
//!
//! An honest predictor of noisy labels knows more than its label does: its activations are not independent of the task
//! given the label, and no score of one run can tell that from leakage. A run of the same data whose concepts were
//! trained without the task holds as much and cannot leak. What a run holds beyond it is leakage.

use crate::point::{Outcome, Point};
use crate::score::catalogue::named;

/// Scores of information beyond the concepts, and the drop: to set concepts to noisy labels harms an honest head, too.
const LEAKAGE: [&str; 9] = [
    "ctl_conditional",
    "ctl_conditional_r2",
    "icl_conditional",
    "joint_leakage",
    "embedding_ct_conditional",
    "ctl_excess",
    "icl_excess",
    "task_excess",
    "intervention_drop",
];

/// The remark of a point whose leakage is counted above that of another run begins so.
const ABOVE: &str = "leakage is counted above that of the reference run";
/// The remark of one whose reference run has nothing to compare with begins so.
const WITHOUT: &str = "leakage is counted above 0, because the reference run";

/// The newest evaluation of each split of a run that was trained without the task.
#[derive(Clone, Debug, Default)]
pub struct Baseline {
    pub run: String,
    pub points: Vec<Point>,
    /// Why it is not to be compared with, if it is not.
    pub unfit: Option<&'static str>,
}

impl Baseline {
    /// The point with each score of leakage less that of the reference run in the same split, where that is above 0. A
    /// remark says so, or that there is nothing to compare with.
    pub fn above(&self, point: &Point) -> Point {
        let mut found = point.clone();
        let reference = self.points.iter().find(|reference| reference.split == point.split);
        let Some(reference) = reference.filter(|_| self.unfit.is_none()) else {
            let why = self.unfit.map_or_else(|| format!("has no evaluation of '{}'", point.split), str::to_owned);
            found.warnings.push(format!("{WITHOUT} '{}' {why}", self.run));
            return found;
        };
        let mut counted = Vec::new();
        for (id, outcome) in &mut found.scores {
            let of_reference = reference.score(id).filter(|_| LEAKAGE.contains(&id.as_str()));
            if let Some(less) = of_reference.and_then(|of_reference| subtract(outcome, of_reference)) {
                counted.push(format!("{} {less:.3}", named(id)));
            }
        }
        let of = if counted.is_empty() { String::new() } else { format!(": {}", counted.join(", ")) };
        found.warnings.push(format!("{ABOVE} '{}'{of}", self.run));
        found
    }
}

/// Takes what is above 0 in the reference run from a score, and from that of each task; returns what it was.
fn subtract(outcome: &mut Outcome, of_reference: &Outcome) -> Option<f64> {
    let (Outcome::Value(value), Outcome::Value(less)) = (outcome, of_reference) else { return None };
    let of_tasks = value.per_task.iter_mut().flatten().zip(less.per_task.iter().flatten());
    of_tasks.for_each(|(own, other)| {
        subtract(own, other);
    });
    if less.value <= 0.0 {
        return None;
    }
    value.value -= less.value;
    value.standard_error = match (value.standard_error, less.standard_error) {
        (Some(own), Some(other)) => Some(own.hypot(other)),
        (own, other) => own.or(other),
    };
    for (own, other) in value.per_concept.iter_mut().flatten().zip(less.per_concept.iter().flatten()) {
        *own = own.zip(*other).map(|(own, other)| own - other.max(0.0));
    }
    Some(less.value)
}

/// Returns the remark of a point on its run's reference, if the run has one.
pub fn of_reference(point: &Point) -> Option<&str> {
    let is_it = |warning: &&str| warning.starts_with(ABOVE) || warning.starts_with(WITHOUT);
    point.warnings.iter().map(String::as_str).find(is_it)
}

/// Whether the leakage of a point is counted above that of a reference run.
pub fn is_above_reference(point: &Point) -> bool {
    of_reference(point).is_some_and(|remark| remark.starts_with(ABOVE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::ScoreValue;

    fn point(scores: &[(&str, f64, Vec<Option<f64>>)]) -> Point {
        let of = |(id, value, per_concept): &(&str, f64, Vec<Option<f64>>)| {
            let per_concept = Some(per_concept.clone());
            let value = ScoreValue { value: *value, standard_error: Some(0.03), per_concept, ..ScoreValue::default() };
            ((*id).to_owned(), Outcome::Value(value))
        };
        Point { split: "val".into(), scores: scores.iter().map(of).collect(), ..Point::default() }
    }

    #[test]
    fn only_what_is_above_the_reference_remains() {
        let reference = point(&[
            ("ctl_conditional", 0.15, vec![Some(0.2), Some(0.1)]),
            ("icl_conditional", -0.1, vec![]),
            ("task_accuracy", 0.7, vec![]),
        ]);
        let baseline = Baseline { run: "independent".into(), points: vec![reference], unfit: None };
        let own = point(&[
            ("ctl_conditional", 0.18, vec![Some(0.25), None]),
            ("icl_conditional", 0.1, vec![]),
            ("task_accuracy", 0.8, vec![]),
        ]);
        let found = baseline.above(&own);
        let value = |id: &str| found.score(id).unwrap().value().unwrap().clone();
        assert!((value("ctl_conditional").value - 0.03).abs() < 1e-12);
        assert!((value("ctl_conditional").standard_error.unwrap() - 0.03 * 2_f64.sqrt()).abs() < 1e-12);
        let per_concept = value("ctl_conditional").per_concept.unwrap();
        assert!((per_concept[0].unwrap() - 0.05).abs() < 1e-12 && per_concept[1].is_none());
        assert_eq!((value("icl_conditional").value, value("task_accuracy").value), (0.1, 0.8));
        let remark = "leakage is counted above that of the reference run 'independent': leakage to the task (ctl_conditional) 0.150";
        assert_eq!((of_reference(&found), is_above_reference(&found)), (Some(remark), true));
        assert_eq!(of_reference(&own), None);
    }

    #[test]
    fn a_reference_without_the_split_changes_no_score() {
        let own = point(&[("ctl_conditional", 0.18, vec![])]);
        let found = Baseline { run: "independent".into(), ..Baseline::default() }.above(&own);
        assert_eq!(found.scores, own.scores);
        assert!(of_reference(&found).unwrap().ends_with("run 'independent' has no evaluation of 'val'"));
        assert!(!is_above_reference(&found));
    }

    #[test]
    fn a_reference_that_may_leak_itself_changes_no_score() {
        let own = point(&[("ctl_conditional", 0.18, vec![])]);
        let points = vec![point(&[("ctl_conditional", 0.18, vec![])])];
        let found = Baseline { run: "joint".into(), points, unfit: Some("was trained with the task") }.above(&own);
        assert_eq!(found.scores, own.scores);
        assert!(of_reference(&found).unwrap().ends_with("reference run 'joint' was trained with the task"));
    }
}
