//! Where the curves of this process stand: the newest point of each split, its slow scores, and what is settled.
//!
//! Points are put up by the [`Publisher`](super::publish::Publisher) alone. Readers take one short lock, which ingest
//! never holds.

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
    /// Time for which the curves of a finished run stay up.
    linger: Duration,
    runs: Mutex<BTreeMap<Arc<str>, Curves>>,
}

/// Those of one run.
#[derive(Default)]
struct Curves {
    /// k names.
    concepts: Arc<[String]>,
    finished: Option<Instant>,
    splits: BTreeMap<Arc<str>, Curve>,
}

struct Curve {
    attempt: Attempt,
    /// Seconds since 1970-01-01 UTC from which on points are of this attempt; −∞ where it goes on from the history's.
    since: f64,
    /// The earliest step that the attempt has come to.
    first_step: Step,
    rolling: bool,
    /// The newest point of a full or finished sample.
    newest: Option<Arc<Point>>,
    /// The slow scores of the newest evaluation that has them.
    slow: Option<Arc<Point>>,
    /// The latest step whose evaluation was scored or passed over.
    settled: Option<Step>,
    /// The newest sample is still filling.
    filling: bool,
    /// The run has finished since; what comes next begins again, whoever sends it.
    over: bool,
}

/// An attempt that begins in a split.
#[derive(Clone, Debug)]
pub struct Beginning {
    pub attempt: Attempt,
    pub first_step: Step,
    /// Its evaluations go on from those that the history holds.
    pub continues: bool,
    pub rolling: bool,
    /// k names.
    pub concepts: Arc<[String]>,
}

impl Board {
    pub fn new(linger: Duration) -> Self {
        Self { linger, runs: Mutex::default() }
    }

    /// An attempt begins in a split, or comes to an earlier step than before. The points of another attempt come down.
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
        let (newest, slow, settled) = Default::default();
        let curve = Curve { attempt, since, first_step, rolling, newest, slow, settled, filling: false, over: false };
        run.splits.insert(Arc::clone(&key.split), curve);
    }

    /// Puts up the point of an evaluation, or notes that it has none.
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

    /// Puts up the slow scores of an evaluation: `whole` is its point with them, `slow` the same with nothing else.
    pub fn settle_slow(&self, evaluation: &Evaluation, whole: &Arc<Point>, slow: &Arc<Point>) {
        self.curve(evaluation, |curve| {
            if curve.newest.as_ref().is_some_and(|newest| newest.step == whole.step) {
                curve.newest = Some(Arc::clone(whole));
            }
            curve.slow = Some(Arc::clone(slow));
        });
    }

    /// Changes the curve of an evaluation, unless another attempt has taken its place.
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

    /// The newest point of a split that is not provisional, whether or not the history could store it.
    pub fn newest(&self, run: &str, split: &str) -> Option<Arc<Point>> {
        self.read(run, split, |curve| curve.newest.clone()).flatten()
    }

    /// Whether anything of the split has arrived.
    pub fn has_split(&self, run: &str, split: &str) -> bool {
        self.read(run, split, |_| ()).is_some()
    }

    /// Whether the evaluation of `step` was scored, or passed over for a newer one.
    pub fn is_settled(&self, run: &str, split: &str, step: u64) -> bool {
        let settled = self.read(run, split, |curve| curve.settled).flatten();
        settled.is_some_and(|settled| settled.get() >= step)
    }

    /// Whether a stored point is one that the attempt which now sends to the split made or goes on from. Points at its
    /// own steps, and later ones, that an earlier training left are not.
    pub fn admits(&self, point: &Point) -> bool {
        let admits = |curve: &Curve| point.time >= curve.since || point.step < curve.first_step.get();
        self.read(&point.run, &point.split, admits).unwrap_or(true)
    }

    /// Whether the attempt made the evaluation whose point the history has from `time`.
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

    /// Where the curves stand, the newest first, without runs that finished longer ago than they linger.
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
        let time = |latest: &Latest| latest.point.as_ref().map_or(0.0, |point| point.time);
        latest.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.run.cmp(&b.run)));
        latest
    }

    /// Age in seconds of the newest point of the unfinished split that has waited longest; 0 without any.
    pub fn staleness(&self) -> f64 {
        let now = unix_time();
        let runs = lock(&self.runs);
        let live = runs.values().filter(|run| run.finished.is_none()).flat_map(|run| run.splits.values());
        live.filter_map(|curve| curve.newest.as_ref()).map(|point| now - point.time).fold(0.0, f64::max)
    }
}
