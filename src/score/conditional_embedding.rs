//! Conditional leakage of concept embedding models: the information an embedding carries beyond its own concept.
//!
//! As [`conditional`](super::conditional) for vectors. Estimates on vectors are biased by their dimension, so compare
//! models of one dimension.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use crate::estimate::{Conditional, Undefined, Variable, conditional_information, conditional_information_with_each};
use crate::kept::{Cell, Family, Kept};
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};
use crate::tensor::TensorName;

use super::conditional::remark;
use super::pairs::{Pairs, Symmetry, error_of_unit, outcome, with_others};
use super::term::{Concepts, Normaliser, Sum, Term, has_one_class, mean_over_concepts, normaliser, task_in};
use super::units::{self, Computed, Shape};

/// I(ĉ^w_i; y | c_i) / H(y), mean over concepts.
pub fn concepts_task(p: &Prepared) -> Outcome {
    match weighted(p).as_ref() {
        Ok(Weighted { task: Ok(concepts), .. }) => concepts.outcome(p, |numbers| numbers.excess),
        Ok(Weighted { task: Err(why), .. }) | Err(why) => Outcome::undefined(why),
    }
}

/// The same of ĉ⁺.
pub fn concepts_task_positive(p: &Prepared) -> Outcome {
    concepts_task_of(p, TensorName::PositiveEmbeddings)
}

/// The same of ĉ⁻.
pub fn concepts_task_negative(p: &Prepared) -> Outcome {
    concepts_task_of(p, TensorName::NegativeEmbeddings)
}

/// I(ĉ^w_i; c_j | c_i) / H(c_j), mean over ordered pairs i ≠ j.
pub fn interconcept(p: &Prepared) -> Outcome {
    match weighted(p).as_ref() {
        Ok(weighted) => outcome(&weighted.pairs, |pairs| &pairs.excess),
        Err(why) => Outcome::undefined(why),
    }
}

/// The conditional information in the weighted embeddings, from one neighbour search for each concept and stratum.
struct Weighted {
    task: Result<Concepts, String>,
    pairs: Result<Pairs, String>,
}

/// The sums of [`weighted`].
const PAIRS: usize = 0;
const TASK: usize = 1;

fn weighted(p: &Prepared) -> Arc<Result<Weighted, String>> {
    p.shared("conditional weighted embeddings", || {
        p.column(TensorName::ConceptEmbeddings).ok_or("there are no concept embeddings")?;
        let labels = p.concept_labels().ok_or("there are no concept labels")?;
        let task = p.task_labels().map(|y| (y, normaliser(y, p)));
        let entropies: Vec<_> = labels.iter().map(|c| normaliser(c, p)).collect();
        let k = p.concepts();
        let others = k - 1;
        let most_left_out = AtomicUsize::new(0);
        let term = |found: Result<Conditional, Undefined>, entropy: &Result<Normaliser, String>| {
            // The divisor first: its reason is the plainer one.
            let entropy = entropy.as_ref().map_err(Clone::clone)?;
            let found = found.map_err(|why| format!("embeddings: {why}"))?;
            most_left_out.fetch_max(found.left_out, Ordering::Relaxed);
            Ok(Term::normalised(found.estimate, entropy))
        };
        // Cells: about the other concepts, and the task.
        let concept = |i: usize, sums: &mut [Sum]| {
            p.pause();
            let every: Vec<&Variable> =
                with_others(i, k).map(|(_, j)| &labels[j]).chain(task.iter().map(|(y, _)| *y)).collect();
            let mut informations = match p.embedding(TensorName::ConceptEmbeddings, i) {
                // Labels of some rows are cut into strata one by one.
                _ if p.has_unknown_labels() => Vec::new(),
                Some(embedding) if !has_one_class(&labels[i]) => {
                    conditional_information_with_each(&embedding, &every, &labels[i], p.settings())
                }
                _ => vec![Err(Undefined::OneClass); every.len()],
            }
            .into_iter();
            // About `other` on rows in which the labels of the concept and of the other are known.
            let alone = |rows: &KnownRows, other: &Variable| {
                let label = p.concept_label_in(i, rows).filter(|label| !has_one_class(label));
                let embedding = p.embedding_in(TensorName::ConceptEmbeddings, i, rows);
                match (embedding, label) {
                    (Some(embedding), Some(label)) => conditional_information(&embedding, other, &label, p.settings()),
                    _ => Err(Undefined::OneClass),
                }
            };
            let mut sum = Sum::new(p.rows());
            let add = |sum: &mut Sum, term: Result<Term, String>| {
                term.iter().for_each(|term| sum.add_in_any_order(term));
                units::cell(&term)
            };
            let name = |at: usize| &p.run().concepts[at].name;
            let about = |(_, j): (usize, usize)| {
                let found = match informations.next() {
                    Some(found) => term(found, &entropies[j]),
                    None => p.known(&[i, j]).map_err(|why| format!("labels: {why}")).and_then(|rows| {
                        let other = p.concept_label_in(j, &rows).ok_or("there are no concept labels")?;
                        Ok(term(alone(&rows, &other), &normaliser(&other, p))?.spread(&rows))
                    }),
                };
                add(&mut sum, found.map_err(|why| format!("concepts '{}' and '{}': {why}", name(i), name(j))))
            };
            let mut cells: Vec<Cell> = with_others(i, k).map(about).collect();
            let error = error_of_unit(&sum, &cells);
            sums[PAIRS].add_sum(1.0, &sum);
            if let Some((task, of_all)) = &task {
                let found = match informations.next() {
                    Some(found) => term(found, of_all),
                    None => p.known(&[i]).map_err(|why| format!("labels: {why}")).and_then(|rows| {
                        let (task, entropy) = task_in(p, &rows, (task, of_all.as_ref().map_err(Clone::clone)?))?;
                        Ok(term(alone(&rows, &task), &Ok(entropy))?.spread(&rows))
                    }),
                };
                cells.push(add(&mut sums[TASK], found));
            }
            Computed { cells: cells.into(), error }
        };
        let family: fn(&mut Kept) -> &mut Family = |kept| &mut kept.conditional_embeddings;
        let cells = others + usize::from(task.is_some());
        let units = units::compute(p, &Shape { family, units: k, cells, pairs: others, sums: 2 }, concept);
        remark(p, "embedding_ct_conditional", "task label or label of another concept", most_left_out.into_inner());
        Ok(Weighted {
            task: match &task {
                None => Err("there are no task labels".to_owned()),
                Some((_, Err(why))) => Err(format!("task_labels: {why}")),
                Some((_, Ok(_))) => {
                    let cells = units.cells.iter().map(|cells| cells[others].clone()).collect();
                    Ok(Concepts::new(cells, &units.sums[TASK], &units.fresh, units.ages.clone()))
                }
            },
            pairs: Pairs::assemble(p, &units, &units.sums[PAIRS], |i| with_others(i, k), Symmetry::Ordered),
        })
    })
}

fn concepts_task_of(p: &Prepared, name: TensorName) -> Outcome {
    let Some(task) = p.task_labels() else { return Outcome::undefined("there are no task labels") };
    if p.concept_labels().is_none() {
        return Outcome::undefined("there are no concept labels");
    }
    let entropy = match normaliser(task, p) {
        Ok(entropy) => entropy,
        Err(why) => return Outcome::undefined(format!("task_labels: {why}")),
    };
    let term = |i: usize| {
        p.pause();
        let rows = p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
        let label = p.concept_label_in(i, &rows).ok_or("there are no concept labels")?;
        if has_one_class(&label) {
            return Err("labels: there is one class only".to_owned());
        }
        let embedding = p.embedding_in(name, i, &rows).ok_or_else(|| format!("there are no {name}"))?;
        let (task, entropy) = task_in(p, &rows, (task, &entropy))?;
        let found = conditional_information(&embedding, &task, &label, p.settings());
        let found = found.map_err(|why| format!("embeddings: {why}"))?;
        Ok(Term::normalised(found.estimate, &entropy).spread(&rows))
    };
    let terms: Vec<Result<Term, String>> = (0..p.concepts()).into_par_iter().map(term).collect();
    mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.excess)
}
