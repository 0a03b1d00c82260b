//! A batch: named tensors of the same rows, checked against the run they belong to. A `Batch` that exists is valid.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::field_error::{FieldError, in_short};
use crate::run::{ActivationKind, Concept, LabelKind, Run, Task};
use crate::tensor::{Content, DataType, Dim, Tensor, TensorName};

/// Most cells of a feature map, 8 x 8: their similarities grow with the square.
pub const MOST_CELLS: usize = 64;

/// How far rounding may take a probability beyond 0 or 1. It is then taken as 0 or 1.
pub const ROUNDING: f64 = 1e-6;

/// The class numbers of an unknown task label; −100 is PyTorch's `ignore_index`.
const UNKNOWN_TASK: [i64; 2] = [-1, -100];

/// Largest class number of a task label or prediction.
pub const MAX_CLASS: i64 = 65_535;

/// The advice for a batch with other tensors than those before it.
const LOG_ALIKE: &str =
    ". The batch is dropped: log the tensor in every evaluation of the split, or such evaluations as another split";

/// Policy for rows with a NaN or an infinity. Values are never imputed.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NonFinite {
    /// The batch is refused.
    #[default]
    Reject,
    /// The row is left out of samples and counted.
    DropRow,
}

/// Element type and row shape of the tensors that a split of a run sends. Names and shapes are fixed for the whole run; the
/// type may change from batch to batch, as where autocast covers some of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schema(BTreeMap<TensorName, (DataType, Vec<usize>)>);

impl Schema {
    /// Errors with the name of the tensor when `other` differs from `self`, the schema of earlier chunks of the batch.
    pub fn check_same(&self, other: &Schema) -> Result<(), FieldError> {
        for (name, (dtype, _)) in &self.0 {
            if let Some((got, _)) = other.0.get(name).filter(|(got, _)| got != dtype) {
                return Err(name.fault(
                    "dtype",
                    format!("got {}, expected {} as in earlier chunks of the batch", got.name(), dtype.name()),
                ));
            }
        }
        self.check_alike(other)
    }

    /// Errors with the name of the tensor when names or row shapes of `other` differ from `self`, the schema of earlier
    /// batches.
    pub fn check_alike(&self, other: &Schema) -> Result<(), FieldError> {
        for (name, (_, dims)) in &self.0 {
            match other.0.get(name) {
                None => {
                    return Err(name.fault_of_values(format!(
                        "is missing, expected as in earlier batches of this run and split{LOG_ALIKE}"
                    )));
                }
                Some((_, got)) if got != dims => {
                    return Err(name.fault(
                        "shape",
                        format!("got rows of shape {got:?}, expected {dims:?} as in earlier batches"),
                    ));
                }
                Some(_) => {}
            }
        }
        match other.0.keys().find(|name| !self.0.contains_key(name)) {
            Some(name) => Err(name.fault_of_values(format!(
                "is new, expected the tensors of earlier batches of this run and split{LOG_ALIKE}"
            ))),
            None => Ok(()),
        }
    }

    pub fn contains(&self, name: TensorName) -> bool {
        self.0.contains_key(&name)
    }

    /// The schema of these tensors, each with the shape of one row.
    pub fn of(tensors: impl IntoIterator<Item = (TensorName, DataType, Vec<usize>)>) -> Self {
        Self(tensors.into_iter().map(|(name, dtype, dims)| (name, (dtype, dims))).collect())
    }

    /// Each tensor's element type and row shape, in the order of the table of tensors.
    pub fn rows(&self) -> impl Iterator<Item = (TensorName, DataType, &[usize])> {
        self.0.iter().map(|(name, (dtype, dims))| (*name, *dtype, &dims[..]))
    }
}

/// Named tensors of the same rows. The tensors include rows that policy leaves out of samples: see
/// [`Batch::kept_rows`].
#[derive(Clone, Debug)]
pub struct Batch {
    rows: usize,
    tensors: BTreeMap<TensorName, Tensor>,
    /// For each row, whether policy leaves it out because of a non-finite value.
    dropped: Vec<bool>,
}

impl Batch {
    /// Checks names, row counts, shapes against the run, element types, finiteness and label ranges.
    pub fn new(tensors: Vec<Tensor>, run: &Run, policy: NonFinite) -> Result<Self, FieldError> {
        let Some((first, rows)) = tensors.first().map(|tensor| (tensor.name(), tensor.rows())) else {
            return Err(FieldError::new("tensors", "got none, expected at least one"));
        };
        let mut named = BTreeMap::new();
        let mut dropped = vec![false; rows];
        for tensor in tensors {
            let name = tensor.name();
            let tensor = if name == TensorName::ConceptActivations { rounded(tensor, run) } else { tensor };
            if tensor.rows() != rows {
                return Err(name.fault("shape", format!("got {} rows, expected {rows} as in {first}", tensor.rows())));
            }
            check_shape(&tensor, run)?;
            check_type(&tensor)?;
            check_finite(&tensor, run, policy, &mut dropped)?;
            if named.insert(name, tensor).is_some() {
                return Err(name.fault_of_values("is given twice"));
            }
        }
        if named.keys().all(|name| *name == TensorName::SampleIds) {
            return Err(FieldError::new("tensors", "got only sample_ids, expected something to score"));
        }
        let batch = Self { rows, tensors: named, dropped };
        // Runs after the non-finite rows of all tensors are known, so that errors do not depend on the tensors' order.
        for tensor in batch.tensors.values() {
            // One fast pass over all elements; the row is located only where the pass finds an invalid value.
            if lowest_limit(tensor, run).is_some_and(|limit| tensor.holds_classes_below(limit)) {
                continue;
            }
            check_integral(tensor, run, &batch.dropped)?;
            check_range(tensor, run, &batch.dropped)?;
        }
        batch.check_same_shape(TensorName::PositiveEmbeddings, TensorName::NegativeEmbeddings)?;
        batch.check_features_agree()?;
        batch.check_interventions_agree(run)?;
        batch.check_labels_within_logits(run)?;
        Ok(batch)
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn tensor(&self, name: TensorName) -> Option<&Tensor> {
        self.tensors.get(&name)
    }

    /// All tensors but `sample_ids`, which identifies rows and is not a column.
    pub fn columns(&self) -> impl Iterator<Item = &Tensor> {
        self.tensors.values().filter(|tensor| tensor.name() != TensorName::SampleIds)
    }

    /// Number of rows left out because they hold a NaN or an infinity.
    pub fn dropped_rows(&self) -> usize {
        self.dropped.iter().filter(|dropped| **dropped).count()
    }

    /// Numbers of the rows that samples may hold, ascending.
    pub fn kept_rows(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.rows).filter(|&row| !self.dropped[row])
    }

    pub fn schema(&self) -> Schema {
        let rows = self.tensors.values().map(|t| (t.name(), (t.dtype(), t.shape()[1..].to_vec())));
        Schema(rows.collect())
    }

    /// Bytes the tensors hold in memory.
    pub fn bytes(&self) -> usize {
        self.tensors.values().map(Tensor::bytes).sum()
    }

    /// Errors unless two tensors, where both are given, have one shape.
    fn check_same_shape(&self, first: TensorName, second: TensorName) -> Result<(), FieldError> {
        match (self.tensor(first), self.tensor(second)) {
            (Some(a), Some(b)) if a.shape() != b.shape() => {
                let message = format!("got {:?}, expected {:?} as in {first}", b.shape(), a.shape());
                Err(second.fault("shape", message))
            }
            _ => Ok(()),
        }
    }

    /// Feature maps are compared cell by cell, on a grid whose pairs of cells a sample can hold.
    fn check_features_agree(&self) -> Result<(), FieldError> {
        use TensorName::{DeepFeatures, ShallowFeatures};
        let maps = [DeepFeatures, ShallowFeatures].map(|name| self.tensor(name));
        for map in maps.into_iter().flatten() {
            let (name, shape) = (map.name(), map.shape());
            let cells = shape[2].saturating_mul(shape[3]);
            if !(2..=MOST_CELLS).contains(&cells) {
                return Err(name.fault(
                    "shape",
                    format!("got {shape:?}, {cells} cells, expected 2 to {MOST_CELLS}; pool or fold larger maps"),
                ));
            }
        }
        match maps {
            [Some(deep), Some(shallow)] if deep.shape()[2..] != shallow.shape()[2..] => Err(ShallowFeatures.fault(
                "shape",
                format!(
                    "got {:?}, expected the {} x {} cells of {DeepFeatures}; fold windows of the map into channels",
                    shallow.shape(),
                    deep.shape()[2],
                    deep.shape()[3]
                ),
            )),
            _ => Ok(()),
        }
    }

    fn check_interventions_agree(&self, run: &Run) -> Result<(), FieldError> {
        use TensorName::{InterventionPredictions, WrongInterventionPredictions};
        for name in [InterventionPredictions, WrongInterventionPredictions] {
            let Some(tensor) = self.tensor(name) else { continue };
            if run.intervention_counts(tensor.shape()[1]).is_none() {
                let (shape, k, counts) = (tensor.shape(), run.concept_count(), &run.constants.intervention_counts);
                let expected = match counts.len() {
                    0 => format!(
                        "2 to {} columns, for evenly spaced numbers of concepts from 0 to {k}, or a column for each of \
                         run.constants.intervention_counts, which is not given",
                        k + 1
                    ),
                    m => format!("[n, {m}] as in run.constants.intervention_counts = {counts:?}"),
                };
                return Err(name.fault("shape", format!("got {shape:?}, expected {expected}")));
            }
        }
        self.check_same_shape(InterventionPredictions, WrongInterventionPredictions)
    }

    /// Class numbers, which are in range or unknown, are of columns of the logits.
    fn check_labels_within_logits(&self, run: &Run) -> Result<(), FieldError> {
        // The columns of several tasks are checked by their declared classes.
        let Some(logits) = self.tensor(TensorName::TaskLogits).filter(|_| run.task_count() == 1) else { return Ok(()) };
        // A single column is the logit of class 1.
        let limit = logits.width().max(2) as i64;
        let is_class = |name: TensorName| name.is_of_task() && name != TensorName::TaskLogits;
        for labels in self.tensors.values().filter(|tensor| is_class(tensor.name())) {
            let name = labels.name();
            if run.has_continuous_labels(name) || labels.holds_classes_below(limit as u32) {
                continue;
            }
            let or_none = if name.content() == Content::LabelsOrNone { ", or -1 for none" } else { "" };
            each_row(labels, &self.dropped, |row, _, value| {
                let last = limit - 1;
                let expected =
                    || format!("row {row} has {value}, expected 0 to {last} (classes of task_logits){or_none}");
                (value >= limit).then(expected)
            })?;
        }
        Ok(())
    }
}

/// Activations with probabilities a rounding error beyond 0 or 1 replaced by 0 or 1.
fn rounded(activations: Tensor, run: &Run) -> Tensor {
    let columns = activations.shape().get(1).copied().unwrap_or(1);
    let samples = activations.width() / columns;
    let kinds = run.column_kinds(columns);
    if run.latents.is_some() || !kinds.contains(&ActivationKind::Probability) {
        return activations;
    }
    let is_probability = |element: usize| kinds[element / samples % columns] == ActivationKind::Probability;
    activations.rounded_into_unit(ROUNDING, is_probability)
}

fn check_shape(tensor: &Tensor, run: &Run) -> Result<(), FieldError> {
    let (name, shape) = (tensor.name(), tensor.shape());
    let k = run.concept_count();
    let fits = |dim: Dim, size: usize| match dim {
        Dim::Rows | Dim::Any(_) => true,
        Dim::Concepts => size == k,
        Dim::Activations => size == run.activation_width(),
        Dim::Tasks => size == run.task_count(),
        Dim::Exactly(expected) => size == expected,
    };
    let matches =
        |dims: &[Dim]| dims.len() == shape.len() && dims.iter().zip(shape).all(|(&dim, &size)| fits(dim, size));
    if name.is_of_task() && run.task_count() > 1 {
        return check_task_columns(tensor, run);
    }
    if name.shapes().iter().any(|dims| matches(dims)) {
        return Ok(());
    }
    let expected: Vec<String> = name.shapes().iter().map(|dims| describe(dims, run)).collect();
    if name == TensorName::TaskLabels && shape.len() == 2 {
        let hint = "; of one-hot labels send the class numbers, for several tasks declare tasks";
        return Err(name.fault("shape", format!("got {shape:?}, expected {}{hint}", expected.join(" or "))));
    }
    // The right number of dimensions, so it is the number of columns that does not fit.
    let hint = match shape {
        [_, columns] | [_, columns, _] if name == TensorName::ConceptActivations => run.activation_hint(*columns),
        _ => String::new(),
    };
    let with = match run.latents {
        Some(latents) if name == TensorName::ConceptActivations => format!("{latents} latents"),
        _ => format!("k = {k} concepts"),
    };
    Err(name.fault("shape", format!("got {shape:?}, expected {} with {with}{hint}", expected.join(" or "))))
}

/// A column for each of several tasks, and in `task_logits` one for each class of a task with more than two.
fn check_task_columns(tensor: &Tensor, run: &Run) -> Result<(), FieldError> {
    use TensorName::{InterventionPredictions, TaskLogits, WrongInterventionPredictions};
    let (name, shape, t) = (tensor.name(), tensor.shape(), run.task_count());
    let (fits, expected) = match name {
        TaskLogits => {
            let width = run.task_logits().last().map_or(t, |last| last.end);
            (matches!(*shape, [_, columns] if columns == width), format!("[n, {width}]"))
        }
        InterventionPredictions | WrongInterventionPredictions => {
            (matches!(*shape, [_, _, tasks] if tasks == t), format!("[n, m, {t}]"))
        }
        _ => (matches!(*shape, [_, tasks] if tasks == t), format!("[n, {t}]")),
    };
    if fits {
        return Ok(());
    }
    let names: Vec<&str> = run.tasks.iter().map(|task| task.name.as_str()).collect();
    Err(name.fault(
        "shape",
        format!("got {shape:?}, expected {expected} with the {t} tasks {}", in_short(&names.join(", "))),
    ))
}

fn describe(dims: &[Dim], run: &Run) -> String {
    let dims: Vec<String> = dims
        .iter()
        .map(|dim| match dim {
            Dim::Activations => run.activation_width().to_string(),
            Dim::Concepts => run.concept_count().to_string(),
            Dim::Tasks => run.task_count().to_string(),
            other => other.to_string(),
        })
        .collect();
    format!("[{}]", dims.join(", "))
}

fn check_type(tensor: &Tensor) -> Result<(), FieldError> {
    let (name, dtype) = (tensor.name(), tensor.dtype());
    let (allowed, expected) = match name.content() {
        Content::Floats if name == TensorName::ConceptActivations => {
            (dtype != DataType::String, "a float, integer or bool type")
        }
        Content::Floats | Content::FloatsOrNan => (dtype.is_float(), "a float type"),
        Content::Labels | Content::LabelsOrNone => (dtype != DataType::String, "an integer, bool or float type"),
        Content::Flags => (!dtype.is_float() && dtype != DataType::String, "bool"),
        Content::Ids => (dtype.is_integer(), "an integer type"),
        Content::Texts => (dtype == DataType::String, "string"),
    };
    if !allowed {
        return Err(name.fault("dtype", format!("got {}, expected {expected}", dtype.name())));
    }
    Ok(())
}

/// Whether column `at` of a tensor of labels has measured quantities rather than class numbers.
fn is_continuous(name: TensorName, at: usize, run: &Run) -> bool {
    match name {
        TensorName::ConceptLabels => run.is_continuous(at),
        _ => name.is_of_task() && run.task_kind(at % run.task_count()) == LabelKind::Continuous,
    }
}

/// Whether a tensor of labels has no class numbers.
fn has_no_classes(name: TensorName, run: &Run) -> bool {
    match name {
        TensorName::ConceptLabels => run.is_all_continuous(),
        _ => name.is_of_task() && run.has_only_numbers(),
    }
}

/// The declared task that column `at` of a tensor is of.
fn task_of(name: TensorName, at: usize, run: &Run) -> Option<&Task> {
    run.tasks.get(at % run.task_count()).filter(|_| name.is_of_task())
}

/// The concept or task that column `at` of a tensor is of, as it follows a label in a message.
fn of_column(name: TensorName, at: usize, run: &Run) -> String {
    match (name, task_of(name, at, run)) {
        (TensorName::ConceptLabels, _) => format!(" for concept '{}'", run.concepts[at].name),
        (_, Some(task)) => format!(" for task '{}'", task.name),
        (_, None) => String::new(),
    }
}

/// Class numbers may be floats with integral values.
fn check_integral(tensor: &Tensor, run: &Run, dropped: &[bool]) -> Result<(), FieldError> {
    let name = tensor.name();
    let numbers_classes = matches!(name.content(), Content::Labels | Content::LabelsOrNone);
    let classes = numbers_classes && !has_no_classes(name, run);
    if !classes || !tensor.dtype().is_float() {
        return Ok(());
    }
    // Beside tasks that are numbers, NaN stands for no prediction of a class, too.
    let may_be_nan = may_be_unknown(tensor, run) || name.content() == Content::LabelsOrNone;
    let unknown = |value: f64| value.is_nan() && may_be_nan;
    for row in (0..tensor.rows()).filter(|&row| !dropped[row]) {
        let (mut column, mut fraction) = (0, None);
        tensor.for_each_float(row, |value| {
            if value.fract() != 0.0 && !unknown(value) && !is_continuous(name, column, run) {
                fraction = Some((column, value));
            }
            column += 1;
        });
        if let Some((column, value)) = fraction {
            let (of, hint) = (of_column(name, column, run), of_measured(tensor, task_of(name, column, run)));
            return Err(name.fault_of_values(format!("row {row} has {value}{of}, expected class numbers{hint}")));
        }
    }
    Ok(())
}

/// The hint that labels may be no classes, where they are floats.
fn of_measured(labels: &Tensor, task: Option<&Task>) -> &'static str {
    match labels.name() {
        _ if !labels.dtype().is_float() => "",
        TensorName::ConceptLabels => "; for measured quantities declare its label kind continuous",
        TensorName::TaskLabels if task.is_some() => "; for measured quantities declare the task continuous",
        TensorName::TaskLabels => "; for measured quantities declare the run's label kind continuous",
        _ => "",
    }
}

/// Whether the tensor's labels may be unknown: −1, of a task also −100, or NaN among floats.
fn may_be_unknown(tensor: &Tensor, run: &Run) -> bool {
    match tensor.name() {
        TensorName::ConceptLabels => run.missing_concept_labels,
        TensorName::TaskLabels => run.missing_task_labels,
        _ => false,
    }
}

fn check_finite(tensor: &Tensor, run: &Run, policy: NonFinite, dropped: &mut [bool]) -> Result<(), FieldError> {
    let unknown_is_allowed = may_be_unknown(tensor, run);
    let content = tensor.name().content();
    let nan_is_allowed = unknown_is_allowed
        || content == Content::FloatsOrNan
        || (content == Content::LabelsOrNone && run.has_continuous_labels(tensor.name()));
    let mut from = 0;
    while let Some(row) = tensor.first_non_finite_row(from) {
        if nan_is_allowed {
            let mut infinite = false;
            tensor.for_each_float(row, |value| infinite |= value.is_infinite());
            if !infinite {
                from = row + 1;
                continue;
            }
        }
        if policy == NonFinite::Reject {
            let (got, expected) = match nan_is_allowed {
                true if unknown_is_allowed => ("an infinity", "finite values, or NaN where unknown"),
                true if content == Content::LabelsOrNone => ("an infinity", "finite values, or NaN for no prediction"),
                true => ("an infinity", "finite values, or NaN where not visible"),
                false if tensor.name() == TensorName::ConceptLabels => {
                    ("a NaN or an infinity", "finite values; for unknown labels declare missing_concept_labels")
                }
                false if tensor.name() == TensorName::TaskLabels => {
                    ("a NaN or an infinity", "finite values; for unknown labels declare missing_task_labels")
                }
                false => ("a NaN or an infinity", "finite values"),
            };
            let message = format!("row {row} has {got}, expected {expected}");
            return Err(tensor.name().fault_of_values(message));
        }
        dropped[row] = true;
        from = row + 1;
    }
    Ok(())
}

/// Number of classes that every column of a tensor of classes allows; `None` for other tensors.
fn lowest_limit(tensor: &Tensor, run: &Run) -> Option<u32> {
    let name = tensor.name();
    let limit = match name.content() {
        _ if run.has_continuous_labels(name) => return None,
        Content::Labels if name == TensorName::ConceptLabels => run.concepts.iter().map(Concept::classes).min()?,
        Content::Labels | Content::LabelsOrNone if name.is_of_task() => {
            run.tasks.iter().map(Task::classes).min().unwrap_or(MAX_CLASS as u32 + 1)
        }
        Content::Labels | Content::LabelsOrNone => MAX_CLASS as u32 + 1,
        Content::Flags => 2,
        _ => return None,
    };
    Some(if tensor.dtype() == DataType::Bool { limit.min(2) } else { limit })
}

fn check_range(tensor: &Tensor, run: &Run, dropped: &[bool]) -> Result<(), FieldError> {
    let name = tensor.name();
    if tensor.dtype() == DataType::Bool {
        check_below(tensor, 2, "values of a bool", dropped)?;
    }
    match name.content() {
        Content::Labels | Content::LabelsOrNone if has_no_classes(name, run) => Ok(()),
        Content::Labels | Content::LabelsOrNone => each_row(tensor, dropped, |row, column, value| {
            let task = task_of(name, column, run);
            let (classes, unit) = match name {
                TensorName::ConceptLabels => (i64::from(run.concepts[column].classes()), ""),
                _ => (task.map_or(MAX_CLASS + 1, |task| i64::from(task.classes())), " (classes)"),
            };
            let unknown = match name {
                TensorName::ConceptLabels => run.missing_concept_labels && value == -1,
                TensorName::TaskLabels => run.missing_task_labels && UNKNOWN_TASK.contains(&value),
                _ => name.content() == Content::LabelsOrNone && value == -1,
            };
            if unknown || (0..classes).contains(&value) || is_continuous(name, column, run) {
                return None;
            }
            let holds_zero = || holds_zero(tensor, column, dropped);
            let hint = match (name, value) {
                (TensorName::ConceptLabels, -1) if !holds_zero() => {
                    "; if -1 means absent, recode it to 0 or pass signed_labels=True; for unknown labels declare \
                     missing_concept_labels"
                }
                (TensorName::ConceptLabels, -1) => "; for unknown labels declare missing_concept_labels",
                (TensorName::ConceptLabels, _) if run.missing_concept_labels => ", or -1 where unknown",
                (TensorName::ConceptLabels, ..0) => "; for unknown labels declare missing_concept_labels and send -1",
                (TensorName::ConceptLabels, _) if value == classes && !holds_zero() => {
                    "; classes count from 0, so subtract 1 from labels that count from 1"
                }
                (TensorName::TaskLabels, _) if run.missing_task_labels => ", or -1 or -100 where unknown",
                (TensorName::TaskLabels, -1 | -100) => "; for unknown labels declare missing_task_labels",
                (TensorName::TaskLabels, ..0) => "; for unknown labels declare missing_task_labels and send -1",
                _ if name.content() == Content::LabelsOrNone => ", or -1 for none",
                _ => "",
            };
            let (of, measured, last) = (of_column(name, column, run), of_measured(tensor, task), classes - 1);
            Some(format!("row {row} has {value}{of}, expected 0 to {last}{unit}{hint}{measured}"))
        }),
        Content::Flags => check_below(tensor, 2, "values of a flag", dropped),
        Content::Ids if tensor.dtype().is_unsigned() => Ok(()),
        Content::Ids => match (0..tensor.rows()).find(|&row| tensor.id(row).is_none()) {
            Some(row) => Err(name.fault_of_values(format!("row {row} is negative, expected 0 or more"))),
            None => Ok(()),
        },
        Content::Floats if name == TensorName::ConceptActivations => check_samples(tensor, run, dropped),
        Content::Floats | Content::FloatsOrNan | Content::Texts => Ok(()),
    }
}

/// Errors where two values for each concept are the probabilities of its absence and presence: as Monte-Carlo samples they
/// would be averaged to one half.
fn check_samples(tensor: &Tensor, run: &Run, dropped: &[bool]) -> Result<(), FieldError> {
    /// As far as float16 rounds.
    const ROUNDED: f64 = 2e-3;
    let are_two = tensor.shape().len() == 3 && tensor.shape()[2] == 2;
    if !are_two || run.activation_kind != ActivationKind::Probability {
        return Ok(());
    }
    let (mut sum_to_one, mut differ) = (true, false);
    for row in (0..tensor.rows()).filter(|&row| !dropped[row]) {
        let mut before = None;
        tensor.for_each_float(row, |value| match before.take() {
            None => before = Some(value),
            Some(first) => {
                sum_to_one &= (first + value - 1.0).abs() <= ROUNDED;
                differ |= (first - value).abs() > ROUNDED;
            }
        });
    }
    if !(sum_to_one && differ) {
        return Ok(());
    }
    Err(tensor.name().fault_of_values(
        "has two values for each concept that sum to 1, as the probabilities of its absence and presence do; [n, k, m] are \
         Monte-Carlo samples: send the probability of presence alone, [n, k]",
    ))
}

/// Whether a column has a 0 in some row.
fn holds_zero(tensor: &Tensor, column: usize, dropped: &[bool]) -> bool {
    let mut found = false;
    for row in (0..tensor.rows()).filter(|&row| !dropped[row]) {
        let mut at = 0;
        tensor.for_each_integer(row, |value| {
            found |= at == column && value == 0;
            at += 1;
        });
    }
    found
}

fn check_below(tensor: &Tensor, limit: i64, what: &str, dropped: &[bool]) -> Result<(), FieldError> {
    if u32::try_from(limit).is_ok_and(|limit| tensor.holds_classes_below(limit)) {
        return Ok(());
    }
    each_row(tensor, dropped, |row, _, value| {
        (value < 0 || value >= limit).then(|| format!("row {row} has {value}, expected 0 to {} ({what})", limit - 1))
    })
}

fn each_row(
    tensor: &Tensor,
    dropped: &[bool],
    mut fault: impl FnMut(usize, usize, i64) -> Option<String>,
) -> Result<(), FieldError> {
    let kept = dropped.iter().enumerate().filter(|(_, dropped)| !**dropped);
    for (row, _) in kept {
        let (mut column, mut found) = (0, None);
        tensor.for_each_integer(row, |value| {
            found = found.take().or_else(|| fault(row, column, value));
            column += 1;
        });
        if let Some(message) = found {
            return Err(tensor.name().fault_of_values(message));
        }
    }
    Ok(())
}
