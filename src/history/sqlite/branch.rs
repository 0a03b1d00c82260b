//! The branches of a split in SQLite: see [`crate::history::branch`].

use rusqlite::{Connection, OptionalExtension, Params, params};

use crate::history::branch::{Made, Rival, Site};
use crate::history::error::HistoryError;
use crate::history::point::completeness;
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// The point of a step that a new one replaces; as the parameters, what identifies the new one and whether it is late.
const RIVAL: &str = "FROM point WHERE run = ?1 AND split = ?2 AND step = ?3 \
                     AND iif(?4, superseded > 0 AND launch IS ?5 AND restart IS ?6 AND ordinal = ?7, superseded = 0)";

/// The split and step of a new point, and what made it.
pub(super) struct Split<'a> {
    pub connection: &'a Connection,
    pub run: i64,
    pub split: &'a str,
    pub step: i64,
    pub attempt: Option<Attempt>,
    pub ordinal: Ordinal,
    /// The time of the new point, in seconds since 1970-01-01 UTC.
    pub time: f64,
}

impl Split<'_> {
    fn launch(&self) -> Option<u32> {
        self.attempt.map(|attempt| attempt.launch)
    }

    fn restart(&self) -> Option<u32> {
        self.attempt.map(|attempt| attempt.restart)
    }

    /// The parameters of [`RIVAL`].
    fn of_rival(&self, late: bool) -> impl Params {
        let (run, split, step) = (self.run, self.split.to_owned(), self.step);
        (run, split, step, late, self.launch(), self.restart(), self.ordinal.get())
    }
}

impl Site for Split<'_> {
    fn before(&mut self) -> Result<Option<Made>, HistoryError> {
        let before = self
            .connection
            .prepare_cached(
                "SELECT launch, restart, time FROM point WHERE run = ?1 AND split = ?2 AND step <= ?3 \
                 AND superseded = 0 ORDER BY step DESC LIMIT 1",
            )?
            .query_row(params![self.run, self.split, self.step], |row| {
                let attempt = row.get::<_, Option<u32>>(0)?.zip(row.get::<_, Option<u32>>(1)?);
                let attempt = attempt.map(|(launch, restart)| Attempt { launch, restart });
                Ok(Made { attempt, time: row.get(2)? })
            });
        Ok(before.optional()?)
    }

    fn supersede(&mut self) -> Result<(), HistoryError> {
        self.connection
            .prepare_cached(
                "UPDATE point SET superseded = id WHERE run = ?1 AND split = ?2 AND step >= ?3 AND superseded = 0 \
                 AND iif(launch IS NULL, time < ?6, (launch, restart) < (?4, ?5))",
            )?
            .execute(params![self.run, self.split, self.step, self.launch(), self.restart(), self.time])?;
        Ok(())
    }

    fn rival(&mut self, late: bool) -> Result<Option<Rival>, HistoryError> {
        let rival = self
            .connection
            .prepare_cached(&format!("SELECT provisional, incomplete, rows_seen, time, ordinal {RIVAL}"))?
            .query_row(self.of_rival(late), |row| {
                let rows_seen = row.get::<_, i64>(2)?.cast_unsigned();
                let completeness = completeness(row.get(0)?, row.get(1)?, rows_seen);
                Ok(Rival { completeness, time: row.get(3)?, ordinal: Ordinal::stated(row.get(4)?) })
            });
        Ok(rival.optional()?)
    }

    fn remove_rival(&mut self, late: bool) -> Result<(), HistoryError> {
        self.connection.prepare_cached(&format!("DELETE {RIVAL}"))?.execute(self.of_rival(late))?;
        Ok(())
    }

    fn retire(&mut self) -> Result<(), HistoryError> {
        self.connection
            .prepare_cached(
                "UPDATE point SET superseded = id WHERE run = ?1 AND split = ?2 AND step = ?3 AND superseded = 0",
            )?
            .execute(params![self.run, self.split, self.step])?;
        Ok(())
    }
}
