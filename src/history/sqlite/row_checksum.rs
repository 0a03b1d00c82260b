//! Checksums of stored rows.
//!
//! A checksum covers columns of one row as SQLite returns them, so a row is checked in the form in which it is read.
//! A row of a point also covers the point's checksum, and a point's covers the name of its run: a row that ends
//! up under another point, or that an older page brings back, does not match. 64 bits of SipHash-1-3 with a fixed key.

use std::hash::Hasher;
use std::ops::Range;

use rusqlite::Row;
use rusqlite::types::{ToSqlOutput, ValueRef};
use siphasher::sip::SipHasher13;

/// A checksum in the making.
pub(in crate::history) struct Seal(SipHasher13);

impl Seal {
    /// Begins the checksum of a row, which may belong to the point with this checksum.
    pub fn under(point: Option<i64>) -> Self {
        let mut hasher = SipHasher13::new_with_keys(0x636f_6e63_6570_7477, 0x6869_7374_6f72_7936);
        if let Some(point) = point {
            hasher.write(&point.to_le_bytes());
        }
        Self(hasher)
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

    /// Adds a value that is about to be stored.
    pub fn add_value(&mut self, value: &ToSqlOutput<'_>) {
        match value {
            ToSqlOutput::Borrowed(value) => self.add(*value),
            ToSqlOutput::Owned(value) => self.add(value.into()),
            _ => {}
        }
    }

    pub fn finish(self) -> i64 {
        self.0.finish().cast_signed()
    }

    /// Returns the checksum of some columns of a row.
    pub fn of_row(mut self, row: &Row<'_>, columns: Range<usize>) -> rusqlite::Result<i64> {
        for column in columns {
            self.add(row.get_ref(column)?);
        }
        Ok(self.finish())
    }

    /// Returns the checksum of some columns, if it is the one stored in the column after them.
    pub fn matching(self, row: &Row<'_>, columns: Range<usize>) -> rusqlite::Result<Option<i64>> {
        let stored = columns.end;
        let computed = self.of_row(row, columns)?;
        Ok((row.get_ref(stored)? == ValueRef::Integer(computed)).then_some(computed))
    }
}
