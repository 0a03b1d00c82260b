//! The immutable [`Sample`]: the rows of a split at one moment, in typed columns.

use std::collections::{BTreeMap, HashSet};

use super::column::Column;
use crate::batch::Batch;
use crate::run::{LabelKind, Run};
use crate::tensor::{Tensor, TensorName};

/// The rows of a split at one moment, in ascending row id. Immutable.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    ids: Vec<u64>,
    columns: BTreeMap<TensorName, Column>,
}

impl Sample {
    /// Panics unless `ids` ascend and every column has one row for each id: both come from one sampler.
    pub fn new(ids: Vec<u64>, columns: BTreeMap<TensorName, Column>) -> Self {
        assert!(ids.is_sorted(), "sample rows are in ascending order of their ids");
        assert!(
            columns.values().all(|column| column.rows() == ids.len()),
            "a sample's columns have a value for each row"
        );
        Self { ids, columns }
    }

    /// The rows of a batch without non-finite values, with their row numbers as ids. Of rows with the same `sample_ids` the
    /// first.
    pub fn of_batch(batch: &Batch, run: &Run) -> Self {
        let (given, mut seen) = (batch.tensor(TensorName::SampleIds), HashSet::new());
        let is_first = |row: &usize| given.and_then(|given| given.id(*row)).is_none_or(|id| seen.insert(id));
        let rows: Vec<usize> = batch.kept_rows().filter(is_first).collect();
        let column = |tensor: &Tensor| {
            let mut column = Column::for_tensor(tensor, run.has_continuous_labels(tensor.name()))
                .at_image_size(run.constants.image_size);
            column.grow(rows.len(), rows.len());
            rows.iter().for_each(|&row| column.extend(tensor, row..row + 1));
            (tensor.name(), column)
        };
        Self::new(rows.iter().map(|&row| row as u64).collect(), batch.columns().map(column).collect())
    }

    /// N.
    pub fn rows(&self) -> usize {
        self.ids.len()
    }

    /// Row identities, ascending: the row's index in its data set where the job sends `sample_ids`, otherwise a hash.
    pub fn ids(&self) -> &[u64] {
        &self.ids
    }

    pub fn column(&self, name: TensorName) -> Option<&Column> {
        self.columns.get(&name)
    }

    pub fn names(&self) -> impl Iterator<Item = TensorName> + '_ {
        self.columns.keys().copied()
    }

    /// The rows `rows`, which ascend.
    pub fn gather(&self, rows: &[usize]) -> Self {
        let columns = self.columns.iter().map(|(&name, column)| (name, column.gather(rows)));
        Self::new(rows.iter().map(|&row| self.ids[row]).collect(), columns.collect())
    }

    /// The columns of one of `run`'s tasks and those that are of no task, in the rows in which its label is known.
    pub fn of_task(&self, task: usize, run: &Run) -> Self {
        let known = self.known_task(task, run).filter(|known| run.missing_task_labels && known.contains(&false));
        let rows: Option<Vec<usize>> =
            known.map(|known| known.iter().enumerate().filter(|(_, known)| **known).map(|(row, _)| row).collect());
        let column = |(&name, column): (&TensorName, &Column)| {
            let own = (name.is_of_task() && run.task_count() > 1).then(|| column_of_task(name, column, task, run));
            let column = own.as_ref().unwrap_or(column);
            (name, rows.as_ref().map_or_else(|| column.clone(), |rows| column.gather(rows)))
        };
        let ids =
            rows.as_ref().map_or_else(|| self.ids.clone(), |rows| rows.iter().map(|&row| self.ids[row]).collect());
        Self::new(ids, self.columns.iter().map(column).collect())
    }

    /// Whether the label of a task is unknown in a row.
    pub fn has_unknown_task(&self, run: &Run) -> bool {
        let tasks = self.column(TensorName::TaskLabels).map_or(0, Column::width);
        (0..tasks).any(|task| self.known_task(task, run).is_some_and(|known| known.contains(&false)))
    }

    /// Whether the label of a task is known in each row.
    fn known_task(&self, task: usize, run: &Run) -> Option<Vec<bool>> {
        let labels = self.column(TensorName::TaskLabels)?.floats(task);
        let is_known = |label: &f64| match run.task_kind(task) {
            LabelKind::Class => *label >= 0.0,
            LabelKind::Continuous => !label.is_nan(),
        };
        Some(labels.iter().map(is_known).collect())
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        self.ids.capacity() * size_of::<u64>() + self.columns.values().map(Column::bytes).sum::<usize>()
    }
}

/// The columns of one of several tasks, in the shape and of the type that those of a single one have: beside tasks that are
/// numbers, classes are kept as floats.
fn column_of_task(name: TensorName, column: &Column, task: usize, run: &Run) -> Column {
    use TensorName::{InterventionPredictions, TaskLogits, WrongInterventionPredictions};
    let own = match name {
        TaskLogits => {
            let own: Vec<usize> = run.task_logits()[task].clone().collect();
            column.select(&own, vec![own.len()])
        }
        InterventionPredictions | WrongInterventionPredictions => {
            let columns = column.dims()[0];
            let own: Vec<usize> = (0..columns).map(|at| at * run.task_count() + task).collect();
            column.select(&own, vec![columns])
        }
        _ => column.select(&[task], Vec::new()),
    };
    let of_classes = Column::holds_classes(name, run.task_kind(task) == LabelKind::Continuous);
    if of_classes { own.of_classes() } else { own }
}
