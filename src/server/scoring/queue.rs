//! The queue of a scorer: evaluations that wait for the schedule, and the pace of the scoring threads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::schedule::{Budget, Closed, Job, Room, Schedule, Skipped, Ticks};
use crate::server::metrics::Metrics;
use leakage::lock::lock;
use leakage::run::SplitKey;

use super::pace;

/// CPU time after which a scoring thread checks its pace: the longest time that a training thread waits for its core.
const SLICE: Duration = Duration::from_millis(5);

/// Seconds after which a resting thread checks its pace again.
const LONGEST_REST: f64 = 0.5;

/// Samples waiting to be scored.
pub struct Queue<W> {
    schedule: Mutex<Schedule<W>>,
    changed: Condvar,
    stop: CancellationToken,
    started: Instant,
    hurries: AtomicBool,
    metrics: Metrics,
}

impl<W> Queue<W> {
    /// Once `stop` is cancelled, the job in flight ends at its next score and no other starts.
    pub fn new(ticks: Ticks, budget: Budget, room: Room, metrics: Metrics, stop: CancellationToken) -> Self {
        let schedule = Mutex::new(Schedule::new(ticks, budget, room, Duration::ZERO));
        Self {
            schedule,
            changed: Condvar::new(),
            stop,
            started: Instant::now(),
            hurries: AtomicBool::new(false),
            metrics,
        }
    }

    /// Updates the schedule with all rolling samples (split, rows changed since the last score, rows held).
    pub fn look(&self, rolling: &[(SplitKey, usize, usize)]) {
        let now = self.started.elapsed();
        let mut schedule = lock(&self.schedule);
        for (key, changed, rows) in rolling {
            schedule.rows_changed(key, *changed, *rows, now);
        }
        if schedule.rolling() > rolling.len() {
            let known: BTreeSet<&SplitKey> = rolling.iter().map(|(key, ..)| key).collect();
            schedule.keep_rolling(|key| known.contains(key));
        }
        drop(schedule);
        self.changed.notify_one();
    }

    /// Sets the number of idle cores.
    pub fn spare(&self, cores: f64) {
        lock(&self.schedule).spare(cores, self.started.elapsed());
        self.changed.notify_one();
    }

    pub fn lag(&self) -> Duration {
        lock(&self.schedule).lag(self.started.elapsed())
    }

    /// Forgets the other runs. Returns their work that had not started.
    pub fn keep_runs(&self, is_kept: impl Fn(&str) -> bool) -> Vec<W> {
        lock(&self.schedule).keep_runs(is_kept)
    }

    /// Wakes resting and waiting threads, so that they notice a stop.
    pub fn wake(&self) {
        self.changed.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_cancelled()
    }

    /// Queues work for a split. Returns the work that is skipped, if any.
    pub fn push(&self, key: SplitKey, work: Closed<W>) -> Option<Skipped<W>> {
        let skipped = lock(&self.schedule).pass_closed(key, work, self.started.elapsed());
        // The thread that may give way to it, or the one that waits for a job.
        self.changed.notify_all();
        skipped
    }

    /// How long clients should hold back passes of a split; zero unless they outrun scoring.
    pub fn wait(&self, key: &SplitKey) -> Duration {
        lock(&self.schedule).wait(key, self.started.elapsed())
    }

    /// Bytes of the work that waits or is in flight.
    pub fn bytes(&self) -> usize {
        lock(&self.schedule).bytes()
    }

    /// Lets the work that waits run without regard to the CPU share, and nothing else: no more will come. The scorer ends
    /// when nothing waits.
    pub fn hurry(&self) {
        lock(&self.schedule).hurry();
        self.hurries.store(true, Ordering::Release);
        self.wake();
    }

    /// Removes all work that has not started.
    pub fn take_all(&self) -> Vec<W> {
        lock(&self.schedule).take_all()
    }

    /// Waits for the next job; `None` when stopping, and when nothing waits in a hurry.
    fn next(&self) -> Option<Job<W>> {
        let mut schedule = lock(&self.schedule);
        while !self.is_stopping() {
            let now = self.started.elapsed();
            if let Some(job) = schedule.start(now) {
                return Some(job);
            }
            if self.hurries.load(Ordering::Acquire) {
                return None;
            }
            let wait = schedule.next_start().map_or(Duration::from_secs(1), |at| at.saturating_sub(now));
            let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(1));
            schedule = self.changed.wait_timeout(schedule, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// Called every few milliseconds by each of the `threads` threads of the job in flight. After each slice of work a
    /// thread rests until its share of the idle cores allows more, so a long job slows training no more than a short one.
    /// A brief job does not rest: after each rest it would find its data gone from the caches, and the next job waits until
    /// it is paid.
    /// Between two slices, and while it rests, much shorter jobs are `run`. Returns the CPU time that was charged to the
    /// schedule, without that of other calls.
    pub fn pause(&self, threads: usize, run: &dyn Fn(Job<W>)) -> Duration {
        if pace::unpaid() < SLICE {
            return Duration::ZERO;
        }
        let spent = pace::pay();
        let mut charged = spent;
        self.metrics.worker_cpu.inc_by(spent.as_secs_f64());
        let mut schedule = lock(&self.schedule);
        schedule.charge(spent, self.started.elapsed());
        if schedule.is_brief() {
            return charged;
        }
        let mut pace = schedule.pace() / threads as f64;
        let mut owed = spent.as_secs_f64() * (1.0 - pace) + schedule.take_billed().as_secs_f64();
        loop {
            // By one thread, so that the jobs in flight end in the opposite order of their starts.
            if rayon::current_thread_index().is_none_or(|index| index == 0) {
                let started = Instant::now();
                while !self.is_stopping()
                    && let Some(job) = schedule.start_shorter(self.started.elapsed())
                {
                    drop(schedule);
                    run(job);
                    let rest = pace::pay();
                    charged += rest;
                    self.metrics.worker_cpu.inc_by(rest.as_secs_f64());
                    schedule = lock(&self.schedule);
                    schedule.finished(rest, self.started.elapsed());
                }
                if owed > 0.0 {
                    owed -= started.elapsed().as_secs_f64() * pace;
                }
            }
            if owed <= 0.0 || self.is_stopping() {
                return charged;
            }
            let rest = Duration::from_secs_f64((owed / pace).min(LONGEST_REST));
            let slept = Instant::now();
            schedule = self.changed.wait_timeout(schedule, rest).unwrap_or_else(PoisonError::into_inner).0;
            pace = schedule.pace() / threads as f64;
            owed -= slept.elapsed().as_secs_f64() * pace;
        }
    }

    /// Charges CPU time of another queue's job that this one's share pays for.
    pub fn bill(&self, cpu: Duration) {
        lock(&self.schedule).bill(cpu, self.started.elapsed());
    }

    /// CPU-seconds that a tick may use if it starts now.
    pub fn allowance(&self) -> f64 {
        lock(&self.schedule).allowance(self.started.elapsed())
    }

    /// CPU-seconds that the job in flight has used, as seen by one of its threads. Excludes what the other threads have
    /// not charged yet, at most a slice each.
    pub fn spent(&self) -> f64 {
        (lock(&self.schedule).spent() + pace::unpaid()).as_secs_f64()
    }

    /// Runs jobs, which use `pool`, as they become due, until the server stops. `charged` is told the CPU time of each that
    /// no [`pause`](Self::pause) has charged.
    pub fn work(&self, pool: &rayon::ThreadPool, mut run: impl FnMut(Job<W>), charged: impl Fn(Duration)) {
        while let Some(job) = self.next() {
            run(job);
            let rest: Duration = pool.broadcast(|_| pace::pay()).into_iter().sum();
            self.metrics.worker_cpu.inc_by(rest.as_secs_f64());
            lock(&self.schedule).finished(rest, self.started.elapsed());
            charged(rest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::priority;
    use super::*;

    #[test]
    fn rolling_splits_that_are_no_more_leave_nothing() {
        let budget = Budget { cpu_share: 1.0, busy_cpu_share: 1.0, burst: Duration::ZERO };
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let queue: Queue<()> = Queue::new(Ticks::default(), budget, Room::default(), metrics, CancellationToken::new());
        let rolling = |runs: std::ops::Range<u32>| -> Vec<_> {
            runs.map(|run| (SplitKey::new(run.to_string(), "train"), 1, 1)).collect()
        };
        queue.look(&rolling(0..100));
        queue.keep_runs(|run| run != "7");
        // A list that was made before the run was forgotten.
        queue.look(&rolling(0..100));
        assert_eq!(lock(&queue.schedule).rolling(), 100);
        queue.look(&rolling(40..60));
        assert_eq!(lock(&queue.schedule).rolling(), 20);
        queue.look(&[]);
        assert_eq!(lock(&queue.schedule).rolling(), 0);
    }

    #[test]
    fn a_thread_at_work_rests_when_no_core_is_idle_and_not_when_one_is() {
        let budget = Budget { cpu_share: 0.5, busy_cpu_share: 0.05, burst: Duration::ZERO };
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let queue: Queue<()> = Queue::new(Ticks::default(), budget, Room::default(), metrics, CancellationToken::new());
        let work = || {
            let (started, before) = (Instant::now(), priority::thread_cpu_time());
            while priority::thread_cpu_time() - before < Duration::from_millis(20) {
                std::hint::black_box((0..1000).sum::<u64>());
                queue.pause(1, &|_| ());
            }
            started.elapsed()
        };
        queue.spare(8.0);
        pace::pay();
        work();
        assert!(queue.metrics.worker_cpu.get() >= 0.015, "three slices of 5 ms are charged during the work");
        queue.spare(0.0);
        // Three slices of 5 ms at a twentieth of a core.
        assert!(work() >= Duration::from_millis(3 * 5 * 19));
    }
}
