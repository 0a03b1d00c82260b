//! Periodic work: closes overdue passes, schedules rolling samples, forgets finished runs, and returns memory to the
//! system when no batches arrive.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::history::Ending;
use crate::memory;

use super::clock::unix_time;
use super::heap_trim::Release;
use super::metrics::Metrics;
use super::publish::Publisher;
use super::runs::{Running, Runs};
use super::scoring::carried;
use super::scoring::onward::Queues;
use super::scoring::spare::Spare;
use super::windows::Windows;

/// Interval of the periodic work.
const LOOK: Duration = Duration::from_millis(250);

/// Minimum time between two saves of a rolling window.
const SAVE: Duration = Duration::from_secs(60);

/// Interval at which saved windows that no run will continue are removed.
const SWEEP: Duration = Duration::from_secs(600);
/// How long a saved window waits for its run where this process has not been up for `forget_after`. A job that was stopped
/// with its machine may come back.
const KEPT: Duration = Duration::from_secs(86_400);

/// The parts whose state changes with time.
pub struct Upkeep {
    pub runs: Arc<Runs>,
    pub windows: Windows,
    pub queues: Queues,
    pub metrics: Metrics,
    pub publisher: Publisher,
}

impl Upkeep {
    pub async fn run(self, stop: CancellationToken) {
        let mut looks = tokio::time::interval(LOOK);
        let mut release = Release::default();
        let mut spare = Spare::default();
        let (started, mut swept) = (Instant::now(), None);
        while !stop.is_cancelled() {
            looks.tick().await;
            self.runs.close_overdue();
            self.forget_removed();
            self.runs.note_waiting(self.queues.bytes());
            if let Some(cores) = spare.look(Instant::now()) {
                self.metrics.spare_cores.set(cores);
                self.queues.all().iter().for_each(|queue| queue.spare(cores));
            }
            self.metrics.open_runs.set(self.runs.open() as i64);
            self.metrics.staleness.set(self.runs.registry.staleness());
            self.look(&self.runs.registry.all());
            self.queues.fast.look(&self.runs.rolling());
            self.metrics.lag.set(self.queues.lag().as_secs_f64());
            self.save_window().await;
            if swept.is_none_or(|at: Instant| at.elapsed() >= SWEEP) {
                swept = Some(Instant::now());
                self.remove_windows(started.elapsed()).await;
            }
            let work = self.metrics.read_bytes.get() + self.metrics.points_recorded.get();
            if release.is_due(work, Instant::now()) {
                // Not awaited: it only must not run on a thread that serves.
                tokio::task::spawn_blocking(memory::give_back);
            }
        }
    }

    /// Forgets the work and the files of removed runs, and lets the history remove those to which nobody sends any more.
    fn forget_removed(&self) {
        let (registry, history) = (&self.runs.registry, &self.publisher.history);
        for run in registry.take_removed() {
            history.forget_run(&run);
            let windows = self.windows.clone();
            tokio::task::spawn_blocking(move || windows.remove(&run));
        }
        self.runs.settled().iter().for_each(|run| history.forget_run(run));
        // Looked for each time, because what was in flight when its run was removed may have entered a queue since.
        let [without_point, ..] = self.queues.all().map(|queue| queue.keep_runs(|run| registry.knows(run)));
        for work in without_point {
            let reason = "the run was removed from memory before the pass was scored";
            self.publisher.pass_over(&work.frozen, Ending::Skipped, reason);
        }
    }

    /// Looks at the clock for the alerts of these runs, and at the memory that scoring keeps for them.
    fn look(&self, runs: &[Arc<Running>]) {
        let carried = carried::bound(runs.iter().map(|running| &running.carried));
        self.metrics.kept_memory.set(carried as i64);
        let now = unix_time();
        runs.iter().for_each(|running| running.advice.look(now));
    }

    /// Removes the saved windows of runs that are over, or have been silent for longer than a run stays in memory.
    async fn remove_windows(&self, uptime: Duration) {
        let (runs, windows) = (Arc::clone(&self.runs), self.windows.clone());
        let history = Arc::clone(&self.publisher.history);
        let forget_after = runs.options().forget_after;
        let patience = if uptime >= forget_after { forget_after } else { forget_after.max(KEPT) };
        let remove = move || windows.remove_left(&*history, |run| runs.is_running(run), patience);
        // Fails only if that panics, and then the next one tries again.
        let _ = tokio::task::spawn_blocking(remove).await;
    }

    /// Saves a rolling window that is due, at most one at a time.
    async fn save_window(&self) {
        if !self.windows.are_saved() {
            return;
        }
        let (runs, windows) = (Arc::clone(&self.runs), self.windows.clone());
        let save = move || {
            let Some((key, window)) = runs.window_to_save(SAVE) else { return };
            windows.save(&key, &window);
            if !runs.receives(&key) {
                // The run finished meanwhile.
                windows.remove(&key.run);
            }
        };
        // Fails only if the save panics, and then the next one tries again.
        let _ = tokio::task::spawn_blocking(save).await;
    }
}
