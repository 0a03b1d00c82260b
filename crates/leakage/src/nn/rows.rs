//! Labelled rows that concept-based models train on.

use ndarray::{Array2, ArrayView2, Axis};

/// Inputs with their true binary concepts and binary task.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows {
    inputs: Array2<f32>,
    concepts: Array2<f32>,
    tasks: Array2<f32>,
}

impl Rows {
    /// `inputs` [n, d], `concepts` [n, k] and `tasks` [n, 1], the last two 0 or 1. Panics when they do not have the
    /// same n rows.
    pub fn new(inputs: Array2<f32>, concepts: Array2<f32>, tasks: Array2<f32>) -> Self {
        let rows = inputs.nrows();
        assert_eq!(concepts.nrows(), rows, "a row of concepts for each row of inputs");
        assert_eq!(tasks.dim(), (rows, 1), "one task label for each row of inputs");
        Self { inputs, concepts, tasks }
    }

    /// n.
    pub fn len(&self) -> usize {
        self.inputs.nrows()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [n, d].
    pub fn inputs(&self) -> ArrayView2<'_, f32> {
        self.inputs.view()
    }

    /// [n, k], 0 or 1.
    pub fn concepts(&self) -> ArrayView2<'_, f32> {
        self.concepts.view()
    }

    /// [n, 1], 0 or 1.
    pub fn tasks(&self) -> ArrayView2<'_, f32> {
        self.tasks.view()
    }

    /// The rows named in `order`, in that order.
    pub fn gather(&self, order: &[usize]) -> Self {
        let take = |values: &Array2<f32>| values.select(Axis(0), order);
        Self { inputs: take(&self.inputs), concepts: take(&self.concepts), tasks: take(&self.tasks) }
    }
}
