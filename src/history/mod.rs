//! The history: curve points in SQLite, on disk or in memory with the same code.
//!
//! All calls block; a server makes them from blocking tasks. One connection behind a lock serves readers and the
//! writer: a point takes milliseconds to write, and the file is held exclusively anyway.

mod blob;
mod error;
mod open;
mod read;
mod record;
mod retain;
mod runs;
mod store;
#[cfg(test)]
mod tests;

pub use error::HistoryError;
pub use open::FILE_NAME;
pub use read::{ScoreMatrix, SeriesPoint, StoredRun, StoredSplit};
pub use record::Recorded;
pub use retain::Usage;
pub use runs::{Identity, RunRecord};
pub use store::{Dropped, History, Limits};
