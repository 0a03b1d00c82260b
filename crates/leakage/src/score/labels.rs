//! The labels that scores are about, and what information about them is divided by.

use information::Variable;

use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::term::{Normaliser, normaliser};

/// Labels of all rows.
pub struct Labels<'p> {
    /// Empty where there are none.
    pub concepts: &'p [Variable],
    /// The entropy of each concept's label.
    pub entropies: Vec<Result<Normaliser, String>>,
    pub task: Option<(&'p Variable, Result<Normaliser, String>)>,
}

impl<'p> Labels<'p> {
    pub fn new(p: &Prepared, concepts: &'p [Variable], task: Option<&'p Variable>) -> Self {
        let task = task.map(|task| (task, normaliser(task, p)));
        Self { concepts, entropies: concepts.iter().map(|label| normaliser(label, p)).collect(), task }
    }

    /// The information about the task, or why there is none.
    pub fn about_task<T>(&self, concepts: impl FnOnce() -> T) -> Result<T, String> {
        match &self.task {
            None => Err("there are no task labels".to_owned()),
            Some((_, Err(why))) => Err(format!("task_labels: {why}")),
            Some((_, Ok(_))) => Ok(concepts()),
        }
    }
}

/// The true class of each row.
pub fn task_classes(p: &Prepared) -> Result<Vec<i32>, String> {
    let labels = p.column(TensorName::TaskLabels).and_then(|column| column.integers(0));
    labels.ok_or_else(|| "the task labels are not classes".into())
}
