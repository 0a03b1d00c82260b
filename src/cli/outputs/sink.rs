//! Collects the arrays of all files: each once, and columns of tables as one array.

use std::path::Path;

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::TensorName;

use super::array::{Array, Elements, Memory};
use super::classes::{Classes, has_tasks_in_columns};
use super::names::Target;

const ACTIVATIONS: &str = TensorName::ConceptActivations.text();
const ACTIVE: &str = TensorName::ActiveConcepts.text();
const LABELS: &str = TensorName::ConceptLabels.text();
const TASKS: &str = TensorName::TaskLabels.text();
const LOGITS: &str = TensorName::TaskLogits.text();
/// Arrays in the order of the task's classes.
const OF_CLASSES: [&str; 2] = [LOGITS, "head_weights"];

/// A receiver of messages while files are read.
pub type Say<'a> = dyn Fn(&str) + 'a;

pub struct Sink<'a> {
    say: &'a Say<'a>,
    arrays: Vec<(Array, String)>,
    /// By the name of their array, in the order of the file.
    columns: Vec<(String, Vec<Column>)>,
}

struct Column {
    suffix: String,
    array: Array,
}

impl<'a> Sink<'a> {
    pub fn new(say: &'a Say<'a>) -> Self {
        Self { say, arrays: Vec::new(), columns: Vec::new() }
    }

    pub fn say(&self, what: &str) {
        (self.say)(what);
    }

    /// Takes an array that `read` gets under this name. Errors when another has it.
    pub fn put(
        &mut self,
        file: &Path,
        target: &Target,
        read: impl FnOnce(String) -> Result<Array, FieldError>,
    ) -> Result<(), FieldError> {
        let Target { name, suffix } = target;
        self.say(&format!("reading {name}"));
        let place = file.display().to_string();
        let twice = |other: &str| FieldError::new(name.clone(), format!("is in {other} and again in {place}"));
        if let Some((_, other)) = self.arrays.iter().find(|(array, _)| array.name == *name) {
            return Err(twice(other));
        }
        let Some(suffix) = suffix else {
            if self.columns.iter().any(|(other, _)| other == name) {
                return Err(twice("columns of a table"));
            }
            self.arrays.push((read(name.clone())?, place));
            return Ok(());
        };
        let array = read(name.clone())?;
        let full = format!("{name}.{}", in_short(suffix));
        if array.shape.len() != 1 {
            return Err(FieldError::new(full, format!("has shape {:?}, expected one column, [n]", array.shape)));
        }
        let at = self.columns.iter().position(|(other, _)| other == name).unwrap_or_else(|| {
            self.columns.push((name.clone(), Vec::new()));
            self.columns.len() - 1
        });
        let columns = &mut self.columns[at].1;
        if columns.iter().any(|column| column.suffix == *suffix) {
            return Err(FieldError::new(full, "is given twice"));
        }
        columns.push(Column { suffix: suffix.clone(), array });
        Ok(())
    }

    /// Puts columns with the names of all concepts, or of all tasks, into the order of the labels.
    fn order(&mut self) {
        let of = |array: &str| {
            let columns = self.columns.iter().find(|(name, _)| name == array).map(|(_, columns)| columns);
            columns.map(|columns| columns.iter().map(|column| column.suffix.clone()).collect::<Vec<_>>())
        };
        let (concepts, tasks) = (of(LABELS).or_else(|| of(ACTIVATIONS)), of(TASKS));
        for (name, columns) in &mut self.columns {
            let order = match name.as_str() {
                ACTIVATIONS | ACTIVE => &concepts,
                name if has_tasks_in_columns(name) => &tasks,
                _ => continue,
            };
            let place = |column: &Column| order.as_ref()?.iter().position(|suffix| *suffix == column.suffix);
            if columns.iter().all(|column| place(column).is_some()) {
                columns.sort_by_key(place);
            }
        }
    }

    /// All arrays, and a note on the order of classes. Names of classes are numbered; columns are put together, those
    /// with numbers for suffixes in the order of these; other suffixes name the concepts and tasks.
    pub fn finish(mut self, memory: &mut Memory) -> Result<(Vec<Array>, Option<String>), FieldError> {
        for (_, columns) in &mut self.columns {
            let numbers = columns.iter().map(|column| column.suffix.parse().ok()).collect::<Option<Vec<u64>>>();
            if numbers.is_some() {
                columns.sort_by_key(|column| column.suffix.parse::<u64>().ok());
            }
        }
        self.order();
        let task = |name: &str, column: usize| if has_tasks_in_columns(name) { column } else { 0 };
        let whole = self.arrays.iter().map(|(array, _)| (array, 0));
        let columns = self.columns.iter().flat_map(|(name, columns)| {
            columns.iter().enumerate().map(move |(at, column)| (&column.array, task(name, at)))
        });
        let logits = self.columns.iter().find(|(name, _)| name == LOGITS).map_or(&[][..], |(_, columns)| columns);
        let logits: Vec<String> = logits.iter().map(|column| column.suffix.clone()).collect();
        let classes = Classes::of(whole.chain(columns), &logits)?;
        self.arrays.iter_mut().for_each(|(array, _)| classes.number(array, 0));
        for (name, columns) in &mut self.columns {
            columns.iter_mut().enumerate().for_each(|(at, column)| classes.number(&mut column.array, task(name, at)));
        }
        let mut arrays: Vec<Array> = self.arrays.into_iter().map(|(array, _)| array).collect();
        let (mut of_concepts, mut of_tasks): (Option<(String, Vec<String>)>, _) = (None, None);
        for (name, columns) in self.columns {
            let suffixes: Vec<String> = columns.iter().map(|column| column.suffix.clone()).collect();
            arrays.push(stacked(&name, columns, memory)?);
            let is_of_tasks = has_tasks_in_columns(&name);
            let known = match name.as_str() {
                ACTIVATIONS | LABELS => &mut of_concepts,
                _ if is_of_tasks => &mut of_tasks,
                _ => continue,
            };
            // Predictions of tasks may have names of their own, in the same order.
            if let Some((other, expected)) = known
                && expected.len() == suffixes.len()
                && let Some(at) = expected.iter().zip(&suffixes).position(|(a, b)| a != b)
                && (!is_of_tasks || expected.contains(&suffixes[at]))
            {
                let (got, expected) = (in_short(&suffixes[at]), in_short(&expected[at]));
                let message = format!("got '{got}' as column {at}, expected '{expected}' as of {other}");
                return Err(FieldError::new(name, message));
            }
            // Activations may have several columns a concept; the labels have one each.
            if known.is_none() || [LABELS, TASKS].contains(&name.as_str()) {
                *known = Some((name, suffixes));
            }
        }
        let named = |suffixes: &[String]| suffixes.iter().any(|suffix| suffix.bytes().any(|b| !b.is_ascii_digit()));
        for (of, labels, known) in [("concept_names", LABELS, of_concepts), ("task_names", TASKS, of_tasks)] {
            let suffixes = known.and_then(|(name, suffixes)| (name == labels).then_some(suffixes));
            let given = arrays.iter().any(|array| array.name == of);
            if let Some(suffixes) = suffixes.filter(|suffixes| !given && named(suffixes)) {
                let shape = vec![suffixes.len() as u64];
                arrays.push(Array { name: of.into(), shape, elements: Elements::Texts(suffixes) });
            }
        }
        let beside = OF_CLASSES.into_iter().find(|of| arrays.iter().any(|array| array.name == *of));
        let note = beside.and_then(|of| classes.note(of));
        Ok((arrays, note))
    }
}

/// Columns as one array [n, columns], of the type that holds all of them.
fn stacked(name: &str, columns: Vec<Column>, memory: &mut Memory) -> Result<Array, FieldError> {
    let rows = columns[0].array.shape[0];
    let shape = vec![rows, columns.len() as u64];
    let mut types = Vec::new();
    for Column { suffix, array } in &columns {
        let full = || format!("{name}.{}", in_short(suffix));
        if array.shape[0] != rows {
            return Err(FieldError::new(
                full(),
                format!("got {} rows, expected {rows} as in the first column", array.shape[0]),
            ));
        }
        match &array.elements {
            Elements::Numbers(dtype, _) => types.push(*dtype),
            Elements::Texts(_) => return Err(FieldError::new(full(), "holds text, expected numbers")),
        }
    }
    let first = types[0];
    // A column that happens to hold whole numbers does not make its neighbours whole.
    let all = if types.iter().all(|dtype| *dtype == first) { first } else { leakage::tensor::DataType::Float64 };
    let bytes = memory.take_numbers(name, &shape, all.size(), 1)?;
    let mut data = vec![0; bytes];
    let width = columns.len();
    for (at, Column { array, .. }) in columns.into_iter().enumerate() {
        let size = all.size();
        let mut place = |row: usize, element: &[u8]| {
            let start = (row * width + at) * size;
            data[start..start + size].copy_from_slice(element);
        };
        match &array.elements {
            Elements::Numbers(dtype, column) if *dtype == all => {
                column.chunks(size).enumerate().for_each(|(row, element)| place(row, element));
            }
            _ if rows == 0 => {}
            _ => array.numbers()?.iter().enumerate().for_each(|(row, value)| place(row, &value.to_le_bytes())),
        }
    }
    Ok(Array { name: name.to_owned(), shape, elements: Elements::Numbers(all, data) })
}
