//! The changes of runs that a transaction says for followers, which [`change_feed`](super::change_feed) reads.

use super::link::Link;
use crate::history::error::HistoryError;

/// The kind of a run's change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// Started, joined, or resumed.
    Declared,
    Finished,
    /// The title or the note changed.
    Remarked,
    Removed,
    /// A point was stored.
    Point,
    /// A pass was settled without one.
    Unscored,
}

impl Changed {
    pub(super) const ALL: [Self; 6] =
        [Self::Declared, Self::Finished, Self::Remarked, Self::Removed, Self::Point, Self::Unscored];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Declared => "declared",
            Self::Finished => "finished",
            Self::Remarked => "remarked",
            Self::Removed => "removed",
            Self::Point => "point",
            Self::Unscored => "unscored",
        }
    }
}

/// Says that a run has changed, in the transaction of the change.
pub(super) fn say(link: &mut Link, run: &str, kind: Changed, pass: Option<(&str, i64)>) -> Result<(), HistoryError> {
    let (split, step) = (pass.map(|(split, _)| split), pass.map(|(_, step)| step));
    let statement = "INSERT INTO change (run, kind, split, step) VALUES ($1, $2, $3, $4)";
    link.execute(statement, &[&run, &kind.name(), &split, &step]).map(drop)
}
