//! The current state of each curve of a run: the newest point of each split, the newest scores that join points later, the
//! latest step that was scored or skipped, and the rows received.
//!
//! Only the [`Publisher`](super::publish::Publisher) adds points. Readers take one short lock, never that of ingest.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leakage::lock::lock;
use leakage::point::Point;
use leakage::sample::{Attempt, Counts, Evaluation, WindowKind};
use leakage::score::catalogue::Cost;
use leakage::step::{Ordinal, PassKey, Step};

use super::live::Latest;

/// The curves of a run.
#[derive(Default)]
pub struct Board(Mutex<Curves>);

#[derive(Default)]
struct Curves {
    finished: Option<Instant>,
    splits: BTreeMap<Arc<str>, Curve>,
    received: BTreeMap<Arc<str>, Received>,
}

/// The rows that a split has received.
#[derive(Clone, Copy, Debug)]
pub struct Received {
    pub window: WindowKind,
    pub counts: Counts,
    /// Rows of batches that were refused before they reached the sampler.
    pub refused: u64,
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
    /// In seconds since 1970-01-01 UTC; −∞ if its evaluations continue those in the history.
    pub since: f64,
    pub first_step: Step,
    pub rolling: bool,
}

impl Board {
    fn read<R>(&self, split: &str, read: impl FnOnce(&Curve) -> R) -> Option<R> {
        lock(&self.0).splits.get(split).map(read)
    }

    pub fn receive(&self, split: &Arc<str>, received: Received) {
        lock(&self.0).received.insert(Arc::clone(split), received);
    }

    pub fn received(&self) -> BTreeMap<Arc<str>, Received> {
        lock(&self.0).received.clone()
    }

    /// Notes that an attempt begins in a split, or returns to a step earlier than any before. Points of another attempt
    /// are removed from the board.
    pub fn begin(&self, split: &Arc<str>, beginning: Beginning) {
        let Beginning { attempt, since, first_step, rolling } = beginning;
        let mut curves = lock(&self.0);
        curves.finished = None;
        if let Some(curve) = curves.splits.get_mut(split).filter(|curve| curve.attempt == attempt && !curve.over) {
            curve.first_step = first_step;
            return;
        }
        let (newest, late, filling, settled, joined, over) = Default::default();
        let curve = Curve { attempt, since, first_step, newest, late, rolling, filling, settled, joined, over };
        curves.splits.insert(Arc::clone(split), curve);
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
        let mut curves = lock(&self.0);
        let own = |curve: &&mut Curve| curve.attempt == evaluation.attempt && evaluation.time >= curve.since;
        if let Some(curve) = curves.splits.get_mut(&evaluation.key.split).filter(own) {
            change(curve);
        }
    }

    /// The split's newest point that is not provisional, even if the history could not store it.
    pub fn newest(&self, split: &str) -> Option<Arc<Point>> {
        self.read(split, |curve| curve.newest.clone()).flatten()
    }

    /// Whether this process has received rows of the split.
    pub fn has_split(&self, split: &str) -> bool {
        self.read(split, |_| ()).is_some()
    }

    /// Whether a pass was scored, or skipped in favour of a newer one.
    pub fn is_settled(&self, split: &str, pass: (u64, Ordinal)) -> bool {
        let settled = self.read(split, |curve| curve.settled).flatten();
        settled.is_some_and(|settled| (settled.step.get(), settled.ordinal) >= pass)
    }

    /// Whether no score of this cost is to come for a pass: it has them, or will have none.
    pub fn has_joined(&self, split: &str, pass: (u64, Ordinal), cost: Cost) -> bool {
        let joined = self.read(split, |curve| curve.joined.get(&cost).copied()).flatten();
        joined.is_some_and(|joined| (joined.step.get(), joined.ordinal) >= pass)
    }

    /// Whether a pass is settled, and scores of this cost may yet join its point.
    pub fn awaits(&self, split: &str, pass: (u64, Ordinal), cost: Cost) -> bool {
        self.is_settled(split, pass) && !self.has_joined(split, pass, cost)
    }

    /// Whether scores of this cost may yet join the newest point of any split.
    pub fn awaits_any(&self, cost: Cost) -> bool {
        let awaits = |curve: &Curve| curve.settled > curve.joined.get(&cost).copied();
        lock(&self.0).splits.values().any(awaits)
    }

    /// Whether a stored point belongs to the current attempt of its split or precedes it. Points that an earlier training
    /// left at the attempt's first step or later do not.
    pub fn admits(&self, point: &Point) -> bool {
        self.has(&point.split, point.step, point.time)
    }

    /// Whether a step of a split at a time, in seconds since 1970-01-01 UTC, belongs to the current attempt or precedes it.
    pub fn has(&self, split: &str, step: u64, time: f64) -> bool {
        let has = |curve: &Curve| time >= curve.since || step < curve.first_step.get();
        self.read(split, has).unwrap_or(true)
    }

    /// Whether a stored point from `time`, in seconds since 1970-01-01 UTC, belongs to the attempt of `evaluation`.
    pub fn is_own(&self, evaluation: &Evaluation, time: f64) -> bool {
        let own = |curve: &Curve| curve.attempt == evaluation.attempt && time >= curve.since;
        self.read(&evaluation.key.split, own).unwrap_or(false)
    }

    pub fn finish(&self) {
        let mut curves = lock(&self.0);
        curves.finished = Some(Instant::now());
        curves.splits.values_mut().for_each(|curve| curve.over = true);
    }

    /// The state of all curves of the run `name`, whose concepts and tasks have these `names`; none if it finished more than
    /// `linger` ago.
    pub fn latest(&self, name: &Arc<str>, names: [&Arc<[String]>; 2], linger: Duration) -> Vec<Latest> {
        let curves = lock(&self.0);
        let lingers = curves.finished.is_none_or(|finished| finished.elapsed() <= linger);
        let splits = curves.splits.iter().filter(|_| lingers);
        let latest = splits.map(|(split, curve)| Latest {
            run: Arc::clone(name),
            split: Arc::clone(split),
            concepts: Arc::clone(names[0]),
            tasks: Arc::clone(names[1]),
            point: curve.newest.clone(),
            late: curve.late.values().cloned().collect(),
            rolling: curve.rolling,
            filling: curve.filling,
        });
        latest.collect()
    }

    /// When the oldest of the newest points was made, in seconds since 1970-01-01 UTC; infinite without one, and once the run
    /// has finished.
    pub fn oldest(&self) -> f64 {
        let curves = lock(&self.0);
        let open = curves.splits.values().filter(|_| curves.finished.is_none());
        open.filter_map(|curve| curve.newest.as_ref()).map(|point| point.time).fold(f64::INFINITY, f64::min)
    }
}
