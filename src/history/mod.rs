//! The history: runs and their curve points, kept by SQLite for one sidecar or by PostgreSQL for many.
//!
//! Everything else holds a [`Store`] and does not know its engine. All calls block; the server makes them from blocking
//! tasks.

mod branch;
mod change;
mod copy;
mod damage;
mod db;
mod declaration;
mod declare;
mod edit;
mod error;
mod insert;
mod listing;
mod outcome;
mod point;
mod postgres;
mod read;
mod run;
mod runs;
mod settled;
mod sqlite;
mod store;
mod stored;
mod unscored;
mod usage;

pub use change::{Change, Declared, Judgement, Launch};
pub use copy::{Copied, copy_run};
pub use error::HistoryError;
pub use listing::{Cursor, Listing, StoredSplit, Wanted};
pub use outcome::RunOutcome;
pub use point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
pub use postgres::{Applying, CurveState, Postgres, StoredAlert, Tables};
pub use run::{
    DEFAULT_PROJECT, Identity, LabelledRun, MAX_NOTE, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun,
};
pub use settled::{Ending, UNSCORED_PER_RUN, Unscored, Written};
pub use sqlite::{
    ADDRESS_FILE, Contents, Examination, FILE_NAME, MOST_WAITING, Numbered, OutboxUsage, Parcel, Repair, SCHEMA,
    Source, Sqlite, examine, histories, make_private, on_network, repair, user_home,
};
pub use store::Store;
pub use usage::{Dropped, Limits, MAX_DECLARATION, Unwritable, Usage, Waiting};
