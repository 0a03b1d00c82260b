//! Classes of tasks that files give by name, as numbers.

use std::collections::BTreeMap;

use leakage::batch::MAX_CLASS;
use leakage::field_error::{FieldError, in_short};
use leakage::tensor::{DataType, TensorName};

use super::array::{Array, Elements};

/// Cells that pandas and R write for a missing value, besides NaN.
const MISSING: [&str; 7] = ["", "NA", "N/A", "<NA>", "null", "NULL", "None"];
/// Classes that a note lists.
const MOST_LISTED: usize = 5;

pub fn is_missing(cell: &str) -> bool {
    MISSING.contains(&cell) || cell.eq_ignore_ascii_case("nan")
}

pub fn flag(cell: &str) -> Option<i64> {
    match cell {
        "true" | "True" | "TRUE" => Some(1),
        "false" | "False" | "FALSE" => Some(0),
        _ => None,
    }
}

/// The number in a cell, NaN where it is missing; `None` of a name.
pub fn number(cell: &str) -> Option<f64> {
    match flag(cell) {
        _ if is_missing(cell) => Some(f64::NAN),
        Some(flag) => Some(flag as f64),
        None => cell.parse().ok(),
    }
}

/// Whether the values of an array may be names of classes.
pub fn are_of_tasks(array: &str) -> bool {
    TensorName::parse(array).is_some_and(|name| name.is_of_task() && name != TensorName::TaskLogits)
}

/// Whether the columns of an array, [n, t], are of a task each. Those of the others are of numbers of set concepts.
pub fn has_tasks_in_columns(array: &str) -> bool {
    let of_numbers = [TensorName::InterventionPredictions, TensorName::WrongInterventionPredictions];
    are_of_tasks(array) && of_numbers.iter().all(|name| name.text() != array)
}

/// The classes of a task, as arrays give them.
#[derive(Default)]
struct Found<'a> {
    /// The first arrays with names, and with numbers.
    named: Option<&'a str>,
    numbered: Option<&'a str>,
    numbers: BTreeMap<String, f64>,
}

/// The numbers of each task's classes where they are texts.
#[derive(Default)]
pub struct Classes {
    tasks: Vec<BTreeMap<String, f64>>,
    /// The array with the names of the first task whose classes are numbered in sorted order, and these.
    sorted: Option<(String, Vec<String>)>,
}

impl Classes {
    /// Collects the classes in these arrays, each with the task of its first column. Arrays of a task share numbers:
    /// texts that are numbers are these, and names are numbered as `logits`, the names of the columns of `task_logits`,
    /// or in sorted order. Errors where a task has names in some arrays and numbers in others, or names that are only
    /// partly those of columns.
    pub fn of<'a>(
        arrays: impl Iterator<Item = (&'a Array, usize)> + Clone,
        logits: &[String],
    ) -> Result<Self, FieldError> {
        let arrays = arrays.filter(|(array, _)| are_of_tasks(&array.name));
        let mut tasks: Vec<Found> = Vec::new();
        for (array, first) in arrays.clone() {
            let Elements::Texts(texts) = &array.elements else { continue };
            // An array without rows may have any width.
            if texts.is_empty() {
                continue;
            }
            let width = width(array);
            let mut has = vec![[false; 2]; width]; // names, numbers
            tasks.resize_with(tasks.len().max(first + width), Found::default);
            for (at, text) in texts.iter().enumerate().filter(|(_, text)| !is_missing(text)) {
                let number = number(text);
                has[at % width][usize::from(number.is_some())] = true;
                let numbers = &mut tasks[first + at % width].numbers;
                if !numbers.contains_key(text) {
                    numbers.insert(text.clone(), number.unwrap_or_default());
                }
            }
            for (task, [names, numbers]) in tasks[first..].iter_mut().zip(has) {
                if names {
                    task.named.get_or_insert(&array.name);
                } else if numbers {
                    task.numbered.get_or_insert(&array.name);
                }
            }
        }
        for (array, first) in
            arrays.filter(|(array, _)| matches!(&array.elements, Elements::Numbers(_, d) if !d.is_empty()))
        {
            for task in tasks.iter_mut().skip(first).take(width(array)) {
                task.numbered.get_or_insert(&array.name);
            }
        }
        let mut sorted = None;
        let logits = if tasks.len() == 1 { logits } else { &[] };
        for Found { named, numbered, numbers } in &mut tasks {
            let Some(named) = *named else { continue };
            if let Some(numbered) = numbered {
                let message = format!(
                    "holds numbers, but {named} names of classes: give the names in both, or the numbers of the classes"
                );
                return Err(FieldError::new(*numbered, message));
            }
            if !number_names(named, numbers, logits)? {
                sorted = sorted.or_else(|| Some((named.to_owned(), numbers.keys().cloned().collect())));
            }
        }
        Ok(Self { tasks: tasks.into_iter().map(|task| task.numbers).collect(), sorted })
    }

    /// The note on the order in which the classes are taken to be in `beside`.
    pub fn note(&self, beside: &str) -> Option<String> {
        let (array, names) = self.sorted.as_ref()?;
        let listed = names.iter().take(MOST_LISTED).enumerate().map(|(at, name)| format!("{} {at}", in_short(name)));
        let more = if names.len() > MOST_LISTED { ", …" } else { "" };
        Some(format!(
            "{array}: classes are numbered in the order of their names, {}{more}, and {beside} is taken to be in this order (a \
             single column is of class 1). If it is in another, give class numbers, or a table with a column for each class, \
             such as task_logits.{}",
            listed.collect::<Vec<_>>().join(", "),
            names.first().map_or(String::new(), |name| in_short(name)),
        ))
    }

    /// Replaces the texts of an array by their numbers; a missing one is NaN, an unknown label.
    pub fn number(&self, array: &mut Array, first: usize) {
        let (Elements::Texts(texts), true) = (&array.elements, are_of_tasks(&array.name)) else { return };
        let width = width(array);
        let number =
            |(at, text): (usize, &String)| self.tasks[first + at % width].get(text).copied().unwrap_or(f64::NAN);
        let numbers = texts.iter().enumerate().map(number).flat_map(f64::to_le_bytes).collect();
        array.elements = Elements::Numbers(DataType::Float64, numbers);
    }
}

/// Numbers names of classes as the columns of logits if these have them, else in sorted order. Returns whether these
/// do.
fn number_names(array: &str, names: &mut BTreeMap<String, f64>, logits: &[String]) -> Result<bool, FieldError> {
    if names.len() as i64 > MAX_CLASS + 1 {
        let message = format!("has {} different names of classes, expected at most {}", names.len(), MAX_CLASS + 1);
        return Err(FieldError::new(array, message));
    }
    if !logits.iter().any(|column| names.contains_key(column)) {
        names.values_mut().zip(0..).for_each(|(number, place)| *number = f64::from(place));
        return Ok(false);
    }
    let count = names.len();
    for (name, number) in names {
        *number = match logits.iter().position(|column| column == name) {
            // A single column is that of class 1.
            Some(at) => (at + usize::from(logits.len() == 1)) as f64,
            None if logits.len() == 1 && count <= 2 => 0.0,
            None => {
                let message = format!(
                    "has the class '{}', expected those of the columns of task_logits: {}",
                    in_short(name),
                    in_short(&logits.join(", "))
                );
                return Err(FieldError::new(array, message));
            }
        };
    }
    Ok(true)
}

/// The tasks of an array, [n] or [n, t], of interventions [n, m] or [n, m, t].
fn width(array: &Array) -> usize {
    let dim = if has_tasks_in_columns(&array.name) { 1 } else { 2 };
    array.shape.get(dim).map_or(1, |&width| usize::try_from(width).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(arrays: &mut [(Array, usize)]) -> Vec<Vec<f64>> {
        let classes = Classes::of(arrays.iter().map(|(array, first)| (array, *first)), &[]).unwrap();
        arrays.iter_mut().for_each(|(array, first)| classes.number(array, *first));
        arrays.iter().map(|(array, _)| array.numbers().unwrap()).collect()
    }

    fn array(name: TensorName, shape: &[u64], texts: &[&str]) -> Array {
        let texts = texts.iter().map(|text| (*text).to_owned()).collect();
        Array { name: name.text().to_owned(), shape: shape.to_vec(), elements: Elements::Texts(texts) }
    }

    #[test]
    fn labels_and_predictions_of_a_task_are_numbered_alike_and_each_task_from_0() {
        let labels = array(TensorName::TaskLabels, &[3, 2], &["owl", "no", "elk", "yes", "owl", "no"]);
        let predictions = array(TensorName::TaskPredictions, &[3], &["yes", "maybe", "no"]);
        let found = numbered(&mut [(labels, 0), (predictions, 1)]);
        assert_eq!(found, [vec![1.0, 1.0, 0.0, 2.0, 1.0, 1.0], vec![2.0, 0.0, 1.0]]);
    }

    #[test]
    fn a_missing_name_is_an_unknown_label() {
        let found = numbered(&mut [(array(TensorName::TaskLabels, &[4], &["NA", "b", "nan", "a"]), 0)]);
        assert!(found[0][0].is_nan() && found[0][2].is_nan());
        assert_eq!([found[0][1], found[0][3]], [1.0, 0.0]);
    }

    #[test]
    fn texts_that_are_numbers_are_these_and_not_mixed_with_names() {
        let texts = |name, texts| (array(name, &[3], texts), 0);
        let found = numbered(&mut [
            texts(TensorName::TaskLabels, &["10", "2", ""]),
            texts(TensorName::InterventionPredictions, &["11", "10", "-1"]),
        ]);
        assert_eq!((found[0][..2].to_vec(), found[1].clone()), (vec![10.0, 2.0], vec![11.0, 10.0, -1.0]));
        let elements = Elements::Numbers(DataType::UInt8, vec![0, 1, 2]);
        let numbers = Array { name: "intervened_task_predictions".into(), shape: vec![3], elements };
        for (other, first) in [texts(TensorName::TaskPredictions, &["0", "1", "2"]), (numbers, 0)] {
            let names = texts(TensorName::TaskLabels, &["owl", "elk", "7"]).0;
            let fault = Classes::of([(&names, 0), (&other, first)].into_iter(), &[]).err().unwrap();
            assert_eq!(
                (fault.field, &fault.message[..46]),
                (other.name.clone(), "holds numbers, but task_labels names of classe")
            );
            // Of another task.
            assert!(Classes::of([(&names, 0), (&other, 1)].into_iter(), &[]).is_ok());
        }
    }

    #[test]
    fn columns_of_logits_number_the_classes_that_they_name() {
        let labels = array(TensorName::TaskLabels, &[3], &["owl", "elk", "owl"]);
        let of = |columns: &[&str]| {
            let columns: Vec<String> = columns.iter().map(|column| (*column).to_owned()).collect();
            let classes = Classes::of([(&labels, 0)].into_iter(), &columns).map_err(|fault| fault.to_string())?;
            let mut numbered = array(TensorName::TaskLabels, &[3], &["owl", "elk", "owl"]);
            classes.number(&mut numbered, 0);
            Ok((numbered.numbers().unwrap(), classes.note("task_logits").is_some()))
        };
        assert_eq!(of(&["zebra", "owl", "elk"]), Ok((vec![1.0, 2.0, 1.0], false)));
        assert_eq!(of(&["elk"]), Ok((vec![0.0, 1.0, 0.0], false)), "the logit of class 1");
        assert_eq!(of(&["0", "1"]), Ok((vec![1.0, 0.0, 1.0], true)));
        let says = "task_labels: has the class 'elk', expected those of the columns of task_logits: owl, ant";
        assert_eq!(of(&["owl", "ant"]), Err(says.to_owned()));
    }

    #[test]
    fn texts_stay_texts() {
        let mut texts = array(TensorName::ReferenceText, &[1], &["a wing"]);
        Classes::default().number(&mut texts, 0);
        assert_eq!(texts.texts().unwrap(), ["a wing"]);
    }
}
