//! Branches of a run: a resume from an earlier checkpoint begins one.
//!
//! A point is *superseded* when a later attempt of its run has made a point of its split at its step or before. It stays in
//! the history, beside a newer one of its step where there is one, and is part of no conclusion. The others are *current*: at most one at
//! each step, by attempts that never decrease along the steps. Engines store 0 for a current point, and the point's own
//! number for one that is superseded.

use crate::sample::Attempt;

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
