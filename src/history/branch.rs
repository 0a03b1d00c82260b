//! Branches of a run: a resume from an earlier checkpoint begins one.
//!
//! A point is *superseded* when a later attempt of its run has made a point of its split at its step or before. It stays in
//! the history, beside a newer one of its step where there is one, and is part of no conclusion. The others are *current*: at most one at
//! each step, by attempts that never decrease along the steps. Engines store 0 for a current point, and the point's own
//! number for one that is superseded.

use super::error::HistoryError;
use super::point::completeness;
use crate::point::Point;
use crate::sample::Attempt;

/// What a superseded point has in place of its own number before it has one.
pub(super) const UNNUMBERED: i64 = -1;

/// Who made a point, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    /// Absent where unknown: the point supersedes nothing.
    pub attempt: Option<Attempt>,
    /// Seconds since 1970-01-01 UTC.
    pub time: f64,
}

impl Made {
    /// Whether `other`, of the same step or a later one, is of an older branch.
    pub fn supersedes(&self, other: &Self) -> bool {
        match (self.attempt, other.attempt) {
            (Some(own), Some(other)) => own > other,
            (Some(_), None) => self.time > other.time,
            (None, _) => false,
        }
    }
}

/// What becomes of a point that is about to be stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fate {
    Current,
    /// A later attempt was here before it.
    Superseded,
    /// The branch has a more complete point of the step, whose sample was closed at `time`.
    Outranked {
        time: f64,
    },
}

/// The point that a new one of its branch and step would replace.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    /// See [`completeness`].
    pub completeness: (bool, bool, u64),
    /// When its sample was closed, in seconds since 1970-01-01 UTC.
    pub time: f64,
}

/// What an engine has of the split and step of a point that is about to be stored.
pub(super) trait Site {
    /// Who made the newest current point of the split at the step or before.
    fn before(&mut self) -> Result<Option<Made>, HistoryError>;

    /// Marks the current points of the split from the step on that [the new one supersedes](Made::supersedes). Called only
    /// where it is known who made the new one.
    fn supersede(&mut self) -> Result<(), HistoryError>;

    /// The current point of the step; where the new one is `late`, the superseded one of the step that its attempt made.
    fn rival(&mut self, late: bool) -> Result<Option<Rival>, HistoryError>;

    /// Removes what [`rival`](Self::rival) found.
    fn remove_rival(&mut self, late: bool) -> Result<(), HistoryError>;
}

/// Removes the point that a new one replaces, and marks those that it supersedes, unless it is of no use.
pub(super) fn make_way(site: &mut impl Site, point: &Point, attempt: Option<Attempt>) -> Result<Fate, HistoryError> {
    let new = Made { attempt, time: point.time };
    let late = site.before()?.is_some_and(|before| before.supersedes(&new));
    if !late && attempt.is_some() {
        site.supersede()?;
    }
    if let Some(rival) = site.rival(late)? {
        if rival.completeness > completeness(point.provisional, point.incomplete, point.rows_seen) {
            return Ok(Fate::Outranked { time: rival.time });
        }
        site.remove_rival(late)?;
    }
    Ok(if late { Fate::Superseded } else { Fate::Current })
}
