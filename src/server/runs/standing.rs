//! Where the curves of runs stand, as the scorer and the exports ask for it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::point::Point;
use crate::sample::{Split, WindowKind};

use super::super::live::{Latest, RunStatus, SplitStatus};
use super::{Ready, Running, Runs, SplitState, lock, rolling, unix_time, window_name};

impl Runs {
    /// Rolling samples: run, split, rows changed since the last snapshot, rows held.
    pub fn rolling(&self) -> Vec<(Arc<Running>, Arc<str>, usize, usize)> {
        let mut rolling = Vec::new();
        for running in self.all() {
            for split in lock(&running.state).splits.values() {
                let Some(sampler) = split.split.as_ref().filter(|_| split.window != WindowKind::Pass) else { continue };
                let (changed, rows) = sampler.rolling_rows();
                rolling.push((Arc::clone(&running), Arc::clone(&split.name), changed, rows));
            }
        }
        rolling
    }

    /// A rolling sample as it is now; `None` when the split has none.
    pub fn snapshot(&self, run: &str, split: &str) -> Option<Ready> {
        let running = self.find(run).ok()?;
        let mut state = lock(&running.state);
        let split = state.splits.get_mut(split)?;
        let snapshot = split.split.as_mut().and_then(Split::snapshot)?;
        Some(rolling(&running, split, snapshot))
    }

    /// The newest point of a split that is not provisional, whether or not the history could store it.
    pub fn newest_point(&self, run: &str, split: &str) -> Option<Arc<Point>> {
        let running = self.find(run).ok()?;
        lock(&running.state).splits.get(split)?.latest.clone()
    }

    /// Notes a point that was recorded.
    pub fn settle(&self, running: &Running, split: &str, step: u64, point: Option<Arc<Point>>) {
        let mut state = lock(&running.state);
        let Some(split) = state.splits.get_mut(split) else { return };
        split.settled = Some(split.settled.map_or(step, |newest| newest.max(step)));
        if let Some(point) = point {
            split.filling = point.provisional;
            if !point.provisional {
                split.latest = Some(point);
            }
        }
    }

    /// Whether anything of the split has come.
    pub fn has_split(&self, run: &str, split: &str) -> bool {
        self.find(run).is_ok_and(|running| lock(&running.state).splits.contains_key(split))
    }

    /// Slow scores of an evaluation came: `whole` is its point with them, `slow` the same with nothing else.
    pub fn settle_slow(&self, running: &Running, split: &str, whole: Arc<Point>, slow: Arc<Point>) {
        let mut state = lock(&running.state);
        let Some(split) = state.splits.get_mut(split) else { return };
        if split.latest.as_ref().is_some_and(|latest| latest.step == whole.step) {
            split.latest = Some(whole);
        }
        split.slow = Some(slow);
    }

    /// Whether the evaluation of `step` was scored, or passed over for a newer one.
    pub fn is_settled(&self, run: &str, split: &str, step: u64) -> bool {
        let Ok(running) = self.find(run) else { return false };
        let state = lock(&running.state);
        state.splits.get(split).and_then(|split| split.settled).is_some_and(|newest| newest >= step)
    }

    /// Bytes that all samples hold.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    pub fn statuses(&self) -> Vec<RunStatus> {
        let split = |split: &SplitState| {
            let counts = split.split.as_ref().map_or(split.counts, Split::counts);
            SplitStatus {
                split: split.name.to_string(),
                window: window_name(split.window),
                rows_received: counts.received,
                rows_duplicate: counts.duplicate,
                rows_dropped: counts.dropped + counts.late + counts.refused + split.refused,
            }
        };
        let status = |running: Arc<Running>| RunStatus {
            name: running.run.name.clone(),
            splits: lock(&running.state).splits.values().map(split).collect(),
        };
        self.all().into_iter().map(status).collect()
    }

    /// Where the curves stand, the newest first, without runs that finished longer ago than they linger.
    pub fn latest(&self) -> Vec<Latest> {
        let mut latest = Vec::new();
        for running in self.all() {
            let state = lock(&running.state);
            if state.finished.is_some_and(|at| at.elapsed() > self.options.linger) {
                continue;
            }
            latest.extend(state.splits.values().map(|split| Latest {
                run: Arc::clone(&running.name),
                split: Arc::clone(&split.name),
                concepts: Arc::clone(&running.concepts),
                point: split.latest.clone(),
                slow: split.slow.clone(),
                rolling: split.window != WindowKind::Pass,
                filling: split.filling,
            }));
        }
        let time = |latest: &Latest| latest.point.as_ref().map_or(0.0, |point| point.time);
        latest.sort_by(|a, b| time(b).total_cmp(&time(a)).then_with(|| a.run.cmp(&b.run)));
        latest
    }

    /// Age of the newest point of the unfinished split that has waited longest; 0 without any.
    pub(super) fn staleness(&self) -> f64 {
        let now = unix_time();
        let mut oldest: f64 = 0.0;
        for running in self.all() {
            let state = lock(&running.state);
            if state.finished.is_none() {
                let points = state.splits.values().filter_map(|split| split.latest.as_ref());
                oldest = points.map(|point| now - point.time).fold(oldest, f64::max);
            }
        }
        oldest
    }
}
