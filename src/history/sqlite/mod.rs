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
mod pending_changes;
mod pending_writes;
mod ranks;
mod read;
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

use std::collections::{BTreeMap, HashSet};
use std::time::Instant;

use rusqlite::Connection;

use self::pending_writes::PendingWrite;
use self::wal::LONG;
use super::error::HistoryError;
use super::listing::{Listing, StoredSplit, Wanted};
use super::outcome::RunOutcome;
use super::point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
use super::run::{Identity, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun};
use super::settled::{Unscored, Written};
use super::store::Store;
use super::usage::{Usage, Waiting};
use leakage::point::Point;
use leakage::run::Run;
use leakage::sample::Attempt;
use leakage::step::{Ordinal, Rank};

pub use copied::check_access;
pub use data_file::FILE_NAME;
pub use examine::{Examination, examine};
pub use intact::Contents;
pub use outbox::Source;
pub use pending_changes::{Numbered, OutboxUsage, Parcel};
pub use pending_writes::MOST_WAITING;
pub use repair::{Repair, make_private, on_network, repair};
pub use store::Sqlite;
pub use tables::SCHEMA;
pub use user_data_dir::{ADDRESS_FILE, histories, user_home};

/// Calls the method of the same name with a reading of one moment.
macro_rules! reads {
    ($(fn $name:ident($($argument:ident: $kind:ty),*) -> $found:ty;)*) => {
        $(fn $name(&self, $($argument: $kind),*) -> Result<$found, HistoryError> {
            self.read(|reading| reading.$name($($argument),*))
        })*
    };
}

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
        let entry = || {
            let Identity { job, restart, resume, rank, client, process } = *identity;
            let names = [job, client, process].map(str::to_owned);
            let (bytes, run) = (4096 + 64 * run.concepts.len(), run.clone());
            PendingWrite::of(bytes, move |connection| {
                let [job, client, process] = names.each_ref().map(String::as_str);
                let identity = Identity { job, restart, resume, rank, client, process };
                declare::declare_run(connection, &run, &identity, started).map(drop)
            })
        };
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

    fn finish_run(&self, run: &str, finished: f64, outcome: &RunOutcome) -> Result<(), HistoryError> {
        // It stays open to the size limit until its evaluations are scored: see `forget_run`.
        let (run, outcome) = (run.to_owned(), outcome.clone());
        self.write_small(move |connection| {
            let run = insert::run_id(connection, &run)?;
            insert::end(connection, run, Some(finished), &outcome)
        })
    }

    fn finish_rank(
        &self,
        run: &str,
        attempt: Attempt,
        rank: Rank,
        finished: f64,
        outcome: &RunOutcome,
    ) -> Result<(), HistoryError> {
        let (run, rank, outcome) = (run.to_owned(), rank.get(), outcome.clone());
        self.write_small(move |connection| ranks::finish_rank(connection, &run, attempt, rank, finished, &outcome))
    }

    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        let entry = || {
            let (bytes, point) = (point.bytes(), point.clone());
            PendingWrite::bulk(bytes, move |connection| insert::insert_point(connection, &point, attempt).map(drop))
        };
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
        let entry = || {
            let (bytes, passes) = (passes.iter().map(|pass| 256 + pass.reason.len()).sum(), passes.to_vec());
            PendingWrite::bulk(bytes, move |connection| unscored::insert_unscored(connection, &passes).map(drop))
        };
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
        let (run, remark) = (run.to_owned(), remark.clone());
        self.write_small(move |connection| title_and_note::set_remark(connection, &run, &remark))
    }

    fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        let apply = |connection: &Connection| title_and_note::remove(connection, run, &self.declared());
        let entry = || {
            let run = run.to_owned();
            PendingWrite::of(0, move |connection| title_and_note::remove(connection, &run, &HashSet::new()))
        };
        self.write(apply, entry, Vec::new()).map(drop)
    }

    fn waiting(&self) -> Waiting {
        self.waits()
    }

    fn write_waiting(&self) -> Vec<Written> {
        let mut store = self.store();
        let mut written = store.write_waiting(Some(Instant::now()));
        self.note(&store);
        written.extend(self.late_reports());
        written
    }

    fn usage(&self) -> Result<Usage, HistoryError> {
        let (noted, damaged) = (self.noted(), self.damage().count());
        Ok(Usage { bytes: noted.bytes, limit: self.limits.bytes, dropped: noted.dropped, damaged })
    }

    fn unscored_at(&self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError> {
        let Ok(step) = i64::try_from(step) else { return Ok(None) };
        let found = self.read(|reading| unscored::select_unscored(reading.connection, run, split, (step, step)))?;
        Ok(found.0.into_iter().next_back().filter(|_| self.is_durable(LONG)))
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

    reads! {
        fn runs() -> Vec<StoredRun>;
        fn listing(wanted: &Wanted) -> Listing;
        fn listed(name: &str) -> (StoredRun, Vec<StoredSplit>);
        fn ranks(run: &str) -> Vec<StoredRank>;
        fn launches(run: &str) -> Vec<StoredLaunch>;
        fn known_splits(run: &str) -> Vec<String>;
        fn splits(run: &str) -> Vec<StoredSplit>;
        fn unscored(run: &str, split: &str) -> Vec<Unscored>;
        fn series(
            run: &str, split: &str, score: &str, concept: Option<&str>, first_step: u64, last_step: Option<u64>
        ) -> Vec<SeriesPoint>;
        fn newest_steps(run: &str, split: &str, most: usize) -> Vec<u64>;
        fn evaluations(run: &str, split: &str, most: usize) -> Vec<Point>;
        fn evaluation_times(runs: &[&str], most: usize) -> BTreeMap<String, Vec<Vec<f64>>>;
        fn common_steps(run: &str, a: &str, b: &str, most: usize) -> Vec<u64>;
        fn point(run: &str, split: &str, step: Option<u64>, matrices: bool) -> Option<Point>;
        fn whole_points(
            run: &str, split: &str, first_step: u64, most: usize, matrices: bool
        ) -> (Vec<WholePoint>, Option<u64>);
        fn matrix(run: &str, split: &str, score: &str, step: Option<u64>) -> Option<ScoreMatrix>;
    }
}
