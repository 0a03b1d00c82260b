//! The curves of runs, as a board keeps and lists them. A sidecar's board and a hub's differ in how a curve changes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::lock::lock;
use crate::point::Point;
use crate::score::catalogue::Cost;

use super::live::Latest;

/// All curves of a board: `T` is the time at which a run finished, `C` the curve of a split.
pub struct Curves<T, C>(Mutex<BTreeMap<Arc<str>, RunCurves<T, C>>>);

/// The curves of one run.
pub struct RunCurves<T, C> {
    /// k names.
    pub concepts: Arc<[String]>,
    pub finished: Option<T>,
    pub splits: BTreeMap<Arc<str>, C>,
}

/// The shown state of the curve of a split.
#[derive(Default)]
pub struct Shown {
    /// The newest point that is not provisional.
    pub newest: Option<Arc<Point>>,
    /// By cost, the scores that join points later, of the newest evaluation that has any of them.
    pub late: BTreeMap<Cost, Arc<Point>>,
    pub rolling: bool,
    /// The newest sample is still filling.
    pub filling: bool,
}

impl<T, C> Curves<T, C> {
    pub fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, RunCurves<T, C>>> {
        lock(&self.0)
    }

    pub fn read<R>(&self, run: &str, split: &str, read: impl FnOnce(&C) -> R) -> Option<R> {
        self.lock().get(run).and_then(|run| run.splits.get(split)).map(read)
    }

    pub fn has_split(&self, run: &str, split: &str) -> bool {
        self.read(run, split, |_| ()).is_some()
    }

    pub fn forget(&self, run: &str) {
        self.lock().remove(run);
    }
}

impl<T, C: AsRef<Shown>> Curves<T, C> {
    /// The state of all curves, newest point first, without runs that finished too long ago to linger.
    pub fn latest(&self, lingers: impl Fn(&T) -> bool) -> Vec<Latest> {
        let runs = self.lock();
        let mut latest: Vec<Latest> = Vec::new();
        for (name, run) in runs.iter().filter(|(_, run)| run.finished.as_ref().is_none_or(&lingers)) {
            latest.extend(run.splits.iter().map(|(split, curve)| {
                let Shown { newest, late, rolling, filling } = curve.as_ref();
                Latest {
                    run: Arc::clone(name),
                    split: Arc::clone(split),
                    concepts: Arc::clone(&run.concepts),
                    point: newest.clone(),
                    late: late.values().cloned().collect(),
                    rolling: *rolling,
                    filling: *filling,
                }
            }));
        }
        drop(runs);
        Latest::newest_first(&mut latest);
        latest
    }

    /// The highest age at `now`, in seconds, of a newest point over the splits of unfinished runs; 0 if there is none.
    pub fn staleness(&self, now: f64) -> f64 {
        let runs = self.lock();
        let open = runs.values().filter(|run| run.finished.is_none()).flat_map(|run| run.splits.values());
        let newest = open.filter_map(|curve| curve.as_ref().newest.as_ref());
        newest.map(|point| now - point.time).fold(0.0, f64::max)
    }
}

impl<T, C> Default for Curves<T, C> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T, C> Default for RunCurves<T, C> {
    fn default() -> Self {
        Self { concepts: Arc::default(), finished: None, splits: BTreeMap::new() }
    }
}
