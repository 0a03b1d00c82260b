//! The tasks of a file: one for each column of `task_labels`, where there are several.

use leakage::batch::MAX_CLASS;
use leakage::field_error::FieldError;
use leakage::run::{LabelKind, MAX_TASKS, Task};
use leakage::tensor::Tensor;

use super::array::each_element;

/// The tasks, each of its kind, with the classes that occur; none where there is a single one. Errors where `names` are not
/// one for each, or there are none and the columns are those of one-hot labels.
pub fn of_labels(
    labels: &Tensor,
    predictions: Option<&Tensor>,
    names: &[String],
    kinds: &[LabelKind],
) -> Result<Vec<Task>, FieldError> {
    let t = labels.width();
    if !names.is_empty() && names.len() != t {
        let message = format!("got {} values, expected {t}, one for each column of task_labels", names.len());
        return Err(FieldError::new("task_names", message));
    }
    // More columns than there can be tasks are refused as such.
    if labels.shape().len() != 2 || !(2..=MAX_TASKS).contains(&t) {
        return Ok(Vec::new());
    }
    if names.is_empty() && !kinds.contains(&LabelKind::Continuous) && are_one_hot(labels) {
        let message = format!(
            "got a single 1 in each row of {t} columns, expected class numbers: of one-hot labels send the class numbers, \
             [n]; of {t} tasks give task_names"
        );
        return Err(FieldError::new("task_labels", message));
    }
    let mut most = vec![0.0_f64; t];
    let of_same_shape = |tensor: &&Tensor| tensor.shape() == labels.shape();
    for tensor in [Some(labels), predictions.filter(of_same_shape)].into_iter().flatten() {
        each_element(tensor, |_, task, value| most[task] = most[task].max(value));
    }
    let task = |at: usize| Task {
        name: name(names, at),
        cardinality: if kinds[at] == LabelKind::Class { most[at].min(MAX_CLASS as f64) as u32 + 1 } else { 0 },
        label_kind: Some(kinds[at]),
    };
    Ok((0..t).map(task).collect())
}

/// The name of a task, which counts from 0.
pub fn name(names: &[String], at: usize) -> String {
    names.get(at).cloned().unwrap_or_else(|| format!("t{at}"))
}

/// Whether the columns have 0 and a single 1 in each row, as one-hot labels do.
fn are_one_hot(labels: &Tensor) -> bool {
    let (mut are_flags, mut ones) = (true, vec![0_usize; labels.rows()]);
    each_element(labels, |row, _, value| {
        are_flags &= [0.0, 1.0].contains(&value);
        ones[row] += usize::from(value == 1.0);
    });
    are_flags && ones.iter().all(|count| *count == 1)
}
