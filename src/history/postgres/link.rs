//! One connection with the statements that it has prepared.

use std::collections::HashMap;

use postgres::types::ToSql;
use postgres::{Client, Row, Statement};

use crate::history::error::HistoryError;

/// A value of a statement.
pub(in crate::history) type Value<'a> = &'a (dyn ToSql + Sync);

/// Why a pooler in transaction mode is refused.
pub(super) const POOLED: &str = "got the address of a pooler that keeps no sessions, such as PgBouncer with \
                                 pool_mode=transaction, expected that of PostgreSQL itself: a hub holds at most 10 connections";

pub struct Link {
    /// Taken when the connection is dropped.
    client: Option<Client>,
    statements: HashMap<String, Statement>,
    /// Nothing can be asked in a transaction that was left open.
    left_open: bool,
}

impl Link {
    pub fn new(client: Client) -> Self {
        Self { client: Some(client), statements: HashMap::new(), left_open: false }
    }

    pub fn is_broken(&self) -> bool {
        self.left_open || self.client.as_ref().is_none_or(Client::is_closed)
    }

    fn client(&mut self) -> &mut Client {
        self.client.as_mut().expect("a client is taken when it is dropped")
    }

    /// Errors unless the session has the settings of its address. Behind a pooler that hands each transaction to another
    /// session it has none, and prepared statements vanish.
    pub fn check_settings(&mut self) -> Result<(), HistoryError> {
        let row = self.query_one("SELECT current_setting('conceptwatch.session', true)", &[])?;
        match row.get::<_, Option<&str>>(0) {
            Some("on") => Ok(()),
            _ => Err(HistoryError::invalid("store", POOLED)),
        }
    }

    /// Calls `work` in a transaction that `begin` opens, and commits it unless `work` fails.
    pub fn transaction<T>(
        &mut self,
        begin: &str,
        work: &mut impl FnMut(&mut Self) -> Result<T, HistoryError>,
    ) -> Result<T, HistoryError> {
        self.client().batch_execute(begin)?;
        // Also if `work` panics.
        self.left_open = true;
        match work(self) {
            Ok(value) => {
                self.client().batch_execute("COMMIT")?;
                self.left_open = false;
                Ok(value)
            }
            Err(error) => {
                self.left_open = self.client().batch_execute("ROLLBACK").is_err();
                Err(error)
            }
        }
    }

    fn prepared(&mut self, sql: &str) -> Result<Statement, HistoryError> {
        if let Some(known) = self.statements.get(sql) {
            return Ok(known.clone());
        }
        let statement = self.client().prepare(sql)?;
        self.statements.insert(sql.to_owned(), statement.clone());
        Ok(statement)
    }

    /// Statements of several commands, which have no values.
    pub fn batch(&mut self, sql: &str) -> Result<(), HistoryError> {
        Ok(self.client().batch_execute(sql)?)
    }

    pub fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, HistoryError> {
        let statement = self.prepared(sql)?;
        Ok(self.client().query(&statement, values)?)
    }

    pub fn query_opt(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, HistoryError> {
        let statement = self.prepared(sql)?;
        Ok(self.client().query_opt(&statement, values)?)
    }

    pub fn query_one(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Row, HistoryError> {
        let statement = self.prepared(sql)?;
        Ok(self.client().query_one(&statement, values)?)
    }

    /// How many rows were changed.
    pub fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, HistoryError> {
        let statement = self.prepared(sql)?;
        Ok(self.client().execute(&statement, values)?)
    }
}

impl Drop for Link {
    /// Waits for the connection to close where that is allowed: not on a thread of an asynchronous runtime.
    fn drop(&mut self) {
        let client = self.client.take();
        if tokio::runtime::Handle::try_current().is_ok() {
            std::thread::spawn(move || drop(client));
        }
    }
}
