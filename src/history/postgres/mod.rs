//! The history in PostgreSQL, which many processes share.
//!
//! A change is one transaction, and locks the row of its run first, so that those of one run are made one after another.

mod apply;
mod cache;
mod connect;
mod directory;
mod fault;
pub(super) mod insert;
mod judged;
pub(super) mod link;
mod pgpass;
mod pool;
mod read;
pub(super) mod recent;
mod retain;
mod schema;
mod shown;
mod store;
mod tls;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::db::Db;
use super::declare::{declare_run, finish_rank};
use super::edit::{finish_run, remove_run, set_remark};
use super::error::HistoryError;
use super::insert::insert_point;
use super::listing::{Listing, Page, StoredSplit, Wanted};
use super::outcome::RunOutcome;
use super::point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
use super::read::reads;
use super::run::{Identity, LabelledRun, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun};
use super::settled::{Unscored, Written};
use super::store::Store;
use super::unscored::record_unscored;
use super::usage::{Usage, Waiting};
use leakage::diagnosis::Verdict;
use leakage::lock::lock;
use leakage::point::{Brief, Point};
use leakage::run::Run;
use leakage::sample::Attempt;
use leakage::step::{Ordinal, Rank};

pub use apply::Applying;
pub use shown::{CurveState, StoredAlert, Tables};
pub use store::Postgres;

impl Postgres {
    fn change<T>(&self, mut change: impl FnMut(&mut Db<'_>) -> Result<T, HistoryError>) -> Result<T, HistoryError> {
        self.write(|link| change(&mut Db::Postgres(link)))
    }
}

impl Store for Postgres {
    fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError> {
        Ok(self.change(|db| declare_run(db, &self.project, run, identity, started))?.1)
    }

    fn forget_run(&self, run: &str) {
        let statement = "UPDATE run SET touched = '-infinity' WHERE name = $1";
        if let Err(error) = self.write(|link| link.execute(statement, &[&run])) {
            tracing::warn!(%error, run, "the run stays open until an hour has passed");
        }
    }

    fn finish_run(&self, run: &str, finished: f64, outcome: &RunOutcome) -> Result<(), HistoryError> {
        self.change(|db| finish_run(db, run, Some(finished), outcome))
    }

    fn finish_rank(
        &self,
        run: &str,
        attempt: Attempt,
        rank: Rank,
        finished: f64,
        outcome: &RunOutcome,
    ) -> Result<(), HistoryError> {
        self.change(|db| finish_rank(db, run, attempt, rank.get(), finished, outcome))
    }

    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        self.change(|db| insert_point(db, point, attempt))
    }

    fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError> {
        if !passes.is_empty() {
            let (removed, _) = self.change(|db| record_unscored(db, passes))?;
            self.dropped().unscored += removed;
        }
        Ok(true)
    }

    fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        self.change(|db| set_remark(db, run, remark))
    }

    fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        self.change(|db| remove_run(db, run, |_| true))
    }

    /// Nothing waits here: what cannot be written is an error, and its sender has it.
    fn waiting(&self) -> Waiting {
        lock(&self.health).clone()
    }

    /// Asks the database whether it is back.
    fn write_waiting(&self) -> Vec<Written> {
        if self.waiting().why.is_some() {
            self.probe();
        }
        Vec::new()
    }

    /// The size of the database, which has no limit of its own.
    fn usage(&self) -> Result<Usage, HistoryError> {
        let row = self.read(|link| link.query_one("SELECT pg_database_size(current_database())", &[]))?;
        let bytes = row.get::<_, i64>(0).cast_unsigned();
        Ok(Usage { bytes, limit: u64::MAX, dropped: *self.dropped(), damaged: 0 })
    }

    fn labelled(&self) -> Result<Vec<Arc<LabelledRun>>, HistoryError> {
        let runs = self.read(|link| self.runs.runs(link))?;
        Ok(runs.iter().map(|entry| Arc::clone(&entry.run)).collect())
    }

    /// Only the declarations of a page's runs are read.
    fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        self.reading(|reading| {
            let Db::Postgres(link) = &mut reading.db else { return Ok(Listing::default()) };
            let mut page = Page::default();
            for entry in self.runs.runs(link)?.iter() {
                let run = &entry.run;
                if wanted.search.is_empty() || wanted.search.matches(&run.name, entry.title.as_deref(), &run.labels) {
                    page.add(wanted, entry.started, entry.id);
                }
            }
            reading.listed_page(page)
        })
    }

    fn briefs(
        &self,
        runs: &[&str],
        split: &str,
        scores: &[&str],
        most: usize,
    ) -> Result<Vec<Arc<[Brief]>>, HistoryError> {
        self.read(|link| recent::briefs(link, &self.newest, runs, split, scores, most))
    }

    fn verdicts(&self, runs: &[&str], split: &str) -> Result<BTreeMap<String, Verdict>, HistoryError> {
        self.read(|link| judged::verdicts(link, runs, split))
    }

    reads! {
        fn unscored_at(run: &str, split: &str, step: u64) -> Option<Unscored>;
        fn has_complete_point(run: &str, split: &str, step: u64, attempt: Attempt, ordinal: Ordinal) -> bool;
        fn values_of(runs: &[&str], split: &str, score: &str) -> BTreeMap<String, Vec<(u64, f64)>>;
        fn evaluations_of(runs: &[&str], split: &str, most: usize) -> BTreeMap<String, Vec<Point>>;
    }
    reads! {}
}
