//! The current state of each curve: the newest point of each split, the newest scores that join points later, and the latest
//! step that was scored or skipped.
//!
//! Only the [`Publisher`](super::publish::Publisher) adds points. Readers take one short lock, never those of ingest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use leakage::lock::lock;
use leakage::point::Point;
use leakage::run::SplitKey;
use leakage::sample::{Attempt, Evaluation};
use leakage::score::catalogue::Cost;
use leakage::step::{Ordinal, PassKey, Step};

use super::clock::unix_time;
use super::live::Latest;

/// All curves of this process.
pub struct Board {
    /// How long the curves of a finished run are still listed.
    linger: Duration,
    curves: Mutex<BTreeMap<Arc<str>, RunCurves>>,
}

/// The curves of one run.
#[derive(Default)]
struct RunCurves {
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
    /// The newest point that is not provisional.
    newest: Option<Arc<Point>>,
    /// By cost, the scores that join points later, of the newest evaluation that has any of them.
    late: BTreeMap<Cost, Arc<Point>>,
    rolling: bool,
    /// The newest sample is still filling.
    filling: bool,
    /// The latest pass that was scored or skipped.
    settled: Option<PassKey>,
    /// By cost, the latest pass whose scores have joined its point, or never will.
    joined: BTreeMap<Cost, PassKey>,
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
        Self { linger, curves: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, RunCurves>> {
        lock(&self.curves)
    }

    fn read<R>(&self, run: &str, split: &str, read: impl FnOnce(&Curve) -> R) -> Option<R> {
        self.lock().get(run).and_then(|run| run.splits.get(split)).map(read)
    }

    /// Notes that an attempt begins in a split, or returns to a step earlier than any before. Points of another attempt
    /// are removed from the board.
    pub fn begin(&self, key: &SplitKey, beginning: Beginning) {
        let Beginning { attempt, first_step, continues, rolling, concepts } = beginning;
        let mut runs = self.lock();
        let run = runs.entry(Arc::clone(&key.run)).or_default();
        (run.concepts, run.finished) = (concepts, None);
        if let Some(curve) = run.splits.get_mut(&key.split).filter(|curve| curve.attempt == attempt && !curve.over) {
            curve.first_step = first_step;
            return;
        }
        let since = if continues { f64::NEG_INFINITY } else { unix_time() };
        let (newest, late, filling, settled, joined, over) = Default::default();
        let curve = Curve { attempt, since, first_step, newest, late, rolling, filling, settled, joined, over };
        run.splits.insert(Arc::clone(&key.split), curve);
    }

    /// Sets the point of an evaluation, or notes that the evaluation has none.
    pub fn settle(&self, evaluation: &Evaluation, point: Option<&Arc<Point>>) {
        self.curve(evaluation, |curve| {
            curve.settled = curve.settled.max(Some(evaluation.pass()));
            let Some(point) = point else { return };
            curve.filling = point.provisional;
            let newer = |newest: &Arc<Point>| newest.step == point.step && newest.ordinal > point.ordinal;
            if !point.provisional && !curve.newest.as_ref().is_some_and(newer) {
                curve.newest = Some(Arc::clone(point));
            }
        });
    }

    /// Notes that scores of a cost have joined an evaluation: `whole` is its point with all scores, `late` has these only.
    pub fn join(&self, evaluation: &Evaluation, cost: Cost, whole: &Arc<Point>, late: Arc<Point>) {
        self.curve(evaluation, |curve| {
            if curve.newest.as_ref().is_some_and(|newest| (newest.step, newest.ordinal) == (whole.step, whole.ordinal))
            {
                curve.newest = Some(Arc::clone(whole));
            }
            curve.late.insert(cost, late);
        });
        self.close(evaluation, cost);
    }

    /// Notes that no more scores of a cost will join an evaluation.
    pub fn close(&self, evaluation: &Evaluation, cost: Cost) {
        self.curve(evaluation, |curve| {
            let joined = curve.joined.entry(cost).or_insert(evaluation.pass());
            *joined = evaluation.pass().max(*joined);
        });
    }

    /// Changes the curve of an evaluation, unless the split belongs to another attempt by now.
    fn curve(&self, evaluation: &Evaluation, change: impl FnOnce(&mut Curve)) {
        let mut runs = self.lock();
        let curve = runs.get_mut(&evaluation.key.run).and_then(|run| run.splits.get_mut(&evaluation.key.split));
        let own = |curve: &&mut Curve| curve.attempt == evaluation.attempt && evaluation.time >= curve.since;
        if let Some(curve) = curve.filter(own) {
            change(curve);
        }
    }

    /// The split's newest point that is not provisional, even if the history could not store it.
    pub fn newest(&self, run: &str, split: &str) -> Option<Arc<Point>> {
        self.read(run, split, |curve| curve.newest.clone()).flatten()
    }

    /// Whether this process has received rows of the split.
    pub fn has_split(&self, run: &str, split: &str) -> bool {
        self.read(run, split, |_| ()).is_some()
    }

    /// Whether a pass was scored, or skipped in favour of a newer one.
    pub fn is_settled(&self, run: &str, split: &str, pass: (u64, Ordinal)) -> bool {
        let settled = self.read(run, split, |curve| curve.settled).flatten();
        settled.is_some_and(|settled| (settled.step.get(), settled.ordinal) >= pass)
    }

    /// Whether no score of this cost is to come for a pass: it has them, or will have none.
    pub fn has_joined(&self, run: &str, split: &str, pass: (u64, Ordinal), cost: Cost) -> bool {
        let joined = self.read(run, split, |curve| curve.joined.get(&cost).copied()).flatten();
        joined.is_some_and(|joined| (joined.step.get(), joined.ordinal) >= pass)
    }

    /// Whether a pass is settled, and scores of this cost may yet join its point.
    pub fn awaits(&self, run: &str, split: &str, pass: (u64, Ordinal), cost: Cost) -> bool {
        self.is_settled(run, split, pass) && !self.has_joined(run, split, pass, cost)
    }

    /// Whether scores of this cost may yet join the newest point of any split of a run.
    pub fn awaits_any(&self, run: &str, cost: Cost) -> bool {
        let runs = self.lock();
        let awaits = |curve: &Curve| curve.settled > curve.joined.get(&cost).copied();
        runs.get(run).is_some_and(|run| run.splits.values().any(awaits))
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
        if let Some(run) = self.lock().get_mut(run) {
            run.finished = Some(Instant::now());
            run.splits.values_mut().for_each(|curve| curve.over = true);
        }
    }

    pub fn forget(&self, run: &str) {
        self.lock().remove(run);
    }

    /// The state of all curves, newest point first, without runs that finished more than `linger` ago.
    pub fn latest(&self) -> Vec<Latest> {
        let runs = self.lock();
        let mut latest = Vec::new();
        let lingers = |run: &RunCurves| run.finished.is_none_or(|finished| finished.elapsed() <= self.linger);
        for (name, run) in runs.iter().filter(|(_, run)| lingers(run)) {
            latest.extend(run.splits.iter().map(|(split, curve)| Latest {
                run: Arc::clone(name),
                split: Arc::clone(split),
                concepts: Arc::clone(&run.concepts),
                point: curve.newest.clone(),
                late: curve.late.values().cloned().collect(),
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
        let (runs, now) = (self.lock(), unix_time());
        let open = runs.values().filter(|run| run.finished.is_none()).flat_map(|run| run.splits.values());
        open.filter_map(|curve| curve.newest.as_ref()).map(|point| now - point.time).fold(0.0, f64::max)
    }
}
