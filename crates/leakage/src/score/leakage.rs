//! Leakage of scalar and categorical concepts: CTL and ICL, and this project's `icl_label`.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, eq. 6-9, doi:10.48550/arXiv.2504.14094.
//! Every score comes in two forms: as published, clipped at 0 per concept or pair, and as unclipped excess.

use std::sync::Arc;

use information::{Estimate, Variable, mutual_information, mutual_information_with_each};

use crate::parallel;
use crate::point::Outcome;
use crate::prepare::Prepared;

use super::pairs::{Pairs, Symmetry, outcome};
use super::term::{
    Normaliser, Sum, Term, concept_in, has_one_class, known_pair, mean_over_concepts, normaliser, task_in,
};
use super::units::{self, Computed, Shape};

/// CTL, eq. 6-7: max(0, (I(ĉ_i, y) − I(c_i, y)) / H(y)), mean over concepts or weighted by `concept_weights`.
pub fn ctl(p: &Prepared) -> Result<Outcome, String> {
    Ok(mean_over_concepts(p, &p.concept_weights(), &concepts_task_terms(p)?, |term| term.value))
}

/// CTL before clipping.
pub fn ctl_excess(p: &Prepared) -> Result<Outcome, String> {
    Ok(mean_over_concepts(p, &p.concept_weights(), &concepts_task_terms(p)?, |term| term.excess))
}

/// ICL, eq. 8-9: max(0, I(ĉ_i, ĉ_j)/√(H(ĉ_i)H(ĉ_j)) − I(c_i, c_j)/√(H(c_i)H(c_j))), mean over pairs i ≠ j.
pub fn icl(p: &Prepared) -> Result<Outcome, String> {
    Ok(outcome(&*interconcept(p)?, |pairs| &pairs.clipped))
}

/// ICL before clipping.
pub fn icl_excess(p: &Prepared) -> Result<Outcome, String> {
    Ok(outcome(&*interconcept(p)?, |pairs| &pairs.excess))
}

/// max(0, (I(ĉ_i, c_j) − I(c_i, c_j)) / H(c_j)), mean over ordered pairs i ≠ j.
///
/// ICL subtracts two differently scaled numbers: a learnt information over a self-information near ψ(N) − ψ(k), and a
/// true information over a label entropy of at most ln 2. Where concepts are correlated the difference is negative
/// whatever leaks. Here both terms have the same normaliser.
pub fn icl_label(p: &Prepared) -> Result<Outcome, String> {
    Ok(outcome(&*against_labels(p)?, |pairs| &pairs.clipped))
}

/// `icl_label` before clipping.
pub fn icl_label_excess(p: &Prepared) -> Result<Outcome, String> {
    Ok(outcome(&*against_labels(p)?, |pairs| &pairs.excess))
}

/// The terms of CTL, one for each concept.
pub fn concepts_task_terms(p: &Prepared) -> Result<Arc<Vec<Result<Term, String>>>, String> {
    p.try_shared("concepts-task leakage", || {
        inputs(p)?;
        let task = p.task_labels().ok_or("there are no task labels")?;
        let entropy = normaliser(task, p).map_err(|why| format!("task_labels: {why}"))?;
        let term = |i: usize| {
            p.pause();
            let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
            let (activation, label) = concept_in(p, i, &rows)?;
            let (task, entropy) = task_in(p, &rows, (task, &entropy))?;
            let learnt = varied_information("activations", &activation, &task, p)?;
            let truth = varied_information("labels", &label, &task, p)?;
            Ok(Term::leakage((learnt, &entropy), (&truth, &entropy)).spread(&rows))
        };
        Ok(parallel::map(p.concepts(), &term))
    })
}

/// I(x, y) of a concept's `what`, which must vary.
fn varied_information(what: &str, x: &Variable, y: &Variable, p: &Prepared) -> Result<Estimate, String> {
    if has_one_class(x) {
        return Err(format!("{what}: there is one class only"));
    }
    mutual_information(x, y, p.settings()).map_err(|e| format!("{what}: {e}"))
}

/// The pairs of ICL.
pub fn interconcept(p: &Prepared) -> Result<Arc<Pairs>, String> {
    p.try_shared("interconcept leakage", || {
        let (activations, labels) = inputs(p)?;
        let learnt_entropies: Vec<_> = parallel::map(activations.len(), &|i| normaliser(&activations[i], p));
        let true_entropies: Vec<_> = labels.iter().map(|c| normaliser(c, p)).collect();
        let pairs: Vec<(usize, usize)> =
            (0..p.concepts()).flat_map(|i| (i + 1..p.concepts()).map(move |j| (i, j))).collect();
        let term = |(i, j): (usize, usize)| -> Result<Term, String> {
            p.pause();
            let rows = known_pair(p, i, j)?;
            let entropy = |of_all: &[Result<Normaliser, String>], what: &str, at: usize, variable: &Variable| {
                let entropy = if rows.are_all() { of_all[at].clone() } else { normaliser(variable, p) };
                entropy.map_err(|why| format!("{what} of concept '{}': {why}", p.run().concepts[at].name))
            };
            let ((activation_i, label_i), (activation_j, label_j)) =
                (concept_in(p, i, &rows)?, concept_in(p, j, &rows)?);
            let learnt_normaliser = Normaliser::geometric(
                &entropy(&learnt_entropies, "activations", i, &activation_i)?,
                &entropy(&learnt_entropies, "activations", j, &activation_j)?,
            );
            let true_normaliser = Normaliser::geometric(
                &entropy(&true_entropies, "labels", i, &label_i)?,
                &entropy(&true_entropies, "labels", j, &label_j)?,
            );
            let learnt = mutual_information(&activation_i, &activation_j, p.settings());
            let truth = mutual_information(&label_i, &label_j, p.settings());
            let (learnt, truth) = (learnt.map_err(|e| e.to_string())?, truth.map_err(|e| e.to_string())?);
            Ok(Term::leakage((learnt, &learnt_normaliser), (&truth, &true_normaliser)).spread(&rows))
        };
        let pair = |at: usize, sums: &mut [Sum]| {
            let term = term(pairs[at]);
            let error = term.as_ref().map_or(f64::INFINITY, Term::standard_error);
            Computed { cells: Box::new([units::add(&mut sums[0], term)]), error }
        };
        let shape = Shape { family: |kept| &mut kept.interconcept, units: pairs.len(), cells: 1, pairs: 1, sums: 1 };
        let units = units::compute(p, &shape, pair);
        Pairs::assemble(p, &units, &units.sums[0], |at| std::iter::once(pairs[at]), Symmetry::Symmetric)
    })
}

/// The pairs of `icl_label`.
pub fn against_labels(p: &Prepared) -> Result<Arc<Pairs>, String> {
    p.try_shared("leakage against labels", || {
        let (activations, labels) = inputs(p)?;
        let entropies: &[_] = &labels.iter().map(|c| normaliser(c, p)).collect::<Vec<_>>();
        let every_label: Vec<&Variable> = labels.iter().collect();
        let concept = |i: usize| {
            // One search serves the labels of all rows; labels of some rows have a search each.
            let mut together = match p.has_unknown_labels() {
                true => Vec::new(),
                false => mutual_information_with_each(&activations[i], &every_label, p.settings()),
            }
            .into_iter()
            .enumerate()
            .filter(move |(j, _)| *j != i)
            .map(|(_, learnt)| learnt);
            move |j: usize| -> Result<Term, String> {
                let learnt = together.next();
                let rows = known_pair(p, i, j)?;
                let (activation, label) = concept_in(p, i, &rows)?;
                let (_, other) = concept_in(p, j, &rows)?;
                let entropy = if rows.are_all() { entropies[j].clone() } else { normaliser(&other, p) };
                let entropy =
                    entropy.map_err(|why| format!("labels of concept '{}': {why}", p.run().concepts[j].name))?;
                let name = &p.run().concepts[i].name;
                for (what, variable) in [("activations", &activation), ("labels", &label)] {
                    if has_one_class(variable) {
                        return Err(format!("{what} of concept '{name}': there is one class only"));
                    }
                }
                let learnt = learnt.unwrap_or_else(|| mutual_information(&activation, &other, p.settings()));
                let learnt = learnt.map_err(|e| format!("activations of concept '{name}': {e}"))?;
                let truth = mutual_information(&label, &other, p.settings()).map_err(|e| e.to_string())?;
                Ok(Term::leakage((learnt, &entropy), (&truth, &entropy)).spread(&rows))
            }
        };
        Pairs::of_each_with_others(p, |kept| &mut kept.against_labels, concept)
    })
}

/// ĉ_i and c_i of each concept, on all rows.
pub fn inputs<'p>(p: &'p Prepared) -> Result<(&'p [Variable], &'p [Variable]), String> {
    let activations = p.activations().ok_or("there are no concept activations")?;
    Ok((activations, p.concept_labels().ok_or("there are no concept labels")?))
}
