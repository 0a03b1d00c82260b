//! One row for each run: its verdict, its newest values and a curve of a few points.
//!
//! A row is computed when it is first read and again after its split has changed. Many rows at once would take longer
//! than a reader waits, so an answer that takes long says how many rows are missing, and the next one has more of them.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use serde::Serialize;

use super::app::App;
use super::curves::{rounded, spread};
use super::refusal::Refusal;
use super::rows::{Concepts, Row, Rows, Spark, Value, Version};
use crate::analysis_query::{baseline_of, diagnosis_of, judged};
use crate::history::{Listing, StoredRun, StoredSplit, Wanted};
use crate::server::live::Latest;
use leakage::compare::{USUAL_OF_GROUPS, fits};
use leakage::diagnosis::{Assessment, LOOKED_BACK, StopAdvised, Verdict};
use leakage::limits;
use leakage::lock::lock;
use leakage::point::Point;
use leakage::run::{LabelKind, Run};

/// Time after which an answer is given without the rows that are still missing.
const PATIENCE: Duration = Duration::from_millis(250);
/// Rows that are computed from one reading.
const TOGETHER: usize = 8;
/// Rows of removed runs that a split may have before they are dropped.
const GONE: usize = 64;
/// Splits that may have rows of all runs; beyond it, only the rows of the split asked for are kept.
const MOST_SPLITS: usize = 16;
/// Evaluations that are read of a run whose sidecar has judged it: scores that join later are of one of them.
const SHOWN: usize = 5;
/// Points of a row's curve.
const SPARK: usize = 30;
/// Leakage to a task that is a number; beside tasks with classes it says nothing of these, and `ctl_conditional` is of all.
const OF_NUMBERS: &str = "ctl_conditional_r2";
/// Scores of a row's curve in the order of preference.
const CURVES: [&str; 4] = [OF_NUMBERS, "ctl_conditional", "embedding_ct_conditional", "ctl"];

/// The answer: rows in the order of the runs, newest first.
#[derive(Serialize)]
pub(super) struct Overview {
    split: String,
    pub runs: Vec<Arc<Row>>,
    /// Rows that another request will have.
    pub pending: usize,
    /// The value of `after` for the next page, once no row is pending; absent on the last.
    next: Option<String>,
}

impl Rows {
    /// The rows of runs in a split, or of some alone. Blocks.
    pub(super) fn read(&self, app: &App, split: &str, only: &[&str], wanted: &Wanted) -> Result<Overview, Refusal> {
        let begun = Instant::now();
        let (latest, alerts) = (app.live.latest(), app.live.alerts());
        let latest: HashMap<(&str, &str), &Latest> = latest.iter().map(|one| ((&*one.run, &*one.split), one)).collect();
        let (runs, next) = match only {
            [name] => (vec![app.history.listed(name)?], None),
            // Some of several runs may have been removed since they were listed.
            [_, ..] => (app.history.listed_of(only)?, None),
            [] => {
                let listing = app.history.listing(wanted)?;
                self.bound(app, split, &listing, wanted)?;
                (listing.runs, listing.next.map(|next| next.to_string()))
            }
        };
        let names: Vec<&str> = runs.iter().map(|(stored, _)| stored.run.name.as_str()).collect();
        let mut verdicts = app.history.verdicts(&names, split)?;
        let mut rows: Vec<Option<Arc<Row>>> = Vec::with_capacity(runs.len());
        let mut stale = Vec::new();
        for (at, (stored, splits)) in runs.iter().enumerate() {
            let name = stored.run.name.as_str();
            let live = latest.get(&(name, split));
            let of_split = splits.iter().find(|one| one.split == split);
            let version = version(stored, of_split, live.copied(), alerts.advised(name, split), verdicts.remove(name));
            let known = lock(&self.0).get(&(name.to_owned(), split.to_owned())).cloned();
            match known {
                Some((of, row)) if of == version => rows.push(Some(row)),
                before => {
                    rows.push(None);
                    stale.push(Stale { at, stored, version, before: before.map(|(_, row)| row) });
                }
            }
        }
        let mut overview = Overview { split: split.to_owned(), runs: Vec::new(), pending: 0, next };
        let mut stale = stale.into_iter().peekable();
        // The first rows are always computed, so that each request makes progress.
        let mut first = true;
        while stale.peek().is_some() && (first || begun.elapsed() <= PATIENCE) {
            let together: Vec<Stale> = stale.by_ref().take(TOGETHER).collect();
            let runs: Vec<&Run> = together.iter().map(|one| &one.stored.run).collect();
            let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
            let is_judged = together.iter().all(|one| one.version.judged.is_some());
            let looked_back = if is_judged { SHOWN } else { LOOKED_BACK };
            let mut evaluations = app.history.evaluations_of(&names, split, looked_back)?;
            let mut sparks = sparks(app, &runs, split)?;
            for Stale { at, stored, version, before } in together {
                let mut points = evaluations.remove(&stored.run.name).unwrap_or_default();
                points.retain(|point| app.live.admits(point));
                let spark = sparks.remove(stored.run.name.as_str());
                let row = match row(app, stored, split, (points, spark), &version, before.as_deref()) {
                    // The size limit has removed the run since the runs were listed.
                    Err(refusal) if refusal.status == StatusCode::NOT_FOUND && only.len() != 1 => continue,
                    row => Arc::new(row?),
                };
                let key = (stored.run.name.clone(), split.to_owned());
                lock(&self.0).insert(key, (version, Arc::clone(&row)));
                rows[at] = Some(row);
            }
            first = false;
        }
        overview.pending = stale.count();
        overview.runs = rows.into_iter().flatten().collect();
        Ok(overview)
    }
}

impl Rows {
    /// The verdict on a run's split with what it rests on; `None` once its evaluations were removed. Blocks.
    pub(super) fn assess(&self, app: &App, run: &str, split: &str) -> Result<Option<Assessment>, Refusal> {
        let diagnosis = diagnosis_of(&*app.history, run, split, |point| app.live.admits(point))?;
        let row = self.read(app, split, &[run], &Wanted::default())?.runs.into_iter().next();
        Ok(row.and_then(|row| Some(Assessment::new(row.verdict.clone()?, diagnosis))))
    }

    /// Drops rows of removed runs, and of splits no longer read, once there are many.
    fn bound(&self, app: &App, split: &str, listing: &Listing, wanted: &Wanted) -> Result<(), Refusal> {
        let rows = lock(&self.0);
        let of_split = rows.keys().filter(|(_, of)| of == split).count();
        let found = listing.total as usize;
        // A search finds a part of the runs.
        let runs = if wanted.search.is_empty() { found } else { found.max(of_split) };
        if of_split <= runs + GONE && rows.len() <= MOST_SPLITS * (runs + GONE) {
            return Ok(());
        }
        drop(rows);
        let known = app.history.labelled()?;
        let known: HashSet<&str> = known.iter().map(|run| run.name.as_str()).collect();
        let mut rows = lock(&self.0);
        rows.retain(|(run, _), _| known.contains(run.as_str()));
        if rows.len() > MOST_SPLITS * (known.len() + GONE) {
            rows.retain(|(_, of), _| of == split);
        }
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn count(&self) -> usize {
        lock(&self.0).len()
    }
}

/// A run whose row has to be computed.
struct Stale<'a> {
    /// Its place in the answer.
    at: usize,
    stored: &'a StoredRun,
    version: Version,
    before: Option<Arc<Row>>,
}

fn version(
    stored: &StoredRun,
    of_split: Option<&StoredSplit>,
    live: Option<&Latest>,
    advised: Option<StopAdvised>,
    judged: Option<Verdict>,
) -> Version {
    let of_point = |point: &Arc<Point>| (point.step, point.time, point.seconds);
    Version {
        started: stored.started,
        finished: stored.finished.is_some(),
        points: of_split.map_or(0, |one| one.points),
        last_step: of_split.map(|one| one.last_step),
        newest: live.iter().flat_map(|live| live.point.iter().chain(&live.late)).map(of_point).collect(),
        advised,
        judged,
    }
}

/// `points` are the newest evaluations, at most [`LOOKED_BACK`]. Where one of several tasks decides, the values are its
/// own, which a mean over tasks would contradict.
fn row(
    app: &App,
    stored: &StoredRun,
    split: &str,
    (mut points, spark): (Vec<Point>, Option<Spark>),
    version: &Version,
    before: Option<&Row>,
) -> Result<Row, Refusal> {
    let name = stored.run.name.as_str();
    let found = match &version.judged {
        Some(judged) => Some(judged.clone()),
        None => judge(app, stored, split, &points, version, before)?,
    };
    let deciding = found.as_ref().and_then(|found| found.task.as_deref());
    let deciding = deciding.and_then(|task| stored.run.tasks.iter().position(|one| one.name == task));
    if let Some(task) = deciding {
        points = points.iter().map(|point| point.of_task(task, &stored.run.tasks[task].name)).collect();
    }
    let is_number = |task| stored.run.task_kind(task) == LabelKind::Continuous;
    let only_numbers = deciding.map_or_else(|| stored.run.has_only_numbers(), is_number);
    let newest = points.last();
    let mut scores = BTreeMap::new();
    let at = |id: &str| points.iter().rev().find_map(|point| Some((point, point.score(id)?)));
    let of_all_tasks = |id: &str| id != OF_NUMBERS || only_numbers;
    let has_value = |id: &str| at(id).is_some_and(|(_, outcome)| outcome.value().is_some());
    for id in USUAL_OF_GROUPS.into_iter().filter(|id| fits(id, only_numbers, has_value)) {
        if let Some((point, outcome)) = at(id) {
            let (value, undefined) = (outcome.value(), outcome.why().map(str::to_owned));
            let (value, standard_error) = (value.map(|of| of.value), value.and_then(|of| of.standard_error));
            scores.insert(id, Value { step: point.step, value, standard_error, undefined });
        }
    }
    Ok(Row {
        name: name.to_owned(),
        verdict: found,
        step: newest.map(|point| point.step),
        epoch: newest.and_then(|point| point.epoch),
        time: newest.map(|point| point.time),
        rows: newest.map(|point| point.rows),
        evaluations: version.points,
        scores,
        concepts: points.iter().rev().find_map(|point| concepts_above(point, of_all_tasks)),
        spark,
    })
}

/// The verdict on a run from its newest evaluations.
fn judge(
    app: &App,
    stored: &StoredRun,
    split: &str,
    points: &[Point],
    version: &Version,
    before: Option<&Row>,
) -> Result<Option<Verdict>, Refusal> {
    let baseline = baseline_of(&*app.history, &stored.run)?;
    let above: Option<Vec<Point>> = baseline.map(|baseline| points.iter().map(|point| baseline.above(point)).collect());
    let points = (above.as_deref().unwrap_or(points), points.len() < LOOKED_BACK);
    let before = before.and_then(|row| row.verdict.as_ref());
    let admits = |point: &Point| app.live.admits(point);
    Ok(judged(&*app.history, stored, split, points, version.advised.as_ref(), admits, before)?)
}

/// By the score that decides: of a task that is a number, the one that is a share of its variance.
fn concepts_above(point: &Point, of_all_tasks: impl Fn(&str) -> bool) -> Option<Concepts> {
    let of = [(OF_NUMBERS, limits::CTL_R2), ("ctl_conditional", limits::CTL_CONDITIONAL)];
    of.into_iter().filter(|(score, _)| of_all_tasks(score)).find_map(|(score, limit)| {
        let values = point.score(score)?.per_concept()?;
        let above = values.iter().flatten().filter(|value| **value > limit).count();
        Some(Concepts { score, above, of: values.len(), limit })
    })
}

/// The curves of rows by the first score of [`CURVES`] that each run has, by name.
fn sparks(app: &App, runs: &[&Run], split: &str) -> Result<HashMap<String, Spark>, Refusal> {
    let (mut found, mut left) = (HashMap::new(), runs.to_vec());
    for score in CURVES {
        let of_all_tasks = left.iter().filter(|run| score != OF_NUMBERS || run.has_only_numbers());
        let names: Vec<&str> = of_all_tasks.map(|run| run.name.as_str()).collect();
        if names.is_empty() {
            continue;
        }
        let mut values = app.history.values_of(&names, split, score)?;
        left.retain(|run| !values.contains_key(run.name.as_str()));
        while let Some((run, points)) = values.pop_first() {
            let kept = spread(points.len(), SPARK).map(|at| points[at]);
            let (steps, values) = kept.map(|(step, value)| (step, rounded(value))).unzip();
            found.insert(run, Spark { score, steps, values });
        }
    }
    Ok(found)
}
