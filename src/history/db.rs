//! A transaction of either engine, and what its statements share: values, rows, and the few words that differ.
//!
//! Statements number their values as `$1`. A row of SQLite ends with a checksum over the columns that a query selects
//! first; in PostgreSQL, which checks its pages itself, that column is NULL.

use std::fmt;
use std::ops::Range;

use bytes::BytesMut;
use postgres::types::{IsNull, Type};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, Statement};
use serde::Serialize;

use super::error::{Cause, HistoryError};
use super::postgres::link::Link;
use super::sqlite::row_checksum::Seal;
use leakage::sample::Attempt;

/// A value of a statement.
pub(super) trait Value {
    fn sqlite(&self) -> &dyn rusqlite::ToSql;
    fn postgres(&self) -> &(dyn postgres::types::ToSql + Sync);
}

impl<T: rusqlite::ToSql + postgres::types::ToSql + Sync> Value for T {
    fn sqlite(&self) -> &dyn rusqlite::ToSql {
        self
    }

    fn postgres(&self) -> &(dyn postgres::types::ToSql + Sync) {
        self
    }
}

/// A list as one value: see [`Db::among`].
#[derive(Debug)]
pub(super) struct List<'a, T>(pub &'a [T]);

impl<T: Serialize> rusqlite::ToSql for List<'_, T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let json = serde_json::to_string(self.0);
        Ok(json.map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?.into())
    }
}

impl<T: postgres::types::ToSql + fmt::Debug> postgres::types::ToSql for List<'_, T> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Cause> {
        self.0.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <&[T] as postgres::types::ToSql>::accepts(kind)
    }

    postgres::types::to_sql_checked!();
}

/// A type of a column.
pub(super) trait Cell: rusqlite::types::FromSql + for<'p> postgres::types::FromSql<'p> {}

impl<T: rusqlite::types::FromSql + for<'p> postgres::types::FromSql<'p>> Cell for T {}

/// A row of an answer.
pub(super) enum Row<'r, 's> {
    Sqlite(&'r rusqlite::Row<'s>),
    Postgres(&'r postgres::Row),
}

impl Row<'_, '_> {
    pub fn get<T: Cell>(&self, column: usize) -> Result<T, HistoryError> {
        match self {
            Self::Sqlite(row) => Ok(row.get(column)?),
            Self::Postgres(row) => Ok(row.try_get(column)?),
        }
    }

    /// Reads a column that holds a number of 32 bits.
    pub fn number(&self, column: usize) -> Result<u32, HistoryError> {
        u32::try_from(self.get::<i64>(column)?).map_err(|error| HistoryError::Storage(error.into()))
    }

    /// Reads a column that holds a number of 64 bits.
    pub fn unsigned(&self, column: usize) -> Result<u64, HistoryError> {
        Ok(self.get::<i64>(column)?.cast_unsigned())
    }

    /// Reads the attempt in two columns; absent where unknown.
    pub fn attempt(&self, column: usize) -> Result<Option<Attempt>, HistoryError> {
        match (self.get::<Option<i64>>(column)?, self.get::<Option<i64>>(column + 1)?) {
            (Some(_), Some(_)) => Ok(Some(Attempt { launch: self.number(column)?, restart: self.number(column + 1)? })),
            _ => Ok(None),
        }
    }

    /// Computes the checksum of some columns.
    pub fn sealed(&self, columns: Range<usize>) -> Result<i64, HistoryError> {
        match self {
            Self::Sqlite(row) => Ok(Seal::under(None).of_row(row, columns)?),
            Self::Postgres(_) => Ok(0),
        }
    }

    /// Returns the checksum of some columns; `None` if the column after them has another. `point` is that of the point
    /// to which the row belongs.
    pub fn checksum(&self, point: Option<i64>, columns: Range<usize>) -> Result<Option<i64>, HistoryError> {
        match self {
            Self::Sqlite(row) => Ok(Seal::under(point).matching(row, columns)?),
            Self::Postgres(_) => Ok(Some(0)),
        }
    }
}

/// A transaction, or a connection outside of one.
pub(super) enum Db<'a> {
    Sqlite(&'a Connection),
    Postgres(&'a mut Link),
}

impl<'a> Db<'a> {
    /// Changes rows. Returns how many.
    pub fn execute(&mut self, sql: &str, values: &[&dyn Value]) -> Result<u64, HistoryError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                bind(&mut statement, values)?;
                Ok(statement.raw_execute()? as u64)
            }
            Self::Postgres(link) => link.execute(sql, &postgres_values(values)),
        }
    }

    /// Calls `take` with each row of the answer.
    pub fn each(
        &mut self,
        sql: &str,
        values: &[&dyn Value],
        mut take: impl FnMut(&Row<'_, '_>) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        match self {
            Self::Sqlite(connection) => {
                let mut statement = connection.prepare_cached(sql)?;
                bind(&mut statement, values)?;
                let mut rows = statement.raw_query();
                while let Some(row) = rows.next()? {
                    take(&Row::Sqlite(row))?;
                }
                Ok(())
            }
            Self::Postgres(link) => {
                link.query(sql, &postgres_values(values))?.iter().try_for_each(|row| take(&Row::Postgres(row)))
            }
        }
    }

    pub fn all<T>(
        &mut self,
        sql: &str,
        values: &[&dyn Value],
        mut read: impl FnMut(&Row<'_, '_>) -> Result<T, HistoryError>,
    ) -> Result<Vec<T>, HistoryError> {
        let mut found = Vec::new();
        self.each(sql, values, |row| {
            found.push(read(row)?);
            Ok(())
        })?;
        Ok(found)
    }

    /// Reads the only row of the answer; `None` if there is none.
    pub fn one<T>(
        &mut self,
        sql: &str,
        values: &[&dyn Value],
        read: impl FnMut(&Row<'_, '_>) -> Result<T, HistoryError>,
    ) -> Result<Option<T>, HistoryError> {
        Ok(self.all(sql, values, read)?.pop())
    }

    /// Whether the answer has a row.
    pub fn exists(&mut self, sql: &str, values: &[&dyn Value]) -> Result<bool, HistoryError> {
        Ok(!self.all(sql, values, |_| Ok(()))?.is_empty())
    }

    /// Returns the checksum of a row that is about to be stored with these values; `None` where rows have none. `point` is
    /// that of the point to which the row belongs.
    pub fn checksum(&self, point: Option<i64>, values: &[&dyn Value]) -> Result<Option<i64>, HistoryError> {
        match self {
            Self::Sqlite(_) => {
                let mut seal = Seal::under(point);
                for value in values {
                    seal.add_value(&value.sqlite().to_sql()?);
                }
                Ok(Some(seal.finish()))
            }
            Self::Postgres(_) => Ok(None),
        }
    }

    /// The connection to SQLite.
    pub fn sqlite(&self) -> Option<&'a Connection> {
        match self {
            Self::Sqlite(connection) => Some(connection),
            Self::Postgres(_) => None,
        }
    }

    /// The condition that a column is among the [`List`] `$number`.
    pub fn among(&self, column: &str, number: u32) -> String {
        match self {
            Self::Sqlite(_) => format!("{column} IN (SELECT value FROM json_each(${number}))"),
            Self::Postgres(_) => format!("{column} = ANY(${number})"),
        }
    }

    /// The end of a query for a run that is about to change: others who change it wait for the end of the transaction.
    pub fn to_change(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "",
            Self::Postgres(_) => " FOR NO KEY UPDATE",
        }
    }

    /// Whether jobs may send to a run: it has not finished, and, where many processes share the database, something of it
    /// came in the last hour.
    pub fn is_open(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "finished IS NULL",
            Self::Postgres(_) => "finished IS NULL AND touched > now() - interval '1 hour'",
        }
    }
}

fn bind(statement: &mut Statement<'_>, values: &[&dyn Value]) -> rusqlite::Result<()> {
    for (number, value) in (1..).zip(values) {
        // SQLite takes `$1` for a name.
        let index = statement.parameter_index(&format!("${number}"))?;
        let index = index.ok_or_else(|| rusqlite::Error::InvalidParameterName(format!("${number}")))?;
        statement.raw_bind_parameter(index, value.sqlite())?;
    }
    Ok(())
}

fn postgres_values<'v>(values: &[&'v dyn Value]) -> Vec<&'v (dyn postgres::types::ToSql + Sync)> {
    values.iter().map(|value| value.postgres()).collect()
}
