//! Conditional leakage: the information an activation carries beyond its own concept, this project's own.
//!
//! CTL subtracts I(c_i, y) from I(ĉ_i, y), which by the chain rule is I(ĉ_i; y | c_i) − I(c_i; y | ĉ_i): leakage less what
//! was not learnt. A concept that was not learnt is subtracted from its own leakage, and the worst models look clean. The
//! first term alone is 0 exactly where ĉ_i and y are independent given c_i. It is never clipped.
//!
//! Conditional information as leakage: Makonnen and others, arXiv 2504.09459.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use information::{Conditional, Variable, conditional_information, conditional_information_with_each};

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};

use super::leakage::{self, inputs};
use super::pairs::{Pairs, outcome, with_others};
use super::term::{Term, concept_in, has_one_class, known_pair, mean_over_concepts, normaliser, task_in};

/// I(ĉ_i; y | c_i) / H(y), mean over concepts or weighted by `concept_weights`.
pub fn concepts_task(p: &Prepared) -> Result<Outcome, String> {
    Ok(mean_over_concepts(p, &p.concept_weights(), &concepts_task_terms(p)?.terms, |term| term.excess))
}

/// 1 − exp(−2 I(ĉ_i; y | c_i)), mean over concepts: the share of the variance of y, given c_i, that ĉ_i explains where all
/// are jointly normal (Linfoot 1957, doi:10.1016/S0019-9958(57)90116-X). A number's own information grows without bound as
/// it is measured finer, so a share of that says little.
pub fn concepts_task_of_variance(p: &Prepared) -> Result<Outcome, String> {
    let found = concepts_task_terms(p)?;
    let terms: Vec<_> = found.terms.iter().enumerate().map(|(i, term)| of_variance(p, i, term)).collect();
    Ok(mean_over_concepts(p, &p.concept_weights(), &terms, |term| term.excess))
}

fn of_variance(p: &Prepared, i: usize, term: &Result<Term, String>) -> Result<Term, String> {
    let term = term.as_ref().map_err(Clone::clone)?;
    let rows = p.known(&[i])?;
    let task = p.task_label_in(&rows).ok_or("there are no task labels")?;
    let entropy = normaliser(&task, p)?.mean();
    let unexplained = (-2.0 * entropy * term.excess).exp();
    let slope = 2.0 * entropy * unexplained;
    Ok(Term {
        value: 1.0 - unexplained,
        excess: 1.0 - unexplained,
        influence: term.influence.iter().map(|x| slope * x).collect(),
        draw_variance: slope * slope * term.draw_variance,
    })
}

/// I(ĉ_i; c_j | c_i) / H(c_j), mean over ordered pairs i ≠ j.
pub fn interconcept(p: &Prepared) -> Result<Outcome, String> {
    Ok(outcome(&*about_other_concepts(p)?, |pairs| &pairs.excess))
}

/// `ctl_conditional` − `ctl_excess` of each concept: an estimate of I(c_i; y | ĉ_i) / H(y), what was not learnt.
pub fn gap(p: &Prepared) -> Result<Outcome, String> {
    let (conditional, excess) = (concepts_task_terms(p)?, leakage::concepts_task_terms(p)?);
    let difference = |(conditional, excess): (&Result<Term, String>, &Result<Term, String>)| {
        Ok(conditional.as_ref().map_err(Clone::clone)?.less(excess.as_ref().map_err(Clone::clone)?))
    };
    let terms: Vec<Result<Term, String>> = conditional.terms.iter().zip(&*excess).map(difference).collect();
    Ok(mean_over_concepts(p, &p.concept_weights(), &terms, |term| term.excess))
}

/// The terms of `ctl_conditional`, of each concept.
pub struct Terms {
    pub terms: Vec<Result<Term, String>>,
    /// How each divides among the rows; `None` where there is no term.
    pub of_rows: Vec<Option<OfRows>>,
}

/// How a concept's term divides among the rows.
pub struct OfRows {
    known: KnownRows,
    /// Rows left out, numbered among the known ones, ascending.
    left_out: Vec<u32>,
    /// Factor by which the term's influences are widened.
    widened: f64,
}

impl OfRows {
    /// The rows that have a part in the term, ascending.
    pub fn kept(&self) -> Vec<usize> {
        let known = self.known.numbers().into_iter().zip(0_u32..);
        known.filter(|(_, at)| self.left_out.binary_search(at).is_err()).map(|(row, _)| row).collect()
    }

    /// Returns the part of each kept row, in their order, such that their sum over N is the term.
    pub fn parts(&self, term: &Term, kept: &[usize]) -> Vec<f64> {
        let level = term.excess * term.influence.len() as f64 / kept.len().max(1) as f64;
        kept.iter().map(|&row| level + term.influence[row] / self.widened).collect()
    }
}

pub fn concepts_task_terms(p: &Prepared) -> Result<Arc<Terms>, String> {
    p.try_shared("conditional concepts-task leakage", || {
        inputs(p)?;
        let task = p.task_labels().ok_or("there are no task labels")?;
        let entropy = normaliser(task, p).map_err(|why| format!("task_labels: {why}"))?;
        let term = |i: usize| {
            p.pause();
            let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
            let (activation, label) = concept_in(p, i, &rows)?;
            let (task, entropy) = task_in(p, &rows, (task, &entropy))?;
            varied(&activation, &label)?;
            let found = conditional_information(&activation, &task, &label, p.settings());
            let Conditional { estimate, left_out, widened } = found.map_err(|why| format!("activations: {why}"))?;
            let term = Term::normalised(estimate, &entropy).spread(&rows);
            Ok((term, OfRows { known: rows, left_out, widened }))
        };
        let found: Vec<Result<(Term, OfRows), String>> = parallel::map(p.concepts(), &term);
        let left_out = found.iter().flatten().map(|(_, of_rows)| of_rows.left_out.len());
        remark(p, "ctl_conditional", "task label", left_out.max().unwrap_or(0));
        let (mut terms, mut of_rows) = (Vec::new(), Vec::new());
        for found in found {
            let (term, rows) = found.map_or_else(|why| (Err(why), None), |(term, rows)| (Ok(term), Some(rows)));
            terms.push(term);
            of_rows.push(rows);
        }
        Ok(Terms { terms, of_rows })
    })
}

/// Says how many rows a score leaves out of the concept or pair of which it leaves out most, if any.
pub fn remark(p: &Prepared, id: &str, what: &str, left_out: usize) {
    if left_out > 0 {
        p.remark(format!(
            "{id} leaves out rows whose {what} no other row with the same label of the concept has: at most {left_out} of {}",
            p.rows()
        ));
    }
}

/// Errors where a concept's activations or labels have one class.
fn varied(activation: &Variable, label: &Variable) -> Result<(), String> {
    match [("activations", activation), ("labels", label)].into_iter().find(|(_, variable)| has_one_class(variable)) {
        Some((what, _)) => Err(format!("{what}: there is one class only")),
        None => Ok(()),
    }
}

/// The pairs of `icl_conditional`.
pub fn about_other_concepts(p: &Prepared) -> Result<Arc<Pairs>, String> {
    p.try_shared("conditional interconcept leakage", || {
        let (activations, labels) = inputs(p)?;
        let entropies: &[_] = &labels.iter().map(|c| normaliser(c, p)).collect::<Vec<_>>();
        let k = p.concepts();
        let most_left_out = &AtomicUsize::new(0);
        let concept = |i: usize| {
            let name = |at: usize| &p.run().concepts[at].name;
            let others: Vec<&Variable> = with_others(i, k).map(|(_, j)| &labels[j]).collect();
            let informations: Vec<Result<Conditional, String>> = match varied(&activations[i], &labels[i]) {
                // Labels of some rows are cut into strata pair by pair.
                _ if p.has_unknown_labels() => Vec::new(),
                Err(why) => vec![Err(why); others.len()],
                Ok(()) => conditional_information_with_each(&activations[i], &others, &labels[i], p.settings())
                    .into_iter()
                    .map(|found| found.map_err(|why| format!("activations: {why}")))
                    .collect(),
            };
            let mut informations = informations.into_iter();
            move |j: usize| -> Result<Term, String> {
                let found = informations.next();
                let rows = known_pair(p, i, j)?;
                let ((activation, label), (_, other)) = (concept_in(p, i, &rows)?, concept_in(p, j, &rows)?);
                let entropy = if rows.are_all() { entropies[j].clone() } else { normaliser(&other, p) };
                let entropy = entropy.map_err(|why| format!("labels of concept '{}': {why}", name(j)))?;
                let found = found.unwrap_or_else(|| {
                    varied(&activation, &label)?;
                    let found = conditional_information(&activation, &other, &label, p.settings());
                    found.map_err(|why| format!("activations: {why}"))
                });
                let found = found.map_err(|why| format!("concept '{}': {why}", name(i)))?;
                most_left_out.fetch_max(found.left_out.len(), Ordering::Relaxed);
                Ok(Term::normalised(found.estimate, &entropy).spread(&rows))
            }
        };
        let pairs = Pairs::of_each_with_others(p, |kept| &mut kept.conditional, concept);
        remark(p, "icl_conditional", "label of another concept", most_left_out.load(Ordering::Relaxed));
        pairs
    })
}
