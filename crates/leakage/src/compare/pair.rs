//! Two runs side by side: every score and every concept, and the Leakage Criterion.

use serde::{Deserialize, Serialize};

use crate::false_discovery::discoveries;

use super::comparison::{Comparison, Verdict};
use super::criterion::Criterion;
use super::side::{Side, incomparable};
use super::usual::{PUBLISHED, UNCLIPPED, WEIGHED};
use super::weighed::{LEARNT, Weighed, without_interventions};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScoreComparison {
    pub score: String,
    #[serde(flatten)]
    pub comparison: Comparison,
    /// Concepts that both sides have, in the order of a's. Verdicts keep the share of false differences
    /// among those found at 1 − confidence (Benjamini and Hochberg); they do not follow from each interval alone.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub per_concept: Vec<ConceptComparison>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConceptComparison {
    pub concept: String,
    #[serde(flatten)]
    pub comparison: Comparison,
}

/// The run and the evaluations of one side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SideReport {
    pub run: String,
    /// The evaluations that are compared: split and step of each, folds one after the other.
    pub evaluations: Vec<(String, u64)>,
    /// Least and largest N of them.
    pub rows: (u64, u64),
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PairReport {
    pub a: SideReport,
    pub b: SideReport,
    /// The confidence of every interval, such as 0.95.
    pub confidence: f64,
    /// The verdict on which side leaks more, by all that is known.
    pub weighed: Weighed,
    /// The criterion on CTL and ICL as published.
    pub criterion: Criterion,
    /// The criterion on both without clipping at 0.
    pub criterion_unclipped: Criterion,
    pub scores: Vec<ScoreComparison>,
    pub notes: Vec<String>,
}

/// Compares two runs at a confidence in (0, 1). Both have evaluations.
pub fn compare_pair(a: &Side, b: &Side, scores: &[String], confidence: f64) -> PairReport {
    let shared: Vec<&String> = match (a.folds.first(), b.folds.first()) {
        (Some(a), Some(b)) => a.concepts.iter().filter(|name| b.concepts.contains(name)).collect(),
        _ => Vec::new(),
    };
    let read = [&WEIGHED[..], &PUBLISHED, &UNCLIPPED, &[LEARNT]].concat();
    let read = scores.iter().map(String::as_str).chain(read).collect();
    let ([matched_a, matched_b], mut notes) = Side::of_same_folds([a, b], &read);
    let of_score = |score: &String| ScoreComparison {
        score: score.clone(),
        comparison: Comparison::between(&matched_a, &matched_b, score, confidence),
        per_concept: compare_concepts(a, b, score, &shared, confidence),
    };
    for (side, other) in [(a, b), (b, a)] {
        let names = |side: &Side| side.folds.first().map_or(Vec::new(), |fold| fold.concepts.clone());
        let others = names(other);
        let own: Vec<String> = names(side).into_iter().filter(|name| !others.contains(name)).collect();
        if !own.is_empty() {
            notes.push(format!("concepts of {} alone: {}", side.name, own.join(", ")));
        }
    }
    noted(&mut notes, &[a, b]);
    notes.extend(without_interventions(&[a, b]));
    PairReport {
        a: SideReport::of(a),
        b: SideReport::of(b),
        confidence,
        weighed: Weighed::of(&matched_a, &matched_b, confidence),
        criterion: Criterion::between(&matched_a, &matched_b, PUBLISHED, confidence),
        criterion_unclipped: Criterion::between(&matched_a, &matched_b, UNCLIPPED, confidence),
        scores: scores.iter().map(of_score).collect(),
        notes,
    }
}

/// Adds how many evaluations of each side are of incomplete passes.
pub(super) fn noted(notes: &mut Vec<String>, sides: &[&Side]) {
    for side in sides {
        let incomplete = side.points().filter(|point| point.incomplete).count();
        if incomplete > 0 {
            notes.push(format!("{incomplete} evaluations of {} are of incomplete passes", side.name));
        }
    }
}

fn compare_concepts(a: &Side, b: &Side, score: &str, concepts: &[&String], confidence: f64) -> Vec<ConceptComparison> {
    if incomparable(&[a, b], score).is_some() {
        return Vec::new();
    }
    let of = |concept: &&String| {
        let [a, b] = Side::concept_estimates([a, b], score, concept)?;
        Some(ConceptComparison { concept: (*concept).clone(), comparison: Comparison::of(score, &a, &b, confidence) })
    };
    let mut compared: Vec<ConceptComparison> = concepts.iter().filter_map(of).collect();
    false_discoveries_kept_rare(&mut compared, confidence);
    compared
}

/// Withdraws the verdicts that are not among the discoveries at a rate of 1 − confidence.
pub(super) fn false_discoveries_kept_rare(compared: &mut [ConceptComparison], confidence: f64) {
    let p_values: Vec<Option<f64>> = compared.iter().map(|one| one.comparison.p_value).collect();
    let found = discoveries(&p_values, 1.0 - confidence);
    for (at, one) in compared.iter_mut().enumerate() {
        if one.comparison.verdict != Verdict::Undefined && !found.contains(&at) {
            one.comparison.verdict = Verdict::Compatible;
        }
    }
}

impl SideReport {
    pub(super) fn of(side: &Side) -> Self {
        let rows = || side.points().map(|point| point.rows);
        Self {
            run: side.name.clone(),
            evaluations: side.points().map(|point| (point.split.to_string(), point.step)).collect(),
            rows: (rows().min().unwrap_or(0), rows().max().unwrap_or(0)),
        }
    }
}
