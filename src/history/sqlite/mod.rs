//! The history in SQLite, on disk or in memory with the same code.
//!
//! One connection behind a lock serves readers and the writer: writing a point takes milliseconds, and the file is locked
//! exclusively anyway.

mod branch;
mod damage;
mod declare;
mod entry;
mod examine;
mod fault;
mod gap;
mod home;
mod insert;
mod listing;
mod log;
mod open;
mod outbox;
mod place;
mod ranks;
mod read;
mod record;
mod remark;
mod retain;
mod runs;
mod seal;
mod store;
#[cfg(test)]
mod tests;
mod unscored;
mod whole;

use super::error::HistoryError;
use super::listing::{Listing, StoredSplit, Wanted};
use super::point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
use super::run::{Identity, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun};
use super::settled::{Unscored, Written};
use super::store::Store;
use super::usage::{Usage, Waiting};
use crate::point::Point;
use crate::run::Run;
use crate::sample::Attempt;
use crate::step::Rank;

pub use examine::{Contents, Examination, Repair, examine, make_private, on_network, repair};
pub use gap::MOST_WAITING;
pub use home::{ADDRESS_FILE, histories, user_home};
pub use open::schema;
pub use outbox::{Numbered, OutboxUsage, Parcel, Source};
pub use place::FILE_NAME;
pub use store::Sqlite;

impl Store for Sqlite {
    fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError> {
        self.record_run(run, identity, started)
    }

    fn forget_run(&self, run: &str) {
        self.forget_run(run)
    }

    fn finish_run(&self, run: &str, finished: f64) -> Result<(), HistoryError> {
        self.finish_run(run, finished)
    }

    fn finish_rank(&self, run: &str, attempt: Attempt, rank: Rank, finished: f64) -> Result<(), HistoryError> {
        self.finish_rank(run, attempt, rank, finished)
    }

    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        self.record_point(point, attempt)
    }

    fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError> {
        self.record_unscored(passes)
    }

    fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        self.remark(run, remark)
    }

    fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        self.remove_run(run)
    }

    fn waiting(&self) -> Waiting {
        self.waiting()
    }

    fn write_waiting(&self) -> Vec<Written> {
        self.write_waiting()
    }

    fn usage(&self) -> Result<Usage, HistoryError> {
        self.usage()
    }

    fn runs(&self) -> Result<Vec<StoredRun>, HistoryError> {
        self.runs()
    }

    fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        self.listing(wanted)
    }

    fn listed(&self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
        self.listed(name)
    }

    fn ranks(&self, run: &str) -> Result<Vec<StoredRank>, HistoryError> {
        self.ranks(run)
    }

    fn launches(&self, run: &str) -> Result<Vec<StoredLaunch>, HistoryError> {
        self.launches(run)
    }

    fn known_splits(&self, run: &str) -> Result<Vec<String>, HistoryError> {
        self.known_splits(run)
    }

    fn splits(&self, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
        self.splits(run)
    }

    fn unscored(&self, run: &str, split: &str) -> Result<Vec<Unscored>, HistoryError> {
        self.unscored(run, split)
    }

    fn unscored_at(&self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError> {
        self.unscored_at(run, split, step)
    }

    fn series(
        &self,
        run: &str,
        split: &str,
        score: &str,
        concept: Option<&str>,
        first_step: u64,
        last_step: Option<u64>,
    ) -> Result<Vec<SeriesPoint>, HistoryError> {
        self.series(run, split, score, concept, first_step, last_step)
    }

    fn newest_steps(&self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        self.newest_steps(run, split, most)
    }

    fn evaluations(&self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
        self.evaluations(run, split, most)
    }

    fn common_steps(&self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        self.common_steps(run, a, b, most)
    }

    fn point(&self, run: &str, split: &str, step: Option<u64>, matrices: bool) -> Result<Option<Point>, HistoryError> {
        self.point(run, split, step, matrices)
    }

    fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        self.whole_points(run, split, first_step, most, matrices)
    }

    fn has_complete_point(&self, run: &str, split: &str, step: u64, attempt: Attempt) -> Result<bool, HistoryError> {
        self.has_complete_point(run, split, step, attempt)
    }

    fn matrix(
        &self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError> {
        self.matrix(run, split, score, step)
    }
}
