//! The interface of every history, whichever engine keeps it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::HistoryError;
use super::listing::{Listing, StoredSplit, Wanted};
use super::outcome::RunOutcome;
use super::point::{Recorded, ScoreMatrix, SeriesPoint, WholePoint};
use super::run::{Identity, LabelledRun, Remark, RunRecord, StoredLaunch, StoredRank, StoredRun};
use super::settled::{Unscored, Written};
use super::usage::{Usage, Waiting};
use leakage::diagnosis::Verdict;
use leakage::point::{Brief, Point};
use leakage::run::Run;
use leakage::sample::Attempt;
use leakage::step::{Ordinal, Rank};

/// Runs and their curve points.
///
/// All calls block. A change is durable when its call returns, unless the call says that it waits, or returns nothing
/// that says so and the disk is slow or full: then it is there for readers, and in memory or on its way to the disk. A
/// call that names a run errors when that run is unknown.
pub trait Store: Send + Sync {
    /// Declares a run at `started`, in seconds since 1970-01-01 UTC.
    ///
    /// A named launch that has declared this run before joins it. Any other named launch resumes the run of that name if
    /// `identity.resume` is set; otherwise it starts a new run, under the next free name (`name-2`, …) if the name is
    /// taken. An unnamed launch resumes the run of that name or starts it. Errors when the run that is joined or resumed
    /// was declared differently.
    fn record_run(&self, run: &Run, identity: &Identity<'_>, started: f64) -> Result<RunRecord, HistoryError>;

    /// Lets the size limit remove the run's declaration if the run has no points: nobody sends to it any more. Never
    /// waits for the disk.
    fn forget_run(&self, run: &str);

    /// Marks a run as finished at `finished`, in seconds since 1970-01-01 UTC. `outcome` is that of its last rank; the run's is
    /// [joined](RunOutcome::joined) from those of all.
    fn finish_run(&self, run: &str, finished: f64, outcome: &RunOutcome) -> Result<(), HistoryError>;

    /// Marks a rank as finished at `finished`, in seconds since 1970-01-01 UTC. A rank that has not declared itself, or
    /// of a restart that is no longer the newest, is not stored. Launches that name no job have no ranks but outcomes.
    fn finish_rank(
        &self,
        run: &str,
        attempt: Attempt,
        rank: Rank,
        finished: f64,
        outcome: &RunOutcome,
    ) -> Result<(), HistoryError>;

    /// Stores a point with all its scores, atomically. It replaces a point of the same attempt, split and pass unless that
    /// one is more complete: a provisional or incomplete point never replaces a complete one, nor an incomplete point one
    /// with more rows. Of two passes of a step the older is superseded, unless the newer is less complete: that is not
    /// stored. A stored point ends the record of its step among the [`Unscored`]. Scores, errors and cells that
    /// are not finite are stored as absent.
    ///
    /// `attempt` is the one that made the point. A later attempt begins a branch: what older ones have made of the split
    /// from the point's step on is superseded. It stays, but only [`series`](Self::series) and
    /// [`whole_points`](Self::whole_points) return it.
    fn record_point(&self, point: &Point, attempt: Option<Attempt>) -> Result<Recorded, HistoryError>;

    /// Records passes in one transaction. The newest record of a step replaces earlier ones; a step that has a complete
    /// point gets none, and neither does a run that is unknown. Returns whether the records are durable; if not, they
    /// are kept and written later (see [`write_waiting`](Self::write_waiting)).
    fn record_unscored(&self, passes: &[Unscored]) -> Result<bool, HistoryError>;

    /// Changes what is said about a run. Errors when a text is not one.
    fn remark(&self, run: &str, remark: &Remark) -> Result<(), HistoryError>;

    /// Removes a run with all that belongs to it. Errors when it is open: jobs may still send to it.
    fn remove_run(&self, run: &str) -> Result<(), HistoryError>;

    /// Whether the history can be written. Never waits for a reader or writer.
    fn waiting(&self) -> Waiting;

    /// Writes what is kept because the history could not be written. Returns the points and records that waited, also for
    /// a slow disk, and are durable now. To be called periodically; tries again after 0.25 s, then less and less often, at
    /// least every 15 s.
    fn write_waiting(&self) -> Vec<Written>;

    fn usage(&self) -> Result<Usage, HistoryError>;

    /// All runs, newest start first.
    fn runs(&self) -> Result<Vec<StoredRun>, HistoryError>;

    /// All runs with their labels alone, newest start first.
    fn labelled(&self) -> Result<Vec<Arc<LabelledRun>>, HistoryError> {
        let labelled = |stored: StoredRun| {
            Arc::new(LabelledRun {
                name: stored.run.name.clone(),
                labels: stored.run.labels.clone(),
                finished: stored.finished.is_some(),
            })
        };
        Ok(self.runs()?.into_iter().map(labelled).collect())
    }

    /// The runs that a search names, or a page of them, with their splits. One reading: between two, a run may be
    /// removed.
    fn listing(&self, wanted: &Wanted) -> Result<Listing, HistoryError>;

    /// One run with its splits.
    fn listed(&self, name: &str) -> Result<(StoredRun, Vec<StoredSplit>), HistoryError>;

    /// Several runs with their splits, in the order of `names`, without those that are unknown.
    fn listed_of(&self, names: &[&str]) -> Result<Vec<(StoredRun, Vec<StoredSplit>)>, HistoryError>;

    /// The ranks of each launch's newest restart that have declared themselves, by launch and rank. Empty for launches
    /// that name no job.
    fn ranks(&self, run: &str) -> Result<Vec<StoredRank>, HistoryError>;

    /// The launches of a run that name their job, the first first: an attempt's launch is a place in this list.
    fn launches(&self, run: &str) -> Result<Vec<StoredLaunch>, HistoryError>;

    /// The splits of a run that have points or passes without one, by name.
    fn known_splits(&self, run: &str) -> Result<Vec<String>, HistoryError>;

    /// The splits of a run that have points, by name.
    fn splits(&self, run: &str) -> Result<Vec<StoredSplit>, HistoryError>;

    /// The passes of a split without a complete point, by step: those that were recorded, and points that were found to
    /// be damaged since the history was opened.
    fn unscored(&self, run: &str, split: &str) -> Result<Vec<Unscored>, HistoryError>;

    /// The record of one pass, if it is on the disk.
    fn unscored_at(&self, run: &str, split: &str, step: u64) -> Result<Option<Unscored>, HistoryError>;

    /// The points of one score, or of one concept of it, from `first_step` to `last_step` inclusive, in ascending order;
    /// those that are superseded follow the current one of their step.
    /// Errors when the concept is unknown.
    fn series(
        &self,
        run: &str,
        split: &str,
        score: &str,
        concept: Option<&str>,
        first_step: u64,
        last_step: Option<u64>,
    ) -> Result<Vec<SeriesPoint>, HistoryError>;

    /// The steps and values of a score at the finished evaluations of the newest branch of several runs, by name, in
    /// ascending order. Runs that have none, or are unknown, are not in the answer.
    fn values_of(
        &self,
        runs: &[&str],
        split: &str,
        score: &str,
    ) -> Result<BTreeMap<String, Vec<(u64, f64)>>, HistoryError> {
        let mut found = BTreeMap::new();
        for run in runs {
            let series = match self.series(run, split, score, None, 0, None) {
                Err(HistoryError::Unknown { .. }) => continue,
                series => series?,
            };
            let finished = series.iter().filter(|point| !point.provisional && !point.superseded);
            let values: Vec<_> = finished.filter_map(|point| Some((point.step, point.value?))).collect();
            if !values.is_empty() {
                found.insert((*run).to_owned(), values);
            }
        }
        Ok(found)
    }

    /// Steps of a split's newest points, at most `most`, in ascending order. Empty for a split without points.
    fn newest_steps(&self, run: &str, split: &str, most: usize) -> Result<Vec<u64>, HistoryError>;

    /// A split's newest finished evaluations, at most `most`, oldest first, without matrices. Empty for a split without
    /// points.
    fn evaluations(&self, run: &str, split: &str, most: usize) -> Result<Vec<Point>, HistoryError>;

    /// [`evaluations`](Self::evaluations) of several runs, by name. A run that is unknown has none.
    fn evaluations_of(
        &self,
        runs: &[&str],
        split: &str,
        most: usize,
    ) -> Result<BTreeMap<String, Vec<Point>>, HistoryError> {
        let of_run = |run: &&str| match self.evaluations(run, split, most) {
            Err(HistoryError::Unknown { .. }) => None,
            found => Some(found.map(|points| ((*run).to_owned(), points))),
        };
        runs.iter().filter_map(of_run).collect()
    }

    /// As [`evaluations_of`](Self::evaluations_of), with some scores alone, each as a whole: one list for each run, in
    /// the order of `runs`.
    fn briefs(
        &self,
        runs: &[&str],
        split: &str,
        scores: &[&str],
        most: usize,
    ) -> Result<Vec<Arc<[Brief]>>, HistoryError> {
        let of_run = |run: &&str| {
            let points = self.evaluations_of(&[run], split, most)?.remove(*run).unwrap_or_default();
            Ok(points.iter().map(|point| Brief::of(point, scores)).collect())
        };
        runs.iter().map(of_run).collect()
    }

    /// The verdicts on a split of several runs, by name, as their sidecars judged. A run without one, such as any in the
    /// history of a sidecar itself, is judged by who reads its points.
    fn verdicts(&self, runs: &[&str], split: &str) -> Result<BTreeMap<String, Verdict>, HistoryError> {
        let _ = (runs, split);
        Ok(BTreeMap::new())
    }

    /// For each of these curves, by run and split, the times of its newest finished evaluations, at most `most`, in seconds
    /// since 1970-01-01 UTC, in any order; none where the run or the split is not known.
    fn evaluation_times(&self, curves: &[(&str, &str)], most: usize) -> Result<Vec<Vec<f64>>, HistoryError>;

    /// The newest steps at which both splits have a finished evaluation, at most `most`, in ascending order.
    fn common_steps(&self, run: &str, a: &str, b: &str, most: usize) -> Result<Vec<u64>, HistoryError>;

    /// The point at `step`, or the newest; `None` if there is none. With `matrices`, it includes the matrices that are
    /// kept.
    fn point(&self, run: &str, split: &str, step: Option<u64>, matrices: bool) -> Result<Option<Point>, HistoryError>;

    /// Points of a split from `first_step` on, in the order of [`series`](Self::series), and the step at which the next
    /// ones begin. An answer ends after `most` points or some megabytes, with the last point of a step.
    fn whole_points(
        &self,
        run: &str,
        split: &str,
        first_step: u64,
        most: usize,
        matrices: bool,
    ) -> Result<(Vec<WholePoint>, Option<u64>), HistoryError>;

    /// Whether the history has a complete point of this pass of `attempt`, neither provisional nor incomplete, on its disk.
    fn has_complete_point(
        &self,
        run: &str,
        split: &str,
        step: u64,
        attempt: Attempt,
        ordinal: Ordinal,
    ) -> Result<bool, HistoryError>;

    /// A score's k × k matrix at `step`, or at the newest step that has one; `None` if there is none.
    fn matrix(
        &self,
        run: &str,
        split: &str,
        score: &str,
        step: Option<u64>,
    ) -> Result<Option<ScoreMatrix>, HistoryError>;
}
