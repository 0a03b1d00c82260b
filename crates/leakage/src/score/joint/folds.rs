//! Four parts of the rows, each with its share of every class of the task.

use crate::sample::priority::priority;

use super::learner::Task;

pub const FOLDS: usize = 4;
/// Rows that are looked at, at most; more would take minutes and change little.
const MOST: usize = 4_096;
/// Makes this choice of rows independent of others.
const STREAM: u64 = 0x6a6f_696e_7400_0000;

/// The rows that take part, and the fold of each.
pub struct Folds {
    /// Row numbers of the sample, ascending.
    pub rows: Vec<usize>,
    /// The fold of each of `rows`.
    pub of: Vec<usize>,
    pub task: Task,
}

impl Folds {
    /// Leaves out rows of classes with fewer rows than folds, which some part would lack. `labels` and `ids` are those of all
    /// rows of the sample.
    pub fn new(labels: &[i32], ids: &[u64], seed: u64) -> Self {
        let mut order: Vec<usize> = (0..labels.len()).collect();
        order.sort_unstable_by_key(|&row| (priority(seed ^ STREAM, ids[row]), row));
        order.truncate(MOST);
        // Rows of one class stand together, in random order.
        order.sort_by_key(|&row| labels[row]);
        let mut chosen: Vec<(usize, usize, usize)> = Vec::new();
        let mut classes = 0;
        for class in order.chunk_by(|&a, &b| labels[a] == labels[b]).filter(|class| class.len() >= FOLDS) {
            for &row in class {
                chosen.push((row, chosen.len() % FOLDS, classes));
            }
            classes += 1;
        }
        chosen.sort_unstable();
        Self {
            rows: chosen.iter().map(|(row, ..)| *row).collect(),
            of: chosen.iter().map(|(_, fold, _)| *fold).collect(),
            task: Task { labels: chosen.iter().map(|(.., class)| *class).collect(), classes },
        }
    }

    /// Positions in `rows` of those whose fold is in `folds`.
    pub fn within(&self, folds: &[usize]) -> Vec<usize> {
        (0..self.rows.len()).filter(|&at| folds.contains(&self.of[at])).collect()
    }

    /// Positions in `rows` of those whose fold is not in `folds`.
    pub fn without(&self, folds: &[usize]) -> Vec<usize> {
        (0..self.rows.len()).filter(|&at| !folds.contains(&self.of[at])).collect()
    }

    /// Entropy of the task among these rows, in nats.
    pub fn entropy(&self) -> f64 {
        let n = self.rows.len() as f64;
        let mut sizes = vec![0.0; self.task.classes];
        self.task.labels.iter().for_each(|&label| sizes[label] += 1.0);
        sizes.iter().map(|size| -size / n * (size / n).ln()).sum()
    }
}
