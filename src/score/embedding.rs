//! Leakage of concept embedding models, measured on the vectors the head reasons with.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, eq. 10-13, doi:10.48550/arXiv.2504.14094.
//! Estimates on vectors are biased by their dimension, so they are compared across models, not with the true
//! concepts' information.

use std::sync::Arc;

use rayon::prelude::*;

use crate::estimate::{Estimate, Undefined, Variable, mutual_information, mutual_information_with_each};
use crate::kept::{Cell, Family, Kept};
use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::pairs::{Pairs, Symmetry, error_of_unit, outcome, with_others};
use super::term::{Concepts, Normaliser, Sum, Term, known_pair, mean_over_concepts, normaliser};
use super::units::{self, Computed, Shape};

/// Ĩ(CT), eq. 10: mean over concepts of I(ĉ^w_i, y) / H(y).
pub fn concepts_task(p: &Prepared) -> Outcome {
    match of_labels(p, TensorName::ConceptEmbeddings).as_ref() {
        Ok(OfLabels { task: Ok(concepts), .. }) => concepts.outcome(p, |numbers| numbers.value),
        Ok(OfLabels { task: Err(why), .. }) | Err(why) => Outcome::undefined(why),
    }
}

/// Ĩ(CT) of ĉ⁺.
pub fn concepts_task_positive(p: &Prepared) -> Outcome {
    concepts_task_of(p, TensorName::PositiveEmbeddings)
}

/// Ĩ(CT) of ĉ⁻.
pub fn concepts_task_negative(p: &Prepared) -> Outcome {
    concepts_task_of(p, TensorName::NegativeEmbeddings)
}

/// Ĩ(IC), eq. 11: mean over ordered pairs i ≠ j of I(ĉ^w_i, c_j) / H(c_j). The paper's sum runs over j < i; its
/// authors' code averages all ordered pairs, as is done here.
pub fn interconcept(p: &Prepared) -> Outcome {
    interconcept_of(p, TensorName::ConceptEmbeddings)
}

/// Ĩ(IC) of ĉ⁺.
pub fn interconcept_positive(p: &Prepared) -> Outcome {
    interconcept_of(p, TensorName::PositiveEmbeddings)
}

/// Ĩ(IC) of ĉ⁻.
pub fn interconcept_negative(p: &Prepared) -> Outcome {
    interconcept_of(p, TensorName::NegativeEmbeddings)
}

/// Ĩ(self), eq. 12: mean over concepts of I(ĉ^w_i, c_i) / H(c_i).
pub fn own_concept(p: &Prepared) -> Outcome {
    own_concept_of(p, TensorName::ConceptEmbeddings)
}

/// Ĩ(self) of ĉ⁺.
pub fn own_concept_positive(p: &Prepared) -> Outcome {
    own_concept_of(p, TensorName::PositiveEmbeddings)
}

/// Ĩ(self) of ĉ⁻.
pub fn own_concept_negative(p: &Prepared) -> Outcome {
    own_concept_of(p, TensorName::NegativeEmbeddings)
}

fn interconcept_of(p: &Prepared, name: TensorName) -> Outcome {
    match of_labels(p, name).as_ref() {
        Ok(found) => outcome(&found.pairs, |pairs| &pairs.clipped),
        Err(why) => Outcome::undefined(why),
    }
}

fn own_concept_of(p: &Prepared, name: TensorName) -> Outcome {
    match of_labels(p, name).as_ref() {
        Ok(found) => found.own.outcome(p, |numbers| numbers.value),
        Err(why) => Outcome::undefined(why),
    }
}

/// Ĩ(align), eq. 13: for each concept, Ĩ(CT) of aligned less unaligned vectors, positive plus negative, each with
/// its own group's H(y). Both groups are cut to the smaller one's size, in ascending row id, so that N is equal in
/// the subtraction.
pub fn alignment(p: &Prepared) -> Outcome {
    let terms: Vec<Result<Term, String>> = (0..p.concepts()).into_par_iter().map(|i| alignment_of(p, i)).collect();
    mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value)
}

/// The information in embeddings, from one neighbour search per concept for all labels. The task is among them for the
/// weighted ones; those of ĉ⁺ and ĉ⁻ about the task are computed in every evaluation, and about concepts as there is time.
struct OfLabels {
    task: Result<Concepts, String>,
    own: Concepts,
    pairs: Result<Pairs, String>,
}

fn of_labels(p: &Prepared, name: TensorName) -> Arc<Result<OfLabels, String>> {
    let (shared, family): (_, fn(&mut Kept) -> &mut Family) = match name {
        TensorName::PositiveEmbeddings => ("positive embeddings", |kept| &mut kept.positive_embeddings),
        TensorName::NegativeEmbeddings => ("negative embeddings", |kept| &mut kept.negative_embeddings),
        _ => ("weighted embeddings", |kept| &mut kept.embeddings),
    };
    p.shared(shared, || {
        p.column(name).ok_or_else(|| format!("there are no {name}"))?;
        let task = p.task_labels().filter(|_| name == TensorName::ConceptEmbeddings).map(|y| (y, normaliser(y, p)));
        let labels = p.concept_labels().unwrap_or_default();
        let entropies: Vec<_> = labels.iter().map(|c| normaliser(c, p)).collect();
        let every_label: Vec<&Variable> = labels.iter().chain(task.iter().map(|(y, _)| *y)).collect();
        // The divisor first: its reason is the plainer one.
        let term = |information: Result<Estimate, Undefined>, entropy: &Result<Normaliser, String>| {
            let entropy = entropy.as_ref().map_err(Clone::clone)?;
            Ok(Term::normalised(information.map_err(|e| e.to_string())?, entropy))
        };
        let about_other =
            |i: usize, j: usize, information: Result<Estimate, Undefined>, entropy: &Result<Normaliser, String>| {
                let of = |what: &str, at: usize, why: &str| {
                    format!("{what} of concept '{}': {why}", p.run().concepts[at].name)
                };
                let entropy = entropy.as_ref().map_err(|why| of("labels", j, why))?;
                let information = information.map_err(|e| of("embeddings", i, &e.to_string()))?;
                Ok(Term::normalised(information, entropy))
            };
        // Cells: about the other concepts, its own, and the task.
        let concept = |i: usize, sums: &mut [Sum]| {
            p.pause();
            let unknown = p.has_unknown_labels();
            // One search serves all labels of all rows; labels of some rows have a search each.
            let searched: Vec<&Variable> =
                every_label.iter().skip(if unknown { labels.len() } else { 0 }).copied().collect();
            let mut informations = match p.embedding(name, i) {
                Some(embedding) => mutual_information_with_each(&embedding, &searched, p.settings()),
                None => Vec::new(),
            };
            let about_known = |j: usize| -> Result<Term, String> {
                let rows =
                    if i == j { p.known(&[i]).map_err(|why| format!("labels: {why}"))? } else { known_pair(p, i, j)? };
                let label = p.concept_label_in(j, &rows).ok_or("there are no concept labels")?;
                let embedding = p.embedding_in(name, i, &rows);
                let information =
                    mutual_information(&embedding.ok_or("there are no embeddings")?, &label, p.settings());
                let entropy = normaliser(&label, p);
                let found =
                    if i == j { term(information, &entropy)? } else { about_other(i, j, information, &entropy)? };
                Ok(found.spread(&rows))
            };
            let mut add = |to: usize, term: Result<Term, String>| {
                term.iter().for_each(|term| sums[to].add_in_any_order(term));
                units::cell(&term)
            };
            let task = task.as_ref().and_then(|(_, entropy)| Some(add(TASK, term(informations.pop()?, entropy))));
            let mut own = None;
            let (mut others, mut sum) = (Vec::new(), Sum::new(p.rows()));
            let mut informations = informations.into_iter();
            for (j, entropy) in entropies.iter().enumerate() {
                let found = match informations.next() {
                    None => about_known(j),
                    Some(information) if j == i => term(information, entropy),
                    Some(information) => about_other(i, j, information, entropy),
                };
                if j == i {
                    own = Some(add(OWN, found));
                } else {
                    let term = found;
                    term.iter().for_each(|term| sum.add_in_any_order(term));
                    others.push(units::cell(&term));
                }
            }
            sums[PAIRS].add_sum(1.0, &sum);
            let error = error_of_unit(&sum, &others);
            Computed { cells: others.into_iter().chain(own).chain(task).collect(), error }
        };
        let (k, others) = (p.concepts(), labels.len().saturating_sub(1));
        let units =
            units::compute(p, &Shape { family, units: k, cells: every_label.len(), pairs: others, sums: 3 }, concept);
        let concepts = |cell: &dyn Fn(&[Cell]) -> Cell, sum: usize| {
            let cells = units.cells.iter().map(|cells| cell(cells)).collect();
            Concepts::new(cells, &units.sums[sum], &units.fresh, units.ages.clone())
        };
        let own = |cells: &[Cell]| match labels.is_empty() {
            true => Err("there are no concept labels".to_owned()),
            false => cells[others].clone(),
        };
        let of_task = |cells: &[Cell]| cells[labels.len()].clone();
        Ok(OfLabels {
            task: match &task {
                None => Err("there are no task labels".to_owned()),
                Some((_, Err(why))) => Err(format!("task_labels: {why}")),
                Some((_, Ok(_))) => Ok(concepts(&of_task, TASK)),
            },
            own: concepts(&own, OWN),
            pairs: match labels.is_empty() {
                true => Err("there are no concept labels".to_owned()),
                false => Pairs::assemble(p, &units, &units.sums[PAIRS], |i| with_others(i, k), Symmetry::Ordered),
            },
        })
    })
}

/// The sums of [`of_labels`].
const PAIRS: usize = 0;
const OWN: usize = 1;
const TASK: usize = 2;

fn concepts_task_of(p: &Prepared, name: TensorName) -> Outcome {
    let Some(task) = p.task_labels() else { return Outcome::undefined("there are no task labels") };
    let entropy = match normaliser(task, p) {
        Ok(entropy) => entropy,
        Err(why) => return Outcome::undefined(format!("task_labels: {why}")),
    };
    let term = |i: usize| {
        p.pause();
        let embedding = p.embedding(name, i).ok_or_else(|| format!("there are no {name}"))?;
        let information = mutual_information(&embedding, task, p.settings()).map_err(|e| e.to_string())?;
        Ok(Term::normalised(information, &entropy))
    };
    let terms: Vec<Result<Term, String>> = (0..p.concepts()).into_par_iter().map(term).collect();
    mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value)
}

fn alignment_of(p: &Prepared, i: usize) -> Result<Term, String> {
    let labels = p.column(TensorName::ConceptLabels).and_then(|column| column.integers(i));
    let labels = labels.ok_or("its labels are not classes")?;
    p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
    // An unknown label is negative.
    let rows_where = |present: bool| -> Vec<usize> {
        let matching = labels.iter().enumerate().filter(|(_, label)| **label >= 0 && (**label > 0) == present);
        matching.map(|(row, _)| row).collect()
    };
    let (mut present, mut absent) = (rows_where(true), rows_where(false));
    let size = present.len().min(absent.len());
    if size == 0 {
        return Err("there is one class only".into());
    }
    present.truncate(size);
    absent.truncate(size);
    let groups = [
        (TensorName::PositiveEmbeddings, &present, 1.0),
        (TensorName::PositiveEmbeddings, &absent, -1.0),
        (TensorName::NegativeEmbeddings, &absent, 1.0),
        (TensorName::NegativeEmbeddings, &present, -1.0),
    ];
    let mut total = Term { value: 0.0, excess: 0.0, influence: vec![0.0; p.rows()], draw_variance: 0.0 };
    for (name, rows, sign) in groups {
        p.pause();
        let embedding = p.embedding_rows(name, i, rows).ok_or_else(|| format!("there are no {name}"))?;
        let task = p.task_label_rows(rows).ok_or("there are no task labels")?;
        let entropy = normaliser(&task, p).map_err(|why| format!("task labels of a group of {size} rows: {why}"))?;
        let information = mutual_information(&embedding, &task, p.settings()).map_err(|e| e.to_string())?;
        let term = Term::normalised(information, &entropy);
        total.value += sign * term.value;
        total.excess += sign * term.excess;
        total.draw_variance += term.draw_variance;
        // A group's mean is over its own rows: in terms of all rows each of them weighs N / size.
        let scale = sign * p.rows() as f64 / size as f64;
        for (row, influence) in rows.iter().zip(&term.influence) {
            total.influence[*row] += scale * influence;
        }
    }
    Ok(total)
}
