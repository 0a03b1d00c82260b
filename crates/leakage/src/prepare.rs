//! Data shared by the scores of one sample, each built on first use.

mod known;

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use information::{Key, Settings, Variable};

use crate::lock::lock;
use crate::pair_cache::Budgeted;
use crate::parallel;
use crate::run::{ActivationKind, Run};
use crate::sample::{Column, Sample};
use crate::tensor::TensorName;

pub use known::KnownRows;

/// A concept or pair whose labels are known in fewer rows has no value.
pub const LEAST_KNOWN: usize = 50;

/// Least share of a row's concept labels that are known where all its concepts count as set to their labels.
const MOSTLY_KNOWN: f64 = 0.5;

/// A sample with its run, and the variables made of its columns.
pub struct Prepared<'a> {
    sample: &'a Sample,
    run: &'a Run,
    settings: Settings,
    pause: &'a (dyn Fn() + Sync),
    on_failure: &'a (dyn Fn(&str, &str) + Sync),
    budgeted: Option<Budgeted<'a>>,
    memory: Option<usize>,
    peak: AtomicUsize,
    ids: Arc<[u64]>,
    activations: OnceLock<Option<Vec<Variable>>>,
    concept_labels: OnceLock<Option<Vec<Variable>>>,
    task_labels: OnceLock<Option<Variable>>,
    has_task_views: OnceLock<bool>,
    /// For each concept whether its label is known, by row; `None` where all are.
    known: OnceLock<Vec<Option<Vec<bool>>>>,
    shared: Mutex<HashMap<&'static str, Slot>>,
    remarks: Mutex<Vec<String>>,
}

type Slot = Arc<OnceLock<Arc<dyn Any + Send + Sync>>>;

impl<'a> Prepared<'a> {
    pub fn new(sample: &'a Sample, run: &'a Run, settings: Settings) -> Self {
        Self {
            sample,
            run,
            settings,
            pause: &|| (),
            on_failure: &|_, _| (),
            budgeted: None,
            memory: None,
            peak: AtomicUsize::new(0),
            ids: sample.ids().into(),
            activations: OnceLock::new(),
            concept_labels: OnceLock::new(),
            task_labels: OnceLock::new(),
            has_task_views: OnceLock::new(),
            known: OnceLock::new(),
            shared: Mutex::default(),
            remarks: Mutex::default(),
        }
    }

    /// One task of this sample, computed as this one is.
    pub fn of_task<'v>(&'v self, sample: &'v Sample, run: &'v Run) -> Prepared<'v> {
        let memory = self.memory.map(|bytes| bytes.saturating_sub(sample.bytes()));
        let of_task = Prepared::new(sample, run, self.settings).with_pause(self.pause).with_failures(self.on_failure);
        Prepared { memory, ..of_task }
    }

    /// Whether scores of the task are computed for each task, on the rows in which its label is known.
    pub fn has_task_views(&self) -> bool {
        let unknown = || self.run.missing_task_labels && self.sample.has_unknown_task(self.run);
        *self.has_task_views.get_or_init(|| self.run.task_count() > 1 || unknown())
    }

    pub fn sample(&self) -> &Sample {
        self.sample
    }

    /// Sets a function that the computing threads call between the parts of long scores, so that more urgent work can
    /// run.
    pub fn with_pause(self, pause: &'a (dyn Fn() + Sync)) -> Self {
        Self { pause, ..self }
    }

    /// Sets a function that learns of each part of scoring that fails because of a bug: its name and the text of the panic.
    pub fn with_failures(self, on_failure: &'a (dyn Fn(&str, &str) + Sync)) -> Self {
        Self { on_failure, ..self }
    }

    /// Tells of a part that failed.
    pub fn failed(&self, what: &str, text: &str) {
        (self.on_failure)(what, text);
    }

    /// Limits the bytes that scores may take; by default they may take any.
    pub fn with_memory(self, bytes: usize) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// Bytes that scores may take; `None`: any.
    pub fn memory(&self) -> Option<usize> {
        self.memory
    }

    /// Notes what the scores that were computed take, in bytes.
    pub fn note_peak(&self, bytes: usize) {
        self.peak.fetch_max(bytes, Ordering::Relaxed);
    }

    /// The most bytes that any of the scores computed so far takes, as estimated.
    pub fn peak(&self) -> usize {
        self.peak.load(Ordering::Relaxed)
    }

    /// Limits scores over pairs to as many pairs as there is CPU time for; the others reuse kept values, and values
    /// have ages.
    pub fn with_budget(self, budgeted: Budgeted<'a>) -> Self {
        Self { budgeted: Some(budgeted), ..self }
    }

    /// `None` where every pair is computed.
    pub fn budgeted(&self) -> Option<&Budgeted<'a>> {
        self.budgeted.as_ref()
    }

    /// Called every few milliseconds of work.
    pub fn pause(&self) {
        (self.pause)();
    }

    pub fn run(&self) -> &Run {
        self.run
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// N.
    pub fn rows(&self) -> usize {
        self.sample.rows()
    }

    /// Row identities, in row order.
    pub fn ids(&self) -> &Arc<[u64]> {
        &self.ids
    }

    /// k.
    pub fn concepts(&self) -> usize {
        self.run.concept_count()
    }

    /// `concept_weights`, or equal weights; normalised to sum to 1.
    pub fn concept_weights(&self) -> Vec<f64> {
        let given = &self.run.constants.concept_weights;
        if given.is_empty() {
            return self.equal_weights();
        }
        let total: f64 = given.iter().sum();
        given.iter().map(|weight| weight / total).collect()
    }

    /// 1/k for each concept.
    pub fn equal_weights(&self) -> Vec<f64> {
        vec![1.0 / self.concepts() as f64; self.concepts()]
    }

    /// 1/m for each of the m concepts whose labels are classes, 0 for the others.
    pub fn class_weights(&self) -> Vec<f64> {
        self.weights_where(|i| !self.run.is_continuous(i))
    }

    /// 1/m for each of the m concepts for which a score has a meaning, 0 for the others.
    pub fn weights_where(&self, applies: impl Fn(usize) -> bool) -> Vec<f64> {
        let count = (0..self.concepts()).filter(|&i| applies(i)).count().max(1);
        (0..self.concepts()).map(|i| if applies(i) { 1.0 / count as f64 } else { 0.0 }).collect()
    }

    /// `clarity_weights` of sparsity, precision and accuracy, or equal weights.
    pub fn clarity_weights(&self) -> [f64; 3] {
        match self.run.constants.clarity_weights[..] {
            [sparsity, precision, accuracy] => [sparsity, precision, accuracy],
            _ => [1.0; 3],
        }
    }

    pub fn column(&self, name: TensorName) -> Option<&'a Column> {
        self.sample.column(name)
    }

    /// ĉ_i for each concept: discrete for hard activations, otherwise a scalar, or a vector for categorical concepts.
    pub fn activations(&self) -> Option<&[Variable]> {
        // By one thread, as all cells that parallel parts of scores read: a worker that waits in here for others could be
        // given work that reads the same cell, and would wait for itself.
        let build = || {
            let column = self.column(TensorName::ConceptActivations)?;
            let blocks = self.run.activation_blocks(column.width())?;
            let all = KnownRows::all(self.rows());
            let variable = |(i, block): (usize, Range<usize>)| self.activation(column, i, block, &all);
            Some(blocks.into_iter().enumerate().map(variable).collect())
        };
        self.activations.get_or_init(build).as_deref()
    }

    /// One number for each row and concept, [n, k] row-major, derived from the concept's activation columns; `None`
    /// without activations.
    pub fn activation_rows(&self, number: impl Fn(usize, &[f64]) -> f64) -> Option<Vec<f64>> {
        let column = self.column(TensorName::ConceptActivations)?;
        let blocks = self.run.activation_blocks(column.width())?;
        let rows = column.block(0..column.width());
        let of_row = |row: &[f64]| -> Vec<f64> {
            blocks.iter().enumerate().map(|(i, block)| number(i, &row[block.clone()])).collect()
        };
        Some(rows.chunks(column.width()).flat_map(of_row).collect())
    }

    /// The rows in which the labels of all `concepts` are known. Errors where they are not all rows and fewer than 50.
    pub fn known(&self, concepts: &[usize]) -> Result<KnownRows, String> {
        let known = self.known.get_or_init(|| self.known_by_concept());
        let mut partly = concepts.iter().filter_map(|&i| known.get(i)?.as_ref());
        let Some(first) = partly.next() else { return Ok(KnownRows::all(self.rows())) };
        let mut rows = first.clone();
        partly.for_each(|known| rows.iter_mut().zip(known).for_each(|(row, known)| *row &= known));
        let rows = KnownRows::those(&rows);
        match rows.count() {
            count if count >= LEAST_KNOWN => Ok(rows),
            count => {
                let what = if concepts.len() == 1 { "its label is" } else { "their labels are" };
                Err(format!("{what} known in {count} of {} rows, expected at least {LEAST_KNOWN}", self.rows()))
            }
        }
    }

    /// The rows in which at least half of the concept labels are known: an intervention leaves the other concepts as they are,
    /// and where they are many, also what leaked into them. Errors where they are not all rows and fewer than 50.
    pub fn mostly_known(&self) -> Result<KnownRows, String> {
        let known = self.known.get_or_init(|| self.known_by_concept());
        let unknown = |row: usize| known.iter().flatten().filter(|known| !known[row]).count() as f64;
        let most = (1.0 - MOSTLY_KNOWN) * self.concepts() as f64 + 1e-9;
        let rows: Vec<bool> = (0..self.rows()).map(|row| unknown(row) <= most).collect();
        let rows = KnownRows::those(&rows);
        match rows.count() {
            count if rows.are_all() || count >= LEAST_KNOWN => Ok(rows),
            count => Err(format!(
                "concepts whose label is unknown cannot be set to it, and at least half of the concept labels are known in \
                 {count} of {} rows, expected at least {LEAST_KNOWN}: log more rows with labels of all concepts, or declare \
                 only concepts that are labelled in most rows",
                self.rows()
            )),
        }
    }

    /// Whether any concept label of the sample is unknown.
    pub fn has_unknown_labels(&self) -> bool {
        self.known.get_or_init(|| self.known_by_concept()).iter().any(Option::is_some)
    }

    /// The number of rows in which each concept's label is known; empty where all are.
    pub fn concept_rows(&self) -> Vec<u64> {
        if !self.has_unknown_labels() {
            return Vec::new();
        }
        let count = |known: &Option<Vec<bool>>| match known {
            None => self.rows() as u64,
            Some(known) => known.iter().filter(|known| **known).count() as u64,
        };
        self.known.get().into_iter().flatten().map(count).collect()
    }

    fn known_by_concept(&self) -> Vec<Option<Vec<bool>>> {
        if !self.run.missing_concept_labels || self.column(TensorName::ConceptLabels).is_none() {
            return Vec::new();
        }
        let known = |i: usize| {
            let known: Vec<bool> = match self.concept_classes(i) {
                Some(labels) => labels.iter().map(|label| *label >= 0).collect(),
                None => self.concept_numbers(i)?.iter().map(|label| !label.is_nan()).collect(),
            };
            known.contains(&false).then_some(known)
        };
        (0..self.concepts()).map(known).collect()
    }

    /// The class of concept `i` in each row, −1 where it is unknown; `None` without labels, and of a continuous concept.
    pub fn concept_classes(&self, i: usize) -> Option<Vec<i32>> {
        let column = self.column(TensorName::ConceptLabels).filter(|_| !self.run.is_continuous(i))?;
        // Beside continuous concepts classes are kept as floats.
        let class = |label: f64| if label.is_nan() { -1 } else { label as i32 };
        Some(column.integers(i).unwrap_or_else(|| column.floats(i).into_iter().map(class).collect()))
    }

    /// The label of concept `i` in each row as a number: where it is unknown −1, or NaN of a continuous concept. `None`
    /// without labels.
    pub fn concept_numbers(&self, i: usize) -> Option<Vec<f64>> {
        match self.concept_classes(i) {
            Some(classes) => Some(classes.into_iter().map(f64::from).collect()),
            None => Some(self.column(TensorName::ConceptLabels)?.floats(i)),
        }
    }

    /// ĉ_i on these rows.
    pub fn activation_in(&self, i: usize, rows: &KnownRows) -> Option<Cow<'_, Variable>> {
        if rows.are_all() {
            return self.activations()?.get(i).map(Cow::Borrowed);
        }
        let column = self.column(TensorName::ConceptActivations)?;
        let block = self.run.activation_blocks(column.width())?.get(i)?.clone();
        Some(Cow::Owned(self.activation(column, i, block, rows)))
    }

    /// c_i on these rows, in which it is known.
    pub fn concept_label_in(&self, i: usize, rows: &KnownRows) -> Option<Cow<'_, Variable>> {
        if rows.are_all() {
            return self.concept_labels()?.get(i).map(Cow::Borrowed);
        }
        self.concept_label(i, rows).map(Cow::Owned)
    }

    /// y on these rows.
    pub fn task_label_in(&self, rows: &KnownRows) -> Option<Cow<'_, Variable>> {
        if rows.are_all() {
            return self.task_labels().map(Cow::Borrowed);
        }
        self.task_label(rows).map(Cow::Owned)
    }

    /// The [n, d] embedding of concept `i` from one of the `…_embeddings` tensors, on these rows.
    pub fn embedding_in(&self, name: TensorName, i: usize, rows: &KnownRows) -> Option<Variable> {
        let column = self.column(name)?;
        let width = column.dims()[1];
        let values = rows.of(column.block(i * width..(i + 1) * width), width);
        Some(Variable::vector(&values, width, &self.ids_in(rows), key(name, i * width)))
    }

    fn activation(&self, column: &Column, i: usize, block: Range<usize>, rows: &KnownRows) -> Variable {
        let hard = self.run.activation_kind(i) == ActivationKind::Hard;
        match block.len() {
            1 if hard => classes(rows.of(column.floats(block.start), 1)),
            1 => self.scalar(TensorName::ConceptActivations, i, column.floats(block.start), rows),
            width if hard => classes(largest(&rows.of(column.block(block), width), width)),
            width => {
                let key = key(TensorName::ConceptActivations, block.start);
                Variable::vector(&rows.of(column.block(block), width), width, &self.ids_in(rows), key)
            }
        }
    }

    /// c_i for each concept: classes, or a scalar of a continuous concept. Unknown labels are class −1 or NaN: for scores
    /// see [`concept_label_in`](Self::concept_label_in).
    pub fn concept_labels(&self) -> Option<&[Variable]> {
        let build = || {
            let all = KnownRows::all(self.rows());
            (0..self.concepts()).map(|i| self.concept_label(i, &all)).collect()
        };
        self.concept_labels.get_or_init(build).as_deref()
    }

    /// y: classes, or a scalar for a regression task. `None` where each task has labels of its own.
    pub fn task_labels(&self) -> Option<&Variable> {
        let build = || if self.has_task_views() { None } else { self.task_label(&KnownRows::all(self.rows())) };
        self.task_labels.get_or_init(build).as_ref()
    }

    /// Mean over concepts, or latents, of the fraction of activations that equal another in the same column, in [0, 1].
    pub fn tie_fraction(&self) -> f64 {
        if let Some(latents) = self.latents() {
            let fractions: Vec<f64> = parallel::map(latents.width(), &|i| tied(latents.floats(i)));
            return fractions.iter().sum::<f64>() / fractions.len() as f64;
        }
        let Some(activations) = self.activations() else { return 0.0 };
        activations.iter().map(Variable::tie_fraction).sum::<f64>() / activations.len() as f64
    }

    /// Adds a remark of a score to the [`warnings`](Self::warnings).
    pub fn remark(&self, remark: String) {
        // A poisoned lock means that another score panicked; the list itself is intact.
        lock(&self.remarks).push(remark);
    }

    /// Activations that were learnt without labels, [n, k′]; `None` where they belong to concepts or were not given.
    pub fn latents(&self) -> Option<&'a Column> {
        self.run.latents.and_then(|_| self.column(TensorName::ConceptActivations))
    }

    /// Remarks that affect how the values are read: those of the scores once they are computed.
    pub fn warnings(&self) -> Vec<String> {
        let half = self.column(TensorName::ConceptActivations).is_some_and(Column::is_half);
        let remark = "concept_activations came in half precision: coarse values tie, which lowers the normaliser of \
                      icl and raises its value; send float32 to compare with other runs";
        half.then(|| remark.to_owned()).into_iter().chain(self.remarks()).collect()
    }

    /// Returns the remarks of the scores alone.
    pub fn remarks(&self) -> Vec<String> {
        lock(&self.remarks).clone()
    }

    /// A value that several scores need, or why there is none, cached as by [`shared`](Self::shared).
    pub fn try_shared<T: Send + Sync + 'static>(
        &self,
        name: &'static str,
        build: impl FnOnce() -> Result<T, String>,
    ) -> Result<Arc<T>, String> {
        Result::clone(&self.shared(name, || build().map(Arc::new)))
    }

    /// A value that several scores need, cached under a unique name and built on first use.
    pub fn shared<T: Send + Sync + 'static>(&self, name: &'static str, build: impl FnOnce() -> T) -> Arc<T> {
        // A poisoned lock means that another score panicked; the map itself is intact.
        let slot = Arc::clone(lock(&self.shared).entry(name).or_default());
        let value = slot.get_or_init(|| Arc::new(build()));
        Arc::clone(value).downcast().unwrap_or_else(|_| panic!("'{name}' is shared under two types"))
    }

    fn concept_label(&self, i: usize, rows: &KnownRows) -> Option<Variable> {
        Some(match self.concept_classes(i) {
            Some(classes) => Variable::discrete(&rows.of(classes, 1)),
            None => self.scalar(TensorName::ConceptLabels, i, self.concept_numbers(i)?, rows),
        })
    }

    fn task_label(&self, rows: &KnownRows) -> Option<Variable> {
        let column = self.column(TensorName::TaskLabels)?;
        let continuous = self.run.has_continuous_labels(TensorName::TaskLabels);
        Some(match column.integers(0) {
            Some(labels) if !continuous => Variable::discrete(&rows.of(labels, 1)),
            _ => self.scalar(TensorName::TaskLabels, 0, column.floats(0), rows),
        })
    }

    fn scalar(&self, name: TensorName, i: usize, values: Vec<f64>, rows: &KnownRows) -> Variable {
        Variable::scalar(rows.of(values, 1), &self.ids_in(rows), key(name, i))
    }

    fn ids_in(&self, rows: &KnownRows) -> Arc<[u64]> {
        if rows.are_all() {
            Arc::clone(&self.ids)
        } else {
            rows.numbers().into_iter().map(|row| self.ids[row]).collect()
        }
    }
}

/// Identifies a column of the sample in the seed of the noise that breaks ties.
fn key(name: TensorName, column: usize) -> Key {
    Key { tensor: name as u64, coordinate: column as u64 }
}

/// Share of the values that equal another one.
fn tied(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let tied: usize = values.chunk_by(|a, b| a == b).map(<[f64]>::len).filter(|&len| len > 1).sum();
    tied as f64 / values.len() as f64
}

fn classes(values: Vec<f64>) -> Variable {
    let classes: Vec<i32> = values.into_iter().map(nearest_class).collect();
    Variable::discrete(&classes)
}

/// The class of a hard activation. The mean over Monte-Carlo samples may be fractional: for two classes the result is
/// the class that most samples gave, the lower one on a tie.
pub fn nearest_class(activation: f64) -> i32 {
    (activation - 0.5).ceil() as i32
}

/// Column of the largest value of each row, the first on a tie.
fn largest(values: &[f64], width: usize) -> Vec<f64> {
    values.chunks(width).map(|row| first_largest(row) as f64).collect()
}

/// Index of the largest value, the first on a tie.
pub fn first_largest(values: &[f64]) -> usize {
    (1..values.len()).fold(0, |best, at| if values[at] > values[best] { at } else { best })
}
