//! Leakage of concept embedding models, measured on the vectors the head reasons with: the information in embeddings, and, as
//! [`conditional`](super::conditional) for vectors, what they carry beyond their own concept.
//!
//! Source: Leakage and Interpretability in Concept-Based Models, eq. 10-13, doi:10.48550/arXiv.2504.14094.
//! Estimates on vectors are biased by their dimension, so they are compared across models of one dimension, not with the true
//! concepts' information.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use information::{
    Estimate, Variable, conditional_information_with_each, elementwise, mutual_information,
    mutual_information_with_each,
};

use crate::pair_cache::{Cell, Family, Kept};
use crate::parallel;
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};
use crate::tensor::TensorName;

use super::concept_rows::NO_CLASSES;
use super::conditional::remark;
use super::labels::Labels;
use super::pairs::{Pairs, Symmetry, error_of_unit, outcome, with_others};
use super::term::{
    Concepts, Normaliser, Sum, Term, has_one_class, known_pair, mean_over_concepts, normaliser, task_in,
};
use super::units::{self, Computed, Shape};

/// The condition of an estimate, known beside the embedding of a concept.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Given {
    Nothing,
    /// The label of the concept.
    OwnLabel,
}

/// Ĩ(CT), eq. 10: mean over concepts of I(ĉ^w_i, y) / H(y), or of I(ĉ^w_i; y | c_i) / H(y).
pub fn concepts_task(p: &Prepared, given: Given) -> Result<Outcome, String> {
    let found = of_labels(p, TensorName::ConceptEmbeddings, given)?;
    Ok(found.task.as_ref().map_err(String::clone)?.outcome(p, |numbers| numbers.value))
}

/// Ĩ(IC), eq. 11: mean over ordered pairs i ≠ j of I(ĉ_i, c_j) / H(c_j), or of I(ĉ_i; c_j | c_i) / H(c_j), with ĉ the
/// embeddings `name`. The paper's sum runs over j < i; its authors' code averages all ordered pairs, as is done here.
pub fn interconcept(p: &Prepared, name: TensorName, given: Given) -> Result<Outcome, String> {
    let found = of_labels(p, name, given)?;
    Ok(outcome(found.pairs.as_ref().map_err(String::clone)?, |pairs| &pairs.clipped))
}

/// Ĩ(self), eq. 12: mean over concepts of I(ĉ_i, c_i) / H(c_i), with ĉ the embeddings `name`.
pub fn own_concept(p: &Prepared, name: TensorName) -> Result<Outcome, String> {
    Ok(of_labels(p, name, Given::Nothing)?.own.outcome(p, |numbers| numbers.value))
}

/// The same as [`concepts_task`] for ĉ⁺ or ĉ⁻.
pub fn concepts_task_of(p: &Prepared, name: TensorName, given: Given) -> Result<Outcome, String> {
    let task = p.task_labels().ok_or("there are no task labels")?;
    let estimating = Estimating::new(p, name, given, Some(task))?;
    let term = |i: usize| {
        p.pause();
        estimating.about_task(i)
    };
    estimating.labels.about_task(|| ())?;
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &term);
    Ok(mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.value))
}

/// Ĩ(align), eq. 13: for each concept, Ĩ(CT) of aligned less unaligned vectors, positive plus negative, each with
/// its own group's H(y). Both groups are cut to the smaller one's size, in ascending row id, so that N is equal in
/// the subtraction.
pub fn alignment(p: &Prepared) -> Result<Outcome, String> {
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &|i| alignment_of(p, i));
    Ok(mean_over_concepts(p, &p.class_weights(), &terms, |term| term.value))
}

/// The information in embeddings, from one neighbour search per concept, and stratum of its label, for all labels. The task is
/// among them for the weighted ones; those of ĉ⁺ and ĉ⁻ about the task are computed in every evaluation, and about concepts as
/// there is time.
struct OfLabels {
    task: Result<Concepts, String>,
    /// Without values where the own label is given.
    own: Concepts,
    pairs: Result<Pairs, String>,
}

fn of_labels(p: &Prepared, name: TensorName, given: Given) -> Result<Arc<OfLabels>, String> {
    let (shared, family): (_, fn(&mut Kept) -> &mut Family) = match (given, name) {
        (Given::OwnLabel, _) => ("conditional weighted embeddings", |kept| &mut kept.conditional_embeddings),
        (_, TensorName::PositiveEmbeddings) => ("positive embeddings", |kept| &mut kept.positive_embeddings),
        (_, TensorName::NegativeEmbeddings) => ("negative embeddings", |kept| &mut kept.negative_embeddings),
        _ => ("weighted embeddings", |kept| &mut kept.embeddings),
    };
    p.try_shared(shared, || {
        let task = p.task_labels().filter(|_| name == TensorName::ConceptEmbeddings);
        let estimating = Estimating::new(p, name, given, task)?;
        let concepts = estimating.labels.concepts;
        let (k, others) = (p.concepts(), concepts.len().saturating_sub(1));
        let cells = concepts.len() + usize::from(task.is_some());
        let shape = Shape { family, units: k, cells, pairs: others, sums: 3 };
        let units = units::compute(p, &shape, |i, sums| estimating.of_concept(i, sums));
        let most_left_out = estimating.most_left_out.load(Ordering::Relaxed);
        remark(p, "embedding_ct_conditional", "task label or label of another concept", most_left_out);
        let none = || "there are no concept labels".to_owned();
        let own = |cells: &[Cell]| if concepts.is_empty() { Err(none()) } else { cells[others].clone() };
        Ok(OfLabels {
            task: estimating.labels.about_task(|| units.concepts(TASK, |cells| cells[concepts.len()].clone())),
            own: units.concepts(OWN, own),
            pairs: match concepts.is_empty() {
                true => Err(none()),
                false => Pairs::assemble(p, &units, &units.sums[PAIRS], |i| with_others(i, k), Symmetry::Ordered),
            },
        })
    })
}

/// The embeddings `name`, and the labels that their information is about.
struct Estimating<'p, 'a> {
    p: &'p Prepared<'a>,
    name: TensorName,
    given: Given,
    labels: Labels<'p>,
    /// The most rows that any estimate leaves out.
    most_left_out: AtomicUsize,
}

/// An estimate, and the number of rows that it leaves out.
type Found = Result<(Estimate, usize), String>;

/// The divisor of an estimate.
type Entropy = Result<Normaliser, String>;

impl<'p, 'a> Estimating<'p, 'a> {
    fn new(p: &'p Prepared<'a>, name: TensorName, given: Given, task: Option<&'p Variable>) -> Result<Self, String> {
        p.column(name).ok_or_else(|| format!("there are no {name}"))?;
        let concepts = p.concept_labels().unwrap_or_default();
        if concepts.is_empty() && given == Given::OwnLabel {
            return Err("there are no concept labels".to_owned());
        }
        Ok(Self { p, name, given, labels: Labels::new(p, concepts, task), most_left_out: AtomicUsize::new(0) })
    }

    /// Cells: about the other concepts, its own, and the task.
    fn of_concept(&self, i: usize, sums: &mut [Sum]) -> Computed {
        let Self { p, given, labels, .. } = self;
        p.pause();
        // One search serves all labels of all rows; labels of some rows have a search each.
        let together = if p.has_unknown_labels() { &[] } else { labels.concepts };
        let task = labels.task.as_ref().map(|(task, _)| *task);
        let task_together = task.filter(|_| *given == Given::Nothing || !p.has_unknown_labels());
        let searched: Vec<&Variable> = together.iter().chain(task_together).collect();
        let mut found = self.search(i, &KnownRows::all(p.rows()), &searched);
        let of_task = task_together.and_then(|_| found.pop());
        let (mut own, mut others, mut sum) = (None, Vec::new(), Sum::new(p.rows()));
        let mut found = found.into_iter();
        for (j, entropy) in labels.entropies.iter().enumerate() {
            let term = match found.next() {
                _ if j == i && *given == Given::OwnLabel => Err("it is given".to_owned()),
                None => self.about_known(i, j),
                Some(found) if j == i => self.term(found, entropy.as_ref().map_err(Clone::clone)),
                Some(found) => self.about_other(i, j, found, entropy),
            };
            if j == i {
                own = Some(units::add(&mut sums[OWN], term));
            } else {
                others.push(units::add(&mut sum, term));
            }
        }
        sums[PAIRS].add_sum(1.0, &sum);
        let error = error_of_unit(&sum, &others);
        let about_task = |(_, entropy): &(_, Entropy)| {
            let term = of_task
                .map_or_else(|| self.about_task(i), |found| self.term(found, entropy.as_ref().map_err(Clone::clone)));
            units::add(&mut sums[TASK], term)
        };
        let task = labels.task.as_ref().map(about_task);
        Computed { cells: others.into_iter().chain(own).chain(task).collect(), error }
    }

    /// The information about each of the labels, which are those of these rows.
    fn search(&self, i: usize, rows: &KnownRows, labels: &[&Variable]) -> Vec<Found> {
        if labels.is_empty() {
            return Vec::new();
        }
        let embedding = self.p.embedding_in(self.name, i, rows).expect("there is such a column");
        if self.given == Given::Nothing {
            let found = mutual_information_with_each(&embedding, labels, self.p.settings());
            return found.into_iter().map(|found| Ok((found.map_err(|why| why.to_string())?, 0))).collect();
        }
        match self.p.concept_label_in(i, rows).filter(|label| !has_one_class(label)) {
            Some(own) => conditional_information_with_each(&embedding, labels, &own, self.p.settings())
                .into_iter()
                .map(|found| found.map(|found| (found.estimate, found.left_out.len())))
                .map(|found| found.map_err(|why| format!("embeddings: {why}")))
                .collect(),
            None => vec![Err("labels: there is one class only".to_owned()); labels.len()],
        }
    }

    /// About concept j on the rows in which the labels of both are known.
    fn about_known(&self, i: usize, j: usize) -> Result<Term, String> {
        let p = self.p;
        let rows = if i == j { p.known(&[i]).map_err(|why| format!("labels: {why}"))? } else { known_pair(p, i, j)? };
        let label = p.concept_label_in(j, &rows).ok_or("there are no concept labels")?;
        let (found, entropy) = (self.search(i, &rows, &[&label]).swap_remove(0), normaliser(&label, p));
        let term = if i == j {
            self.term(found, entropy.as_ref().map_err(Clone::clone))
        } else {
            self.about_other(i, j, found, &entropy)
        };
        Ok(term?.spread(&rows))
    }

    /// About the task, on the rows in which the own label is known where it is given.
    fn about_task(&self, i: usize) -> Result<Term, String> {
        let p = self.p;
        let rows = match self.given {
            Given::Nothing => KnownRows::all(p.rows()),
            Given::OwnLabel => p.known(&[i]).map_err(|why| format!("labels: {why}"))?,
        };
        let (task, entropy) = self.labels.task.as_ref().ok_or("there are no task labels")?;
        let (task, entropy) = task_in(p, &rows, (task, entropy.as_ref().map_err(Clone::clone)?))?;
        Ok(self.term(self.search(i, &rows, &[&task]).swap_remove(0), Ok(&entropy))?.spread(&rows))
    }

    fn about_other(&self, i: usize, j: usize, found: Found, entropy: &Entropy) -> Result<Term, String> {
        let name = |at: usize| &self.p.run().concepts[at].name;
        let what = if self.given == Given::Nothing { "embeddings of concept" } else { "concept" };
        let entropy = entropy.as_ref().map_err(|why| format!("labels of concept '{}': {why}", name(j)));
        self.term(found.map_err(|why| format!("{what} '{}': {why}", name(i))), entropy)
    }

    /// The divisor is looked at first: its reason is the plainer one. Conditional information is never clipped.
    fn term(&self, found: Found, entropy: Result<&Normaliser, String>) -> Result<Term, String> {
        let entropy = entropy?;
        let (estimate, left_out) = found?;
        self.most_left_out.fetch_max(left_out, Ordering::Relaxed);
        let term = Term::normalised(estimate, entropy);
        Ok(match self.given {
            Given::Nothing => term,
            Given::OwnLabel => Term { value: term.excess, ..term },
        })
    }
}

/// The sums of [`of_labels`].
const PAIRS: usize = 0;
const OWN: usize = 1;
const TASK: usize = 2;

fn alignment_of(p: &Prepared, i: usize) -> Result<Term, String> {
    let labels = p.concept_classes(i).ok_or(NO_CLASSES)?;
    p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
    // An unknown label is negative.
    let rows_where = |present: bool| -> Vec<usize> {
        let matching = labels.iter().enumerate().filter(|(_, label)| **label >= 0 && (**label > 0) == present);
        matching.map(|(row, _)| row).collect()
    };
    let (present, absent) = (rows_where(true), rows_where(false));
    let size = present.len().min(absent.len());
    if size == 0 {
        return Err("there is one class only".into());
    }
    let [present, absent] = [present, absent].map(|rows| KnownRows::these(&rows[..size], p.rows()));
    let groups = [
        (TensorName::PositiveEmbeddings, &present, 1.0),
        (TensorName::PositiveEmbeddings, &absent, -1.0),
        (TensorName::NegativeEmbeddings, &absent, 1.0),
        (TensorName::NegativeEmbeddings, &present, -1.0),
    ];
    let mut total = Term { value: 0.0, excess: 0.0, influence: vec![0.0; p.rows()], draw_variance: 0.0 };
    for (name, rows, sign) in groups {
        p.pause();
        let embedding = p.embedding_in(name, i, rows).ok_or_else(|| format!("there are no {name}"))?;
        let task = p.task_label_in(rows).ok_or("there are no task labels")?;
        let entropy = normaliser(&task, p).map_err(|why| format!("task labels of a group of {size} rows: {why}"))?;
        let information = mutual_information(&embedding, &task, p.settings()).map_err(|e| e.to_string())?;
        let term = Term::normalised(information, &entropy).spread(rows);
        total.value += sign * term.value;
        total.excess += sign * term.excess;
        total.draw_variance += term.draw_variance;
        elementwise::add(&mut total.influence, sign, &term.influence);
    }
    Ok(total)
}
