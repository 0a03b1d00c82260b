//! All changes of the history.

use std::time::Instant;

use rusqlite::Connection;

use super::declare::declare_run;
use super::entry::Entry;
use super::insert::{insert_point, mark_finished};
use super::outbox;
use super::ranks::finish_rank;
use super::remark::{remove, set_remark};
use super::store::Sqlite;
use super::unscored::insert_unscored;
use crate::history::error::HistoryError;
use crate::history::point::Recorded;
use crate::history::run::{Identity, Remark, RunRecord};
use crate::history::settled::{Unscored, Written};
use crate::point::Point;
use crate::run::Run;
use crate::sample::Attempt;
use crate::step::Rank;

impl Sqlite {
    pub(super) fn record_run(
        &self,
        run: &Run,
        identity: &Identity<'_>,
        started: f64,
    ) -> Result<RunRecord, HistoryError> {
        let budget = self.limits.declarations();
        let declared_here = self.declared().clone();
        let apply = |connection: &Connection| {
            let record = declare_run(connection, run, identity, started)?;
            let room = || super::retain::make_room(connection, &record, &declared_here, budget);
            let (removed, unsent) = outbox::losing(connection, room)?;
            // Before the store is free for whoever would remove the run.
            self.declared().insert(record.run.name.clone());
            Ok((record, removed, unsent))
        };
        let ((record, removed, unsent), _) = self.write(apply, || Entry::run(run, identity, started))?;
        let mut store = self.store();
        store.dropped.runs += removed;
        store.lose(unsent);
        store.tell_removed(&self.limits);
        Ok(record)
    }

    pub(super) fn forget_run(&self, run: &str) {
        self.declared().remove(run);
    }

    pub(super) fn finish_run(&self, run: &str, finished: f64) -> Result<(), HistoryError> {
        let entry = || Entry::FinishRun { run: run.to_owned(), finished };
        self.write(|connection| mark_finished(connection, run, finished), entry)?;
        self.forget_run(run);
        Ok(())
    }

    pub(super) fn finish_rank(
        &self,
        run: &str,
        attempt: Attempt,
        rank: Rank,
        finished: f64,
    ) -> Result<(), HistoryError> {
        let rank = rank.get();
        let entry = || Entry::FinishRank { run: run.to_owned(), attempt, rank, finished };
        self.write(|connection| finish_rank(connection, run, attempt, rank, finished), entry).map(drop)
    }

    pub(super) fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        let entry = || Entry::Point(Box::new(point.clone()), attempt);
        let (recorded, durable) = self.write(|connection| insert_point(connection, point, attempt), entry)?;
        // A point that outranks this one may have to wait itself.
        let waits = || self.store().has_waiting(&point.run, &point.split, point.step);
        let waiting = !durable && (recorded == Recorded::Stored || waits());
        Ok(if waiting { Recorded::Waiting } else { recorded })
    }

    pub(super) fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError> {
        if passes.is_empty() {
            return Ok(true);
        }
        let entry = || Entry::Unscored(passes.to_vec());
        let ((removed, unsent), durable) = self.write(|connection| insert_unscored(connection, passes), entry)?;
        let mut store = self.store();
        store.dropped.unscored += removed;
        store.lose(unsent);
        Ok(durable)
    }

    pub(super) fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        remark.check().map_err(|fault| HistoryError::invalid(fault.field, fault.message))?;
        let entry = || Entry::Remark { run: run.to_owned(), remark: remark.clone() };
        self.write(|connection| set_remark(connection, run, remark), entry).map(drop)
    }

    pub(super) fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        let apply = |connection: &Connection| remove(connection, run, &self.declared());
        self.write(apply, || Entry::RemoveRun(run.to_owned())).map(drop)
    }

    pub(super) fn write_waiting(&self) -> Vec<Written> {
        let mut store = self.store();
        let written = store.write_waiting(Instant::now());
        self.note(&store);
        written
    }

    fn write<T>(
        &self,
        apply: impl Fn(&Connection) -> Result<T, HistoryError>,
        entry: impl FnOnce() -> Entry,
    ) -> Result<(T, bool), HistoryError> {
        let mut store = self.store();
        let written = store.write(apply, entry);
        if written.as_ref().is_ok_and(|(_, durable)| *durable)
            && let Err(error) = store.retain(&self.limits)
        {
            tracing::error!(%error, "the size limit of the history could not be applied");
        }
        self.note(&store);
        written
    }
}
