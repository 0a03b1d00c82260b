//! The size of a history, its limit, and what waits until it can be written.

use std::time::Duration;

use serde::Serialize;

/// Bytes of a run's declaration as JSON. 4,096 concepts with names of 200 bytes fit.
pub const MAX_DECLARATION: usize = 1 << 20;

/// The history's size limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of pages in use. An eighth of it, but at least 256 KiB, is for declarations: above that, runs without points
    /// are removed, finished ones first. Above the rest the oldest records of unscored passes are removed, then the
    /// oldest matrices, then the oldest points, then finished runs without points. The newest point is always kept. The
    /// file on disk may be larger by free pages, which SQLite reuses, and has a log of some megabytes beside it.
    pub bytes: u64,
}

impl Limits {
    /// Bytes of the limit that are for declarations.
    pub fn declarations(&self) -> u64 {
        (self.bytes / 8).max(256 << 10)
    }
}

/// The counts of what the limit has removed since the history was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    pub matrices: u64,
    pub points: u64,
    pub runs: u64,
    /// Records of passes without a complete point.
    pub unscored: u64,
    /// Changes that no hub had been sent.
    pub unsent: u64,
}

/// A disk is slow that takes at least this long.
pub(super) const SLOW: Duration = Duration::from_millis(500);

/// Whether the history can be written, and what waits until it can.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Why it cannot be written; `None` if it can.
    pub why: Option<String>,
    /// The kind of that reason.
    pub kind: Unwritable,
    pub entries: u64,
    pub bytes: u64,
    /// Changes that were refused because too many waited, since the history was opened.
    pub refused: u64,
    /// Age of the oldest change that is not on the disk; zero if all are.
    pub unwritten: Duration,
    /// How long the disk takes, if it is slow.
    pub slow: Option<Duration>,
}

impl Waiting {
    /// Says that the disk is slow, if it is.
    pub fn slowness(&self) -> Option<String> {
        let seconds = self.slow?.as_secs_f64();
        Some(format!("the disk is slow: it takes {seconds:.1} s to write a change of the history"))
    }
}

/// The kind of a reason why a history cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, strum::AsRefStr, strum::VariantArray)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Unwritable {
    ReadOnly,
    /// There is no room.
    Full,
    Unreachable,
    /// The user, the password or a permission is refused.
    Denied,
    #[default]
    Other,
}

/// The history's size and limit, in bytes, and what the limit has removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    pub bytes: u64,
    /// `u64::MAX` for none.
    pub limit: u64,
    pub dropped: Dropped,
    /// Points, matrices and other rows that did not match their checksum, since the history was opened.
    pub damaged: u64,
}
