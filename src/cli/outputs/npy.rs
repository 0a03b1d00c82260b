//! Arrays as `np.save` writes them.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use npyz::{DType, Endianness, NpyHeader, Order, TypeChar, TypeStr};

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::DataType;

use super::array::{Array, Elements, Memory, check_constant, elements};

/// Longer headers are refused, as NumPy does; a real one has a few hundred bytes.
const MAX_HEADER_BYTES: usize = 10_000;

/// Brackets within brackets: a plain array's header has two. The parser tries each in several ways, so its time is
/// exponential in them.
const MAX_HEADER_DEPTH: usize = 4;

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
    let (header, header_bytes) = read_header(&mut reader)
        .map_err(|e| fault(format!("has no readable npy header: {}", in_short(&e.to_string()))))?;
    let DType::Plain(kind) = header.dtype() else {
        return Err(fault("is a structured array, expected one plain element type".into()));
    };
    if kind.endianness() == Endianness::Big {
        return Err(fault(format!("has big-endian elements ({kind}), expected little-endian")));
    }
    let item_bytes = kind.num_bytes().filter(|_| !kind.uses_pickled_array());
    let item_bytes = item_bytes.filter(|&bytes| bytes > 0);
    let item_bytes = item_bytes.ok_or_else(|| fault(format!("has elements of type {kind}, expected plain numbers")))?;
    let shape = header.shape().to_vec();
    let is_text = [TypeChar::UnicodeStr, TypeChar::ByteStr].contains(&kind.type_char());
    // A column-major array is copied once.
    let copies = if header.order() == Order::Fortran { 2 } else { 1 };
    let bytes = if is_text {
        let elements = elements(&shape);
        let bytes = elements.and_then(|elements| elements.checked_mul(item_bytes));
        let of_texts = || elements?.checked_mul(2 * (size_of::<String>() + item_bytes))?.checked_add(copies * bytes?);
        memory.take(&name, &shape, of_texts())?;
        let bytes = bytes.unwrap_or(usize::MAX);
        check_constant(&name, &shape, bytes)?;
        bytes
    } else {
        memory.take_numbers(&name, &shape, item_bytes, copies)?
    };
    let stated = size.saturating_sub(header_bytes);
    if stated != bytes as u64 {
        let got = if stated > bytes as u64 { "more".to_owned() } else { stated.to_string() };
        return Err(fault(format!("got {got} bytes, expected {bytes} for shape {shape:?}")));
    }
    let mut data = Vec::new();
    data.try_reserve_exact(bytes + 1).map_err(|e| fault(format!("cannot be read: {e}")))?;
    // The archive may state another size than it has. Reads one byte more than expected, to detect a surplus.
    reader.take(bytes as u64 + 1).read_to_end(&mut data).map_err(|e| fault(format!("cannot be read: {e}")))?;
    if data.len() != bytes {
        let got = if data.len() > bytes { "more".to_owned() } else { data.len().to_string() };
        return Err(fault(format!("got {got} bytes, expected {bytes} for shape {shape:?}")));
    }
    if header.order() == Order::Fortran {
        data = to_row_major(&data, &shape, item_bytes);
    }
    let elements = if is_text {
        Elements::Texts(texts(&name, kind.type_char(), &data, item_bytes)?)
    } else {
        Elements::Numbers(data_type(&name, &kind, item_bytes)?, data)
    };
    Ok(Array { name, shape, elements })
}

fn data_type(name: &str, kind: &TypeStr, item_bytes: usize) -> Result<DataType, FieldError> {
    Ok(match (kind.type_char(), item_bytes) {
        (TypeChar::Float, 2) => DataType::Float16,
        (TypeChar::Float, 4) => DataType::Float32,
        (TypeChar::Float, 8) => DataType::Float64,
        (TypeChar::Int, 1) => DataType::Int8,
        (TypeChar::Int, 2) => DataType::Int16,
        (TypeChar::Int, 4) => DataType::Int32,
        (TypeChar::Int, 8) => DataType::Int64,
        (TypeChar::Uint, 1) => DataType::UInt8,
        (TypeChar::Uint, 2) => DataType::UInt16,
        (TypeChar::Uint, 4) => DataType::UInt32,
        (TypeChar::Uint, 8) => DataType::UInt64,
        (TypeChar::Bool, 1) => DataType::Bool,
        (kind, bytes) => {
            let message = format!("has {bytes}-byte elements of kind {kind:?}, expected float, int, uint or bool");
            return Err(FieldError::new(name, message));
        }
    })
}

fn texts(name: &str, kind: TypeChar, data: &[u8], item_bytes: usize) -> Result<Vec<String>, FieldError> {
    let decode = |item: &[u8]| match kind {
        TypeChar::UnicodeStr => {
            let chars = item.as_chunks::<4>().0.iter().map(|c| u32::from_le_bytes(*c)).take_while(|&c| c != 0);
            let text = chars.map(char::from_u32).collect::<Option<String>>();
            text.ok_or_else(|| FieldError::new(name, "is not valid text"))
        }
        _ => {
            let end = item.iter().position(|&b| b == 0).unwrap_or(item.len());
            String::from_utf8(item[..end].to_vec()).map_err(|_| FieldError::new(name, "is not valid UTF-8"))
        }
    };
    data.chunks(item_bytes).map(decode).collect()
}

/// Reads a header, and returns how many bytes it had. Errors when its declared length or shape is implausible.
fn read_header(reader: &mut impl Read) -> std::io::Result<(NpyHeader, u64)> {
    let fault = |message: &str| std::io::Error::new(std::io::ErrorKind::InvalidData, message);
    let mut bytes = vec![0; 10];
    reader.read_exact(&mut bytes)?;
    // The length has two bytes in version 1 and four in later versions.
    let mut length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    if bytes[6] > 1 {
        let mut high = [0; 2];
        reader.read_exact(&mut high)?;
        bytes.extend(high);
        length |= usize::from(u16::from_le_bytes(high)) << 16;
    }
    if length > MAX_HEADER_BYTES {
        return Err(fault(&format!("got {length} bytes, expected at most {MAX_HEADER_BYTES}")));
    }
    let start = bytes.len();
    bytes.resize(start + length, 0);
    reader.read_exact(&mut bytes[start..])?;
    let text = String::from_utf8_lossy(&bytes[start..]);
    if depth(&text) > MAX_HEADER_DEPTH {
        return Err(fault(&format!(
            "got more than {MAX_HEADER_DEPTH} brackets within each other, expected a plain shape"
        )));
    }
    // The parser multiplies the dimensions without an overflow check.
    let shape = text.split_once("'shape'").map_or("", |(_, rest)| rest.split([')', ']']).next().unwrap_or_default());
    let dims = shape.split(|c: char| !c.is_ascii_digit()).filter(|digits| !digits.is_empty());
    let product =
        dims.map(|digits| digits.parse::<u64>().ok()).try_fold(1u64, |product, dim| product.checked_mul(dim?));
    if product.is_none() {
        return Err(fault("its shape is too large"));
    }
    Ok((NpyHeader::from_reader(bytes.as_slice())?, bytes.len() as u64))
}

/// How many brackets are open at once, at most.
fn depth(text: &str) -> usize {
    let (mut open, mut most) = (0usize, 0);
    for c in text.chars() {
        match c {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            _ => {}
        }
        most = most.max(open);
    }
    most
}

/// Reorders the elements of a column-major array in row-major order.
fn to_row_major(data: &[u8], shape: &[u64], item_bytes: usize) -> Vec<u8> {
    let dims: Vec<usize> = shape.iter().map(|&dim| dim as usize).collect();
    let mut index = vec![0; dims.len()];
    let mut ordered = Vec::with_capacity(data.len());
    for _ in 0..data.len() / item_bytes.max(1) {
        let (mut at, mut stride) = (0, 1);
        for (i, dim) in index.iter().zip(&dims) {
            at += i * stride;
            stride *= dim;
        }
        ordered.extend_from_slice(&data[at * item_bytes..(at + 1) * item_bytes]);
        for axis in (0..dims.len()).rev() {
            index[axis] += 1;
            if index[axis] < dims[axis] {
                break;
            }
            index[axis] = 0;
        }
    }
    ordered
}
