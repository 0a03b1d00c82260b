//! Tables: a header, and a row of the data set in each line, separated by commas, semicolons or tabs.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::{Content, DataType, TensorName};

use super::array::{Array, Elements, Memory};
use super::classes::{are_of_tasks, flag, is_missing, number};
use super::names::{Names, Target};
use super::sink::Sink;

/// Bytes of a line; a quote that is never closed makes one of the rest of the file.
const MAX_LINE: usize = 4 << 20;
/// Rows after which memory is taken and progress said.
const BLOCK: u64 = 4096;
/// Separators of cells; the one that the header has most is taken.
const SEPARATORS: [u8; 3] = [b',', b';', b'\t'];

/// Counts bytes since the last line, so that no line fills the memory.
struct Lines<R> {
    inner: R,
    since: Rc<Cell<usize>>,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.since.get() > MAX_LINE {
            return Err(Error::new(ErrorKind::InvalidData, format!("a line is longer than {} MiB", MAX_LINE >> 20)));
        }
        let read = self.inner.read(buffer)?;
        self.since.set(self.since.get() + read);
        Ok(read)
    }
}

/// The values of a column so far, whole numbers while all are.
enum Values {
    Whole(Vec<i64>),
    Floats(Vec<f64>),
    Texts(Vec<String>),
}

impl Values {
    /// Whether no row so far has a value.
    fn are_missing(&self) -> bool {
        match self {
            Self::Whole(whole) => whole.is_empty(),
            Self::Floats(floats) => floats.iter().all(|value| value.is_nan()),
            Self::Texts(_) => false,
        }
    }
}

struct Column {
    /// As the file calls it.
    title: String,
    at: usize,
    target: Target,
    values: Values,
    /// The values may be names of classes.
    of_tasks: bool,
}

pub fn read(path: &Path, names: &Names, memory: &mut Memory, sink: &mut Sink) -> Result<(), FieldError> {
    let file_fault = |message: String| FieldError::new(path.display().to_string(), message);
    let file = File::open(path).map_err(|e| file_fault(format!("cannot be opened: {e}")))?;
    let since = Rc::new(Cell::new(0));
    let mut file = BufReader::new(file);
    let beginning = file.fill_buf().map_err(|e| file_fault(format!("cannot be read: {e}")))?;
    let separator = separator(beginning);
    // The reader counts a line at its \n, and ends a row at the \r before it.
    let uncounted = u64::from(beginning.split(|byte| *byte == b'\n').next().is_some_and(|line| line.ends_with(b"\r")));
    let lines = Lines { inner: file, since: since.clone() };
    let mut reader = csv::ReaderBuilder::new().delimiter(separator).trim(csv::Trim::All).from_reader(lines);
    let unreadable = |e: csv::Error| file_fault(format!("cannot be read: {}", in_short(&told(&e, uncounted))));
    let header = reader.headers().map_err(unreadable)?.clone();
    since.set(0);
    let mut columns = columns(&header, names);
    let (mut record, mut rows) = (csv::StringRecord::new(), 0u64);
    let wide =
        columns.iter().map(|column| if matches!(column.values, Values::Texts(_)) { 64 } else { 16 }).sum::<usize>();
    while reader.read_record(&mut record).map_err(unreadable)? {
        since.set(0);
        if rows.is_multiple_of(BLOCK) {
            sink.say(&format!("reading row {rows} of {}", path.display()));
            let shape = [rows + BLOCK, columns.len() as u64];
            let needs = usize::try_from(BLOCK).ok().and_then(|block| block.checked_mul(wide));
            memory.take(&path.display().to_string(), &shape, needs)?;
        }
        for column in &mut columns {
            let cell = record.get(column.at).unwrap_or_default();
            let fault = |expected: &str| {
                let (title, cell) = (in_short(&column.title), in_short(cell));
                let separator = char::from(separator).escape_default();
                let message =
                    format!("got '{cell}' in row {rows}, expected {expected}; cells are separated by '{separator}'");
                FieldError::new(title, message)
            };
            if column.of_tasks && number(cell).is_none() && column.values.are_missing() {
                column.values = Values::Texts(vec![String::new(); rows as usize]);
            }
            let is_class = column.of_tasks && matches!(column.values, Values::Texts(_));
            if is_class && number(cell).is_some() && !is_missing(cell) {
                return Err(fault("the name of a class, as in rows before it"));
            }
            let read = push(&mut column.values, cell, memory);
            read.ok_or_else(|| match cell.replace(',', ".").parse::<f64>() {
                Ok(_) => fault("a number with a decimal point"),
                Err(_) => fault("a number, true, false or an empty cell"),
            })?;
        }
        rows += 1;
    }
    if rows == 0 && !columns.is_empty() {
        return Err(file_fault("has a header and no rows".into()));
    }
    for column in columns {
        let Column { target, values, .. } = column;
        sink.put(path, &target, |name| {
            let elements = match values {
                Values::Whole(values) => {
                    Elements::Numbers(DataType::Int64, bytes(values.iter().map(|v| v.to_le_bytes())))
                }
                Values::Floats(values) => {
                    Elements::Numbers(DataType::Float64, bytes(values.iter().map(|v| v.to_le_bytes())))
                }
                Values::Texts(values) => Elements::Texts(values),
            };
            Ok(Array { name, shape: vec![rows], elements })
        })?;
    }
    Ok(())
}

fn columns(header: &csv::StringRecord, names: &Names) -> Vec<Column> {
    let column = |(at, title): (usize, &str)| {
        let target = names.target(title)?;
        let tensor = TensorName::parse(&target.name);
        let is_text = tensor.is_some_and(|name| name.content() == Content::Texts);
        let is_text = is_text
            || ["concept_names", "task_names", "activation_kind", "activation_columns"].contains(&target.name.as_str());
        // Activations are floats even where all are whole, such as 0 and 1.
        let is_float = tensor.is_some_and(|name| matches!(name.content(), Content::Floats | Content::FloatsOrNan));
        let values = match (is_text, is_float) {
            (true, _) => Values::Texts(Vec::new()),
            (_, true) => Values::Floats(Vec::new()),
            _ => Values::Whole(Vec::new()),
        };
        let of_tasks = are_of_tasks(&target.name);
        Some(Column { title: title.to_owned(), at, target, values, of_tasks })
    };
    header.iter().enumerate().filter_map(column).collect()
}

/// The separator that the first line has most, outside of quotes.
pub fn separator(beginning: &[u8]) -> u8 {
    let (mut counts, mut quoted) = ([0; SEPARATORS.len()], false);
    for &byte in beginning.iter().take_while(|&&byte| byte != b'\n') {
        quoted ^= byte == b'"';
        if let Some(at) = SEPARATORS.iter().position(|&separator| separator == byte && !quoted) {
            counts[at] += 1;
        }
    }
    // The first of equals: the comma where a row has no separator.
    let most = counts.iter().max().copied().unwrap_or_default();
    SEPARATORS[counts.iter().position(|&count| count == most).unwrap_or_default()]
}

/// Adds a cell, `None` if it is no number. A missing one is NaN: an unknown label.
fn push(values: &mut Values, cell: &str, memory: &mut Memory) -> Option<()> {
    let flag = flag(cell);
    if let Values::Whole(whole) = values {
        if let Some(value) = flag.or_else(|| cell.parse().ok()) {
            whole.push(value);
            return Some(());
        }
        *values = Values::Floats(whole.iter().map(|&value| value as f64).collect());
    }
    match values {
        Values::Floats(floats) if is_missing(cell) => floats.push(f64::NAN),
        Values::Floats(floats) => floats.push(flag.map(|flag| flag as f64).or_else(|| cell.parse().ok())?),
        Values::Texts(texts) => {
            memory.used = memory.used.saturating_add(size_of::<String>() + cell.len());
            texts.push(cell.to_owned());
        }
        Values::Whole(_) => {}
    }
    Some(())
}

/// Describes what is wrong, without the crate's positions in bytes.
fn told(error: &csv::Error, uncounted: u64) -> String {
    let line = |at: &Option<csv::Position>| at.as_ref().map_or(0, |at| at.line() + uncounted);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { pos, expected_len, len } => {
            format!("line {} has {len} fields, expected {expected_len} as in the header", line(pos))
        }
        csv::ErrorKind::Utf8 { pos, .. } => format!("line {} is not valid UTF-8", line(pos)),
        csv::ErrorKind::Io(error) => error.to_string(),
        _ => error.to_string(),
    }
}

fn bytes(values: impl Iterator<Item = [u8; 8]>) -> Vec<u8> {
    values.flatten().collect()
}
