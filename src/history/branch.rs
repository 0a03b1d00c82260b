//! Branches of a run: a resume from an earlier checkpoint begins one.
//!
//! A point is *superseded* when a later attempt of its run has made a point of its split at its step or before, or when its
//! attempt has evaluated the same step again. It stays in the history, possibly beside a newer point of its step, but no
//! conclusion reads it. The other points are *current*: at most one per step, and their attempts never decrease along the
//! steps. The column `superseded` is 0 for a current point, and the point's own number for a superseded one.

use super::db::{Db, Row, Value};
use super::error::HistoryError;
use super::point::{completeness, integer};
use super::postgres::insert::begin_branch;
use leakage::point::Point;
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// The mark of a superseded point that has no number of its own yet.
pub(super) const UNNUMBERED: i64 = -1;

/// The attempt that made a point, and when.
#[derive(Clone, Copy)]
struct Made {
    /// Absent where unknown: the point supersedes nothing.
    attempt: Option<Attempt>,
    /// Seconds since 1970-01-01 UTC.
    time: f64,
}

impl Made {
    /// Whether `other`, of the same step or a later one, is of an older branch.
    fn supersedes(&self, other: &Self) -> bool {
        match (self.attempt, other.attempt) {
            (Some(own), Some(other)) => own > other,
            (Some(_), None) => self.time > other.time,
            (None, _) => false,
        }
    }
}

/// The place of a new point in the history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Current,
    /// A later attempt has already made a point at its step or before, or its attempt a later one of its step.
    Superseded,
    /// The branch has a more complete point of the step, whose sample was closed at `time`.
    Outranked {
        time: f64,
    },
}

/// A stored point of the branch and step of a new one.
struct Rival {
    id: i64,
    /// See [`completeness`].
    completeness: (bool, bool, u64),
    ordinal: Ordinal,
    /// When its sample was closed, in seconds since 1970-01-01 UTC.
    time: f64,
}

/// The split and step of a new point. The row of its run is locked.
struct Site<'a, 'd> {
    db: &'a mut Db<'d>,
    run: i64,
    split: &'a str,
    step: i64,
    ordinal: i64,
    attempt: (Option<i64>, Option<i64>),
    time: f64,
}

impl Site<'_, '_> {
    /// Returns the attempt and the time of the newest current point of the split at the step or before.
    fn before(&mut self) -> Result<Option<Made>, HistoryError> {
        self.db.one(
            "SELECT launch, restart, time FROM point WHERE run = $1 AND split = $2 AND step <= $3 AND superseded = 0 \
             ORDER BY step DESC LIMIT 1",
            &[&self.run, &self.split, &self.step],
            |row| Ok(Made { attempt: row.attempt(0)?, time: row.get(2)? }),
        )
    }

    /// Marks the current points of the split from the step on that [the new one supersedes](Made::supersedes). Called only
    /// where it is known who made the new one.
    fn supersede(&mut self) -> Result<(), HistoryError> {
        let ((launch, restart), time) = (self.attempt, self.time);
        let is_older = "step >= $3 AND CASE WHEN launch IS NULL THEN time < $6 ELSE (launch, restart) < ($4, $5) END";
        self.mark(is_older, &[&launch, &restart, &time])
    }

    /// Marks the current point of the step as superseded.
    fn retire(&mut self) -> Result<(), HistoryError> {
        self.mark("step = $3", &[])
    }

    fn mark(&mut self, which: &str, more: &[&dyn Value]) -> Result<(), HistoryError> {
        let of_split: [&dyn Value; 3] = [&self.run, &self.split, &self.step];
        let statement =
            format!("UPDATE point SET superseded = id WHERE run = $1 AND split = $2 AND superseded = 0 AND {which}");
        match (self.db.execute(&statement, &[&of_split, more].concat())?, &mut *self.db) {
            (1.., Db::Postgres(link)) => begin_branch(link, self.run, self.split),
            _ => Ok(()),
        }
    }

    /// The current point of the step; where the new one is `late`, the superseded one that its attempt made of the same
    /// pass.
    fn rival(&mut self, late: bool) -> Result<Option<Rival>, HistoryError> {
        let (launch, restart) = self.attempt;
        let read = |row: &Row<'_, '_>| {
            let completeness = completeness(row.get(1)?, row.get(2)?, row.unsigned(3)?);
            Ok(Rival { id: row.get(0)?, completeness, time: row.get(4)?, ordinal: Ordinal::stated(row.number(5)?) })
        };
        self.db.one(
            "SELECT id, provisional, incomplete, rows_seen, time, ordinal FROM point \
             WHERE run = $1 AND split = $2 AND step = $3 AND CASE WHEN $4 THEN superseded > 0 \
             AND launch IS NOT DISTINCT FROM $5 AND restart IS NOT DISTINCT FROM $6 AND ordinal = $7 \
             ELSE superseded = 0 END ORDER BY id DESC LIMIT 1",
            &[&self.run, &self.split, &self.step, &late, &launch, &restart, &self.ordinal],
            read,
        )
    }
}

/// Prepares the split for a new point: marks the points that it supersedes and removes the one that it replaces.
pub(super) fn make_way(
    db: &mut Db<'_>,
    run: i64,
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Fate, HistoryError> {
    let columns = attempt.map(|attempt| (attempt.launch.into(), attempt.restart.into())).unzip();
    let (split, step) = (&*point.split, point.step.cast_signed());
    let mut site =
        Site { db, run, split, step, ordinal: point.ordinal.get().into(), attempt: columns, time: point.time };
    let new = Made { attempt, time: point.time };
    let mut late = site.before()?.is_some_and(|before| before.supersedes(&new));
    if !late && attempt.is_some() {
        site.supersede()?;
    }
    let own = completeness(point.provisional, point.incomplete, point.rows_seen);
    // Between two passes of a step, the newer one is current, unless it is less complete.
    if !late && let Some(rival) = site.rival(late)?.filter(|rival| rival.ordinal != point.ordinal) {
        // Rows do not count here: a pass may be over fewer than the one before.
        let [of_rival, own] = [rival.completeness, own].map(|(settled, complete, _)| (settled, complete));
        if of_rival > own {
            return Ok(Fate::Outranked { time: rival.time });
        }
        late = of_rival == own && rival.ordinal > point.ordinal;
        if !late {
            site.retire()?;
        }
    }
    if let Some(rival) = site.rival(late)? {
        if rival.completeness > own {
            return Ok(Fate::Outranked { time: rival.time });
        }
        site.db.execute("DELETE FROM point WHERE id = $1", &[&rival.id])?;
    }
    Ok(if late { Fate::Superseded } else { Fate::Current })
}

/// The number of the stored point of the same evaluation.
pub(super) fn same_evaluation(
    db: &mut Db<'_>,
    run: i64,
    point: &Point,
    attempt: Option<Attempt>,
) -> Result<Option<i64>, HistoryError> {
    let step = integer("point.step", point.step)?;
    let (launch, restart) = attempt.map(|attempt| (i64::from(attempt.launch), i64::from(attempt.restart))).unzip();
    db.one(
        "SELECT id FROM point WHERE run = $1 AND split = $2 AND step = $3 AND time = $4 AND ordinal = $5 \
         AND launch IS NOT DISTINCT FROM $6 AND restart IS NOT DISTINCT FROM $7",
        &[&run, &&*point.split, &step, &point.time, &i64::from(point.ordinal.get()), &launch, &restart],
        |row| row.get(0),
    )
}
