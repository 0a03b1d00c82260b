//! The tasks of a file: one for each column of `task_labels`, where there are several.

use leakage::field_error::FieldError;
use leakage::run::{LabelKind, MAX_TASKS, Task};
use leakage::tensor::Tensor;

/// The tasks, with the classes that occur; none where there is a single one. Errors where `names` are not one for each, or
/// there are none and the columns are those of one-hot labels.
pub fn of_labels(
    labels: &Tensor,
    predictions: Option<&Tensor>,
    names: &[String],
    kind: LabelKind,
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
    if names.is_empty() && kind == LabelKind::Class && are_one_hot(labels) {
        let message = format!(
            "got a single 1 in each row of {t} columns, expected class numbers: of one-hot labels send the class numbers, \
             [n]; of {t} tasks give task_names"
        );
        return Err(FieldError::new("task_labels", message));
    }
    let mut most = vec![0.0_f64; t];
    let of_same_shape = |tensor: &&Tensor| tensor.shape() == labels.shape();
    if kind == LabelKind::Class {
        for tensor in [Some(labels), predictions.filter(of_same_shape)].into_iter().flatten() {
            each_row(tensor, |row| most.iter_mut().zip(row).for_each(|(most, value)| *most = most.max(*value)));
        }
    }
    let name = |at: usize| names.get(at).cloned().unwrap_or_else(|| format!("t{at}"));
    let task = |(at, most): (usize, &f64)| Task { name: name(at), cardinality: (*most).min(1e9) as u32 + 1 };
    Ok(most.iter().enumerate().map(task).collect())
}

/// Whether the columns have 0 and a single 1 in each row, as one-hot labels do.
fn are_one_hot(labels: &Tensor) -> bool {
    let mut one_hot = true;
    each_row(labels, |row| {
        one_hot &= row.iter().all(|value| [0.0, 1.0].contains(value)) && row.iter().sum::<f64>() == 1.0;
    });
    one_hot
}

fn each_row(tensor: &Tensor, mut visit: impl FnMut(&[f64])) {
    let mut values = Vec::new();
    for row in 0..tensor.rows() {
        values.clear();
        tensor.for_each_float(row, |value| values.push(value));
        visit(&values);
    }
}
