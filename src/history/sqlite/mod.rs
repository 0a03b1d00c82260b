//! The history in SQLite, on disk or in memory with the same code.
//!
//! On a local disk one connection writes and others read, and nobody waits for a sync with a lock held (see [`wal`]). In
//! memory, and on file systems of the network, one connection behind a lock serves all.

mod checkpoint;
mod copied;
mod data_file;
mod examine;
mod fault;
mod intact;
mod open;
pub(super) mod outbox;
mod pending_changes;
mod pending_writes;
mod repair;
mod retain;
pub(super) mod row_checksum;
mod store;
mod tables;
#[cfg(test)]
mod tests;
mod user_data_dir;
mod wal;

use std::time::{Duration, Instant};

use self::pending_writes::PendingWrite;
use self::store::Noted;
use self::wal::LONG;
use super::db::Db;
use super::declare::{declare_run, finish_rank};
use super::edit::{finish_run, remove_run, set_remark};
use super::error::HistoryError;
use super::insert::insert_point;
use super::listing::{Listing, StoredSplit, Wanted};
use super::outcome::RunOutcome;
use super::point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
use super::read::reads;
use super::run::{DEFAULT_PROJECT, Identity, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun};
use super::settled::{Unscored, Written};
use super::store::Store;
use super::unscored::record_unscored;
use super::usage::{Usage, Waiting};
use leakage::point::Point;
use leakage::run::Run;
use leakage::sample::Attempt;
use leakage::step::{Ordinal, Rank};

pub use data_file::{FILE_NAME, is_remote as on_network};
pub use examine::{Examination, examine};
pub use intact::Contents;
pub use outbox::Source;
pub use pending_changes::{Numbered, OutboxUsage, Parcel};
pub use pending_writes::MOST_WAITING;
pub use repair::{Repair, make_private, repair};
pub use store::Sqlite;
pub use tables::SCHEMA;
pub use user_data_dir::{ADDRESS_FILE, histories, user_home};

impl Store for Sqlite {
    fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError> {
        let budget = self.limits.declarations();
        let declared_here = self.declared().clone();
        let apply = |db: &mut Db<'_>| {
            let record = declare_run(db, DEFAULT_PROJECT, run, identity, started)?.1;
            let (removed, unsent) = outbox::losing(db, |db| retain::make_room(db, &record, &declared_here, budget))?;
            // Before the store is free for whoever would remove the run.
            self.declared().insert(record.run.name.clone());
            Ok((record, removed, unsent))
        };
        let entry = || {
            let Identity { restart, resume, rank, .. } = *identity;
            let names = [identity.job, identity.client, identity.process, identity.scheduler_job, identity.host];
            let names = names.map(str::to_owned);
            let (bytes, run) = (4096 + 64 * run.concepts.len(), run.clone());
            PendingWrite::of(bytes, move |db| {
                let [job, client, process, scheduler_job, host] = names.each_ref().map(String::as_str);
                let identity = Identity { job, restart, resume, rank, client, process, scheduler_job, host };
                declare_run(db, DEFAULT_PROJECT, &run, &identity, started).map(drop)
            })
        };
        let ((record, removed, unsent), _) = self.write(apply, entry, Vec::new())?;
        let mut store = self.store();
        store.dropped.runs += removed;
        store.dropped.unsent += unsent;
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
        self.write_small(move |db| finish_run(db, &run, Some(finished), &outcome))
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
        self.write_small(move |db| finish_rank(db, &run, attempt, rank, finished, &outcome))
    }

    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        let entry = || {
            let (bytes, point) = (point.bytes(), point.clone());
            PendingWrite::bulk(bytes, move |db| insert_point(db, &point, attempt).map(drop))
        };
        let reports = vec![Written::of(point, attempt)];
        let (recorded, durable) = self.write(|db| insert_point(db, point, attempt), entry, reports)?;
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
            PendingWrite::bulk(bytes, move |db| record_unscored(db, &passes).map(drop))
        };
        let reports = passes.iter().map(Written::from).collect();
        let ((removed, unsent), durable) = self.write(|db| record_unscored(db, passes), entry, reports)?;
        let mut store = self.store();
        store.dropped.unscored += removed;
        store.dropped.unsent += unsent;
        if unsent > 0 {
            store.tell_removed(&self.limits);
        }
        self.note(&store);
        Ok(durable)
    }

    fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        let (run, remark) = (run.to_owned(), remark.clone());
        self.write_small(move |db| set_remark(db, &run, &remark))
    }

    fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        let is_declared = |run: &str| self.declared().contains(run);
        let entry = || {
            let run = run.to_owned();
            PendingWrite::of(0, move |db| remove_run(db, &run, |_| false))
        };
        self.write(|db| remove_run(db, run, is_declared), entry, Vec::new()).map(drop)
    }

    fn waiting(&self) -> Waiting {
        let Noted { mut waiting, gap_since, .. } = self.noted();
        waiting.unwritten = gap_since.map_or(Duration::ZERO, |since| since.elapsed());
        if let Some(wal) = self.wal.get() {
            wal.add_to(&mut waiting);
        }
        waiting
    }

    fn write_waiting(&self) -> Vec<Written> {
        let mut store = self.store();
        let mut written = store.write_waiting(Some(Instant::now()));
        self.note(&store);
        written.extend(self.wal.get().map(|wal| wal.take_written()).unwrap_or_default());
        written
    }

    fn usage(&self) -> Result<Usage, HistoryError> {
        let (noted, damaged) = (self.noted(), self.damage().count());
        Ok(Usage { bytes: noted.bytes, limit: self.limits.bytes, dropped: noted.dropped, damaged })
    }

    fn unscored_at(&self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError> {
        let found = self.reading(|reading| reading.unscored_at(run, split, step))?;
        Ok(found.filter(|_| self.is_durable(LONG)))
    }

    fn has_complete_point(
        &self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
        ordinal: Ordinal,
    ) -> Result<bool, HistoryError> {
        let found = self.reading(|reading| reading.has_complete_point(run, split, step, attempt, ordinal))?;
        Ok(found && self.is_durable(LONG))
    }

    reads! {
        fn listing(wanted: &Wanted) -> Listing;
    }
    reads! {}
}
