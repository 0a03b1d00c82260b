//! Reads one batch from files of arrays that are named like the protocol's tensors: NumPy archives and arrays, tables and
//! safetensors. The Python package turns Parquet and PyTorch files into archives (`python/conceptwatch/_files.py`).

mod array;
mod classes;
mod files;
mod kinds;
mod names;
mod npy;
mod npz;
mod signed;
mod sink;
mod soft;
mod stated;
mod table;
mod tasks;
mod tensors;

use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use strum::VariantArray;

use leakage::batch::{Batch, MAX_CLASS, NonFinite};
use leakage::field_error::FieldError;
use leakage::run::{ActivationColumns, ActivationKind, Concept, LabelKind, MAX_CONCEPTS, Run, RunConstants, RunFields};
use leakage::tensor::{Tensor, TensorName};

pub use array::Memory;
pub use classes::is_missing;
pub use kinds::Guesses;
pub use names::{CONSTANTS, Mapping, Names, listed};
pub use sink::Say;
pub use soft::Soft;
pub use stated::Stated;
pub use table::separator;

use super::named::named;
use array::Array;

/// The command line's statements about the arrays, which take precedence over those of the file.
#[derive(Args, Clone, Debug, Default)]
pub struct Layout {
    /// Take labels of -1 or NaN, of a task also -100, as unknown; scores use the rows with known labels, 50 at least.
    #[arg(long)]
    pub missing_labels: bool,
    /// Take concept labels of -1 as absent, and of 1 as present; with --missing-labels 0 or NaN is unknown.
    #[arg(long)]
    pub signed_labels: bool,
    /// Take labels of binary concepts as certainties from 0 to 1: present above one half, absent below, unknown at one
    /// half; with LOW,HIGH unknown from LOW to HIGH.
    #[arg(long, value_name = "threshold|LOW,HIGH", conflicts_with = "signed_labels")]
    pub soft_labels: Option<Soft>,
    /// Columns of concept_activations for binary concepts: one_per_concept, or two_per_concept (absent, present)
    /// [default: the file's array activation_columns, or one_per_concept]
    #[arg(long, value_parser = named::<ActivationColumns>, value_name = "LAYOUT")]
    pub activation_columns: Option<ActivationColumns>,
    /// The columns of concept_activations were learnt without labels and are matched to the concepts [default: the
    /// file's array latents, their number]
    #[arg(long, conflicts_with = "activation_columns")]
    pub latents: bool,
    /// Kind of concept_activations: hard, probability, logit or continuous; or of one concept, as in
    /// logit,wing=probability [default: the file's array activation_kind, or a guess from the values, which is printed]
    #[arg(long, value_delimiter = ',', value_name = "KIND|NAME=KIND,…")]
    pub activation_kind: Vec<Stated<ActivationKind>>,
    /// Kind of concept_labels: class, or continuous for measured quantities; or of one concept, as in size=continuous
    /// [default: a guess from the values of each, which is printed]
    #[arg(long, value_delimiter = ',', value_name = "KIND|NAME=KIND,…", conflicts_with = "signed_labels")]
    pub concept_kind: Vec<Stated<LabelKind>>,
    /// Kind of task_labels: class or continuous; or of one task, as in age=continuous [default: a guess from
    /// the values of each, which is printed]
    #[arg(long, value_delimiter = ',', value_name = "KIND|NAME=KIND,…")]
    pub task_kind: Vec<Stated<LabelKind>>,
}

/// Reads `paths` and derives the run's declaration from its arrays: k from their shapes, and the kinds that nobody states
/// from their values (see [`kinds`]). Errors name the array.
///
/// Arrays that take more than `memory` bytes together, as a sample too, are refused before they are read.
pub fn read(
    paths: &[PathBuf],
    names: &Names,
    layout: &Layout,
    memory: &mut Memory,
    say: &Say,
) -> Result<(Run, Batch, Guesses), FieldError> {
    let (arrays, note) = files::read(paths, names, memory, say)?;
    let mut guesses = Guesses { doubts: note.into_iter().collect(), ..Guesses::default() };
    let mut fields = RunFields { name: "file".into(), ..RunFields::default() };
    let mut tensors = Vec::new();
    let mut concept_names: Vec<String> = Vec::new();
    let mut task_names: Vec<String> = Vec::new();
    let mut cardinalities = Vec::new();
    let mut kind = None;
    let mut head_shape = Vec::new();
    for array in arrays {
        if array.name == "head_weights" {
            head_shape.clone_from(&array.shape);
        }
        if let Some(name) = TensorName::parse(&array.name) {
            tensors.push(array.into_tensor(name).map_err(in_array_terms)?);
            continue;
        }
        match array.name.as_str() {
            "concept_names" => concept_names = array.texts()?.to_vec(),
            "task_names" => task_names = array.texts()?.to_vec(),
            "cardinalities" => cardinalities = array.counts()?,
            "activation_kind" => kind = Some(one(&array)?),
            "activation_columns" => fields.activation_columns = one(&array)?,
            "latents" => fields.latents = Some(array.count()?),
            _ => set_constant(&mut fields.constants, &array)?,
        }
    }
    let (k, counted) = concept_count(&tensors, &cardinalities)?;
    for (what, len) in [("concept_names", concept_names.len()), ("cardinalities", cardinalities.len())] {
        if len != 0 && len != k {
            return Err(FieldError::new(
                what,
                format!("got {len} values, expected {k}, one for each concept of the other arrays"),
            ));
        }
    }
    fields.concepts = (0..k)
        .map(|i| Concept {
            name: concept_names.get(i).cloned().unwrap_or_else(|| format!("c{i}")),
            cardinality: cardinalities.get(i).copied().unwrap_or_default(),
            ..Concept::default()
        })
        .collect();
    fields.missing_task_labels = layout.missing_labels;
    fields.missing_concept_labels = layout.missing_labels || layout.soft_labels.is_some();
    let names: Vec<&str> = fields.concepts.iter().map(|concept| concept.name.as_str()).collect();
    let (stated_activations, of_activations) =
        stated::by_name("--activation-kind", "concept", &layout.activation_kind, &names)?;
    let (stated_labels, of_labels) = stated::by_name("--concept-kind", "concept", &layout.concept_kind, &names)?;
    if let Some(at) = tensors.iter().position(|tensor| tensor.name() == TensorName::ConceptLabels) {
        if layout.signed_labels {
            tensors[at] = signed::unsigned(&tensors[at], &fields.concepts, layout.missing_labels)?;
        }
        let stated: Vec<Option<LabelKind>> = of_labels.iter().map(|of| of.or(stated_labels)).collect();
        if let Some(soft) = &layout.soft_labels {
            let (recoded, remark) = soft.recoded(&tensors[at], &fields.concepts, &stated, layout.missing_labels)?;
            tensors[at] = recoded;
            guesses.doubts.extend(remark);
        }
        let labels = &tensors[at];
        let guess = kinds::of_labels(labels, k, -1.0, |i| fields.concepts.get(i).map_or(2, Concept::classes));
        guesses.guessed.extend(stated.contains(&None).then_some("concept_kind"));
        let kinds: Vec<LabelKind> = stated.iter().zip(&guess).map(|(stated, guess)| stated.unwrap_or(*guess)).collect();
        // One kind of all is the run's.
        let is_mixed = kinds.iter().any(|kind| *kind != kinds[0]);
        fields.concept_label_kind = if is_mixed { LabelKind::Class } else { kinds[0] };
        if is_mixed {
            guesses.doubts.extend(kinds::fractions(labels, &fields.concepts, &stated, &kinds));
            for (concept, kind) in fields.concepts.iter_mut().zip(kinds) {
                concept.label_kind = Some(kind);
                concept.activation_kind = (kind == LabelKind::Continuous).then_some(ActivationKind::Continuous);
            }
        }
        if fields.concept_label_kind == LabelKind::Class && !layout.signed_labels {
            signed::check_unsigned(labels, &fields.concepts)?;
        }
    }
    for (concept, stated) in fields.concepts.iter_mut().zip(of_activations) {
        concept.activation_kind = stated.or(concept.activation_kind);
    }
    let find = |name| tensors.iter().find(|tensor: &&Tensor| tensor.name() == name);
    if let Some(labels) = find(TensorName::TaskLabels) {
        let names: Vec<String> = (0..labels.width()).map(|at| tasks::name(&task_names, at)).collect();
        let known: Vec<&str> = names.iter().map(String::as_str).collect();
        let (of_all, of_each) = stated::by_name("--task-kind", "task", &layout.task_kind, &known)?;
        let stated: Vec<Option<LabelKind>> = of_each.iter().map(|of| of.or(of_all)).collect();
        let guess = kinds::of_labels(labels, names.len(), -100.0, |_| MAX_CLASS as u32 + 1);
        let kinds: Vec<LabelKind> = stated.iter().zip(&guess).map(|(stated, guess)| stated.unwrap_or(*guess)).collect();
        if stated.contains(&None) {
            let are_guessed: Vec<bool> = stated.iter().zip(&guess).map(|of| of == (&None, &LabelKind::Class)).collect();
            guesses.guessed.push("task_kind");
            guesses.doubts.extend(kinds::sparse_classes(labels, &names, &are_guessed));
        }
        // One kind of all is the run's.
        fields.task_label_kind = if kinds.iter().all(|kind| *kind == kinds[0]) { kinds[0] } else { LabelKind::Class };
        fields.tasks = tasks::of_labels(labels, find(TensorName::TaskPredictions), &task_names, &kinds)?;
    }
    fields.activation_columns = layout.activation_columns.unwrap_or(fields.activation_columns);
    if layout.latents {
        let columns = find(TensorName::ConceptActivations).and_then(|tensor| tensor.shape().get(1));
        // Wider arrays are refused, as the declaration has no such number.
        fields.latents = columns.map(|&columns| u32::try_from(columns).unwrap_or(u32::MAX));
    }
    let mut run = Run::try_from(fields.clone()).map_err(in_array_terms)?;
    // Weights in another order have the same number.
    let columns = run.head_columns() as u64;
    if let [_, width] = head_shape[..]
        && width != columns
        && head_shape != [columns, 1]
    {
        let message = format!(
            "has shape {head_shape:?}, expected [l, {columns}], a row for each class; transpose a kernel of Keras or JAX"
        );
        return Err(FieldError::new("head_weights", message));
    }
    if let Some(activations) = find(TensorName::ConceptActivations) {
        let stated = stated_activations.or(kind);
        let all_stated = fields.concepts.iter().all(|concept| concept.activation_kind.is_some());
        fields.activation_kind = stated.or(all_stated.then(ActivationKind::default)).unwrap_or_else(|| {
            let (guess, doubt) = kinds::of_activations(activations, find(TensorName::ConceptLabels), &run);
            guesses.guessed.insert(0, "activation_kind");
            guesses.doubts.extend(doubt);
            guess
        });
        run = Run::try_from(fields).map_err(in_array_terms)?;
    }
    let batch = Batch::new(tensors, &run, NonFinite::Reject).map_err(in_array_terms).map_err(|mut fault| {
        // Of floats it is said.
        let is_said = fault.message.contains("-kind ");
        fault.message += match fault.field.as_str() {
            _ if is_said => "",
            "concept_labels" if fault.message.contains(" for concept '") => {
                "; for measured quantities pass --concept-kind NAME=continuous"
            }
            "task_labels" if fault.message.contains(" for task '") => {
                "; for measured quantities pass --task-kind NAME=continuous"
            }
            "task_labels" if fault.message.contains("(classes)") => {
                "; for measured quantities pass --task-kind continuous"
            }
            _ => "",
        };
        // Either of the two arrays may be wrong, so the message names both.
        match counted.filter(|name| fault.field.strip_suffix(".shape").is_some_and(|field| field != name.text())) {
            Some(name) => FieldError::new(fault.field, format!("{}; {name} has {k} columns", fault.message)),
            None => fault,
        }
    })?;
    Ok((run, batch, guesses))
}

/// Renames a fault's field from the protocol's terms to the array of the file.
fn in_array_terms(fault: FieldError) -> FieldError {
    let field = fault.field.as_str();
    let array = match field.strip_prefix("run.concepts[").and_then(|rest| rest.split_once("].")) {
        Some((_, "name")) => "concept_names",
        Some((_, "activation_kind")) => "--activation-kind",
        Some((_, "label_kind")) => "--concept-kind",
        Some(_) => "cardinalities",
        None => ["tensors.", "run.constants.", "run."]
            .into_iter()
            .find_map(|prefix| field.strip_prefix(prefix))
            .unwrap_or(field),
    };
    // A fault of `tensors` means that the file has no tensor except sample ids.
    let array = if array == "tensors" { TensorName::SampleIds.text() } else { array };
    let message = fault
        .message
        .replace("declare missing_concept_labels", "pass --missing-labels")
        .replace("declare missing_task_labels", "pass --missing-labels")
        .replace("pass signed_labels=True", "pass --signed-labels")
        .replace("declare its label kind continuous", "pass --concept-kind NAME=continuous")
        .replace("declare the task continuous", "pass --task-kind NAME=continuous")
        .replace("declare the run's label kind continuous", "pass --task-kind continuous");
    FieldError::new(array, message)
}

/// k, and the tensor whose columns are counted.
fn concept_count(tensors: &[Tensor], cardinalities: &[u32]) -> Result<(usize, Option<TensorName>), FieldError> {
    use TensorName::{
        ActiveConcepts, ConceptActivations, ConceptEmbeddings, ConceptLabels, LocalizationMaps, LocalizationPeaks,
    };
    let columns = |name| Some((name, *tensors.iter().find(|t: &&Tensor| t.name() == name)?.shape().get(1)?));
    // Categorical concepts have several activation columns each.
    let known = || (!cardinalities.is_empty()).then_some((ConceptActivations, cardinalities.len()));
    let naming = [ConceptLabels, ConceptEmbeddings, ActiveConcepts, LocalizationMaps, LocalizationPeaks];
    let k = naming.into_iter().find_map(columns).or_else(known).or_else(|| columns(ConceptActivations));
    match k {
        Some((name, k)) if k > MAX_CONCEPTS => {
            Err(FieldError::new(name.text(), format!("has {k} concepts, expected 1 to {MAX_CONCEPTS}")))
        }
        Some((name, k)) => Ok((k, Some(name))),
        // Text and image scores need no concepts, but a declaration needs at least one.
        None if tensors.iter().any(|t| t.shape().len() <= 2) => Ok((1, None)),
        None => Err(FieldError::new(
            ConceptActivations.text(),
            "is missing, and no other array gives the number of concepts",
        )),
    }
}

/// The value whose name an array holds.
fn one<T: FromStr + VariantArray + Copy + Into<&'static str>>(array: &Array) -> Result<T, FieldError> {
    let texts = array.texts()?;
    named(texts.first().map_or("", String::as_str)).map_err(|why| array.fault(why))
}

/// The parts of each concept, from an array [k, p] of 0 and 1.
fn parts(array: &Array) -> Result<Vec<Vec<u32>>, FieldError> {
    let (flags, shape) = (array.counts()?, &array.shape);
    match shape[..] {
        [_, parts] if flags.iter().all(|&flag| flag <= 1) => {
            let of_concept =
                |row: &[u32]| (0..).zip(row).filter(|(_, flag)| **flag == 1).map(|(part, _)| part).collect();
            Ok(flags.chunks(parts as usize).map(of_concept).collect())
        }
        _ => Err(array.fault(format!("has shape {shape:?}, expected 0 and 1 for each concept and part, [k, p]"))),
    }
}

fn set_constant(constants: &mut RunConstants, array: &Array) -> Result<(), FieldError> {
    let one = || array.exactly(array.numbers()?, "one").map(|[value]| Some(value));
    let size = || array.exactly(array.counts()?, "height and width").map(|[height, width]| Some((height, width)));
    match array.name.as_str() {
        "reference_task_accuracy" => constants.reference_task_accuracy = one()?,
        "concept_score_weight" => constants.concept_score_weight = one()?,
        "activity_threshold" => constants.activity_threshold = one()?,
        "active_top_k" => constants.active_top_k = Some(array.count()?),
        "clarity_weights" => constants.clarity_weights = array.numbers()?,
        "intervention_counts" => constants.intervention_counts = array.counts()?,
        "concept_weights" => constants.concept_weights = array.numbers()?,
        "head_weights" => constants.head_weights = array.numbers()?,
        "head_bias" => constants.head_bias = array.numbers()?,
        "image_size" => constants.image_size = size()?,
        "concept_parts" => constants.concept_parts = parts(array)?,
        "box_size" => constants.box_size = size()?,
        _ => return Err(array.fault("is not a known array")),
    }
    Ok(())
}
