//! The evidence of leakage in the scores: information beyond the concepts, and interventions that fail.
//!
//! Low published scores are not evidence against leakage: CTL is I(ĉ;y|c) less I(c;y|ĉ), which is what the activation has
//! not learnt of its concept, and ICL is built alike. High ones are evidence of it, because they bound the conditional
//! information from below.

use super::curve::{Curve, Measured, measured_at};
use super::heads::{balanced, best_on_true_concepts};
use super::judgement::{Evidence, is_found};
use super::sample::saturation;
use crate::limits::{
    CONCEPT_ACCURACY, CTL_CONDITIONAL, CTL_EXCESS, CTL_R2, ICL_CONDITIONAL, ICL_EXCESS, INTERVENTION_HARM,
    JOINT_LEAKAGE, reads_no_concept,
};
use crate::score::catalogue::named;
use crate::score::of_other_threshold;

/// Scores that see what activations carry beyond their own concept, with their limits. For a number, the share of its
/// own information says less than that of its variance.
const CONDITIONAL: [(&str, f64); 4] = [
    ("ctl_conditional_r2", CTL_R2),
    ("ctl_conditional", CTL_CONDITIONAL),
    ("icl_conditional", ICL_CONDITIONAL),
    ("joint_leakage", JOINT_LEAKAGE),
];
const PUBLISHED: [(&str, f64); 2] = [("ctl_excess", CTL_EXCESS), ("icl_excess", ICL_EXCESS)];

/// Whether activations carry information beyond their own concepts.
pub enum Information {
    /// A score is above its limit with its whole interval.
    Shown(Vec<Evidence>),
    /// No score is. The evidence that was looked at, and from which size on leakage would have been found.
    NotSeen(Vec<Evidence>, String),
}

/// How the task accuracy responds when all concepts are set to their true values.
pub enum Interventions {
    Fall(Vec<Evidence>),
    /// It falls, but to what heads on the true concepts reach: the concept set explains the fall.
    FallToReference(Vec<Evidence>),
    /// It does not fall by more than the limit.
    Hold(Vec<Evidence>, String),
    /// The interval contains the limit.
    Unclear(Vec<Evidence>, String),
}

/// How well concepts are learnt, with the numbers; neither where that is within the error.
pub struct Concepts {
    pub poor: bool,
    pub well: bool,
    pub evidence: Vec<Evidence>,
}

/// Whether concepts are embedding vectors.
pub fn has_vectors(curve: &Curve) -> bool {
    curve.measured("embedding_ct").is_ok()
}

/// Errors say why nothing can be said.
pub fn information(curve: &Curve) -> Result<Information, String> {
    let saturated = is_found(&saturation(curve));
    let known = |&(score, limit): &(&str, f64)| Some((curve.measured(score).ok()?, limit));
    let conditional: Vec<(Measured, f64)> = CONDITIONAL.iter().filter_map(known).collect();
    let has = |score: &str| conditional.iter().any(|(one, _)| one.score() == score);
    // A published score decides where its conditional twin is missing, and ICL only where ties do not move it.
    let decides = |score: &str| !has(&score.replace("_excess", "_conditional"));
    let published: Vec<(Measured, f64)> = PUBLISHED.iter().filter_map(known).collect();
    let (published, beside): (Vec<_>, Vec<_>) = published.into_iter().partition(|(one, _)| decides(one.score()));
    let published: Vec<_> =
        published.into_iter().filter(|(one, _)| !(saturated && one.score() == "icl_excess")).collect();
    let all = || conditional.iter().chain(&published);
    let mut evidence: Vec<Evidence> = all().map(|(one, limit)| one.beside(*limit)).collect();
    evidence.extend(beside.iter().map(|(one, _)| one.beside(None)));
    if all().any(|(one, limit)| one.is_above(*limit)) {
        return Ok(Information::Shown(evidence));
    }
    if !conditional.is_empty() {
        return Ok(Information::NotSeen(evidence, would_have_been_found(&conditional)));
    }
    let why = |scores: &[(&str, f64)]| -> Vec<String> {
        scores.iter().filter_map(|(score, _)| curve.measured(score).err()).collect()
    };
    let of_task = if curve.is_due("ctl_conditional_r2") { &CONDITIONAL[1..2] } else { &CONDITIONAL[..1] };
    if published.is_empty() {
        let mut whys = [why(of_task), why(&PUBLISHED)].concat();
        whys.dedup_by_key(|why| why.split_once(": ").map_or(why.clone(), |(_, cause)| cause.to_owned()));
        return Err(whys.join("; "));
    }
    match concepts(curve) {
        Ok(concepts) if !concepts.poor => Ok(Information::NotSeen(evidence, would_have_been_found(&published))),
        _ => Err(format!(
            "low values of CTL and ICL show nothing unless concepts are learnt: {}",
            why(of_task).join("; ")
        )),
    }
}

/// Errors say why they are not known.
pub fn interventions(curve: &Curve) -> Result<Interventions, String> {
    let vectors = has_vectors(curve);
    let drop = match (curve.measured("intervention_drop"), curve.measured("intervention_score")) {
        (Ok(drop), _) => drop,
        // For embeddings it carries no information about leakage (Section 4 of the paper).
        (Err(_), Ok(score)) if !vectors => score,
        (Err(why), _) => return Err(why),
    };
    let mut evidence = vec![drop.beside(INTERVENTION_HARM)];
    let beside = ["task_balanced_accuracy", "intervened_task_balanced_accuracy", "task_r2", "intervened_task_r2"];
    evidence.extend(beside.iter().filter_map(|score| {
        let accuracy = curve.measured(score).ok()?;
        Some(accuracy.beside(None))
    }));
    let seen = would_have_been_found(&[(drop.clone(), INTERVENTION_HARM)]);
    if drop.is_below(INTERVENTION_HARM) {
        return Ok(Interventions::Hold(evidence, seen));
    }
    if !drop.is_above(INTERVENTION_HARM) {
        return Ok(Interventions::Unclear(evidence, seen));
    }
    let wrong = curve.measured_with(&drop, "wrong_intervention_drop");
    let reads_values = wrong.is_none_or(|wrong| as_at_wrong_values(curve, &wrong).is_none());
    let counts = |short: &Measured| !vectors && reads_values && short.is_below(INTERVENTION_HARM);
    Ok(match short_of_reference(curve, &drop).filter(counts) {
        Some(short) => {
            evidence.push(short.beside(INTERVENTION_HARM));
            Interventions::FallToReference(evidence)
        }
        None => Interventions::Fall(evidence),
    })
}

/// The loss under true values at the evaluation of that under wrong ones, where the head reads neither.
pub fn as_at_wrong_values(curve: &Curve, wrong: &Measured) -> Option<Measured> {
    curve
        .point_of(wrong)
        .filter(|point| reads_no_concept(point))
        .and_then(|point| measured_at(point, "intervention_drop"))
}

/// How much less accurate the head is on the true concepts than one trained on them, at the evaluation of the drop.
fn short_of_reference(curve: &Curve, drop: &Measured) -> Option<Measured> {
    let at_drop = |score: &str| curve.measured_with(drop, score);
    at_drop("intervention_score")
        .or_else(|| Some(balanced(curve)?.less(&at_drop("intervened_task_balanced_accuracy")?)))
        .or_else(|| Some(best_on_true_concepts(curve).ok()?.less(&at_drop("intervened_task_accuracy")?)))
}

/// Errors say why it is unknown.
pub fn concepts(curve: &Curve) -> Result<Concepts, String> {
    let measured = ["concept_accuracy", "concept_auc"].map(|score| curve.measured(score));
    if let [Err(accuracy), Err(auc)] = &measured {
        return Err(format!("{accuracy}; {auc}"));
    }
    let known: Vec<Measured> = measured.into_iter().flatten().collect();
    // Accuracy by a threshold that does not fit says nothing of what activations hold.
    let is_of_threshold =
        |one: &Measured| one.score() == "concept_accuracy" && of_other_threshold(curve.newest()).is_some();
    Ok(Concepts {
        poor: known.iter().any(|one| one.is_below(CONCEPT_ACCURACY) && !is_of_threshold(one)),
        well: known.iter().all(|one| one.is_above(CONCEPT_ACCURACY)),
        evidence: known.iter().map(|one| one.beside(CONCEPT_ACCURACY)).collect(),
    })
}

/// Such as "80 % power to detect leakage to the task (ctl_conditional) of 0.154".
pub fn would_have_been_found(looked_at: &[(Measured, f64)]) -> String {
    let each: Vec<String> = looked_at
        .iter()
        .map(|(one, limit)| format!("{} of {:.3}", named(one.score()), one.found_from(*limit)))
        .collect();
    format!("80 % power to detect {}", each.join(" or "))
}
