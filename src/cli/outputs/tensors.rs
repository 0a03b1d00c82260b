//! Tensors as the `safetensors` packages write them.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use leakage::field_error::{FieldError, in_short};
use leakage::tensor::DataType;

use super::array::{Array, Elements, Memory};
use super::names::Names;
use super::sink::Sink;

/// Longer headers are refused; one of a thousand tensors has a hundred kilobytes.
const MAX_HEADER: u64 = 16 << 20;
/// The length of the header stands in front of it.
const LENGTH: u64 = 8;

pub fn read(path: &Path, names: &Names, memory: &mut Memory, sink: &mut Sink) -> Result<(), FieldError> {
    let file_fault = |message: String| FieldError::new(path.display().to_string(), message);
    let cannot = |e: std::io::Error| file_fault(format!("cannot be read: {e}"));
    let mut file = File::open(path).map_err(|e| file_fault(format!("cannot be opened: {e}")))?;
    let size = file.metadata().map_err(cannot)?.len();
    let mut length = [0; LENGTH as usize];
    file.read_exact(&mut length).map_err(|_| file_fault(format!("is not a safetensors file: it has {size} bytes")))?;
    let length = u64::from_le_bytes(length);
    if length > size.saturating_sub(LENGTH) || length > MAX_HEADER {
        let message = format!("is not a safetensors file: got a header of {length} bytes in a file of {size}");
        return Err(file_fault(message));
    }
    let mut header = Vec::new();
    Read::by_ref(&mut file).take(length).read_to_end(&mut header).map_err(cannot)?;
    // The crate checks that tensors lie one behind the other, and that each has the bytes of its shape.
    let metadata: Metadata = serde_json::from_slice(&header)
        .map_err(|e| file_fault(format!("has no readable safetensors header: {}", in_short(&e.to_string()))))?;
    let start = LENGTH + length;
    let stated = start.saturating_add(metadata.data_len() as u64);
    if stated != size {
        return Err(file_fault(format!("got {size} bytes, expected {stated} by its header")));
    }
    for name in metadata.offset_keys() {
        let (Some(target), Some(info)) = (names.target(&name), metadata.info(&name)) else {
            continue;
        };
        sink.put(path, &target, |name| read_one(name, info, &mut file, start, memory))?;
    }
    Ok(())
}

fn read_one(
    name: String,
    info: &TensorInfo,
    file: &mut File,
    start: u64,
    memory: &mut Memory,
) -> Result<Array, FieldError> {
    let dtype = match info.dtype {
        Dtype::F16 => DataType::Float16,
        Dtype::BF16 => DataType::BFloat16,
        Dtype::F32 => DataType::Float32,
        Dtype::F64 => DataType::Float64,
        Dtype::I8 => DataType::Int8,
        Dtype::I16 => DataType::Int16,
        Dtype::I32 => DataType::Int32,
        Dtype::I64 => DataType::Int64,
        Dtype::U8 => DataType::UInt8,
        Dtype::U16 => DataType::UInt16,
        Dtype::U32 => DataType::UInt32,
        Dtype::U64 => DataType::UInt64,
        Dtype::BOOL => DataType::Bool,
        other => {
            return Err(FieldError::new(
                name,
                format!("has elements of type {other:?}, expected float, int, uint or bool"),
            ));
        }
    };
    let shape: Vec<u64> = info.shape.iter().map(|&dim| dim as u64).collect();
    let bytes = memory.take_numbers(&name, &shape, dtype.size(), 1)?;
    let (from, to) = info.data_offsets;
    let cannot = |e: &dyn std::fmt::Display| FieldError::new(name.clone(), format!("cannot be read: {e}"));
    if to.checked_sub(from) != Some(bytes) {
        return Err(FieldError::new(name, format!("got bytes {from} to {to}, expected {bytes} for shape {shape:?}")));
    }
    let mut data = Vec::new();
    data.try_reserve_exact(bytes).map_err(|e| cannot(&e))?;
    file.seek(SeekFrom::Start(start + from as u64)).map_err(|e| cannot(&e))?;
    Read::by_ref(file).take(bytes as u64).read_to_end(&mut data).map_err(|e| cannot(&e))?;
    if data.len() != bytes {
        return Err(FieldError::new(name, format!("got {} bytes, expected {bytes} for shape {shape:?}", data.len())));
    }
    Ok(Array { name, shape, elements: Elements::Numbers(dtype, data) })
}
