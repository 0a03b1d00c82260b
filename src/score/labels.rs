//! The labels that information in embeddings is about, and what it is divided by.

use crate::estimate::Variable;
use crate::prepare::Prepared;

use super::term::{Concepts, Normaliser, normaliser};

/// Labels of all rows.
pub struct Labels<'p> {
    /// Empty where there are none.
    pub concepts: &'p [Variable],
    /// Of each concept's label.
    pub entropies: Vec<Result<Normaliser, String>>,
    pub task: Option<(&'p Variable, Result<Normaliser, String>)>,
}

impl<'p> Labels<'p> {
    pub fn new(p: &Prepared, concepts: &'p [Variable], task: Option<&'p Variable>) -> Self {
        let task = task.map(|task| (task, normaliser(task, p)));
        Self { concepts, entropies: concepts.iter().map(|label| normaliser(label, p)).collect(), task }
    }

    /// The concepts' information about the task, or why there is none.
    pub fn about_task(&self, concepts: impl FnOnce() -> Concepts) -> Result<Concepts, String> {
        match &self.task {
            None => Err("there are no task labels".to_owned()),
            Some((_, Err(why))) => Err(format!("task_labels: {why}")),
            Some((_, Ok(_))) => Ok(concepts()),
        }
    }
}
