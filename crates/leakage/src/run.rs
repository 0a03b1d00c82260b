//! A run's declaration and its checks: names, concepts, kinds and constants.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::field_error::FieldError;
use crate::name::check_name;
use crate::tensor::TensorName;

pub const MAX_CONCEPTS: usize = 4096;
pub const MAX_CARDINALITY: u32 = 65_536;
pub const MAX_TASKS: usize = 1024;
pub const MAX_WORLD_SIZE: u32 = 65_536;
pub const MAX_LABELS: usize = 32;
/// The label that names a run's project. Beyond [`MAX_LABELS`], as clients add it.
pub const PROJECT: &str = "project";
/// Most columns of activations that were learnt without labels.
pub const MAX_LATENTS: u32 = 65_536;

/// Kind of the concept activations. The declared kind selects the estimator, never the values of a batch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActivationKind {
    /// 0 or 1, or class numbers; scored by the plug-in estimator.
    Hard,
    /// Sigmoid or softmax outputs in [0, 1].
    #[default]
    Probability,
    /// Any finite value; 0 is the decision threshold.
    Logit,
    /// A regressed quantity.
    Continuous,
}

impl ActivationKind {
    pub fn text(self) -> &'static str {
        self.into()
    }

    /// Activation above which a binary concept is predicted present; `None` for kinds that predict no class.
    pub const fn threshold(self) -> Option<f64> {
        match self {
            Self::Hard | Self::Probability => Some(0.5),
            Self::Logit => Some(0.0),
            Self::Continuous => None,
        }
    }
}

/// Kind of the labels: class numbers, or measured quantities.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum LabelKind {
    #[default]
    Class,
    Continuous,
}

impl LabelKind {
    pub fn text(self) -> &'static str {
        self.into()
    }
}

/// The columns of `concept_activations` that belong to each concept.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr, VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ActivationColumns {
    /// A column for each binary concept, and one for each class of a categorical one.
    #[default]
    OnePerConcept,
    /// A column for each class of every concept: absent and present for a binary one.
    TwoPerConcept,
}

impl ActivationColumns {
    pub fn text(self) -> &'static str {
        self.into()
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// The way the concepts are trained. Source of the three: Koh et al. 2020, Section 3, arXiv:2007.04612.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Training {
    /// The task's loss reaches the concepts.
    #[default]
    Joint,
    /// Concepts first; then, with these fixed, the head on the predicted concepts.
    Sequential,
    /// Concepts and, on the true concepts, the head, each by itself.
    Independent,
}

impl Training {
    /// Whether concepts may learn the task: otherwise nothing that they hold is leakage.
    pub fn can_leak(self) -> bool {
        self == Self::Joint
    }

    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// One concept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Concept {
    pub name: String,
    /// Number of classes; up to 2 means binary (or continuous), with one activation column.
    pub cardinality: u32,
    /// `None`: the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_kind: Option<ActivationKind>,
    /// `None`: the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_kind: Option<LabelKind>,
}

impl Concept {
    pub fn is_categorical(&self) -> bool {
        self.cardinality > 2
    }

    /// Number of classes that a label of this concept can take.
    pub fn classes(&self) -> u32 {
        self.cardinality.max(2)
    }
}

/// One of several tasks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    pub name: String,
    /// Number of classes; up to 2 means binary (or a number), with one column of logits.
    pub cardinality: u32,
    /// `None`: the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label_kind: Option<LabelKind>,
}

impl Task {
    /// Number of classes that a label of this task can take.
    pub fn classes(&self) -> u32 {
        self.cardinality.max(2)
    }
}

/// Properties of a run that batches do not carry. All optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConstants {
    /// y_acc^(k) of eq. 5 in arXiv 2504.14094: accuracy of the head on true concepts, in [0, 1].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_task_accuracy: Option<f64>,
    /// k weights of the mean CTL, at least 0, not all 0. Empty: equal weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub concept_weights: Vec<f64>,
    /// Linear head, [l, k] row-major; with latents [l, k′].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub head_weights: Vec<f64>,
    /// l biases of the linear head. Empty: 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub head_bias: Vec<f64>,
    /// The task head is linear in the activations; weights imply it.
    #[serde(skip_serializing_if = "is_false")]
    pub linear_head: bool,
    /// (height, width) in pixels that localisation maps are resized to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_size: Option<(u32, u32)>,
    /// (height, width) in pixels of the box around a map's maximum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub box_size: Option<(u32, u32)>,
    /// For each concept, the indices of its parts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub concept_parts: Vec<Vec<u32>>,
    /// ω of ConceptScore.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concept_score_weight: Option<f64>,
    /// A concept is active if its activation or contribution exceeds this threshold; at least 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub activity_threshold: Option<f64>,
    /// K: the K concepts of largest activation are active; 1 to k, with latents 1 to k′.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active_top_k: Option<u32>,
    /// Weights of sparsity, precision and accuracy in Clarity, at least 0, not all 0. Empty: equal weights.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clarity_weights: Vec<f64>,
    /// Numbers of concepts that were set in the columns of `intervention_predictions`, strictly ascending from 0 to k.
    /// Empty: see [`Run::intervention_counts`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervention_counts: Vec<u32>,
}

impl RunConstants {
    pub fn has_linear_head(&self) -> bool {
        self.linear_head || !self.head_weights.is_empty()
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A declaration before it is checked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunFields {
    pub name: String,
    pub concepts: Vec<Concept>,
    pub activation_kind: ActivationKind,
    pub concept_label_kind: LabelKind,
    pub task_label_kind: LabelKind,
    /// A concept label of −1, or NaN among floats, is unknown. Without this it is an error.
    #[serde(skip_serializing_if = "is_false")]
    pub missing_concept_labels: bool,
    /// Empty: one task without a name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<Task>,
    /// A task label of −1 or −100, or NaN among floats, is unknown. Without this it is an error.
    #[serde(skip_serializing_if = "is_false")]
    pub missing_task_labels: bool,
    pub world_size: u32,
    pub constants: RunConstants,
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "ActivationColumns::is_default")]
    pub activation_columns: ActivationColumns,
    /// k′: `concept_activations` has this many columns, learnt without labels, so that none belongs to a concept.
    /// `None`: its columns belong to the concepts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latents: Option<u32>,
    #[serde(skip_serializing_if = "Training::is_default")]
    pub training: Training,
    /// The name of a run trained without the task on the same data: leakage counts above what it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// A checked declaration: one that exists is valid. It is fixed for the lifetime of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "RunFields")]
pub struct Run(RunFields);

impl std::ops::Deref for Run {
    type Target = RunFields;
    fn deref(&self) -> &RunFields {
        &self.0
    }
}

impl TryFrom<RunFields> for Run {
    type Error = FieldError;

    fn try_from(mut fields: RunFields) -> Result<Self, FieldError> {
        check_name("run.name", &fields.name)?;
        let k = fields.concepts.len();
        if k == 0 || k > MAX_CONCEPTS {
            return Err(FieldError::new("run.concepts", format!("got {k} concepts, expected 1 to {MAX_CONCEPTS}")));
        }
        let declared = fields.concepts.iter().map(|one| (&one.name, one.cardinality, one.label_kind));
        check_declared("concepts", declared)?;
        for i in 0..k {
            check_kinds(i, &fields)?;
            // One form for what means the same: a job that resumes may spell its concepts otherwise.
            let (activation_kind, label_kind) = (fields.activation_kind, fields.concept_label_kind);
            let concept = &mut fields.concepts[i];
            concept.activation_kind = concept.activation_kind.filter(|kind| *kind != activation_kind);
            concept.label_kind = concept.label_kind.filter(|kind| *kind != label_kind);
        }
        check_tasks(&fields)?;
        let task_label_kind = fields.task_label_kind;
        for task in &mut fields.tasks {
            task.label_kind = task.label_kind.filter(|kind| *kind != task_label_kind);
        }
        fields.world_size = fields.world_size.max(1);
        if fields.world_size > MAX_WORLD_SIZE {
            return Err(FieldError::new(
                "run.world_size",
                format!("got {}, expected 1 to {MAX_WORLD_SIZE}", fields.world_size),
            ));
        }
        let labels = fields.labels.keys().filter(|key| *key != PROJECT).count();
        if labels > MAX_LABELS {
            let message = format!("got {labels} labels, expected at most {MAX_LABELS}");
            return Err(FieldError::new("run.labels", message));
        }
        if let Some(reference) = &fields.reference {
            check_name("run.reference", reference)?;
        }
        for (key, value) in &fields.labels {
            check_name("run.labels key", key)?;
            check_name(&format!("run.labels['{key}']"), value)?;
        }
        if let Some(latents) = fields.latents {
            check_latents(latents, &fields)?;
        }
        check_constants(&fields.constants, k, fields.latents.map_or(k, |latents| latents as usize))?;
        Ok(Self(fields))
    }
}

impl Run {
    /// k.
    pub fn concept_count(&self) -> usize {
        self.concepts.len()
    }

    /// Whether `other` equals this declaration except for the number of ranks: a job may resume with more or fewer.
    pub fn is_continued_by(&self, other: &Self) -> bool {
        RunFields { world_size: other.world_size, ..self.0.clone() } == other.0
    }

    /// Returns this declaration in the project of `first`: a run that goes on from another folder stays where it is.
    pub fn in_project_of(mut self, first: &Self) -> Self {
        match first.labels.get(PROJECT) {
            Some(project) => self.0.labels.insert(PROJECT.to_owned(), project.clone()),
            None => self.0.labels.remove(PROJECT),
        };
        self
    }

    /// Whether scores of both are of the same concepts and the same tasks, each of one kind.
    pub fn is_comparable(&self, other: &Self) -> bool {
        let concept = |run: &Self, i: usize| (run.concepts[i].cardinality, run.label_kind(i));
        let is_same =
            |i: usize| self.concepts[i].name == other.concepts[i].name && concept(self, i) == concept(other, i);
        let task = |run: &Self, at: usize| {
            let declared = run.tasks.get(at).map(|task| (task.name.clone(), task.cardinality));
            (declared, run.task_kind(at))
        };
        self.concept_count() == other.concept_count()
            && (0..self.concept_count()).all(is_same)
            && self.task_count() == other.task_count()
            && (0..self.task_count()).all(|at| task(self, at) == task(other, at))
    }

    /// The kind of the activation of concept `i`.
    pub fn activation_kind(&self, i: usize) -> ActivationKind {
        self.concepts[i].activation_kind.unwrap_or(self.activation_kind)
    }

    /// The kind of the label of concept `i`.
    pub fn label_kind(&self, i: usize) -> LabelKind {
        self.concepts[i].label_kind.unwrap_or(self.concept_label_kind)
    }

    /// Whether the labels of concept `i` are measured quantities.
    pub fn is_continuous(&self, i: usize) -> bool {
        self.label_kind(i) == LabelKind::Continuous
    }

    /// Whether the labels of every concept are measured quantities.
    pub fn is_all_continuous(&self) -> bool {
        (0..self.concept_count()).all(|i| self.is_continuous(i))
    }

    /// Numbers of concepts that were set in the `columns` columns of `intervention_predictions`: as declared, or evenly
    /// spaced from 0 to k and rounded half up. `None` if another number of columns is declared, or if none is
    /// declared and `columns` is not 2 to k + 1.
    pub fn intervention_counts(&self, columns: usize) -> Option<Vec<u32>> {
        let (declared, k) = (&self.constants.intervention_counts, self.concept_count());
        if !declared.is_empty() {
            return (declared.len() == columns).then(|| declared.clone());
        }
        let even = |at: usize| ((2 * k * at + columns - 1) / (2 * (columns - 1))) as u32;
        (2..=k + 1).contains(&columns).then(|| (0..columns).map(even).collect())
    }

    /// The kind of the label of a task, which counts from 0.
    pub fn task_kind(&self, task: usize) -> LabelKind {
        self.tasks.get(task).and_then(|task| task.label_kind).unwrap_or(self.task_label_kind)
    }

    /// Whether every task is a number.
    pub fn has_only_numbers(&self) -> bool {
        (0..self.task_count()).all(|task| self.task_kind(task) == LabelKind::Continuous)
    }

    /// Whether labels in this tensor are measured quantities rather than class numbers; of several concepts or tasks,
    /// those of any.
    pub fn has_continuous_labels(&self, name: TensorName) -> bool {
        self.continuous_labels().holds(name)
    }

    pub fn continuous_labels(&self) -> ContinuousLabels {
        ContinuousLabels {
            concept: (0..self.concept_count()).any(|i| self.is_continuous(i)),
            task: (0..self.task_count()).any(|task| self.task_kind(task) == LabelKind::Continuous),
        }
    }

    /// t, at least 1.
    pub fn task_count(&self) -> usize {
        self.tasks.len().max(1)
    }

    /// The columns of each task in `task_logits`: one for a number or for two classes, else one for each class.
    pub fn task_logits(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let block = |(at, task): (usize, &Task)| {
            let start = end;
            end += match self.task_kind(at) {
                LabelKind::Class if task.classes() > 2 => task.classes() as usize,
                _ => 1,
            };
            start..end
        };
        self.tasks.iter().enumerate().map(block).collect()
    }

    /// The declaration of a run that has only this one of these tasks, all of whose labels are known.
    pub fn of_one_task(&self, task: usize) -> Self {
        let task_label_kind = self.task_kind(task);
        Self(RunFields { task_label_kind, tasks: Vec::new(), missing_task_labels: false, ..self.0.clone() })
    }

    /// Number of weights of a class in `head_weights`: k, or with latents their number.
    pub fn head_columns(&self) -> usize {
        self.latents.map_or(self.concepts.len(), |latents| latents as usize)
    }

    /// Number of columns of `concept_activations`.
    pub fn activation_width(&self) -> usize {
        match self.latents {
            Some(latents) => latents as usize,
            None => self.widths(self.activation_columns).sum(),
        }
    }

    /// The columns of each concept in a `concept_activations` row of `total` columns; `None` where the declared layout
    /// has another number, and for latents, which belong to no concept.
    pub fn activation_blocks(&self, total: usize) -> Option<Vec<Range<usize>>> {
        if self.latents.is_some() || total != self.activation_width() {
            return None;
        }
        let mut end = 0;
        let block = |width| {
            let start = end;
            end += width;
            start..end
        };
        Some(self.widths(self.activation_columns).map(block).collect())
    }

    /// The kind of each of the `total` columns of `concept_activations`. Latents, and rows that fit no layout, have the run's.
    pub fn column_kinds(&self, total: usize) -> Vec<ActivationKind> {
        match self.activation_blocks(total) {
            Some(blocks) => {
                let of_block = |(i, block): (usize, Range<usize>)| block.map(move |_| self.activation_kind(i));
                blocks.into_iter().enumerate().flat_map(of_block).collect()
            }
            None => vec![self.activation_kind; total],
        }
    }

    /// Returns what to declare so that rows of `total` activation columns fit, for the message that refuses them.
    pub fn activation_hint(&self, total: usize) -> String {
        let latents = format!("for columns learnt without labels declare latents {total}");
        let declares = |columns: ActivationColumns| {
            let fits = self.widths(columns).sum::<usize>() == total;
            (fits && columns != self.activation_columns).then_some(columns)
        };
        use ActivationColumns::{OnePerConcept, TwoPerConcept};
        match [OnePerConcept, TwoPerConcept].into_iter().find_map(declares).filter(|_| self.latents.is_none()) {
            Some(columns) => {
                let what = match columns {
                    OnePerConcept => "one column for each binary concept",
                    TwoPerConcept => "a column for each class of every concept",
                };
                format!("; for {what} declare activation_columns {}, {latents}", columns.text())
            }
            None => format!("; {latents}"),
        }
    }

    /// The number of columns of each concept. A continuous concept beside others has one in either layout.
    fn widths(&self, columns: ActivationColumns) -> impl Iterator<Item = usize> {
        let is_mixed = !self.is_all_continuous();
        self.concepts.iter().enumerate().map(move |(i, concept)| match columns {
            _ if is_mixed && self.is_continuous(i) => 1,
            ActivationColumns::OnePerConcept if !concept.is_categorical() => 1,
            _ => concept.classes() as usize,
        })
    }
}

/// A split of a run, by name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SplitKey {
    pub run: Arc<str>,
    pub split: Arc<str>,
}

impl SplitKey {
    pub fn new(run: impl Into<Arc<str>>, split: impl Into<Arc<str>>) -> Self {
        Self { run: run.into(), split: split.into() }
    }
}

/// The labels of a run, with their predictions, that are measured quantities: the only property of a run that sampling
/// needs.
#[derive(Clone, Copy, Debug)]
pub struct ContinuousLabels {
    concept: bool,
    task: bool,
}

impl ContinuousLabels {
    /// Whether labels of this tensor are kept as numbers.
    pub fn holds(self, name: TensorName) -> bool {
        match name {
            TensorName::ConceptLabels => self.concept,
            TensorName::TaskLabels
            | TensorName::TaskPredictions
            | TensorName::IntervenedTaskPredictions
            | TensorName::AblatedTaskPredictions
            | TensorName::InterventionPredictions
            | TensorName::WrongInterventionPredictions => self.task,
            _ => false,
        }
    }
}

/// Concepts, and tasks, have names of their own and not too many classes.
fn check_declared<'a>(
    what: &str,
    declared: impl Iterator<Item = (&'a String, u32, Option<LabelKind>)>,
) -> Result<(), FieldError> {
    let mut names = HashSet::new();
    for (i, (name, cardinality, label_kind)) in declared.enumerate() {
        let field = |part: &str| format!("run.{what}[{i}].{part}");
        check_name(&field("name"), name)?;
        if !names.insert(name) {
            return Err(FieldError::new(field("name"), format!("'{name}' names two {what}")));
        }
        if cardinality > MAX_CARDINALITY {
            let message = format!("got {cardinality}, expected at most {MAX_CARDINALITY}");
            return Err(FieldError::new(field("cardinality"), message));
        }
        if label_kind == Some(LabelKind::Continuous) && cardinality > 2 {
            let message = format!("got continuous for '{name}' with {cardinality} classes, expected class");
            return Err(FieldError::new(field("label_kind"), message));
        }
    }
    Ok(())
}

/// The activation of a concept that is a number is no class.
fn check_kinds(i: usize, fields: &RunFields) -> Result<(), FieldError> {
    let concept = &fields.concepts[i];
    if concept.label_kind.unwrap_or(fields.concept_label_kind) == LabelKind::Class {
        return Ok(());
    }
    match concept.activation_kind {
        Some(kind) if kind != ActivationKind::Continuous => Err(FieldError::new(
            format!("run.concepts[{i}].activation_kind"),
            format!("got {} for '{}', whose labels are continuous, expected continuous", kind.text(), concept.name),
        )),
        _ => Ok(()),
    }
}

/// A head of which something is stated is that of a single task.
fn check_tasks(fields: &RunFields) -> Result<(), FieldError> {
    let t = fields.tasks.len();
    if t > MAX_TASKS {
        return Err(FieldError::new("run.tasks", format!("got {t} tasks, expected at most {MAX_TASKS}")));
    }
    check_declared("tasks", fields.tasks.iter().map(|one| (&one.name, one.cardinality, one.label_kind)))?;
    let constants = &fields.constants;
    let stated = [
        ("reference_task_accuracy", constants.reference_task_accuracy.is_some()),
        ("head_weights", !constants.head_weights.is_empty()),
    ];
    match stated.into_iter().find(|(_, is_stated)| *is_stated && t > 1) {
        Some((field, _)) => Err(FieldError::new(
            format!("run.constants.{field}"),
            format!("is of a single task, but there are {t}; leave it out"),
        )),
        None => Ok(()),
    }
}

/// Latents are at least as many as the concepts they are matched to, and have no other layout.
fn check_latents(latents: u32, fields: &RunFields) -> Result<(), FieldError> {
    let k = fields.concepts.len();
    if (latents as usize) < k || latents > MAX_LATENTS {
        return Err(FieldError::new(
            "run.latents",
            format!("got {latents}, expected at least one for each of {k} concepts and at most {MAX_LATENTS}"),
        ));
    }
    if !fields.activation_columns.is_default() {
        return Err(FieldError::new(
            "run.activation_columns",
            format!("got {} with {latents} latents, expected one of the two", fields.activation_columns.text()),
        ));
    }
    Ok(())
}

/// `columns` is the number of weights of a class in `head_weights`: k, or the number of latents.
fn check_constants(constants: &RunConstants, k: usize, columns: usize) -> Result<(), FieldError> {
    let fault = |field: &str, message: String| Err(FieldError::new(format!("run.constants.{field}"), message));
    let within = |field: &str, value: Option<f64>, low: f64, high: f64| match value {
        Some(v) if !(v >= low && v <= high) => fault(field, format!("got {v}, expected {low} to {high}")),
        _ => Ok(()),
    };
    within("reference_task_accuracy", constants.reference_task_accuracy, 0.0, 1.0)?;
    within("concept_score_weight", constants.concept_score_weight, f64::MIN_POSITIVE, f64::MAX)?;
    within("activity_threshold", constants.activity_threshold, 0.0, f64::MAX)?;
    within("active_top_k", constants.active_top_k.map(f64::from), 1.0, columns as f64)?;
    let weights =
        [("concept_weights", &constants.concept_weights, k), ("clarity_weights", &constants.clarity_weights, 3)];
    for (field, weights, count) in weights {
        let valid = weights.iter().all(|w| w.is_finite() && *w >= 0.0) && weights.iter().any(|w| *w > 0.0);
        if !weights.is_empty() && (weights.len() != count || !valid) {
            let expected = format!("{count} finite ones, at least 0 and not all 0");
            return fault(field, format!("got {} weights, expected {expected}", weights.len()));
        }
    }
    let counts = &constants.intervention_counts;
    if !counts.is_sorted_by(|a, b| a < b) || counts.last().is_some_and(|&last| last as usize > k) {
        let expected = format!("strictly ascending numbers from 0 to {k}");
        return fault("intervention_counts", format!("got {counts:?}, expected {expected}"));
    }
    let head = &constants.head_weights;
    if !head.len().is_multiple_of(columns) || head.iter().any(|w| !w.is_finite()) {
        let message = format!("got {} weights, expected a multiple of {columns} finite ones", head.len());
        return fault("head_weights", message);
    }
    let bias = &constants.head_bias;
    let classes = head.len() / columns;
    if !bias.is_empty() && (bias.len() != classes || bias.iter().any(|b| !b.is_finite())) {
        let expected = format!("{classes} finite ones, one for each class of head_weights");
        return fault("head_bias", format!("got {} biases, expected {expected}", bias.len()));
    }
    let parts = constants.concept_parts.len();
    if parts != 0 && parts != k {
        return fault("concept_parts", format!("got {parts} lists, expected {k}"));
    }
    for (field, size) in [("image_size", constants.image_size), ("box_size", constants.box_size)] {
        let is_size = |side: u32| (1..=65_536).contains(&side);
        if let Some((height, width)) = size.filter(|(height, width)| !(is_size(*height) && is_size(*width))) {
            return fault(field, format!("got {height} x {width}, expected 1 to 65536 pixels each"));
        }
    }
    Ok(())
}
