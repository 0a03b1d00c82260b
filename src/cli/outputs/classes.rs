//! Classes of tasks that files give by name, as numbers.

use std::collections::BTreeMap;

use leakage::tensor::{DataType, TensorName};

use super::array::{Array, Elements};

/// Cells that pandas and R write for a missing value, besides NaN.
const MISSING: [&str; 7] = ["", "NA", "N/A", "<NA>", "null", "NULL", "None"];
/// Tensors whose values are classes of the tasks, with a column for each where there are several.
const OF_TASKS: [TensorName; 3] =
    [TensorName::TaskLabels, TensorName::TaskPredictions, TensorName::IntervenedTaskPredictions];

pub fn is_missing(cell: &str) -> bool {
    MISSING.contains(&cell) || cell.eq_ignore_ascii_case("nan")
}

/// Whether the values of an array may be names of classes.
pub fn are_of_tasks(array: &str) -> bool {
    TensorName::parse(array).is_some_and(|name| OF_TASKS.contains(&name))
}

/// The names of each task's classes and their numbers, in the order of the names.
#[derive(Default)]
pub struct Classes(Vec<BTreeMap<String, i64>>);

impl Classes {
    /// Collects the names in these arrays, each with the task of its first column. Arrays of a task share numbers.
    pub fn of<'a>(arrays: impl Iterator<Item = (&'a Array, usize)>) -> Self {
        let mut tasks: Vec<BTreeMap<String, i64>> = Vec::new();
        for (array, first) in arrays.filter(|(array, _)| are_of_tasks(&array.name)) {
            let Elements::Texts(texts) = &array.elements else { continue };
            // An array without rows may have any width.
            if texts.is_empty() {
                continue;
            }
            let width = width(array);
            tasks.resize_with(tasks.len().max(first + width), BTreeMap::new);
            for (at, text) in texts.iter().enumerate().filter(|(_, text)| !is_missing(text)) {
                let names = &mut tasks[first + at % width];
                if !names.contains_key(text) {
                    names.insert(text.clone(), 0);
                }
            }
        }
        for names in &mut tasks {
            names.values_mut().zip(0..).for_each(|(number, place)| *number = place);
        }
        Self(tasks)
    }

    /// Replaces the names of an array by their numbers; a missing one is NaN, an unknown label.
    pub fn number(&self, array: &mut Array, first: usize) {
        let (Elements::Texts(texts), true) = (&array.elements, are_of_tasks(&array.name)) else { return };
        let width = width(array);
        let number = |(at, text): (usize, &String)| self.0[first + at % width].get(text).copied();
        let numbers: Vec<Option<i64>> = texts.iter().enumerate().map(number).collect();
        array.elements = match numbers.iter().copied().collect::<Option<Vec<i64>>>() {
            Some(all) => {
                Elements::Numbers(DataType::Int64, all.iter().flat_map(|number| number.to_le_bytes()).collect())
            }
            None => {
                let float = |number: &Option<i64>| number.map_or(f64::NAN, |number| number as f64).to_le_bytes();
                Elements::Numbers(DataType::Float64, numbers.iter().flat_map(float).collect())
            }
        };
    }
}

/// The tasks of an array, [n] or [n, t].
fn width(array: &Array) -> usize {
    array.shape.get(1).map_or(1, |&width| usize::try_from(width).unwrap_or(usize::MAX)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbered(arrays: &mut [(Array, usize)]) -> Vec<Vec<f64>> {
        let classes = Classes::of(arrays.iter().map(|(array, first)| (array, *first)));
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
    fn texts_stay_texts() {
        let mut texts = array(TensorName::ReferenceText, &[1], &["a wing"]);
        Classes::default().number(&mut texts, 0);
        assert_eq!(texts.texts().unwrap(), ["a wing"]);
    }
}
