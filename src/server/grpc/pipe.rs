//! The requests of the Python package to this program as its child, in the messages of the protocol: they come on standard
//! input and the answer leaves on standard output. Eight bytes with its length precede each message but the last of the answer.

use std::io::{Error, Read};

use bytes::Bytes;
use prost::Message;

use leakage::batch::{Batch, NonFinite};
use leakage::diagnosis::Assessment;
use leakage::field_error::FieldError;
use leakage::point::Point;
use leakage::run::Run;

use super::convert;
use super::proto::{self, DataType, IngestRequest, ingest_request};

/// A declaration and a batch of it, and the bytes of its tensors, which are refused above `memory`.
pub fn batch(input: &mut impl Read, memory: usize) -> Result<(Run, Batch, usize), FieldError> {
    let declared = length(input)?;
    let run = convert::run(message(input, declared)?)?;
    let logged = length(input)?;
    if logged > memory {
        let (needs, limit) = (logged.div_ceil(1 << 20), memory >> 20);
        let message = format!("need {needs} MiB, expected at most {limit}: see --memory-mib");
        return Err(FieldError::new("tensors", message));
    }
    let tensors = tensors(input, logged)?.into_iter().map(convert::tensor).collect::<Result<_, _>>()?;
    let batch = Batch::new(tensors, &run, NonFinite::Reject)?;
    Ok((run, batch, logged))
}

/// A column of class numbers or of vectors of numbers, and how many values a row has.
pub enum Columns {
    Classes(Vec<Vec<i32>>),
    Numbers(Vec<Vec<f64>>, usize),
}

/// The columns of each array of shape [1, columns, rows, values of a row], with its name.
pub fn columns(input: &mut impl Read) -> Result<Vec<(String, Columns)>, FieldError> {
    let length = length(input)?;
    tensors(input, length)?.into_iter().map(|tensor| Ok((tensor.name.clone(), columns_of(&tensor)?))).collect()
}

fn columns_of(tensor: &proto::Tensor) -> Result<Columns, FieldError> {
    let fault =
        || FieldError::new(&tensor.name, "expected int32 or float64 values [1, columns, rows, values of a row]");
    let &[_, _, rows, width] = &tensor.shape[..] else { return Err(fault()) };
    let (rows, width) = (rows as usize, width as usize);
    let item = if tensor.dtype() == DataType::Int32 { 4 } else { 8 };
    let column = rows.checked_mul(width).and_then(|values| values.checked_mul(item)).filter(|bytes| *bytes > 0);
    let columns = tensor.data.chunks_exact(column.ok_or_else(fault)?);
    match tensor.dtype() {
        DataType::Int32 => {
            let of = |column: &[u8]| column.as_chunks().0.iter().map(|bytes| i32::from_le_bytes(*bytes)).collect();
            Ok(Columns::Classes(columns.map(of).collect()))
        }
        DataType::Float64 => {
            let of = |column: &[u8]| column.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
            Ok(Columns::Numbers(columns.map(of).collect(), width))
        }
        _ => Err(fault()),
    }
}

/// A point with its matrices, and what is concluded from it.
pub fn answer(point: &Point, concluded: Assessment) -> Vec<u8> {
    let point = convert::point(point, true).encode_to_vec();
    let length = (point.len() as u64).to_le_bytes();
    [&length[..], &point, &convert::assessment(concluded).encode_to_vec()].concat()
}

fn tensors(input: &mut impl Read, length: usize) -> Result<Vec<proto::Tensor>, FieldError> {
    match message(input, length)? {
        IngestRequest { message: Some(ingest_request::Message::Chunk(chunk)) } => Ok(chunk.tensors),
        _ => Err(FieldError::new("standard input", "got no tensors")),
    }
}

fn length(input: &mut impl Read) -> Result<usize, FieldError> {
    let mut length = [0; 8];
    input.read_exact(&mut length).map_err(unreadable)?;
    usize::try_from(u64::from_le_bytes(length)).map_err(|error| unreadable(Error::other(error)))
}

fn message<M: Message + Default>(input: &mut impl Read, length: usize) -> Result<M, FieldError> {
    let mut bytes = vec![0; length];
    input.read_exact(&mut bytes).map_err(unreadable)?;
    // Bytes fields of the message share this memory.
    M::decode(Bytes::from(bytes)).map_err(|error| unreadable(Error::other(error)))
}

fn unreadable(error: Error) -> FieldError {
    FieldError::new("standard input", format!("cannot be read: {error}"))
}
