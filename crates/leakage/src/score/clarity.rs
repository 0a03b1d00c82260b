//! Clarity: how sparse, how right and how useful the active concepts of a row are.
//!
//! Source: Clarity: The Flexibility-Interpretability Trade-Off in Sparsity-aware Concept Bottleneck Models, eq. 23.
//! Active concepts are defined in [`super::activity`], and the concepts that may be.

use std::sync::Arc;

use crate::point::{LeftOut, Outcome, ScoreValue};
use crate::prepare::Prepared;

use super::accuracy::task_hits;
use super::activity::{Active, Activity, Flags, THRESHOLDS, activity, known, present, strength};
use super::term::{Term, mean_over_concepts};

/// Mean share of inactive concepts in a row.
pub fn sparsity(p: &Prepared) -> Result<Outcome, String> {
    let parts = parts(p);
    let active = parts.active()?;
    let inactive = |i: usize| {
        let rows: Vec<f64> = active.flags.rows().map(|row| f64::from(!row[i])).collect();
        Ok(Term::mean_of_rows(&rows))
    };
    Ok(over_counted(p, active, inactive))
}

/// Mean over rows of the share of active concepts with a known label that are present. Rows without any are left out.
pub fn precision(p: &Prepared) -> Result<Outcome, String> {
    let parts = parts(p);
    parts.outcome(&parts.precision)
}

/// Share of rows without an active concept: those that [`precision`] leaves out.
pub fn rows_without_active(p: &Prepared) -> Result<Outcome, String> {
    let parts = parts(p);
    let active = parts.active()?;
    let rows: Vec<f64> = active.flags.rows().map(|row| f64::from(!row.contains(&true))).collect();
    Ok(Outcome::Value(of_rows(&Term::mean_of_rows(&rows), &active.counted.left_out)))
}

/// Share of rows in which a concept is active if and only if it is present, mean over concepts.
pub fn binary_accuracy(p: &Prepared) -> Result<Outcome, String> {
    let parts = parts(p);
    let (active, truth) = (parts.active()?, present(p)?);
    let right = |i: usize| {
        let known = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
        let rows = active.flags.rows().zip(truth.rows());
        let rows: Vec<f64> = rows.map(|(active, truth)| f64::from(active[i] == truth[i])).collect();
        Ok(Term::mean_of_rows(&known.of(rows, 1)).spread(&known))
    };
    Ok(over_counted(p, active, right))
}

/// Harmonic mean of sparsity, precision and task accuracy, eq. 23, weighted by `clarity_weights`.
pub fn clarity(p: &Prepared) -> Result<Outcome, String> {
    let parts = parts(p);
    parts.outcome(&parts.clarity(p.clarity_weights()))
}

/// Harmonic mean of precision and task accuracy: Clarity of models that do not aim at sparsity (Section 5, Clarity
/// Beyond Sparsity).
pub fn clarity_dense(p: &Prepared) -> Result<Outcome, String> {
    let ([_, precision, accuracy], parts) = (p.clarity_weights(), parts(p));
    parts.outcome(&parts.clarity([0.0, precision, accuracy]))
}

/// Clarity at the threshold that gives the highest, with the curve over [`THRESHOLDS`]. Task accuracy is the model's
/// as it is; the paper retrains the head at each threshold.
pub fn clarity_best(p: &Prepared) -> Result<Outcome, String> {
    let sweep = sweep(p)?;
    let curve = Some(sweep.curve.clone());
    Ok(Outcome::Value(ScoreValue { curve, ..of_rows(&sweep.best, &sweep.left_out) }))
}

/// The threshold of highest Clarity, the lowest of equals.
pub fn clarity_best_threshold(p: &Prepared) -> Result<Outcome, String> {
    let sweep = sweep(p)?;
    let left_out = sweep.left_out.clone();
    Ok(Outcome::Value(ScoreValue { value: sweep.threshold, left_out, ..ScoreValue::default() }))
}

/// The weighted harmonic mean Σw / Σ(w/x) of (w, x); 0 when an x with a weight is 0. Weights at least 0, not all 0; x
/// in [0, 1].
pub fn harmonic_mean(parts: &[(f64, f64)]) -> f64 {
    let weights: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let used = || parts.iter().filter(|(weight, _)| *weight > 0.0);
    if used().any(|(_, x)| *x == 0.0) {
        return 0.0;
    }
    weights / used().map(|(weight, x)| weight / x).sum::<f64>()
}

/// The parts that the scores of one choice of active concepts share.
struct Parts {
    active: Result<Active, String>,
    sparsity: Result<Term, String>,
    precision: Result<Term, String>,
    accuracy: Result<Term, String>,
}

impl Parts {
    fn new(p: &Prepared, active: Result<Active, String>) -> Self {
        let sparsity = active.as_ref().map_err(String::clone).map(mean_sparsity);
        let flags = active.as_ref().map_err(String::clone).map(|active| &active.flags);
        let precision = flags.and_then(|flags| mean_precision(flags, &*present(p)?, &known(p)));
        let accuracy = task_hits(p).map(|hits| Term::mean_of_rows(&hits));
        Self { active, sparsity, precision, accuracy }
    }

    fn clarity(&self, weights: [f64; 3]) -> Result<Term, String> {
        let mut parts = Vec::new();
        for (weight, part) in weights.into_iter().zip([&self.sparsity, &self.precision, &self.accuracy]) {
            if weight > 0.0 {
                parts.push((weight, part.as_ref().map_err(String::clone)?));
            }
        }
        if parts.is_empty() { Err("clarity_weights leaves no part".into()) } else { Ok(harmonic_term(&parts)) }
    }

    fn active(&self) -> Result<&Active, String> {
        self.active.as_ref().map_err(String::clone)
    }

    fn outcome(&self, term: &Result<Term, String>) -> Result<Outcome, String> {
        let term = term.as_ref().map_err(String::clone)?;
        Ok(Outcome::Value(of_rows(term, &self.active()?.counted.left_out)))
    }
}

/// A mean of rows as a score over the concepts that may be active.
fn of_rows(term: &Term, left_out: &Option<LeftOut>) -> ScoreValue {
    let (standard_error, left_out) = (Some(term.standard_error()), left_out.clone());
    ScoreValue { value: term.value, standard_error, left_out, ..ScoreValue::default() }
}

/// The mean of a term over the concepts that may be active.
fn over_counted(p: &Prepared, active: &Active, term: impl Fn(usize) -> Result<Term, String>) -> Outcome {
    let of_concept = |i: usize| active.counted.whys[i].clone().map_or_else(|| term(i), Err);
    let terms: Vec<Result<Term, String>> = (0..p.concepts()).map(of_concept).collect();
    mean_over_concepts(p, &p.weights_where(|i| active.counted.holds(i)), &terms, |term| term.value)
}

struct Sweep {
    best: Term,
    threshold: f64,
    curve: Vec<(f64, Option<f64>)>,
    left_out: Option<LeftOut>,
}

fn parts(p: &Prepared) -> Arc<Parts> {
    p.shared("active concepts", || Parts::new(p, active(p)))
}

fn active(p: &Prepared) -> Result<Active, String> {
    let strength = match activity(p)? {
        Activity::Known(active) => return Ok(active),
        Activity::Compared(strength) => strength,
    };
    let stated = p.run().constants.activity_threshold.or(strength.natural_threshold);
    let threshold = stated.map_or_else(|| sweep(p).map(|sweep| sweep.threshold), Ok);
    let threshold = threshold
        .map_err(|why| format!("contributions have no threshold: activity_threshold is not stated, and {why}"))?;
    Ok(strength.above(threshold))
}

fn sweep(p: &Prepared) -> Result<Arc<Sweep>, String> {
    p.try_shared("clarity by threshold", || {
        let strength = strength(p)?;
        let mut best: Option<(f64, Term)> = None;
        let mut curve = Vec::new();
        let mut why = String::new();
        for threshold in THRESHOLDS {
            let clarity = Parts::new(p, Ok(strength.above(threshold))).clarity(p.clarity_weights());
            curve.push((threshold, clarity.as_ref().ok().map(|term| term.value)));
            match clarity {
                Ok(term) if best.as_ref().is_none_or(|(_, best)| term.value > best.value) => {
                    best = Some((threshold, term));
                }
                Ok(_) => {}
                Err(reason) => why = reason,
            }
        }
        let (threshold, best) = best.ok_or(why)?;
        Ok(Sweep { best, threshold, curve, left_out: strength.counted.left_out })
    })
}

fn mean_sparsity(active: &Active) -> Term {
    let counted = active.counted.number();
    let inactive = |row: &[bool]| (counted - row.iter().filter(|&&on| on).count()) as f64 / counted as f64;
    Term::mean_of_rows(&active.flags.rows().map(inactive).collect::<Vec<_>>())
}

fn mean_precision(active: &Flags, truth: &Flags, known: &Flags) -> Result<Term, String> {
    let of_row = |((active, truth), known): ((&[bool], &[bool]), &[bool])| {
        let on = active.iter().zip(known).filter(|(on, known)| **on && **known).count();
        let right = active.iter().zip(truth).filter(|(on, present)| **on && **present).count();
        (on > 0).then(|| right as f64 / on as f64)
    };
    let rows: Vec<Option<f64>> = active.rows().zip(truth.rows()).zip(known.rows()).map(of_row).collect();
    Term::mean_of_some_rows(&rows).ok_or_else(|| "no row has an active concept".into())
}

/// [`harmonic_mean`] with the influence of each row by the delta method.
fn harmonic_term(parts: &[(f64, &Term)]) -> Term {
    let values: Vec<(f64, f64)> = parts.iter().map(|(weight, term)| (*weight, term.value)).collect();
    let value = harmonic_mean(&values);
    let weights: f64 = parts.iter().map(|(weight, _)| weight).sum();
    let mut influence = vec![0.0; parts[0].1.influence.len()];
    for (weight, term) in parts {
        // H = W/Σ(w/x) has ∂H/∂x = H²w/(Wx²); where H goes to 0 with x, H/x goes to W/w.
        let ratio = if value > 0.0 { value / term.value } else { 0.0 };
        let slope = if term.value == 0.0 { weights / weight } else { ratio * ratio * weight / weights };
        influence.iter_mut().zip(&term.influence).for_each(|(sum, x)| *sum += slope * x);
    }
    Term { value, excess: value, influence, draw_variance: 0.0 }
}
