//! Whether a part can have come from batches of a run: it goes through the checks that its batches went through.

use super::Part;
use crate::batch::{Batch, NonFinite, Schema};
use crate::fault::Fault;
use crate::run::Run;

use crate::sample::column::{Column, Values};
use crate::tensor::{DataType, Tensor, TensorName};

/// Largest row of a tensor in bytes. Rows arrive in messages that are smaller.
pub(super) const MOST_ROW_BYTES: usize = 64 << 20;

impl Part {
    /// Errors, naming the field, when tensors or values are not those that a batch of the run can have.
    pub(super) fn check_fits(&self, run: &Run) -> Result<(), Fault> {
        let Some(schema) = &self.schema else { return Ok(()) };
        check_shapes(schema, run)?;
        let mut sent = Vec::new();
        for (name, column) in &self.rows.columns {
            let name = *name;
            let integers = matches!(column.values(), Values::Integer(_));
            if integers != Column::holds_classes(name, run.has_continuous_labels(name)) {
                let (got, expected) = if integers { ("class", "measured") } else { ("measured", "class") };
                let message = format!("got {got} values, expected {expected} values as the run declares");
                return Err(Fault::new(format!("tensors.{name}"), message));
            }
            match schema.rows().find(|(of, _, _)| *of == name).filter(|_| is_reduced(name)) {
                Some((_, _, dims)) => check_reduced(name, dims, column)?,
                None => sent.push(tensor(name, column)?),
            }
        }
        if sent.is_empty() {
            return Ok(());
        }
        Batch::new(sent, run, NonFinite::Reject).map(|_| ())
    }
}

/// Checks names, shapes and types, as those of a batch with a row of zeros.
fn check_shapes(schema: &Schema, run: &Run) -> Result<(), Fault> {
    let zeros = schema.rows().map(|(name, dtype, dims)| {
        let shape: Vec<u64> = [1].into_iter().chain(dims.iter().map(|&dim| dim as u64)).collect();
        match dtype {
            DataType::String => Tensor::texts(name, &shape, vec![String::new()]),
            _ => {
                let bytes = dims.iter().product::<usize>() * dtype.size();
                Tensor::numbers(name, dtype, &shape, vec![0; bytes].into())
            }
        }
    });
    Batch::new(zeros.collect::<Result<_, _>>()?, run, NonFinite::Reject).map(|_| ())
}

/// The rows of a column, as a batch would carry them.
fn tensor(name: TensorName, column: &Column) -> Result<Tensor, Fault> {
    let shape: Vec<u64> =
        std::iter::once(column.rows()).chain(column.dims().iter().copied()).map(|n| n as u64).collect();
    let numbers = |dtype, bytes: Vec<u8>| Tensor::numbers(name, dtype, &shape, bytes.into());
    match column.values() {
        Values::Float32(values) => numbers(DataType::Float32, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Values::Float64(values) => numbers(DataType::Float64, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Values::Integer(values) => numbers(DataType::Int32, values.iter().flat_map(|v| v.to_le_bytes()).collect()),
        Values::Text(texts) => Tensor::texts(name, &shape, texts.clone()),
    }
}

/// Whether a sample keeps other numbers than the tensor has. The means of Monte-Carlo samples are a tensor, too.
fn is_reduced(name: TensorName) -> bool {
    use TensorName::{CrossImageDifference, DeepFeatures, LocalizationMaps, ShallowFeatures};
    matches!(name, LocalizationMaps | DeepFeatures | ShallowFeatures | CrossImageDifference)
}

/// Checks what is kept of maps that have the shape `dims`.
fn check_reduced(name: TensorName, dims: &[usize], column: &Column) -> Result<(), Fault> {
    let all = |at: usize, holds: &dyn Fn(f64) -> bool| column.floats(at).into_iter().all(holds);
    let finite = (0..column.width()).all(|at| all(at, &f64::is_finite));
    let sizes = match name {
        TensorName::LocalizationMaps => (0..column.width()).all(|at| all(at, &|place| place >= 0.0)),
        TensorName::DeepFeatures | TensorName::ShallowFeatures => {
            all(0, &|height| height == dims[1] as f64) && all(1, &|width| width == dims[2] as f64)
        }
        _ => all(1, &|numbers| numbers == dims.iter().product::<usize>() as f64),
    };
    match finite && sizes {
        true => Ok(()),
        false => Err(Fault::new(format!("tensors.{name}"), "got numbers that no map of its shape is reduced to")),
    }
}
