//! The current state of each curve: the newest point of each split, its newest slow scores, and the latest step that
//! was scored or skipped.
//!
//! Only the [`Publisher`](super::publish::Publisher) adds points. Readers take one short lock, never those of ingest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::point::Point;
use crate::run::SplitKey;
use crate::sample::{Attempt, Evaluation};
use crate::step::Step;

use super::clock::{lock, unix_time};
use super::live::Latest;

/// All curves of this process.
pub struct Board {
    /// How long the curves of a finished run are still listed.
    linger: Duration,
    runs: Mutex<BTreeMap<Arc<str>, Curves>>,
}

/// The curves of one run.
#[derive(Default)]
struct Curves {
    /// k names.
    concepts: Arc<[String]>,
    finished: Option<Instant>,
    splits: BTreeMap<Arc<str>, Curve>,
}

struct Curve {
    attempt: Attempt,
    /// Start of the attempt in seconds since 1970-01-01 UTC; older points belong to earlier attempts. −∞ if the attempt
    /// continues the points of the history.
    since: f64,
    /// The earliest step that the attempt has sent.
    first_step: Step,
    rolling: bool,
    /// The newest point that is not provisional.
    newest: Option<Arc<Point>>,
    /// The slow scores of the newest evaluation that has any.
    slow: Option<Arc<Point>>,
    /// The latest step whose evaluation was scored or skipped.
    settled: Option<Step>,
    /// The latest step whose slow scores were computed, or will not be.
    slow_settled: Option<Step>,
    /// The newest sample is still filling.
    filling: bool,
    /// The run has finished; the next attempt starts a new curve, even if it is the same one.
    over: bool,
}

/// The start of an attempt in a split.
#[derive(Clone, Debug)]
pub struct Beginning {
    pub attempt: Attempt,
    pub first_step: Step,
    /// Its evaluations continue those in the history.
    pub continues: bool,
    pub rolling: bool,
    /// k names.
    pub concepts: Arc<[String]>,
}

impl Board {
    pub fn new(linger: Duration) -> Self {
        Self { linger, runs: Mutex::default() }
    }

    /// Notes that an attempt begins in a split, or returns to a step earlier than any before. Points of another attempt
    /// are removed from the board.
    pub fn begin(&self, key: &SplitKey, beginning: Beginning) {
        let Beginning { attempt, first_step, continues, rolling, concepts } = beginning;
        let mut runs = lock(&self.runs);
        let run = runs.entry(Arc::clone(&key.run)).or_default();
        (run.concepts, run.finished) = (concepts, None);
        if let Some(curve) = run.splits.get_mut(&key.split).filter(|curve| curve.attempt == attempt && !curve.over) {
            curve.first_step = first_step;
            return;
        }
        let since = if continues { f64::NEG_INFINITY } else { unix_time() };
        let (newest, slow, settled, slow_settled) = Default::default();
        let (filling, over) = (false, false);
        let curve = Curve { attempt, since, first_step, rolling, newest, slow, settled, slow_settled, filling, over };
        run.splits.insert(Arc::clone(&key.split), curve);
    }

    /// Sets the point of an evaluation, or notes that the evaluation has none.
    pub fn settle(&self, evaluation: &Evaluation, point: Option<&Arc<Point>>) {
        self.curve(evaluation, |curve| {
            curve.settled = curve.settled.max(Some(evaluation.step));
            let Some(point) = point else { return };
            curve.filling = point.provisional;
            if !point.provisional {
                curve.newest = Some(Arc::clone(point));
            }
        });
    }

    /// Sets the slow scores of an evaluation: `whole` is its point with all scores, `slow` has the slow scores only.
    pub fn settle_slow(&self, evaluation: &Evaluation, whole: &Arc<Point>, slow: &Arc<Point>) {
        self.curve(evaluation, |curve| {
            if curve.newest.as_ref().is_some_and(|newest| newest.step == whole.step) {
                curve.newest = Some(Arc::clone(whole));
            }
            curve.slow = Some(Arc::clone(slow));
            curve.slow_settled = curve.slow_settled.max(Some(evaluation.step));
        });
    }

    /// Notes that an evaluation will have no slow scores.
    pub fn pass_over_slow(&self, evaluation: &Evaluation) {
        self.curve(evaluation, |curve| curve.slow_settled = curve.slow_settled.max(Some(evaluation.step)));
    }

    /// Changes the curve of an evaluation, unless the split belongs to another attempt by now.
    fn curve(&self, evaluation: &Evaluation, change: impl FnOnce(&mut Curve)) {
        let mut runs = lock(&self.runs);
        let curve = runs.get_mut(&evaluation.key.run).and_then(|run| run.splits.get_mut(&evaluation.key.split));
        let own = |curve: &&mut Curve| curve.attempt == evaluation.attempt && evaluation.time >= curve.since;
        if let Some(curve) = curve.filter(own) {
            change(curve);
        }
    }

    fn read<T>(&self, run: &str, split: &str, read: impl FnOnce(&Curve) -> T) -> Option<T> {
        lock(&self.runs).get(run).and_then(|run| run.splits.get(split)).map(read)
    }

    /// The split's newest point that is not provisional, even if the history could not store it.
    pub fn newest(&self, run: &str, split: &str) -> Option<Arc<Point>> {
        self.read(run, split, |curve| curve.newest.clone()).flatten()
    }

    /// Whether this process has received rows of the split.
    pub fn has_split(&self, run: &str, split: &str) -> bool {
        self.read(run, split, |_| ()).is_some()
    }

    /// Whether the evaluation of `step` was scored, or skipped in favour of a newer one.
    pub fn is_settled(&self, run: &str, split: &str, step: u64) -> bool {
        let settled = self.read(run, split, |curve| curve.settled).flatten();
        settled.is_some_and(|settled| settled.get() >= step)
    }

    /// Whether nothing more is to come for the evaluation of `step`: it has its slow scores, too, or will have none.
    pub fn is_complete(&self, run: &str, split: &str, step: u64) -> bool {
        let slow = self.read(run, split, |curve| curve.slow_settled).flatten();
        slow.is_some_and(|slow| slow.get() >= step)
    }

    /// Whether a stored point belongs to the current attempt of its split or precedes it. Points that an earlier training
    /// left at the attempt's first step or later do not.
    pub fn admits(&self, point: &Point) -> bool {
        let admits = |curve: &Curve| point.time >= curve.since || point.step < curve.first_step.get();
        self.read(&point.run, &point.split, admits).unwrap_or(true)
    }

    /// Whether a stored point from `time`, in seconds since 1970-01-01 UTC, belongs to the attempt of `evaluation`.
    pub fn is_own(&self, evaluation: &Evaluation, time: f64) -> bool {
        let own = |curve: &Curve| curve.attempt == evaluation.attempt && time >= curve.since;
        self.read(&evaluation.key.run, &evaluation.key.split, own).unwrap_or(false)
    }

    pub fn finish(&self, run: &str) {
        if let Some(run) = lock(&self.runs).get_mut(run) {
            run.finished = Some(Instant::now());
            run.splits.values_mut().for_each(|curve| curve.over = true);
        }
    }

    pub fn forget(&self, run: &str) {
        lock(&self.runs).remove(run);
    }

    /// The state of all curves, newest point first, without runs that finished more than `linger` ago.
    pub fn latest(&self) -> Vec<Latest> {
        let runs = lock(&self.runs);
        let lingers = |run: &&Curves| run.finished.is_none_or(|at| at.elapsed() <= self.linger);
        let mut latest: Vec<Latest> = Vec::new();
        for (name, run) in runs.iter().filter(|(_, run)| lingers(run)) {
            latest.extend(run.splits.iter().map(|(split, curve)| Latest {
                run: Arc::clone(name),
                split: Arc::clone(split),
                concepts: Arc::clone(&run.concepts),
                point: curve.newest.clone(),
                slow: curve.slow.clone(),
                rolling: curve.rolling,
                filling: curve.filling,
            }));
        }
        drop(runs);
        Latest::newest_first(&mut latest);
        latest
    }

    /// The highest age, in seconds, of a newest point over the splits of unfinished runs; 0 if there is none.
    pub fn staleness(&self) -> f64 {
        let now = unix_time();
        let runs = lock(&self.runs);
        let live = runs.values().filter(|run| run.finished.is_none()).flat_map(|run| run.splits.values());
        live.filter_map(|curve| curve.newest.as_ref()).map(|point| now - point.time).fold(0.0, f64::max)
    }
}
