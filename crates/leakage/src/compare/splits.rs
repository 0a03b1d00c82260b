//! Two splits of one run side by side, such as an evaluation set and the same images with a region dropped.
//!
//! Source: the patch drop experiment of On the Concept Trustworthiness in Concept Bottleneck Models, AAAI 2024: the
//! accuracy of a concept that is predicted from its own region falls when that region is dropped.

use serde::{Deserialize, Serialize};

use super::comparison::Comparison;
use super::interval::{Estimate, Measured};
use super::pair::{ConceptComparison, ScoreComparison, SideReport, false_discoveries_kept_rare, noted};
use super::side::{Evaluations, Side, Sided, incomparable};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SplitReport {
    pub run: String,
    pub a: SideReport,
    pub b: SideReport,
    /// The confidence of every interval, such as 0.95.
    pub confidence: f64,
    pub scores: Vec<ScoreComparison>,
    pub notes: Vec<String>,
}

/// Compares two splits of one run, whose evaluations are of the same steps, at least one. The sides are named by their
/// splits.
pub fn compare_splits(run: &str, a: &Side, b: &Side, scores: &[String], confidence: f64) -> SplitReport {
    let concepts = a.folds.first().map_or(&[][..], |fold| &fold.concepts);
    let of_score = |score: &String| {
        let why = incomparable(&[a, b], score);
        let per_concept = if why.is_some() { Vec::new() } else { compare_concepts(a, b, score, concepts, confidence) };
        ScoreComparison { score: score.clone(), comparison: compare(a, b, score, why, confidence), per_concept }
    };
    let side = |side: &Side| SideReport { run: run.to_owned(), ..SideReport::of(side) };
    let mut notes = Vec::new();
    noted(&mut notes, &[a, b]);
    SplitReport {
        run: run.to_owned(),
        a: side(a),
        b: side(b),
        confidence,
        scores: scores.iter().map(of_score).collect(),
        notes,
    }
}

fn compare(a: &Side, b: &Side, score: &str, why: Option<String>, confidence: f64) -> Comparison {
    let difference = difference(a, b, |fold| fold.whole(score));
    match (a.estimate(score), b.estimate(score), difference, why) {
        (Ok(a), Ok(b), Some(difference), None) => Comparison::by(score, &a, &b, &difference, confidence),
        (a, b, difference, why) => {
            let never = difference.is_none().then(|| "no step has a value in both splits".to_owned());
            Comparison::without_verdict(score, [a, b], why.or(never), confidence)
        }
    }
}

fn compare_concepts(a: &Side, b: &Side, score: &str, concepts: &[String], confidence: f64) -> Vec<ConceptComparison> {
    let of = |concept: &String| {
        let difference = difference(a, b, |fold| fold.concept(score, concept))?;
        let [a, b] = Side::concept_estimates([a, b], score, concept)?;
        Some(ConceptComparison {
            concept: concept.clone(),
            comparison: Comparison::by(score, &a, &b, &difference, confidence),
        })
    };
    let mut compared: Vec<ConceptComparison> = concepts.iter().filter_map(of).collect();
    false_discoveries_kept_rare(&mut compared, confidence);
    compared
}

/// a − b step by step: what moves the model from one step to the next moves both, and cancels. The errors of the rows
/// are treated as independent.
fn difference(a: &Side, b: &Side, values: impl Fn(&Evaluations) -> Vec<Option<Measured>>) -> Option<Estimate> {
    let of = |side: &Side| side.folds.first().map_or_else(Vec::new, &values);
    let less = |(a, b): (Option<Measured>, Option<Measured>)| {
        let (a, b) = (a?, b?);
        let standard_error = a.standard_error.zip(b.standard_error).map(|(a, b)| a.hypot(b));
        Some(Measured { value: a.value - b.value, standard_error, rows: a.rows.min(b.rows) })
    };
    Estimate::of_evaluations(&of(a).into_iter().zip(of(b)).filter_map(less).collect::<Vec<_>>())
}
