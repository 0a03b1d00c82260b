//! Two runs side by side: every score and every concept, and the Leakage Criterion.

use serde::{Deserialize, Serialize};

use crate::alert::discoveries::discoveries;

use super::comparison::{Comparison, Verdict};
use super::criterion::Criterion;
use super::interval::{Estimate, Interval};
use super::side::{Side, incomparable};
use super::usual::{PUBLISHED, UNCLIPPED};

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

/// What one side consists of.
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
    /// Of every interval, such as 0.95.
    pub confidence: f64,
    /// On CTL and ICL as published.
    pub criterion: Criterion,
    /// On both without clipping at 0.
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
    let of_score = |score: &String| ScoreComparison {
        score: score.clone(),
        comparison: compare(a, b, score, confidence),
        per_concept: compare_concepts(a, b, score, &shared, confidence),
    };
    let mut notes = Vec::new();
    for (side, other) in [(a, b), (b, a)] {
        let names = |side: &Side| side.folds.first().map_or(Vec::new(), |fold| fold.concepts.clone());
        let others = names(other);
        let own: Vec<String> = names(side).into_iter().filter(|name| !others.contains(name)).collect();
        if !own.is_empty() {
            notes.push(format!("concepts of {} alone: {}", side.name, own.join(", ")));
        }
    }
    noted(&mut notes, &[a, b]);
    PairReport {
        a: SideReport::of(a),
        b: SideReport::of(b),
        confidence,
        criterion: criterion(a, b, PUBLISHED, confidence),
        criterion_unclipped: criterion(a, b, UNCLIPPED, confidence),
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

pub(super) fn criterion(a: &Side, b: &Side, scores: [&str; 2], confidence: f64) -> Criterion {
    let [ctl, icl] = scores.map(|score| compare(a, b, score, confidence));
    Criterion::of([(scores[0], &ctl), (scores[1], &icl)], &a.name, &b.name)
}

fn compare(a: &Side, b: &Side, score: &str, confidence: f64) -> Comparison {
    let sides = (a.estimate(score), b.estimate(score));
    match (sides, incomparable(&[a, b], score)) {
        ((Ok(a), Ok(b)), None) => Comparison::of(&a, &b, confidence),
        ((a, b), why) => {
            let shown = |side: &Result<Estimate, String>| Some(side.as_ref().ok()?.interval(confidence));
            let reason = a.as_ref().err().or(b.as_ref().err()).cloned().or(why).unwrap_or_default();
            Comparison { a: shown(&a), b: shown(&b), ..Comparison::undefined(reason) }
        }
    }
}

fn compare_concepts(a: &Side, b: &Side, score: &str, concepts: &[&String], confidence: f64) -> Vec<ConceptComparison> {
    if incomparable(&[a, b], score).is_some() {
        return Vec::new();
    }
    let of = |concept: &&String| {
        let (a, b) = (a.concept_estimate(score, concept)?, b.concept_estimate(score, concept)?);
        Some(ConceptComparison { concept: (*concept).clone(), comparison: Comparison::of(&a, &b, confidence) })
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

impl Comparison {
    fn of(a: &Estimate, b: &Estimate, confidence: f64) -> Self {
        Self::by(a, b, &a.less(b), confidence)
    }

    /// From a difference whose error is known better than from both sides alone.
    pub(super) fn by(a: &Estimate, b: &Estimate, difference: &Estimate, confidence: f64) -> Self {
        let interval = difference.interval(confidence);
        let (verdict, undefined) = match (interval.low, interval.high) {
            (Some(low), _) if low > 0.0 => (Verdict::HigherInA, None),
            (_, Some(high)) if high < 0.0 => (Verdict::HigherInB, None),
            (Some(_), Some(_)) => (Verdict::Compatible, None),
            _ => (
                Verdict::Undefined,
                Some("the error is unknown: the score has none, and there is one run only".to_owned()),
            ),
        };
        Self {
            a: Some(a.interval(confidence)),
            b: Some(b.interval(confidence)),
            difference: Some(interval),
            p_value: difference.p_value(),
            verdict,
            undefined,
        }
    }

    pub(super) fn undefined(why: impl Into<String>) -> Self {
        let verdict = Verdict::Undefined;
        Self { a: None, b: None, difference: None, p_value: None, verdict, undefined: Some(why.into()) }
    }

    /// Such as "is higher in soft by 0.1200 (0.1050 to 0.1350)".
    pub(super) fn in_words(&self, a: &str, b: &str) -> String {
        let Some(Interval { mean, low: Some(low), high: Some(high), .. }) = self.difference else {
            return format!("cannot be compared: {}", self.undefined.as_deref().unwrap_or("there are no values"));
        };
        match self.verdict {
            Verdict::HigherInA => format!("is higher in {a} by {mean:.4} ({low:.4} to {high:.4})"),
            Verdict::HigherInB => format!("is higher in {b} by {:.4} ({:.4} to {:.4})", -mean, -high, -low),
            _ => format!("shows no difference ({mean:.4}, {low:.4} to {high:.4})"),
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
