//! Reading runs: what was declared, when, and what people say about it.

use rusqlite::Row;

use super::read::Reading;
use super::row_checksum::{REMARK, REMARK_COLUMNS, RUN, RUN_COLUMNS, Seal};
use super::title_and_note::is_open;
use crate::history::error::HistoryError;
use crate::history::outcome::RunOutcome;
use crate::history::run::StoredRun;
use leakage::run::Run;

/// Index of the columns of a remark, after those of a run, its checksum and its number.
const REMARKED: usize = RUN_COLUMNS + 2;

/// A run as a row, before its declaration is read.
pub(super) struct RunRow<'r, 's>(&'r Row<'s>);

/// The fields of a row besides the declaration.
pub(super) struct Head {
    pub name: String,
    pub started: f64,
    finished: Option<f64>,
    outcome: Option<RunOutcome>,
    pub title: Option<String>,
    note: Option<String>,
}

impl RunRow<'_, '_> {
    /// `None` if the row is damaged.
    pub fn head(&self, reading: &Reading<'_>) -> Result<Option<Head>, HistoryError> {
        let row = self.0;
        let name: String = row.get(0)?;
        if Seal::new().matching(row, 0, RUN_COLUMNS)?.is_none() {
            reading.damage().other(format!("the declaration of run '{name}'"));
            return Ok(None);
        }
        let (mut title, mut note) = (None, None);
        if row.get::<_, Option<i64>>(REMARKED + REMARK_COLUMNS)?.is_some() {
            match Seal::new().matching(row, REMARKED, REMARK_COLUMNS)? {
                Some(_) => (title, note) = (row.get(REMARKED + 1)?, row.get(REMARKED + 2)?),
                None => reading.damage().other(format!("the title and note of run '{name}'")),
            }
        }
        let outcome = row.get_ref(5)?.as_str_or_null().map_err(rusqlite::Error::from)?;
        let outcome = outcome.map(serde_json::from_str).transpose()?;
        Ok(Some(Head { name, started: row.get(2)?, finished: row.get(3)?, outcome, title, note }))
    }

    /// Returns the declaration as JSON.
    pub fn declaration(&self) -> Result<&str, HistoryError> {
        Ok(self.0.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?)
    }

    pub fn run(&self, head: Head, reading: &Reading<'_>) -> Result<StoredRun, HistoryError> {
        let Head { name, started, finished, outcome, title, note } = head;
        let open = is_open(finished.is_some(), &name, &reading.declared());
        let run = serde_json::from_str(self.declaration()?)?;
        Ok(StoredRun { run, started, finished, outcome, open, title, note })
    }
}

/// Returns the query for the runs of a condition.
fn select(condition: &str) -> String {
    format!(
        "SELECT {RUN}, run.checksum, run.id, {REMARK}, remark.checksum FROM run LEFT JOIN remark ON remark.run = run.id \
         {condition}"
    )
}

impl Reading<'_> {
    pub fn runs(&self) -> Result<Vec<StoredRun>, HistoryError> {
        let mut runs = Vec::new();
        self.each_run(|_, row| {
            if let Some(head) = row.head(self)? {
                runs.push(row.run(head, self)?);
            }
            Ok(())
        })?;
        Ok(runs)
    }

    /// Calls `take` with the number and the row of every run, newest start first.
    pub fn each_run(
        &self,
        mut take: impl FnMut(i64, &RunRow<'_, '_>) -> Result<(), HistoryError>,
    ) -> Result<(), HistoryError> {
        let mut statement = self.connection.prepare_cached(&select("ORDER BY started DESC, run.id DESC"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            take(row.get(RUN_COLUMNS + 1)?, &RunRow(row))?;
        }
        Ok(())
    }

    /// The number of a run, and the run. Errors when it is unknown or damaged.
    pub fn one_run(&self, name: &str) -> Result<(i64, StoredRun), HistoryError> {
        let unknown = || HistoryError::Unknown { what: "run", name: name.to_owned() };
        let mut statement = self.connection.prepare_cached(&select("WHERE name = ?1"))?;
        let mut rows = statement.query([name])?;
        let row = rows.next()?.ok_or_else(unknown)?;
        let found = RunRow(row);
        let head = found.head(self)?.ok_or_else(unknown)?;
        Ok((row.get(RUN_COLUMNS + 1)?, found.run(head, self)?))
    }

    /// The number and declaration of a run.
    pub fn find_run(&self, name: &str) -> Result<(i64, Run), HistoryError> {
        self.one_run(name).map(|(id, stored)| (id, stored.run))
    }
}
