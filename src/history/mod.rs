//! The history: curve points in SQLite, on disk or in memory with the same code.
//!
//! All calls block; the server makes them from blocking tasks. One connection behind a lock serves readers and the
//! writer: writing a point takes milliseconds, and the file is locked exclusively anyway.

mod blob;
mod error;
mod open;
mod ranks;
mod read;
mod record;
mod retain;
mod runs;
mod seal;
mod settled;
mod store;
#[cfg(test)]
mod tests;
mod unscored;

pub use error::HistoryError;
pub use open::FILE_NAME;
pub use ranks::StoredRank;
pub use read::{ScoreMatrix, SeriesPoint, StoredRun, StoredSplit};
pub use record::Recorded;
pub use retain::Usage;
pub use runs::{Identity, RunRecord};
pub use settled::{Ending, Unscored, Written};
pub use store::{Dropped, History, Limits};
pub use unscored::UNSCORED_PER_RUN;
