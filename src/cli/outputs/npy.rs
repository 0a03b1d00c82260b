//! Arrays as `np.save` writes them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use ndarray::{ArrayView, IxDyn, ShapeBuilder};

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::DataType;

use super::array::{Array, Elements, Memory, elements};

/// Longer headers are refused, as NumPy does; a real one has a few hundred bytes.
const MAX_HEADER_BYTES: usize = 10_000;

/// Reads the array of a file of its own.
pub fn read_file(path: &Path, name: &str, memory: &mut Memory) -> Result<Array, FieldError> {
    let fault = |e: std::io::Error| FieldError::new(path.display().to_string(), format!("cannot be opened: {e}"));
    let file = File::open(path).map_err(fault)?;
    let size = file.metadata().map_err(fault)?.len();
    read(name.to_owned(), BufReader::new(file), size, memory)
}

/// Reads an array of an entry that states `size` bytes.
pub fn read(name: String, mut reader: impl Read, size: u64, memory: &mut Memory) -> Result<Array, FieldError> {
    let fault = |message: String| FieldError::new(name.clone(), message);
    let header = Header::read(&mut reader)
        .map_err(|e| fault(format!("has no readable npy header: {}", in_short(&e.to_string()))))?;
    let (letter, item_bytes) = element_type(&header.descr).map_err(fault)?;
    let is_text = ['U', 'S'].contains(&letter);
    let shape = header.shape;
    // A column-major array is copied once.
    let copies = if header.is_column_major { 2 } else { 1 };
    let bytes = if is_text {
        let elements = elements(&shape);
        let bytes = elements.and_then(|elements| elements.checked_mul(item_bytes));
        let of_texts = || elements?.checked_mul(2 * (size_of::<String>() + item_bytes))?.checked_add(copies * bytes?);
        memory.take(&name, &shape, of_texts())?;
        bytes.unwrap_or(usize::MAX)
    } else {
        memory.take_numbers(&name, &shape, item_bytes, copies)?
    };
    let check = |got: u64| {
        let shown = if got > bytes as u64 { "more".to_owned() } else { got.to_string() };
        let fault = || fault(format!("got {shown} bytes, expected {bytes} for shape {shape:?}"));
        if got == bytes as u64 { Ok(()) } else { Err(fault()) }
    };
    check(size.saturating_sub(header.bytes))?;
    let mut data = Vec::new();
    data.try_reserve_exact(bytes + 1).map_err(|e| fault(format!("cannot be read: {e}")))?;
    // The archive may state another size than it has. Reads one byte more than expected, to detect a surplus.
    reader.take(bytes as u64 + 1).read_to_end(&mut data).map_err(|e| fault(format!("cannot be read: {e}")))?;
    check(data.len() as u64)?;
    if header.is_column_major && !data.is_empty() {
        data = to_row_major(&data, &shape, item_bytes);
    }
    let elements = match is_text {
        true => Elements::Texts(texts(letter, &data, item_bytes).map_err(fault)?),
        false => Elements::Numbers(data_type(letter, item_bytes).map_err(fault)?, data),
    };
    Ok(Array { name, shape, elements })
}

/// The letter of the element type that a header names, such as `'<f4'`, and the bytes of an element.
fn element_type(descr: &str) -> Result<(char, usize), String> {
    if descr.starts_with('[') {
        return Err("is a structured array, expected one plain element type".to_owned());
    }
    let name = descr.trim_start_matches('\'').split('\'').next().unwrap_or_default();
    if name.starts_with('>') {
        return Err(format!("has big-endian elements ({}), expected little-endian", in_short(name)));
    }
    if name.ends_with('O') {
        return Err("holds Python objects, expected numbers or strings, as of a.astype(str)".to_owned());
    }
    let mut rest = name.trim_start_matches(['<', '|', '=']).chars();
    let letter = rest.next();
    // Characters of Unicode have four bytes.
    let unit = if letter == Some('U') { 4 } else { 1 };
    let bytes = rest.as_str().parse().ok().and_then(|size: usize| size.checked_mul(unit)).filter(|bytes| *bytes > 0);
    letter.zip(bytes).ok_or_else(|| format!("has elements of type {}, expected plain numbers", in_short(name)))
}

fn data_type(letter: char, item_bytes: usize) -> Result<DataType, String> {
    Ok(match (letter, item_bytes) {
        ('f', 2) => DataType::Float16,
        ('f', 4) => DataType::Float32,
        ('f', 8) => DataType::Float64,
        ('i', 1) => DataType::Int8,
        ('i', 2) => DataType::Int16,
        ('i', 4) => DataType::Int32,
        ('i', 8) => DataType::Int64,
        ('u', 1) => DataType::UInt8,
        ('u', 2) => DataType::UInt16,
        ('u', 4) => DataType::UInt32,
        ('u', 8) => DataType::UInt64,
        ('b', 1) => DataType::Bool,
        _ => return Err(format!("has {item_bytes}-byte elements of type {letter}, expected float, int, uint or bool")),
    })
}

fn texts(letter: char, data: &[u8], item_bytes: usize) -> Result<Vec<String>, String> {
    let decode = |item: &[u8]| match letter {
        'U' => {
            let chars = item.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).take_while(|&c| c != 0);
            chars.map(char::from_u32).collect::<Option<String>>().ok_or_else(|| "is not valid text".to_owned())
        }
        _ => {
            let end = item.iter().position(|&b| b == 0).unwrap_or(item.len());
            String::from_utf8(item[..end].to_vec()).map_err(|_| "is not valid UTF-8".to_owned())
        }
    };
    data.chunks(item_bytes).map(decode).collect()
}

/// The header of an array: the literal of a Python dictionary, whose form NumPy prescribes.
struct Header {
    /// Begins with the element type.
    descr: String,
    is_column_major: bool,
    shape: Vec<u64>,
    /// Its own length.
    bytes: u64,
}

impl Header {
    /// Errors when it is not as NumPy writes it, or longer than any real one.
    fn read(reader: &mut impl Read) -> std::io::Result<Self> {
        let fault = |message: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, message);
        let (mut start, mut length) = ([0; 8], [0; 4]);
        reader.read_exact(&mut start)?;
        // The length has two bytes in version 1 and four in later versions.
        let of_length = match start.strip_prefix(b"\x93NUMPY") {
            Some([1, _]) => 2,
            Some([2 | 3, _]) => 4,
            _ => return Err(fault("it does not begin as an array")),
        };
        reader.read_exact(&mut length[..of_length])?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MAX_HEADER_BYTES {
            return Err(fault(&format!("got {length} bytes, expected at most {MAX_HEADER_BYTES}")));
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text)?;
        let text = String::from_utf8_lossy(&text);
        let value = |key: &str| {
            let (_, rest) = text.split_once(&format!("'{key}':")).ok_or_else(|| fault(&format!("it has no {key}")))?;
            Ok::<_, std::io::Error>(rest.trim_start())
        };
        let sizes = value("shape")?.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let (sizes, _) = sizes.ok_or_else(|| fault("its shape is no tuple"))?;
        let sizes = sizes.split(',').map(str::trim).filter(|size| !size.is_empty()).map(str::parse::<u64>);
        Ok(Self {
            descr: value("descr")?.to_owned(),
            is_column_major: value("fortran_order")?.starts_with("True"),
            shape: sizes.collect::<Result<_, _>>().map_err(|e| fault(&format!("its shape has no size: {e}")))?,
            bytes: (start.len() + of_length + length) as u64,
        })
    }
}

/// Reorders the elements of a column-major array in row-major order.
fn to_row_major(data: &[u8], shape: &[u64], item_bytes: usize) -> Vec<u8> {
    let sizes: Vec<usize> = [item_bytes].into_iter().chain(shape.iter().map(|&size| size as usize)).collect();
    // The bytes of an element are its first axis, which then becomes the last.
    let axes: Vec<usize> = (1..sizes.len()).chain([0]).collect();
    let columns = ArrayView::from_shape(IxDyn(&sizes).f(), data).expect("the length was checked against the shape");
    let mut ordered = Vec::with_capacity(data.len());
    columns.permuted_axes(axes).rows().into_iter().for_each(|element| ordered.extend(element));
    ordered
}
