//! All changes of the history.

use std::time::Instant;

use rusqlite::Connection;

use super::declare::{Identity, RunRecord, declare_run};
use super::entry::Entry;
use super::error::HistoryError;
use super::insert::{Recorded, insert_point, mark_finished};
use super::ranks::finish_rank;
use super::remark::{Remark, remove, set_remark};
use super::settled::{Unscored, Written};
use super::store::History;
use super::unscored::insert_unscored;
use crate::point::Point;
use crate::run::Run;
use crate::sample::Attempt;
use crate::step::Rank;

impl History {
    /// Declares a run at `started`, in seconds since 1970-01-01 UTC.
    ///
    /// A named launch that has declared this run before joins it. Any other named launch resumes the run of that name if
    /// `identity.resume` is set; otherwise it starts a new run, under the next free name (`name-2`, …) if the name is
    /// taken. An unnamed launch resumes the run of that name or starts it. Errors when the run that is joined or resumed
    /// was declared differently.
    pub fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError> {
        let budget = self.limits.declarations();
        let declared_here = self.declared().clone();
        let apply = |connection: &Connection| {
            let record = declare_run(connection, run, identity, started)?;
            let removed = super::retain::make_room(connection, &record, &declared_here, budget)?;
            // Before the store is free for whoever would remove the run.
            self.declared().insert(record.run.name.clone());
            Ok((record, removed))
        };
        let ((record, removed), _) = self.write(apply, || Entry::run(run, identity, started))?;
        let mut store = self.store();
        store.dropped.runs += removed;
        store.tell_removed(&self.limits);
        Ok(record)
    }

    /// Lets the size limit remove the run's declaration if the run has no points: nobody sends to it any more. Never waits for the
    /// disk.
    pub fn forget_run(&self, run: &str) {
        self.declared().remove(run);
    }

    /// Marks a run as finished at `finished`, in seconds since 1970-01-01 UTC. Errors when the run is unknown.
    pub fn finish_run(&self, run: &str, finished: f64) -> Result<(), HistoryError> {
        let entry = || Entry::FinishRun { run: run.to_owned(), finished };
        self.write(|connection| mark_finished(connection, run, finished), entry)?;
        self.forget_run(run);
        Ok(())
    }

    /// Marks a rank as finished at `finished`, in seconds since 1970-01-01 UTC. A rank that has not declared itself, or
    /// of a restart that is no longer the newest, is not stored. Errors when the run is unknown.
    pub fn finish_rank(&self, run: &str, attempt: Attempt, rank: Rank, finished: f64) -> Result<(), HistoryError> {
        let rank = rank.get();
        let entry = || Entry::FinishRank { run: run.to_owned(), attempt, rank, finished };
        self.write(|connection| finish_rank(connection, run, attempt, rank, finished), entry).map(drop)
    }

    /// Stores a point with all its scores, atomically. It replaces a point of the same run, split and step unless that
    /// one is more complete: a provisional or incomplete point never replaces a complete one, nor an incomplete point one
    /// with more rows. A stored point ends the record of its step among the [`Unscored`]. Scores, errors and cells that
    /// are not finite are stored as absent.
    ///
    /// `attempt` is the one that made the point; [`History::has_complete_point`] compares it.
    pub fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        let entry = || Entry::Point(Box::new(point.clone()), attempt);
        let (recorded, durable) = self.write(|connection| insert_point(connection, point, attempt), entry)?;
        // A point that outranks this one may have to wait itself.
        let waits = || self.store().has_waiting(&point.run, &point.split, point.step);
        let waiting = !durable && (recorded == Recorded::Stored || waits());
        Ok(if waiting { Recorded::Waiting } else { recorded })
    }

    /// Records passes in one transaction. The newest record of a step replaces earlier ones; a step that has a complete
    /// point gets none, and neither does a run that is unknown. Returns whether the records are durable; if not, they
    /// are kept and written later (see [`History::write_waiting`]).
    pub fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError> {
        if passes.is_empty() {
            return Ok(true);
        }
        let entry = || Entry::Unscored(passes.to_vec());
        let (removed, durable) = self.write(|connection| insert_unscored(connection, passes), entry)?;
        self.store().dropped.unscored += removed;
        Ok(durable)
    }

    /// Changes what is said about a run. Errors when the run is unknown, or a text is not one.
    pub fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        remark.check().map_err(|fault| HistoryError::invalid(fault.field, fault.message))?;
        let entry = || Entry::Remark { run: run.to_owned(), remark: remark.clone() };
        self.write(|connection| set_remark(connection, run, remark), entry).map(drop)
    }

    /// Removes a run with all that belongs to it. Errors when it is unknown, or open: it was declared since the history was
    /// opened and has not finished.
    pub fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        let apply = |connection: &Connection| remove(connection, run, &self.declared());
        self.write(apply, || Entry::RemoveRun(run.to_owned())).map(drop)
    }

    /// Notices whether the file was removed, and writes what is kept because the history could not be written. Returns
    /// the points and records that waited and are durable now. To be called periodically; tries again after 0.25 s, then
    /// less and less often, at least every 15 s.
    pub fn write_waiting(&self) -> Vec<Written> {
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
