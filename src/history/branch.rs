//! Branches of a run: a resume from an earlier checkpoint begins one.
//!
//! A point is *superseded* when a later attempt of its run has made a point of its split at its step or before, or when its
//! attempt has evaluated the same step again. It stays in the history, possibly beside a newer point of its step, but no
//! conclusion reads it. The other points are *current*: at most one per step, and their attempts never decrease along the
//! steps. Engines store 0 for a current point, and the
//! point's own number for a superseded one.

use super::error::HistoryError;
use super::point::completeness;
use leakage::point::Point;
use leakage::sample::Attempt;
use leakage::step::Ordinal;

/// The mark of a superseded point that has no number of its own yet.
pub(super) const UNNUMBERED: i64 = -1;

/// The attempt that made a point, and when.
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
#[derive(Clone, Copy, Debug)]
pub(super) struct Rival {
    /// See [`completeness`].
    pub completeness: (bool, bool, u64),
    /// The number of its pass.
    pub ordinal: Ordinal,
    /// When its sample was closed, in seconds since 1970-01-01 UTC.
    pub time: f64,
}

/// The split and step of a new point, in an engine.
pub(super) trait Site {
    /// Returns the attempt and the time of the newest current point of the split at the step or before.
    fn before(&mut self) -> Result<Option<Made>, HistoryError>;

    /// Marks the current points of the split from the step on that [the new one supersedes](Made::supersedes). Called only
    /// where it is known who made the new one.
    fn supersede(&mut self) -> Result<(), HistoryError>;

    /// The current point of the step; where the new one is `late`, the superseded one that its attempt made of the same
    /// pass.
    fn rival(&mut self, late: bool) -> Result<Option<Rival>, HistoryError>;

    /// Removes what [`rival`](Self::rival) found.
    fn remove_rival(&mut self, late: bool) -> Result<(), HistoryError>;

    /// Marks the current point of the step as superseded.
    fn retire(&mut self) -> Result<(), HistoryError>;
}

/// Prepares the split for a new point: marks the points that it supersedes and removes the one that it replaces.
pub(super) fn make_way(site: &mut impl Site, point: &Point, attempt: Option<Attempt>) -> Result<Fate, HistoryError> {
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
        site.remove_rival(late)?;
    }
    Ok(if late { Fate::Superseded } else { Fate::Current })
}
