//! Checksums of stored rows.
//!
//! A checksum covers the columns of one row as SQLite returns them, so a row is checked in the form in which it is read.
//! A value's covers its point's checksum as well, and a point's covers the name of its run: a row that ends up under
//! another point, or that an older page brings back, does not match. 64 bits of SipHash-1-3 with a fixed key.

use std::hash::Hasher;

use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Row, params_from_iter};
use siphasher::sip::SipHasher13;

use crate::history::error::HistoryError;

/// The columns of a run under its checksum. Queries select them in this order, then `checksum`.
pub(super) const RUN: &str = "name, declaration, started, finished, declared_name, outcome";
pub(super) const RUN_COLUMNS: usize = 6;
/// The columns of a remark, of `run` and `remark` joined.
pub(super) const REMARK: &str = "run.name, remark.title, remark.note";
pub(super) const REMARK_COLUMNS: usize = 3;
/// The columns of a point, of `run` and `point` joined.
pub(super) const POINT: &str = "run.name, point.split, point.step, epoch, time, rows, rows_seen, provisional, \
    incomplete, tie_fraction, warnings, estimator, neighbours, seed, catalogue_version, seconds, change_errors, \
    concept_rows, launch, restart, scores";
pub(super) const POINT_COLUMNS: usize = 21;
pub(super) const VALUE: &str = "value.score, position, value, standard_error, undefined, per_concept, curve, age, \
    left_out, p_value, per_concept_q";
pub(super) const VALUE_COLUMNS: usize = 11;
pub(super) const MATRIX: &str = "matrix.score, cells, ages, cells_q";
pub(super) const MATRIX_COLUMNS: usize = 4;
/// The columns of an unscored pass, of `run` and `unscored` joined.
pub(super) const UNSCORED: &str =
    "run.name, split, step, time, unscored.outcome, reason, unscored.rows_seen, unscored.launch, unscored.restart";
pub(super) const UNSCORED_COLUMNS: usize = 9;

/// A checksum in the making.
pub(super) struct Seal(SipHasher13);

impl Seal {
    /// Begins the checksum of a row of its own.
    pub fn new() -> Self {
        Self(SipHasher13::new_with_keys(0x636f_6e63_6570_7477, 0x6869_7374_6f72_7936))
    }

    /// Begins the checksum of a row that belongs to the point with this checksum.
    pub fn under(point: i64) -> Self {
        let mut seal = Self::new();
        seal.0.write(&point.to_le_bytes());
        seal
    }

    fn add(&mut self, value: ValueRef<'_>) {
        let mut field = |kind: u8, bytes: &[u8]| {
            self.0.write(&[kind]);
            self.0.write(&(bytes.len() as u64).to_le_bytes());
            self.0.write(bytes);
        };
        match value {
            ValueRef::Null => field(0, &[]),
            ValueRef::Integer(number) => field(1, &number.to_le_bytes()),
            // SQLite may store a whole number as an integer, which has no negative zero.
            ValueRef::Real(number) => field(2, &(number + 0.0).to_le_bytes()),
            ValueRef::Text(text) => field(3, text),
            ValueRef::Blob(bytes) => field(4, bytes),
        }
    }

    /// Returns the checksum of values that are about to be stored.
    pub fn of(mut self, values: &[Value]) -> i64 {
        values.iter().for_each(|value| self.add(value.into()));
        self.0.finish().cast_signed()
    }

    /// Returns the checksum of `count` columns of a row that was read, from `first` on.
    pub fn of_row(mut self, row: &Row<'_>, first: usize, count: usize) -> rusqlite::Result<i64> {
        for column in first..first + count {
            self.add(row.get_ref(column)?);
        }
        Ok(self.0.finish().cast_signed())
    }

    /// The checksum of `count` columns from `first` on, if it is the one stored in the column after them.
    pub fn matching(self, row: &Row<'_>, first: usize, count: usize) -> rusqlite::Result<Option<i64>> {
        let computed = self.of_row(row, first, count)?;
        Ok((row.get_ref(first + count)? == ValueRef::Integer(computed)).then_some(computed))
    }
}

/// Computes the checksum of a run from its stored columns.
pub(super) fn seal_run(connection: &Connection, run: i64) -> Result<(), HistoryError> {
    let sealed: i64 = connection
        .prepare_cached(&format!("SELECT {RUN} FROM run WHERE id = ?1"))?
        .query_row([run], |row| Seal::new().of_row(row, 0, RUN_COLUMNS))?;
    connection.prepare_cached("UPDATE run SET checksum = ?2 WHERE id = ?1")?.execute([run, sealed])?;
    Ok(())
}

/// Inserts `values` into columns of a table, followed by their checksum.
pub(super) fn insert(
    connection: &Connection,
    statement: &str,
    key: &[Value],
    values: &[Value],
    checksum: i64,
) -> Result<(), HistoryError> {
    let checksum = Value::Integer(checksum);
    let all = key.iter().chain(values).chain([&checksum]);
    connection.prepare_cached(statement)?.execute(params_from_iter(all))?;
    Ok(())
}
