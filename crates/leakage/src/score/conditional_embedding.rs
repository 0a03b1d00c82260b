//! Conditional leakage of concept embedding models: the information an embedding carries beyond its own concept.
//!
//! As [`conditional`](super::conditional) for vectors. Estimates on vectors are biased by their dimension, so compare
//! models of one dimension.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use information::{Conditional, Undefined, Variable, conditional_information, conditional_information_with_each};

use crate::pair_cache::{Cell, Family, Kept};
use crate::parallel;
use crate::point::Outcome;
use crate::prepare::{KnownRows, Prepared};
use crate::tensor::TensorName;

use super::conditional::remark;
use super::labels::Labels;
use super::pairs::{Pairs, Symmetry, error_of_unit, outcome, with_others};
use super::term::{Concepts, Normaliser, Sum, Term, has_one_class, mean_over_concepts, normaliser, task_in};
use super::units::{self, Computed, Shape};

/// I(ĉ^w_i; y | c_i) / H(y), mean over concepts.
pub fn concepts_task(p: &Prepared) -> Result<Outcome, String> {
    let weighted = weighted(p)?;
    Ok(weighted.task.as_ref().map_err(String::clone)?.outcome(p, |numbers| numbers.excess))
}

/// I(ĉ^w_i; c_j | c_i) / H(c_j), mean over ordered pairs i ≠ j.
pub fn interconcept(p: &Prepared) -> Result<Outcome, String> {
    let weighted = weighted(p)?;
    Ok(outcome(weighted.pairs.as_ref().map_err(String::clone)?, |pairs| &pairs.excess))
}

/// The conditional information in the weighted embeddings, from one neighbour search for each concept and stratum.
struct Weighted {
    task: Result<Concepts, String>,
    pairs: Result<Pairs, String>,
}

/// The result of a search about one label.
type Found = Result<Conditional, Undefined>;

/// The sums of [`weighted`].
const PAIRS: usize = 0;
const TASK: usize = 1;

fn weighted(p: &Prepared) -> Result<Arc<Weighted>, String> {
    p.try_shared("conditional weighted embeddings", || {
        p.column(TensorName::ConceptEmbeddings).ok_or("there are no concept embeddings")?;
        let concepts = p.concept_labels().ok_or("there are no concept labels")?;
        let labels = Labels::new(p, concepts, p.task_labels());
        let (k, others) = (p.concepts(), p.concepts() - 1);
        let cells = others + usize::from(labels.task.is_some());
        let estimating = Estimating { p, labels, most_left_out: AtomicUsize::new(0) };
        let family: fn(&mut Kept) -> &mut Family = |kept| &mut kept.conditional_embeddings;
        let shape = Shape { family, units: k, cells, pairs: others, sums: 2 };
        let units = units::compute(p, &shape, |i, sums| estimating.of_concept(i, sums));
        let Estimating { labels, most_left_out, .. } = estimating;
        remark(p, "embedding_ct_conditional", "task label or label of another concept", most_left_out.into_inner());
        Ok(Weighted {
            task: labels.about_task(|| units.concepts(TASK, |cells| cells[others].clone())),
            pairs: Pairs::assemble(p, &units, &units.sums[PAIRS], |i| with_others(i, k), Symmetry::Ordered),
        })
    })
}

/// The labels that the information in the weighted embeddings is about.
struct Estimating<'p, 'a> {
    p: &'p Prepared<'a>,
    labels: Labels<'p>,
    /// The most rows that any estimate leaves out.
    most_left_out: AtomicUsize,
}

impl Estimating<'_, '_> {
    /// Cells: about the other concepts, and the task.
    fn of_concept(&self, i: usize, sums: &mut [Sum]) -> Computed {
        let Self { p, labels, .. } = self;
        p.pause();
        let others = || with_others(i, p.concepts());
        let task = labels.task.as_ref();
        let every: Vec<&Variable> =
            others().map(|(_, j)| &labels.concepts[j]).chain(task.map(|(task, _)| *task)).collect();
        let mut informations = match p.embedding(TensorName::ConceptEmbeddings, i) {
            // Labels of some rows are cut into strata one by one.
            _ if p.has_unknown_labels() => Vec::new(),
            Some(embedding) if !has_one_class(&labels.concepts[i]) => {
                conditional_information_with_each(&embedding, &every, &labels.concepts[i], p.settings())
            }
            _ => vec![Err(Undefined::OneClass); every.len()],
        }
        .into_iter();
        let mut sum = Sum::new(p.rows());
        let about = |(_, j)| units::add(&mut sum, self.about_other(i, j, informations.next()));
        let mut cells: Vec<Cell> = others().map(about).collect();
        let error = error_of_unit(&sum, &cells);
        sums[PAIRS].add_sum(1.0, &sum);
        if let Some((task, entropy)) = task {
            cells.push(units::add(&mut sums[TASK], self.about_task(i, (task, entropy), informations.next())));
        }
        Computed { cells: cells.into(), error }
    }

    /// The term about the label of another concept: of what was `found` on all rows, or else on those in which the labels of
    /// both are known.
    fn about_other(&self, i: usize, j: usize, found: Option<Found>) -> Result<Term, String> {
        let p = self.p;
        let term = match found {
            Some(found) => self.term(found, &self.labels.entropies[j]),
            None => p.known(&[i, j]).map_err(|why| format!("labels: {why}")).and_then(|rows| {
                let other = p.concept_label_in(j, &rows).ok_or("there are no concept labels")?;
                Ok(self.term(self.alone(i, &rows, &other), &normaliser(&other, p))?.spread(&rows))
            }),
        };
        let name = |at: usize| &p.run().concepts[at].name;
        term.map_err(|why| format!("concepts '{}' and '{}': {why}", name(i), name(j)))
    }

    /// The same about the task.
    fn about_task(
        &self,
        i: usize,
        (task, entropy): (&Variable, &Result<Normaliser, String>),
        found: Option<Found>,
    ) -> Result<Term, String> {
        if let Some(found) = found {
            return self.term(found, entropy);
        }
        let rows = self.p.known(&[i]).map_err(|why| format!("labels: {why}"))?;
        let (task, entropy) = task_in(self.p, &rows, (task, entropy.as_ref().map_err(Clone::clone)?))?;
        Ok(self.term(self.alone(i, &rows, &task), &Ok(entropy))?.spread(&rows))
    }

    /// About one label, on rows in which it and that of the concept are known.
    fn alone(&self, i: usize, rows: &KnownRows, other: &Variable) -> Found {
        let label = self.p.concept_label_in(i, rows).filter(|label| !has_one_class(label));
        let embedding = self.p.embedding_in(TensorName::ConceptEmbeddings, i, rows);
        match (embedding, label) {
            (Some(embedding), Some(label)) => conditional_information(&embedding, other, &label, self.p.settings()),
            _ => Err(Undefined::OneClass),
        }
    }

    /// The divisor is looked at first: its reason is the plainer one.
    fn term(&self, found: Found, entropy: &Result<Normaliser, String>) -> Result<Term, String> {
        let entropy = entropy.as_ref().map_err(Clone::clone)?;
        let found = found.map_err(|why| format!("embeddings: {why}"))?;
        self.most_left_out.fetch_max(found.left_out.len(), Ordering::Relaxed);
        Ok(Term::normalised(found.estimate, entropy))
    }
}

/// The same as [`concepts_task`] for ĉ⁺ or ĉ⁻.
pub fn concepts_task_of(p: &Prepared, name: TensorName) -> Result<Outcome, String> {
    let task = p.task_labels().ok_or("there are no task labels")?;
    p.concept_labels().ok_or("there are no concept labels")?;
    let entropy = normaliser(task, p).map_err(|why| format!("task_labels: {why}"))?;
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
    let terms: Vec<Result<Term, String>> = parallel::map(p.concepts(), &term);
    Ok(mean_over_concepts(p, &p.equal_weights(), &terms, |term| term.excess))
}
