//! Staging of one batch's rows before they enter a sample.

use super::attempt::Member;
use super::bottom_k::{Arrival, BottomK};
use super::priority::Origin;
use super::seen_batches::Source;
use crate::batch::{Batch, Schema};
use crate::field_error::FieldError;
use crate::run::ContinuousLabels;
use crate::step::PassKey;
use crate::tensor::TensorName;

/// Row numbers, within the batch as logged, of the rows of a chunk.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowNumbers<'a> {
    /// Number of the chunk's first row; the following rows are numbered consecutively.
    pub first: u64,
    /// The number of each row, where rows were left out; if empty: `first`, `first` + 1, …
    pub listed: &'a [u32],
}

/// One batch, received in chunks. Holds at most N rows, and none that its target sample would reject.
#[derive(Clone, Debug)]
pub struct Staged {
    sampler: BottomK,
    /// Serial of the sample whose limit was adopted; `None` if that sample was empty or absent.
    target: Option<u64>,
    continuous: ContinuousLabels,
    pass: PassKey,
    source: Source,
    member: Member,
    schema: Option<Schema>,
    rows: u64,
    dropped: u64,
}

impl Staged {
    pub(super) fn new(
        sampler: BottomK,
        target: Option<u64>,
        continuous: ContinuousLabels,
        pass: PassKey,
        source: Source,
        member: Member,
    ) -> Self {
        Self { sampler, target, continuous, pass, source, member, schema: None, rows: 0, dropped: 0 }
    }

    /// Adds a chunk. Errors, leaving the batch unchanged, when its tensors differ from those of earlier chunks or the
    /// row numbers do not match its rows.
    pub fn offer(&mut self, chunk: &Batch, numbers: RowNumbers<'_>) -> Result<(), FieldError> {
        let schema = chunk.schema();
        if let Some(before) = &self.schema {
            before.check_same(&schema)?;
        }
        if !numbers.listed.is_empty() && numbers.listed.len() != chunk.rows() {
            return Err(FieldError::new(
                "row_numbers",
                format!(
                    "got {} numbers, expected one for each of {} rows, or none",
                    numbers.listed.len(),
                    chunk.rows()
                ),
            ));
        }
        if numbers.first.checked_add(chunk.rows() as u64).is_none() {
            return Err(FieldError::new(
                "first_row",
                format!("got {}, expected a number to which all rows can be added", numbers.first),
            ));
        }
        self.schema.get_or_insert(schema);
        let ids = chunk.tensor(TensorName::SampleIds);
        let arrival = |row: usize| {
            let number = numbers.listed.get(row).map_or(numbers.first + row as u64, |&number| u64::from(number));
            let origin = Origin { client: self.source.client, sequence: self.source.sequence, row: number };
            // Sample ids are non-negative: the batch was validated.
            let id = ids.and_then(|ids| ids.id(row)).unwrap_or_else(|| origin.row_id());
            Arrival { id, step: self.pass.step, origin }
        };
        let arrivals: Vec<Arrival> = chunk.kept_rows().map(arrival).collect();
        let (sampler, continuous) = (&mut self.sampler, |name| self.continuous.holds(name));
        let whole = arrivals.len() == chunk.rows() && sampler.offer_all(&arrivals, chunk.columns(), continuous);
        if !whole {
            for (row, &arrival) in chunk.kept_rows().zip(&arrivals) {
                sampler.offer(arrival, chunk.columns(), row, continuous);
            }
        }
        self.rows += arrivals.len() as u64;
        self.dropped += chunk.dropped_rows() as u64;
        Ok(())
    }

    /// Bytes held in memory.
    pub fn bytes(&self) -> usize {
        self.sampler.bytes()
    }

    pub fn pass(&self) -> PassKey {
        self.pass
    }

    pub fn source(&self) -> Source {
        self.source
    }

    pub fn member(&self) -> Member {
        self.member
    }

    /// Number of rows offered so far, excluding those left out by policy.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Number of rows left out by policy so far.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn target(&self) -> Option<u64> {
        self.target
    }

    pub(super) fn schema(&self) -> Option<&Schema> {
        self.schema.as_ref()
    }

    pub(super) fn sampler(&self) -> &BottomK {
        &self.sampler
    }

    pub(super) fn into_sampler(self) -> BottomK {
        self.sampler
    }
}
