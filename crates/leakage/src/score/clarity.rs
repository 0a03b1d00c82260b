//! Clarity: how sparse, how right and how useful the active concepts of a row are.
//!
//! Source: Clarity: The Flexibility-Interpretability Trade-Off in Sparsity-aware Concept Bottleneck Models, eq. 23.
//! Active concepts are defined in [`super::activity`].

use std::sync::Arc;

use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;

use super::accuracy::task_hits;
use super::activity::{Activity, Flags, THRESHOLDS, activity, known, present, strength};
use super::term::{Term, mean_over_concepts};

/// Mean share of inactive concepts in a row.
pub fn sparsity(p: &Prepared) -> Outcome {
    with(p, |parts| match &parts.active {
        Err(why) => Outcome::undefined(why),
        Ok(active) => {
            let inactive = |i: usize| {
                let rows: Vec<f64> = active.rows().map(|row| f64::from(!row[i])).collect();
                Ok(Term::mean_of_rows(&rows))
            };
            let terms: Vec<Result<Term, String>> = (0..p.concepts()).map(inactive).collect();
            mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value)
        }
    })
}

/// Mean over rows of the share of active concepts with a known label that are present. Rows without any are left out.
pub fn precision(p: &Prepared) -> Outcome {
    with(p, |parts| term_outcome(&parts.precision))
}

/// Share of rows without an active concept: those that [`precision`] leaves out.
pub fn rows_without_active(p: &Prepared) -> Outcome {
    with(p, |parts| match &parts.active {
        Err(why) => Outcome::undefined(why),
        Ok(active) => {
            let rows: Vec<f64> = active.rows().map(|row| f64::from(!row.contains(&true))).collect();
            Term::mean_of_rows(&rows).outcome()
        }
    })
}

/// Share of rows in which a concept is active if and only if it is present, mean over concepts.
pub fn binary_accuracy(p: &Prepared) -> Outcome {
    with(p, |parts| {
        let truth = present(p);
        match (&parts.active, &*truth) {
            (Err(why), _) | (_, Err(why)) => Outcome::undefined(why),
            (Ok(active), Ok(truth)) => {
                let right = |i: usize| {
                    let known = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
                    let rows = active.rows().zip(truth.rows());
                    let rows: Vec<f64> = rows.map(|(active, truth)| f64::from(active[i] == truth[i])).collect();
                    Ok(Term::mean_of_rows(&known.of(rows, 1)).spread(&known))
                };
                let terms: Vec<Result<Term, String>> = (0..p.concepts()).map(right).collect();
                mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value)
            }
        }
    })
}

/// Harmonic mean of sparsity, precision and task accuracy, eq. 23, weighted by `clarity_weights`.
pub fn clarity(p: &Prepared) -> Outcome {
    with(p, |parts| term_outcome(&parts.clarity(p.clarity_weights())))
}

/// Harmonic mean of precision and task accuracy: Clarity of models that do not aim at sparsity (Section 5, Clarity
/// Beyond Sparsity).
pub fn clarity_dense(p: &Prepared) -> Outcome {
    let [_, precision, accuracy] = p.clarity_weights();
    with(p, |parts| term_outcome(&parts.clarity([0.0, precision, accuracy])))
}

/// Clarity at the threshold that gives the highest, with the curve over [`THRESHOLDS`]. Task accuracy is the model's
/// as it is; the paper retrains the head at each threshold.
pub fn clarity_best(p: &Prepared) -> Outcome {
    match &*sweep(p) {
        Err(why) => Outcome::undefined(why),
        Ok(sweep) => match sweep.best.outcome() {
            Outcome::Value(value) => Outcome::Value(ScoreValue { curve: Some(sweep.curve.clone()), ..value }),
            undefined => undefined,
        },
    }
}

/// The threshold of highest Clarity, the lowest of equals.
pub fn clarity_best_threshold(p: &Prepared) -> Outcome {
    match &*sweep(p) {
        Err(why) => Outcome::undefined(why),
        Ok(sweep) => Outcome::Value(ScoreValue { value: sweep.threshold, ..ScoreValue::default() }),
    }
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
    active: Result<Flags, String>,
    sparsity: Result<Term, String>,
    precision: Result<Term, String>,
    accuracy: Result<Term, String>,
}

impl Parts {
    fn new(p: &Prepared, active: Result<Flags, String>) -> Self {
        let sparsity = active.as_ref().map_err(String::clone).map(mean_sparsity);
        let precision = match (&active, &*present(p)) {
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
            (Ok(active), Ok(truth)) => mean_precision(active, truth, &known(p)),
        };
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
}

struct Sweep {
    best: Term,
    threshold: f64,
    curve: Vec<(f64, Option<f64>)>,
}

fn with(p: &Prepared, score: impl FnOnce(&Parts) -> Outcome) -> Outcome {
    score(&p.shared("active concepts", || Parts::new(p, active(p))))
}

fn active(p: &Prepared) -> Result<Flags, String> {
    let strength = match activity(p)? {
        Activity::Known(flags) => return Ok(flags),
        Activity::Compared(strength) => strength,
    };
    let stated = p.run().constants.activity_threshold.or(strength.natural_threshold);
    match stated {
        Some(threshold) => Ok(strength.above(threshold)),
        None => match &*sweep(p) {
            Ok(sweep) => Ok(strength.above(sweep.threshold)),
            Err(why) => Err(format!("contributions have no threshold: activity_threshold is not stated, and {why}")),
        },
    }
}

fn sweep(p: &Prepared) -> Arc<Result<Sweep, String>> {
    p.shared("clarity by threshold", || {
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
        Ok(Sweep { best, threshold, curve })
    })
}

fn term_outcome(term: &Result<Term, String>) -> Outcome {
    match term {
        Ok(term) => term.outcome(),
        Err(why) => Outcome::undefined(why),
    }
}

fn mean_sparsity(active: &Flags) -> Term {
    let inactive = |row: &[bool]| row.iter().filter(|&&on| !on).count() as f64 / row.len() as f64;
    Term::mean_of_rows(&active.rows().map(inactive).collect::<Vec<_>>())
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
