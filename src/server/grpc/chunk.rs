//! Checks of the headers of chunks and ends of passes.

use leakage::field_error::FieldError;
use leakage::name::check_name;
use leakage::step::{Epoch, Ordinal, PassKey, Step};

use super::proto::{BatchChunk, EndPass};

/// Checks a chunk's header and returns its pass and epoch.
pub fn check_header(chunk: &BatchChunk) -> Result<(PassKey, Option<Epoch>), FieldError> {
    check_names(&chunk.run, &chunk.split, &chunk.client)?;
    check_sequence(chunk.sequence)?;
    check_moment(chunk.step, chunk.ordinal, chunk.epoch)
}

/// Checks what an end of a pass shares with a chunk's header, and returns its pass and epoch.
pub fn check_end(end: &EndPass) -> Result<(PassKey, Option<Epoch>), FieldError> {
    check_names(&end.run, &end.split, &end.client)?;
    check_sequence(end.sequence)?;
    check_moment(end.step, end.ordinal, end.epoch)
}

/// Errors when a chunk is out of order, or its header differs from that of the batch's first chunk.
pub fn check_continues(first: &BatchChunk, chunk: &BatchChunk, expected: u32) -> Result<(), FieldError> {
    if chunk.chunk != expected {
        return Err(FieldError::new("chunk", format!("got {}, expected {expected}", chunk.chunk)));
    }
    let same = [
        ("run", first.run == chunk.run),
        ("split", first.split == chunk.split),
        ("step", first.step == chunk.step),
        ("ordinal", first.ordinal == chunk.ordinal),
        ("epoch", first.epoch == chunk.epoch),
        ("rank", first.rank == chunk.rank),
    ];
    match same.into_iter().find(|(_, same)| !same) {
        Some((field, _)) => Err(FieldError::new(
            field,
            format!("got another value with chunk {expected}, expected that of the first chunk"),
        )),
        None => Ok(()),
    }
}

/// Checks a number of rows left out: the rows of a logged batch have 32-bit numbers.
pub fn check_left_out(rows: u64) -> Result<(), FieldError> {
    match u32::try_from(rows) {
        Ok(_) => Ok(()),
        Err(_) => Err(FieldError::new("rows_left_out", format!("got {rows}, expected at most {}", u32::MAX))),
    }
}

fn check_names(run: &str, split: &str, client: &str) -> Result<(), FieldError> {
    check_name("run", run)?;
    check_name("split", split)?;
    check_name("client", client)
}

fn check_sequence(sequence: u64) -> Result<(), FieldError> {
    match sequence {
        0 => Err(FieldError::new("sequence", "got 0, expected at least 1")),
        _ => Ok(()),
    }
}

fn check_moment(step: u64, ordinal: u32, epoch: Option<f64>) -> Result<(PassKey, Option<Epoch>), FieldError> {
    let pass = PassKey { step: Step::new(step)?, ordinal: Ordinal::stated(ordinal) };
    Ok((pass, epoch.map(Epoch::new).transpose()?))
}
