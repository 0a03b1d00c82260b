//! Keeps the scores of a sample within a limit of memory: what each takes is estimated from the sample's shape before it is
//! computed, by the constants of its row in the catalogue.

use std::ops::Range;

use crate::prepare::Prepared;
use crate::run::{ActivationKind, LabelKind};
use crate::sample::{Column, Values};
use crate::tensor::TensorName;

use super::catalogue::{Input, Score, Shape};
use super::concept_rows::distinct;

/// Bytes of each thread for each row: neighbours, ranks and orders.
const ROW: usize = 512;
/// Bytes of each concept: its value, and what it leaves out.
const CONCEPT: usize = 1 << 10;
/// Bytes of each column of an input.
const COLUMN: usize = 256;
/// The factor of the values of one concept, for each thread.
const BLOCK: usize = 16;
/// The factor of the activations and labels: what [`Prepared`] keeps of them for all scores.
const VARIABLES: f64 = 2.5;
/// Bytes of the estimators' tables.
const TABLES: usize = 8 << 20;

/// The memory that the scores of one sample may take, and have taken.
pub struct Meter {
    /// In bytes; `None` for no limit.
    limit: Option<usize>,
    shape: Shape,
    shared: usize,
    kept: usize,
    peak: usize,
}

impl Meter {
    pub fn new(p: &Prepared) -> Self {
        let names = [TensorName::ConceptActivations, TensorName::ConceptLabels, TensorName::TaskLabels];
        let variables: usize = names.iter().map(|name| column_bytes(p, *name)).sum();
        let shared = TABLES + (VARIABLES * variables as f64) as usize;
        Self { limit: p.memory(), shape: shape(p), shared, kept: 0, peak: 0 }
    }

    /// Bytes that computing a score takes at most, with what the scores before it keep.
    pub fn need(&self, p: &Prepared, score: &Score) -> usize {
        self.shared + self.kept + needs(p, score) + (score.memory.more)(&self.shape)
    }

    /// Accounts for a score that is computed. Errors, and accounts for nothing, if it takes more than it may.
    pub fn take(&mut self, p: &Prepared, score: &Score) -> Result<(), String> {
        let need = self.need(p, score);
        if let Some(limit) = self.limit.filter(|limit| need > *limit) {
            let mebibytes = |bytes: usize| bytes.div_ceil(1 << 20);
            return Err(format!(
                "needs {} MiB of memory for {} rows of {} concepts, expected at most {}",
                mebibytes(need),
                p.rows(),
                p.concepts(),
                mebibytes(limit)
            ));
        }
        self.peak = self.peak.max(need);
        self.kept += pairs(p) * score.memory.kept;
        Ok(())
    }

    /// The most that any of the scores takes.
    pub fn peak(&self) -> usize {
        self.peak
    }
}

fn needs(p: &Prepared, score: &Score) -> usize {
    let inputs: usize = score.inputs.iter().map(|input| input_bytes(p, input)).sum();
    let columns: usize = score.inputs.iter().map(|input| columns(p, input)).sum();
    let widest = score.inputs.iter().map(|input| block_width(p, input)).max().unwrap_or(1);
    let of_thread = p.rows() * (ROW + BLOCK * widest * size_of::<f64>());
    (score.memory.inputs * inputs as f64) as usize
        + p.concepts() * CONCEPT
        + columns * COLUMN
        + pairs(p) * score.memory.pairs
        + rayon::current_num_threads() * of_thread
}

/// k², or with latents k times their number.
fn pairs(p: &Prepared) -> usize {
    p.concepts() * p.concepts().max(p.run().activation_width())
}

fn tensors(input: &Input) -> [Option<TensorName>; 2] {
    match input {
        Input::Tensor(name) | Input::Numbers(name) => [Some(*name), None],
        Input::EitherTensor(a, b) => [Some(*a), Some(*b)],
        Input::ReferenceTaskAccuracy => [Some(TensorName::ConceptLabels), Some(TensorName::TaskLabels)],
        Input::HeadWeights | Input::Latents | Input::ConceptParts => [None, None],
    }
}

fn input_bytes(p: &Prepared, input: &Input) -> usize {
    let columns: usize = tensors(input).into_iter().flatten().map(|name| column_bytes(p, name)).sum();
    let constants = match input {
        Input::HeadWeights => p.run().constants.head_weights.len() * size_of::<f64>(),
        Input::ConceptParts => p.run().constants.concept_parts.iter().map(|parts| 24 + 4 * parts.len()).sum(),
        _ => 0,
    };
    columns + constants
}

/// Values that an input has in a row.
fn columns(p: &Prepared, input: &Input) -> usize {
    tensors(input).into_iter().flatten().filter_map(|name| p.column(name)).map(Column::width).sum()
}

/// Bytes of a tensor's values as 64-bit numbers, or of its texts.
fn column_bytes(p: &Prepared, name: TensorName) -> usize {
    let Some(column) = p.column(name) else { return 0 };
    match column.values() {
        Values::Text(_) => column.bytes() + column.rows() * size_of::<String>(),
        _ => column.rows() * column.width() * size_of::<f64>(),
    }
}

/// Values that an input has of one concept in a row.
fn block_width(p: &Prepared, input: &Input) -> usize {
    let width = |name| p.column(name).map_or(1, |column| column.width().div_ceil(p.concepts()));
    tensors(input).into_iter().flatten().map(width).max().unwrap_or(1)
}

fn shape(p: &Prepared) -> Shape {
    let (run, rows) = (p.run(), p.rows());
    let concepts = 0..p.concepts();
    let classes = |i: usize| run.concepts[i].classes() as usize;
    let or = |of_continuous: usize, i: usize, of_classes: usize| {
        if run.is_continuous(i) { of_continuous } else { of_classes }
    };
    let activations = p.column(TensorName::ConceptActivations);
    let embeddings = p.column(TensorName::ConceptEmbeddings).map_or(0, Column::width);
    let width = activations.map_or(0, Column::width);
    let blocks = run.activation_blocks(width).unwrap_or_default();
    Shape {
        rows,
        threads: rayon::current_num_threads(),
        concepts: p.concepts(),
        activations: width,
        embeddings,
        flags: blocks
            .iter()
            .enumerate()
            .map(|(i, block)| match activations {
                Some(activations)
                    if run.activation_kind(i) == ActivationKind::Hard && run.concepts[i].is_categorical() =>
                {
                    block.clone().map(|at| values(activations, at)).sum()
                }
                _ => block.len(),
            })
            .sum(),
        // A continuous concept has a column for its value, and one for whether that is known.
        declared: concepts.clone().map(|i| or(1, i, classes(i))).sum(),
        occurring: concepts.clone().map(|i| or(2, i, classes(i).min(rows + 1))).sum(),
        classes: concepts.map(|i| or(1, i, classes(i))).max().unwrap_or(1),
        widest: [blocks.iter().map(Range::len).max().unwrap_or(1), embeddings / p.concepts()],
        task_classes: p.column(TensorName::TaskLabels).map_or(0, |labels| match run.task_kind(0) {
            LabelKind::Continuous => 8,
            LabelKind::Class => values(labels, 0),
        }),
    }
}

fn values(column: &Column, at: usize) -> usize {
    distinct(column.floats(at), f64::total_cmp).len()
}
