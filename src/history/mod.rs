//! The history: curve points in SQLite, on disk or in memory with the same code.
//!
//! All calls block; the server makes them from blocking tasks. One connection behind a lock serves readers and the
//! writer: writing a point takes milliseconds, and the file is locked exclusively anyway.

mod blob;
mod damage;
mod declare;
mod entry;
mod error;
mod examine;
mod gap;
mod home;
mod insert;
mod listing;
mod log;
mod open;
mod place;
mod ranks;
mod read;
mod record;
mod remark;
mod retain;
mod runs;
mod seal;
mod settled;
mod store;
#[cfg(test)]
mod tests;
mod unscored;
mod whole;

pub use declare::{Identity, RunRecord};
pub use error::HistoryError;
pub use examine::{Contents, Examination, Repair, examine, make_private, on_network, repair};
pub use gap::MOST_WAITING;
pub use home::{ADDRESS_FILE, histories, user_home};
pub use insert::Recorded;
pub use listing::{Cursor, Listing, Wanted};
pub use open::schema;
pub use place::FILE_NAME;
pub use ranks::StoredRank;
pub use read::{ScoreMatrix, SeriesPoint, StoredSplit};
pub use remark::{MAX_NOTE, Remark};
pub use retain::{MAX_DECLARATION, Usage};
pub use runs::StoredRun;
pub use settled::{Ending, Unscored, Written};
pub use store::{Dropped, History, Limits, Waiting};
pub use unscored::UNSCORED_PER_RUN;
pub use whole::WholePoint;
