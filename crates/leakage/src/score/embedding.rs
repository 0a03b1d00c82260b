//! Leakage of concept embedding models, measured on the vectors the head reasons with.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, eq. 10-13, doi:10.48550/arXiv.2504.14094.
//! Estimates on vectors are biased by their dimension, so they are compared across models, not with the true
//! concepts' information.

use std::sync::Arc;

use information::{Estimate, Undefined, Variable, mutual_information, mutual_information_with_each};

use crate::pair_cache::{Cell, Family, Kept};
use crate::parallel;
use crate::point::Outcome;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::concept_rows::NO_CLASSES;
use super::labels::Labels;
use super::pairs::{Pairs, Symmetry, error_of_unit, outcome, with_others};
use super::term::{Concepts, Normaliser, Sum, Term, known_pair, mean_over_concepts, normaliser};
use super::units::{self, Computed, Shape};

/// Ĩ(CT), eq. 10: mean over concepts of I(ĉ^w_i, y) / H(y).
pub fn concepts_task(p: &Prepared) -> Result<Outcome, String> {
    let found = of_labels(p, TensorName::ConceptEmbeddings)?;
    Ok(found.task.as_ref().map_err(String::clone)?.outcome(p, |numbers| numbers.value))
}

/// Ĩ(IC), eq. 11: mean over ordered pairs i ≠ j of I(ĉ_i, c_j) / H(c_j), with ĉ the embeddings `name`. The paper's sum runs
/// over j < i; its authors' code averages all ordered pairs, as is done here.
pub fn interconcept(p: &Prepared, name: TensorName) -> Result<Outcome, String> {
    let found = of_labels(p, name)?;
    Ok(outcome(found.pairs.as_ref().map_err(String::clone)?, |pairs| &pairs.clipped))
}

/// Ĩ(self), eq. 12: mean over concepts of I(ĉ_i, c_i) / H(c_i), with ĉ the embeddings `name`.
pub fn own_concept(p: &Prepared, name: TensorName) -> Result<Outcome, String> {
    Ok(of_labels(p, name)?.own.outcome(p, |numbers| numbers.value))
}

/// Ĩ(align), eq. 13: for each concept, Ĩ(CT) of aligned less unaligned vectors, positive plus negative, each with
/// its own group's H(y). Both groups are cut to the smaller one's size, in ascending row id, so that N is equal in
/// the subtraction.
pub fn alignment(p: &Prepared) -> Result<Outcome, String> {
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &|i| alignment_of(p, i));
    Ok(mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value))
}

/// The information in embeddings, from one neighbour search per concept for all labels. The task is among them for the
/// weighted ones; those of ĉ⁺ and ĉ⁻ about the task are computed in every evaluation, and about concepts as there is time.
struct OfLabels {
    task: Result<Concepts, String>,
    own: Concepts,
    pairs: Result<Pairs, String>,
}

fn of_labels(p: &Prepared, name: TensorName) -> Result<Arc<OfLabels>, String> {
    let (shared, family): (_, fn(&mut Kept) -> &mut Family) = match name {
        TensorName::PositiveEmbeddings => ("positive embeddings", |kept| &mut kept.positive_embeddings),
        TensorName::NegativeEmbeddings => ("negative embeddings", |kept| &mut kept.negative_embeddings),
        _ => ("weighted embeddings", |kept| &mut kept.embeddings),
    };
    p.try_shared(shared, || {
        p.column(name).ok_or_else(|| format!("there are no {name}"))?;
        let concepts = p.concept_labels().unwrap_or_default();
        let task = p.task_labels().filter(|_| name == TensorName::ConceptEmbeddings);
        let estimating = Estimating { p, name, labels: Labels::new(p, concepts, task) };
        let (k, others) = (p.concepts(), concepts.len().saturating_sub(1));
        let cells = concepts.len() + usize::from(task.is_some());
        let shape = Shape { family, units: k, cells, pairs: others, sums: 3 };
        let units = units::compute(p, &shape, |i, sums| estimating.of_concept(i, sums));
        let own = |cells: &[Cell]| match concepts.is_empty() {
            true => Err("there are no concept labels".to_owned()),
            false => cells[others].clone(),
        };
        Ok(OfLabels {
            task: estimating.labels.about_task(|| units.concepts(TASK, |cells| cells[concepts.len()].clone())),
            own: units.concepts(OWN, own),
            pairs: match concepts.is_empty() {
                true => Err("there are no concept labels".to_owned()),
                false => Pairs::assemble(p, &units, &units.sums[PAIRS], |i| with_others(i, k), Symmetry::Ordered),
            },
        })
    })
}

/// The embeddings `name`, and the labels that their information is about.
struct Estimating<'p, 'a> {
    p: &'p Prepared<'a>,
    name: TensorName,
    labels: Labels<'p>,
}

impl Estimating<'_, '_> {
    /// Cells: about the other concepts, its own, and the task.
    fn of_concept(&self, i: usize, sums: &mut [Sum]) -> Computed {
        let Self { p, name, labels } = self;
        p.pause();
        // One search serves all labels of all rows; labels of some rows have a search each.
        let together = if p.has_unknown_labels() { &[] } else { labels.concepts };
        let searched: Vec<&Variable> = together.iter().chain(labels.task.iter().map(|(task, _)| *task)).collect();
        let mut informations = match p.embedding(*name, i) {
            Some(embedding) => mutual_information_with_each(&embedding, &searched, p.settings()),
            None => Vec::new(),
        };
        let about_task = |(_, entropy): &(_, _)| {
            let found = term(informations.pop()?, entropy);
            Some(units::add(&mut sums[TASK], found))
        };
        let task = labels.task.as_ref().and_then(about_task);
        let (mut own, mut others, mut sum) = (None, Vec::new(), Sum::new(p.rows()));
        let mut informations = informations.into_iter();
        for (j, entropy) in labels.entropies.iter().enumerate() {
            let found = match informations.next() {
                None => self.about_known(i, j),
                Some(information) if j == i => term(information, entropy),
                Some(information) => self.about_other(i, j, information, entropy),
            };
            if j == i {
                own = Some(units::add(&mut sums[OWN], found));
            } else {
                others.push(units::add(&mut sum, found));
            }
        }
        sums[PAIRS].add_sum(1.0, &sum);
        let error = error_of_unit(&sum, &others);
        Computed { cells: others.into_iter().chain(own).chain(task).collect(), error }
    }

    /// About concept j on the rows in which the labels of both are known.
    fn about_known(&self, i: usize, j: usize) -> Result<Term, String> {
        let p = self.p;
        let rows = if i == j { p.known(&[i]).map_err(|why| format!("labels: {why}"))? } else { known_pair(p, i, j)? };
        let label = p.concept_label_in(j, &rows).ok_or("there are no concept labels")?;
        let embedding = p.embedding_in(self.name, i, &rows).ok_or("there are no embeddings")?;
        let information = mutual_information(&embedding, &label, p.settings());
        let entropy = normaliser(&label, p);
        let found = if i == j { term(information, &entropy)? } else { self.about_other(i, j, information, &entropy)? };
        Ok(found.spread(&rows))
    }

    fn about_other(
        &self,
        i: usize,
        j: usize,
        information: Result<Estimate, Undefined>,
        entropy: &Result<Normaliser, String>,
    ) -> Result<Term, String> {
        let of =
            |what: &str, at: usize, why: &str| format!("{what} of concept '{}': {why}", self.p.run().concepts[at].name);
        let entropy = entropy.as_ref().map_err(|why| of("labels", j, why))?;
        let information = information.map_err(|e| of("embeddings", i, &e.to_string()))?;
        Ok(Term::normalised(information, entropy))
    }
}

/// The divisor is looked at first: its reason is the plainer one.
fn term(information: Result<Estimate, Undefined>, entropy: &Result<Normaliser, String>) -> Result<Term, String> {
    let entropy = entropy.as_ref().map_err(Clone::clone)?;
    Ok(Term::normalised(information.map_err(|e| e.to_string())?, entropy))
}

/// The sums of [`of_labels`].
const PAIRS: usize = 0;
const OWN: usize = 1;
const TASK: usize = 2;

/// Ĩ(CT) of ĉ⁺ or ĉ⁻.
pub fn concepts_task_of(p: &Prepared, name: TensorName) -> Result<Outcome, String> {
    let task = p.task_labels().ok_or("there are no task labels")?;
    let entropy = normaliser(task, p).map_err(|why| format!("task_labels: {why}"))?;
    let term = |i: usize| {
        p.pause();
        let embedding = p.embedding(name, i).ok_or_else(|| format!("there are no {name}"))?;
        let information = mutual_information(&embedding, task, p.settings()).map_err(|e| e.to_string())?;
        Ok(Term::normalised(information, &entropy))
    };
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &term);
    Ok(mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value))
}

fn alignment_of(p: &Prepared, i: usize) -> Result<Term, String> {
    let labels = p.concept_classes(i).ok_or(NO_CLASSES)?;
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
