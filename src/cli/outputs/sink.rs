//! Collects the arrays of all files: each once, and columns of tables as one array.

use std::path::Path;

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::TensorName;

use super::array::{Array, Elements, Memory};
use super::classes::Classes;
use super::names::Target;

const ACTIVATIONS: &str = TensorName::ConceptActivations.text();
const LABELS: &str = TensorName::ConceptLabels.text();
const TASKS: &str = TensorName::TaskLabels.text();

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

    /// All arrays; names of classes are numbered, columns are put together, and their suffixes name the concepts.
    pub fn finish(mut self, memory: &mut Memory) -> Result<Vec<Array>, FieldError> {
        let whole = self.arrays.iter().map(|(array, _)| (array, 0));
        let columns = self.columns.iter().flat_map(|(_, columns)| columns.iter().map(|column| &column.array).zip(0..));
        let classes = Classes::of(whole.chain(columns));
        self.arrays.iter_mut().for_each(|(array, _)| classes.number(array, 0));
        for (_, columns) in &mut self.columns {
            columns.iter_mut().enumerate().for_each(|(task, column)| classes.number(&mut column.array, task));
        }
        let mut arrays: Vec<Array> = self.arrays.into_iter().map(|(array, _)| array).collect();
        let mut of_concepts: Option<(String, Vec<String>)> = None;
        let mut of_tasks: Option<Vec<String>> = None;
        for (name, columns) in self.columns {
            let suffixes: Vec<String> = columns.iter().map(|column| column.suffix.clone()).collect();
            arrays.push(stacked(&name, columns, memory)?);
            if name == TASKS {
                of_tasks = Some(suffixes);
                continue;
            }
            if name != ACTIVATIONS && name != LABELS {
                continue;
            }
            match &of_concepts {
                Some((other, expected)) if expected.len() == suffixes.len() && *expected != suffixes => {
                    let at = expected.iter().zip(&suffixes).position(|(a, b)| a != b).unwrap_or_default();
                    let (got, expected) = (in_short(&suffixes[at]), in_short(&expected[at]));
                    let message = format!("got '{got}' as column {at}, expected '{expected}' as of {other}");
                    return Err(FieldError::new(name, message));
                }
                // Activations may have several columns a concept; the labels have one each.
                Some(_) if name == ACTIVATIONS => {}
                _ => of_concepts = Some((name, suffixes)),
            }
        }
        let named = |suffixes: &[String]| suffixes.iter().any(|suffix| suffix.bytes().any(|b| !b.is_ascii_digit()));
        let of_labels = of_concepts.and_then(|(name, suffixes)| (name == LABELS).then_some(suffixes));
        for (of, suffixes) in [("concept_names", of_labels), ("task_names", of_tasks)] {
            let given = arrays.iter().any(|array| array.name == of);
            if let Some(suffixes) = suffixes.filter(|suffixes| !given && named(suffixes)) {
                let shape = vec![suffixes.len() as u64];
                arrays.push(Array { name: of.into(), shape, elements: Elements::Texts(suffixes) });
            }
        }
        Ok(arrays)
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
