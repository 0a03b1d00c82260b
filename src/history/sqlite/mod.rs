//! The history in SQLite, on disk or in memory with the same code.
//!
//! On a local disk one connection writes and others read, and nobody waits for a sync with a lock held (see [`wal`]). In
//! memory, and on file systems of the network, one connection behind a lock serves all.

mod branch;
mod checkpoint;
mod copied;
mod damage;
mod data_file;
mod declare;
mod examine;
mod fault;
mod insert;
mod intact;
mod listing;
mod open;
mod outbox;
mod pending_writes;
mod ranks;
mod read;
mod reading;
mod repair;
mod retain;
mod row_checksum;
mod runs;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod title_and_note;
mod unscored;
mod user_data_dir;
mod wal;
mod whole;
mod write_op;

use std::time::Instant;

use rusqlite::Connection;

use self::wal::LONG;
use self::write_op::Entry;
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
use crate::step::{Ordinal, Rank};

pub use copied::check_access;
pub use data_file::FILE_NAME;
pub use examine::{Examination, examine};
pub use intact::Contents;
pub use outbox::{Numbered, OutboxUsage, Parcel, Source};
pub use pending_writes::MOST_WAITING;
pub use repair::{Repair, make_private, on_network, repair};
pub use store::Sqlite;
pub use tables::SCHEMA;
pub use user_data_dir::{ADDRESS_FILE, histories, user_home};

impl Store for Sqlite {
    fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError> {
        let budget = self.limits.declarations();
        let declared_here = self.declared().clone();
        let apply = |connection: &Connection| {
            let record = declare::declare_run(connection, run, identity, started)?;
            let room = || retain::make_room(connection, &record, &declared_here, budget);
            let (removed, unsent) = outbox::losing(connection, room)?;
            // Before the store is free for whoever would remove the run.
            self.declared().insert(record.run.name.clone());
            Ok((record, removed, unsent))
        };
        let entry = || Entry::run(run, identity, started);
        let ((record, removed, unsent), _) = self.write(apply, entry, Vec::new())?;
        let mut store = self.store();
        store.dropped.runs += removed;
        store.lose(unsent);
        store.tell_removed(&self.limits);
        self.note(&store);
        Ok(record)
    }

    fn forget_run(&self, run: &str) {
        self.declared().remove(run);
    }

    fn finish_run(&self, run: &str, finished: f64) -> Result<(), HistoryError> {
        let entry = || Entry::FinishRun { run: run.to_owned(), finished };
        // It stays open to the size limit until its evaluations are scored: see `forget_run`.
        self.write(|connection| insert::mark_finished(connection, run, finished), entry, Vec::new()).map(drop)
    }

    fn finish_rank(&self, run: &str, attempt: Attempt, rank: Rank, finished: f64) -> Result<(), HistoryError> {
        let rank = rank.get();
        let entry = || Entry::FinishRank { run: run.to_owned(), attempt, rank, finished };
        let apply = |connection: &Connection| ranks::finish_rank(connection, run, attempt, rank, finished);
        self.write(apply, entry, Vec::new()).map(drop)
    }

    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        let entry = || Entry::Point(Box::new(point.clone()), attempt);
        let reports = vec![Written::of(point, attempt)];
        let apply = |connection: &Connection| insert::insert_point(connection, point, attempt);
        let (recorded, durable) = self.write(apply, entry, reports)?;
        // A point that outranks this one may have to wait itself.
        let waits = || !self.is_durable(LONG) || self.store().has_waiting(&point.run, &point.split, point.step);
        let waiting = !durable && (recorded == Recorded::Stored || waits());
        Ok(if waiting { Recorded::Waiting } else { recorded })
    }

    fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError> {
        if passes.is_empty() {
            return Ok(true);
        }
        let entry = || Entry::Unscored(passes.to_vec());
        let apply = |connection: &Connection| unscored::insert_unscored(connection, passes);
        let ((removed, unsent), durable) = self.write(apply, entry, passes.iter().map(Written::from).collect())?;
        let mut store = self.store();
        store.dropped.unscored += removed;
        store.lose(unsent);
        self.note(&store);
        Ok(durable)
    }

    fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        remark.check().map_err(|fault| HistoryError::invalid(fault.field, fault.message))?;
        let entry = || Entry::Remark { run: run.to_owned(), remark: remark.clone() };
        let apply = |connection: &Connection| title_and_note::set_remark(connection, run, remark);
        self.write(apply, entry, Vec::new()).map(drop)
    }

    fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        let apply = |connection: &Connection| title_and_note::remove(connection, run, &self.declared());
        self.write(apply, || Entry::RemoveRun(run.to_owned()), Vec::new()).map(drop)
    }

    fn waiting(&self) -> Waiting {
        self.waits()
    }

    fn write_waiting(&self) -> Vec<Written> {
        let mut store = self.store();
        let written = store.write_waiting(Some(Instant::now()));
        self.note(&store);
        written
    }

    fn usage(&self) -> Result<Usage, HistoryError> {
        let (noted, damaged) = (self.noted(), self.damage().count());
        Ok(Usage { bytes: noted.bytes, limit: self.limits.bytes, dropped: noted.dropped, damaged })
    }

    fn runs(&self) -> Result<Vec<StoredRun>, HistoryError> {
        self.read(|reading| reading.runs())
    }

    fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        self.read(|reading| reading.listing(wanted))
    }

    fn listed(&self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
        self.read(|reading| reading.listed(name))
    }

    fn ranks(&self, run: &str) -> Result<Vec<StoredRank>, HistoryError> {
        self.read(|reading| ranks::ranks(reading.connection, run))
    }

    fn launches(&self, run: &str) -> Result<Vec<StoredLaunch>, HistoryError> {
        self.read(|reading| ranks::launches(reading.connection, run))
    }

    fn known_splits(&self, run: &str) -> Result<Vec<String>, HistoryError> {
        self.read(|reading| reading.known_splits(run))
    }

    fn splits(&self, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
        self.read(|reading| reading.splits(run))
    }

    fn unscored(&self, run: &str, split: &str) -> Result<Vec<Unscored>, HistoryError> {
        self.read(|reading| reading.unscored(run, split))
    }

    fn unscored_at(&self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError> {
        let Ok(step) = i64::try_from(step) else { return Ok(None) };
        let found = self.read(|reading| unscored::select_unscored(reading.connection, run, split, (step, step)))?;
        Ok(found.0.into_iter().next_back().filter(|_| self.is_durable(LONG)))
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
        self.read(|reading| reading.series(run, split, score, concept, first_step, last_step))
    }

    fn newest_steps(&self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        self.read(|reading| reading.newest_steps(run, split, most))
    }

    fn evaluations(&self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
        let steps = self.read(|reading| reading.finished_steps(run, split, most))?;
        let points = steps.into_iter().map(|step| self.point(run, split, Some(step), false));
        // The size limit may have removed a point since the steps were read.
        points.filter_map(Result::transpose).collect()
    }

    fn common_steps(&self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        self.read(|reading| reading.common_steps(run, a, b, most))
    }

    fn point(&self, run: &str, split: &str, step: Option<u64>, matrices: bool) -> Result<Option<Point>, HistoryError> {
        self.read(|reading| reading.point(run, split, step, matrices))
    }

    fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        self.read(|reading| reading.whole_points(run, split, first_step, most, matrices))
    }

    fn has_complete_point(
        &self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
        ordinal: Ordinal,
    ) -> Result<bool, HistoryError> {
        let found = self.read(|reading| reading.has_complete_point(run, split, step, attempt, ordinal))?;
        Ok(found && self.is_durable(LONG))
    }

    fn matrix(
        &self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError> {
        self.read(|reading| reading.matrix(run, split, score, step))
    }
}
