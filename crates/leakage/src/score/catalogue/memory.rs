//! The memory that a score takes, as constants of its row: bytes are c · (its inputs as 64-bit numbers) + p · k² + what
//! threads need and what depends on other dimensions. c and p were measured with a counting allocator over N = 64 to
//! 4,096 and k = 16 to 1,000, and raised by half; `tests/scoring_memory/` compares them with the memory that scores
//! take.

use crate::score::reference::MOST_INPUTS;

/// The constants of a score.
#[derive(Clone, Copy)]
pub struct Memory {
    /// c: times the bytes of its inputs.
    pub inputs: f64,
    /// p: bytes for each pair of concepts.
    pub pairs: usize,
    /// The part of p that stays until the sample is scored: the result, and what later scores use.
    pub kept: usize,
    /// Bytes that depend on neither.
    pub more: fn(&Shape) -> usize,
}

impl Memory {
    /// The constants of scores that read their inputs once.
    pub const LINEAR: Self = Self { inputs: 4.0, pairs: 0, kept: 0, more: |_| 0 };
    /// The constants of scores with a value for each pair.
    pub const PAIRS: Self = Self { inputs: 2.0, pairs: 160, kept: 72, more: |_| 0 };
}

/// The dimensions of a sample by which scores take memory.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub rows: usize,
    pub threads: usize,
    pub concepts: usize,
    /// Columns of the activations, and of the embeddings; 0 where there are none.
    pub activations: usize,
    pub embeddings: usize,
    /// Columns of the activations where each class of a hard one has its own.
    pub flags: usize,
    /// Columns of the true concepts: one for each class of a categorical concept, of those that are declared and of those that
    /// can occur.
    pub declared: usize,
    pub occurring: usize,
    /// Most classes of a concept.
    pub classes: usize,
    /// Most activation columns, and embedding columns, of a concept.
    pub widest: [usize; 2],
    /// Classes of the task.
    pub task_classes: usize,
}

/// A number, its slot in a vector, and the vector.
const NUMBER: usize = 4;
/// Bytes of each weight of a network that is trained: the weight, its gradient and two moments.
const WEIGHT: usize = 4 * NUMBER;

/// Bytes of the weights of a network from `inputs` to `outputs`: the larger of a linear one and one with `hidden` units.
fn network(inputs: usize, outputs: usize, hidden: usize) -> usize {
    WEIGHT * (inputs * outputs).max(hidden * (inputs + outputs + hidden))
}

/// Joint leakage: a screen of all pairs of functions of the activations in each fold, networks, and what they predict at each
/// length of training.
pub fn joint(s: &Shape) -> usize {
    const FOLDS: usize = 4;
    const TRAININGS: usize = 12;
    const LENGTHS: usize = 8;
    let (n, c, d, l) = (s.rows.min(4_096), s.flags, s.occurring, s.task_classes);
    let folds = FOLDS.min(s.threads);
    let screen = folds * 3 * NUMBER * 3 * c * (3 * c + d);
    let columns = n * (24 * c + NUMBER * (7 * c + 5 * d) + folds * NUMBER * (24 * c + 4 * d));
    let predictions = NUMBER * n * l * (TRAININGS * LENGTHS / 2 + 2 * FOLDS + 4 * s.threads);
    screen + columns + predictions + s.threads * network(d.max(c + 64), l, 64)
}

/// Heads on true concepts.
pub fn heads_on_concepts(s: &Shape) -> usize {
    heads(s, s.declared)
}

/// Heads on activations, which are undefined with more columns.
pub fn heads_on_activations(s: &Shape) -> usize {
    if s.activations > MOST_INPUTS { 0 } else { heads(s, s.activations) }
}

fn heads(s: &Shape, inputs: usize) -> usize {
    NUMBER * s.rows * (4 * inputs + 4 * s.task_classes) + network(inputs, s.task_classes, 64)
}

/// Niches: a network of all representations for all classes, and its predictions at 20 thresholds.
pub fn niches(s: &Shape) -> usize {
    niches_of(s, if s.activations > 0 { s.activations } else { s.embeddings })
}

/// The same of embeddings.
pub fn niches_of_embeddings(s: &Shape) -> usize {
    niches_of(s, s.embeddings)
}

fn niches_of(s: &Shape, columns: usize) -> usize {
    let m = s.occurring;
    64 * s.rows * m + 8 * m * columns + network(columns, m, 20)
}

/// Purity matrices: networks that read one concept and predict the classes of another.
pub fn purity(s: &Shape) -> usize {
    s.threads * (network(s.widest[0].max(s.widest[1]), s.classes, 32) + 6 * NUMBER * s.rows * s.classes)
}

/// Distances between rows, of the concept alignment score.
pub fn distances(s: &Shape) -> usize {
    let rows = s.rows.min(400);
    s.threads * 10 * rows * rows
}
