//! The history in PostgreSQL, which many processes share.
//!
//! A change is one transaction, and locks the row of its run first, so that those of one run are made one after another.

mod apply;
mod branch;
mod cache;
mod connect;
mod declare;
mod directory;
mod fault;
mod insert;
mod judged;
mod link;
mod listing;
mod pgpass;
mod pool;
mod read;
mod recent;
mod retain;
mod runs;
mod schema;
mod series;
mod shown;
mod store;
mod tls;
mod unscored;
mod write;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::HistoryError;
use super::listing::{Listing, StoredSplit, Wanted};
use super::outcome::RunOutcome;
use super::point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
use super::run::{Identity, LabelledRun, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun};
use super::settled::{Unscored, Written};
use super::store::Store;
use super::usage::{Usage, Waiting};
use leakage::diagnosis::Verdict;
use leakage::point::{Brief, Point};
use leakage::run::Run;
use leakage::sample::Attempt;
use leakage::step::{Ordinal, Rank};

pub use apply::{Applied, Applying};
pub use retain::Removed;
pub use shown::{CurveState, StoredAlert, Tables};
pub use store::{DEFAULT_PROJECT, Postgres};

/// Stored steps are signed integers, so no stored step is larger.
fn bounds(first: u64, last: Option<u64>) -> (i64, i64) {
    let bound = |step: u64| i64::try_from(step).unwrap_or(i64::MAX);
    (bound(first), last.map_or(i64::MAX, bound))
}

impl Store for Postgres {
    fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError> {
        Ok(self.write(|link| declare::declare_run(link, self.project(), run, identity, started))?.1)
    }

    fn forget_run(&self, run: &str) {
        if let Err(error) = self.write(|link| write::forget_run(link, run)) {
            tracing::warn!(%error, run, "the run stays open until an hour has passed");
        }
    }

    fn finish_run(&self, run: &str, finished: f64, outcome: &RunOutcome) -> Result<(), HistoryError> {
        self.write(|link| write::end(link, run, Some(finished), outcome))
    }

    fn finish_rank(
        &self,
        run: &str,
        attempt: Attempt,
        rank: Rank,
        finished: f64,
        outcome: &RunOutcome,
    ) -> Result<(), HistoryError> {
        self.write(|link| {
            let id = runs::run_to_change(link, run)?;
            match declare::finish_rank(link, id, attempt, rank.get(), finished)? {
                true => write::end(link, run, None, outcome),
                false => Ok(()),
            }
        })
    }

    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError> {
        self.write(|link| insert::insert_point(link, point, attempt))
    }

    fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError> {
        if !passes.is_empty() {
            let removed = self.write(|link| unscored::insert_unscored(link, passes))?;
            self.dropped().unscored += removed;
        }
        Ok(true)
    }

    fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError> {
        self.write(|link| write::set_remark(link, run, remark))
    }

    fn remove_run(&self, run: &str) -> Result<(), HistoryError> {
        self.write(|link| write::remove_run(link, run))
    }

    /// Nothing waits here: what cannot be written is an error, and its sender has it.
    fn waiting(&self) -> Waiting {
        self.health()
    }

    /// Asks the database whether it is back.
    fn write_waiting(&self) -> Vec<Written> {
        if self.health().why.is_some() {
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

    fn runs(&self) -> Result<Vec<StoredRun>, HistoryError> {
        self.read(runs::all_runs)
    }

    fn labelled(&self) -> Result<Vec<Arc<LabelledRun>>, HistoryError> {
        let runs = self.read(|link| self.runs.runs(link))?;
        Ok(runs.iter().map(|entry| Arc::clone(&entry.run)).collect())
    }

    fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError> {
        self.read(|link| listing::listing(link, &self.runs, wanted))
    }

    fn listed(&self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError> {
        self.read(|link| listing::listed(link, name))
    }

    fn listed_of(&self, names: &[&str]) -> Result<Vec<(StoredRun, Vec<StoredSplit>)>, HistoryError> {
        self.read(|link| listing::listed_of(link, names))
    }

    fn ranks(&self, run: &str) -> Result<Vec<StoredRank>, HistoryError> {
        self.read(|link| runs::ranks(link, run))
    }

    fn launches(&self, run: &str) -> Result<Vec<StoredLaunch>, HistoryError> {
        self.read(|link| runs::launches(link, run))
    }

    fn known_splits(&self, run: &str) -> Result<Vec<String>, HistoryError> {
        self.read(|link| runs::known_splits(link, run))
    }

    fn splits(&self, run: &str) -> Result<Vec<StoredSplit>, HistoryError> {
        self.read(|link| listing::splits(link, run))
    }

    fn unscored(&self, run: &str, split: &str) -> Result<Vec<Unscored>, HistoryError> {
        self.read(|link| unscored::select_unscored(link, run, split, (0, i64::MAX)))
    }

    fn unscored_at(&self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError> {
        let Ok(step) = i64::try_from(step) else { return Ok(None) };
        Ok(self.read(|link| unscored::select_unscored(link, run, split, (step, step)))?.pop())
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
        self.read(|link| series::series(link, run, split, score, concept, bounds(first_step, last_step)))
    }

    fn values_of(
        &self,
        runs: &[&str],
        split: &str,
        score: &str,
    ) -> Result<BTreeMap<String, Vec<(u64, f64)>>, HistoryError> {
        self.read(|link| series::values_of(link, runs, split, score))
    }

    fn newest_steps(&self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        self.read(|link| series::newest_steps(link, run, split, most))
    }

    fn evaluations(&self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError> {
        self.read(|link| read::evaluations(link, run, split, most))
    }

    fn evaluations_of(
        &self,
        runs: &[&str],
        split: &str,
        most: usize,
    ) -> Result<BTreeMap<String, Vec<Point>>, HistoryError> {
        self.read(|link| read::evaluations_of(link, runs, split, most))
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

    fn evaluation_times(&self, runs: &[&str], most: usize) -> Result<BTreeMap<String, Vec<Vec<f64>>>, HistoryError> {
        self.read(|link| series::evaluation_times(link, runs, most))
    }

    fn common_steps(&self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError> {
        self.read(|link| series::common_steps(link, run, a, b, most))
    }

    fn point(&self, run: &str, split: &str, step: Option<u64>, matrices: bool) -> Result<Option<Point>, HistoryError> {
        let bounds = step.map_or((0, i64::MAX), |step| i64::try_from(step).map_or((1, 0), |step| (step, step)));
        Ok(self.read(|link| read::newest(link, run, split, bounds, matrices))?.map(|(point, _, _)| point))
    }

    fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError> {
        let first = bounds(first_step, None).0;
        self.read(|link| read::whole_points(link, run, split, first, most, matrices))
    }

    fn has_complete_point(
        &self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
        ordinal: Ordinal,
    ) -> Result<bool, HistoryError> {
        let Ok(step) = i64::try_from(step) else { return Ok(false) };
        self.read(|link| read::has_complete(link, run, split, step, attempt, ordinal))
    }

    fn matrix(
        &self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError> {
        let bounds = step.map_or((0, i64::MAX), |step| i64::try_from(step).map_or((1, 0), |step| (step, step)));
        self.read(|link| series::matrix(link, run, split, score, bounds))
    }
}
