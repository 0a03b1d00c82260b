//! The branches of a split in PostgreSQL: see [`crate::history::branch`].

use super::link::Link;
use super::recent::set_curve;
use super::runs::{attempt as attempt_of, number};
use crate::history::branch::{Made, Rival, Site};
use crate::history::error::HistoryError;
use crate::history::point::completeness;
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// Superseded points kept per split. A database has no size limit that would remove them.
const KEPT: i64 = 5000;

/// A statement about the point of a step that a new one replaces; its parameters identify the new one, and say whether it
/// is late.
macro_rules! of_rival {
    ($before:literal, $after:literal) => {
        concat!(
            $before,
            " FROM point WHERE run = $1 AND split = $2 AND step = $3 \
             AND CASE WHEN $4 THEN superseded > 0 AND launch IS NOT DISTINCT FROM $5 \
             AND restart IS NOT DISTINCT FROM $6 AND ordinal = $7 ELSE superseded = 0 END ORDER BY id DESC LIMIT 1",
            $after
        )
    };
}

/// The split and step of a new point, and what made it. The row of its run is locked.
pub(super) struct Split<'a> {
    pub link: &'a mut Link,
    pub run: i64,
    pub split: &'a str,
    pub step: i64,
    pub attempt: Option<Attempt>,
    pub ordinal: Ordinal,
    /// The time of the new point, in seconds since 1970-01-01 UTC.
    pub time: f64,
}

impl Split<'_> {
    fn launch(&self) -> Option<i64> {
        self.attempt.map(|attempt| i64::from(attempt.launch))
    }

    fn restart(&self) -> Option<i64> {
        self.attempt.map(|attempt| i64::from(attempt.restart))
    }

    fn ordinal(&self) -> i64 {
        self.ordinal.get().into()
    }
}

impl Site for Split<'_> {
    fn before(&mut self) -> Result<Option<Made>, HistoryError> {
        let before = self.link.query_opt(
            "SELECT launch, restart, time FROM point WHERE run = $1 AND split = $2 AND step <= $3 AND superseded = 0 \
             ORDER BY step DESC LIMIT 1",
            &[&self.run, &self.split, &self.step],
        )?;
        before.map(|row| Ok(Made { attempt: attempt_of(&row, 0)?, time: row.get(2) })).transpose()
    }

    fn supersede(&mut self) -> Result<(), HistoryError> {
        let marked = self.link.execute(
            "UPDATE point SET superseded = id WHERE run = $1 AND split = $2 AND step >= $3 AND superseded = 0 \
             AND CASE WHEN launch IS NULL THEN time < $6 ELSE (launch, restart) < ($4, $5) END",
            &[&self.run, &self.split, &self.step, &self.launch(), &self.restart(), &self.time],
        )?;
        match marked {
            0 => Ok(()),
            _ => begin_branch(self.link, self.run, self.split),
        }
    }

    fn rival(&mut self, late: bool) -> Result<Option<Rival>, HistoryError> {
        let rival = self.link.query_opt(
            of_rival!("SELECT provisional, incomplete, rows_seen, time, ordinal", ""),
            &[&self.run, &self.split, &self.step, &late, &self.launch(), &self.restart(), &self.ordinal()],
        )?;
        let found = |row: postgres::Row| {
            let completeness = completeness(row.get(0), row.get(1), row.get::<_, i64>(2).cast_unsigned());
            Ok(Rival { completeness, time: row.get(3), ordinal: Ordinal::stated(number(&row, 4)?) })
        };
        rival.map(found).transpose()
    }

    fn remove_rival(&mut self, late: bool) -> Result<(), HistoryError> {
        self.link.execute(
            of_rival!("DELETE FROM point WHERE id = (SELECT id", ")"),
            &[&self.run, &self.split, &self.step, &late, &self.launch(), &self.restart(), &self.ordinal()],
        )?;
        Ok(())
    }

    fn retire(&mut self) -> Result<(), HistoryError> {
        self.link.execute(
            "UPDATE point SET superseded = id WHERE run = $1 AND split = $2 AND step = $3 AND superseded = 0",
            &[&self.run, &self.split, &self.step],
        )?;
        begin_branch(self.link, self.run, self.split)
    }
}

/// Removes the oldest superseded points of a split beyond [`KEPT`].
fn begin_branch(link: &mut Link, run: i64, split: &str) -> Result<(), HistoryError> {
    link.execute(
        "DELETE FROM point WHERE id IN (SELECT id FROM point WHERE run = $1 AND split = $2 AND superseded > 0 \
         ORDER BY id DESC OFFSET $3)",
        &[&run, &split, &KEPT],
    )?;
    set_curve(link, run, split)
}
