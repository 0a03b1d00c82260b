//! The scorer: one thread that takes what the schedule says is due, and computes it in a pool of its own.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::broadcast;

use crate::estimate::{Kind, Settings};
use crate::history::History;
use crate::kept::{Budgeted, Kept};
use crate::point::Point;
use crate::prepare::Prepared;
use crate::schedule::{Budget, Job, Schedule, SplitKey, Ticks};
use crate::score::catalogue::{CATALOGUE_VERSION, Cost};
use crate::score::{Influences, Wanted, evaluate};

use super::advice::Advice;
use super::keeping::{self, Keeping};
use super::live::Event;
use super::metrics::Metrics;
use super::runs::{Ready, Running, Runs, Scorer, lock};
use super::slow::Scored;
use super::{pace, priority};

/// CPU time after which a thread at work looks whether it may go on: a training thread that waits for its core waits
/// no longer.
const SLICE: Duration = Duration::from_millis(5);

/// Seconds after which a resting thread looks again.
const LONGEST_REST: f64 = 0.5;

/// Samples waiting to be scored.
pub struct Queue<W> {
    schedule: Mutex<Schedule<W>>,
    changed: Condvar,
    stopping: AtomicBool,
    started: Instant,
    metrics: Metrics,
}

impl<W> Queue<W> {
    pub fn new(ticks: Ticks, budget: Budget, metrics: Metrics) -> Self {
        let schedule = Mutex::new(Schedule::new(ticks, budget, Duration::ZERO));
        Self { schedule, changed: Condvar::new(), stopping: AtomicBool::new(false), started: Instant::now(), metrics }
    }

    /// Tells the schedule about rolling samples, and the metrics how far scoring is behind.
    pub fn look(&self, runs: &Runs) {
        let rolling = runs.rolling();
        let now = self.started.elapsed();
        let mut schedule = lock(&self.schedule);
        for (running, split, changed, rows) in rolling {
            schedule.rows_changed(&SplitKey::new(Arc::clone(&running.name), split), changed, rows, now);
        }
        self.metrics.lag.set(schedule.lag(now).as_secs_f64());
        drop(schedule);
        self.changed.notify_one();
    }

    /// Tells the schedule how many cores are idle.
    pub fn spare(&self, cores: f64) {
        lock(&self.schedule).spare(cores, self.started.elapsed());
        self.changed.notify_one();
    }

    pub fn lag(&self) -> Duration {
        lock(&self.schedule).lag(self.started.elapsed())
    }

    pub fn forget(&self, run: &str) {
        lock(&self.schedule).remove_run(run);
    }

    /// Lets the job in flight end at its next score, and no other start.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Work of a split, in place of what waits for it. Returns what it replaced.
    pub fn push(&self, running: &Running, split: &Arc<str>, work: W) -> Option<W> {
        let key = SplitKey::new(Arc::clone(&running.name), Arc::clone(split));
        let replaced = lock(&self.schedule).pass_closed(key, work, self.started.elapsed());
        self.changed.notify_one();
        replaced
    }

    /// Waits for the next job; `None` when stopping.
    fn next(&self) -> Option<Job<W>> {
        let mut schedule = lock(&self.schedule);
        while !self.is_stopping() {
            let now = self.started.elapsed();
            if let Some(job) = schedule.start(now) {
                return Some(job);
            }
            let wait = schedule.next_start().map_or(Duration::from_secs(1), |at| at.saturating_sub(now));
            let wait = wait.clamp(Duration::from_millis(1), Duration::from_secs(1));
            schedule = self.changed.wait_timeout(schedule, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        None
    }

    /// To be called by the `threads` threads at work on the job in flight, every few milliseconds: after some work each
    /// rests so long that together they keep to the cores that are idle. A long job so slows training no more than a
    /// short one, and takes longer.
    pub fn pause(&self, threads: usize) {
        if pace::unpaid() < SLICE {
            return;
        }
        let spent = pace::pay();
        self.metrics.worker_cpu.inc_by(spent.as_secs_f64());
        let mut schedule = lock(&self.schedule);
        schedule.charge(spent, self.started.elapsed());
        let mut pace = schedule.pace() / threads as f64;
        let mut owed = spent.as_secs_f64() * (1.0 - pace);
        while owed > 0.0 && !self.is_stopping() {
            let rest = Duration::from_secs_f64((owed / pace).min(LONGEST_REST));
            let slept = Instant::now();
            schedule = self.changed.wait_timeout(schedule, rest).unwrap_or_else(PoisonError::into_inner).0;
            pace = schedule.pace() / threads as f64;
            owed -= slept.elapsed().as_secs_f64() * pace;
        }
    }

    /// CPU-seconds that a tick which starts now is to take.
    fn allowance(&self) -> f64 {
        lock(&self.schedule).allowance(self.started.elapsed())
    }

    /// CPU-seconds that the job in flight has taken, as seen by a thread at work on it: what the others have not paid for
    /// yet is missing, a slice each.
    fn spent(&self) -> f64 {
        (lock(&self.schedule).spent() + pace::unpaid()).as_secs_f64()
    }

    /// The job in flight ended, whose threads are those of `pool`.
    fn finished(&self, pool: &rayon::ThreadPool) {
        let rest: Duration = pool.broadcast(|_| pace::pay()).into_iter().sum();
        self.metrics.worker_cpu.inc_by(rest.as_secs_f64());
        lock(&self.schedule).finished(rest, self.started.elapsed());
    }

    /// Does jobs as they come, until stopping.
    pub fn work(&self, pool: &rayon::ThreadPool, mut job: impl FnMut(Job<W>)) {
        while let Some(next) = self.next() {
            job(next);
            self.finished(pool);
        }
    }
}

impl Scorer for Queue<Ready> {
    fn offer(&self, ready: Ready) {
        let (running, split) = (Arc::clone(&ready.running), Arc::clone(&ready.split));
        if let Some(replaced) = self.push(&running, &split, ready) {
            self.metrics.points_skipped.inc();
            tracing::debug!(
                run = %replaced.running.name, split = %replaced.split, step = replaced.step,
                "an evaluation was passed over: a newer one came before it could be scored"
            );
        }
    }

    fn wait(&self, running: &Running, split: &str) -> Duration {
        let key = SplitKey::new(Arc::clone(&running.name), split);
        lock(&self.schedule).wait(&key, self.started.elapsed())
    }
}

/// How scores are computed.
#[derive(Clone, Copy, Debug)]
pub struct WorkerOptions {
    pub settings: Settings,
    pub threads: usize,
    /// Added to the threads' niceness, 0 to 19: training goes first.
    pub niceness: i32,
}

/// Everything the scorer works with.
pub struct Worker {
    pub options: WorkerOptions,
    pub queue: Arc<Queue<Ready>>,
    /// Of rolling splits.
    pub keeping: Arc<Keeping>,
    /// Where samples go once their fast scores are out.
    pub slow: Arc<Queue<Scored>>,
    pub runs: Arc<Runs>,
    pub history: Arc<History>,
    pub advice: Arc<Advice>,
    pub events: broadcast::Sender<Event>,
    pub metrics: Metrics,
}

impl Worker {
    /// Starts the scorer's thread and its pool. Errors when threads cannot be made.
    pub fn start(self) -> std::io::Result<std::thread::JoinHandle<()>> {
        let pool = pool("score", self.options.threads, self.options.niceness)?;
        std::thread::Builder::new().name("scorer".into()).spawn(move || self.work(&pool))
    }

    fn work(&self, pool: &rayon::ThreadPool) {
        let mut earlier = Earlier::default();
        self.queue.work(pool, |job| {
            let (ready, tick) = match job {
                Job::Pass(_, ready) => (Some(ready), false),
                Job::Tick(key) => (self.runs.snapshot(&key.run, &key.split), true),
            };
            if let Some(ready) = ready {
                self.score(pool, ready, tick, &mut earlier);
            }
        });
    }

    fn score(&self, pool: &rayon::ThreadPool, ready: Ready, tick: bool, earlier: &mut Earlier) {
        // A panic in a score must not end the monitor; the point is lost and counted.
        let scored = catch_unwind(AssertUnwindSafe(|| pool.install(|| self.point(&ready, tick, earlier))));
        let point = match scored {
            Ok(Some(point)) => Arc::new(point),
            Ok(None) => return,
            Err(_) => {
                self.metrics.score_failures.inc();
                tracing::error!(
                    run = %ready.running.name, split = %ready.split, step = ready.step, "scoring panicked"
                );
                self.runs.settle(&ready.running, &ready.split, ready.step, None);
                return;
            }
        };
        self.metrics.score_duration.observe(point.seconds);
        match self.history.record_point(&point) {
            Ok(()) => self.metrics.points_recorded.inc(),
            Err(error) => {
                self.metrics.history_errors.inc();
                tracing::error!(run = %point.run, step = point.step, %error, "a curve point could not be stored");
            }
        }
        self.advice.observe(&point);
        self.runs.settle(&ready.running, &ready.split, ready.step, Some(Arc::clone(&point)));
        // Fails when nobody listens.
        let _ = self.events.send(Event::Point(Arc::clone(&point)));
        if !point.provisional {
            let (running, split) = (Arc::clone(&ready.running), Arc::clone(&ready.split));
            self.slow.push(&running, &split, Scored { ready, point });
        }
    }

    /// All scores of a sample; `None` when stopping. A tick may leave some pairs for the next, see [`crate::kept`].
    fn point(&self, ready: &Ready, tick: bool, earlier: &mut Earlier) -> Option<Point> {
        let started = Instant::now();
        let settings = self.options.settings;
        let pause = || self.queue.pause(self.options.threads);
        let spent = || self.queue.spent();
        let mut prepared = Prepared::new(&ready.sample, &ready.running.run, settings).with_pause(&pause);
        let split = keeping::key(&ready.running.name, &ready.split);
        let kept = Mutex::new(self.keeping.take(&split, ready.step));
        // A pass, and the last sample of a run, are scored whole, and so is a sample that is still filling: its pairs
        // would be of samples of different sizes. What was kept is let go.
        let budgeted = tick && !ready.provisional;
        if budgeted {
            lock(&kept).begin(ready.sample.rows());
            let (time, allowance) = (ready.time, self.queue.allowance());
            prepared = prepared.with_budget(Budgeted { kept: &kept, time, allowance, spent: &spent });
        }
        let scores = evaluate(&prepared, Wanted::AvailableAt(Cost::Fast), |_, _, _| {
            if self.queue.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // A sample that is still filling is no point of the curve.
        let change_errors = match ready.provisional {
            true => Vec::new(),
            false => {
                let key = (Arc::clone(&ready.running.name), Arc::clone(&ready.split));
                earlier.change_errors(key, Influences::of(&prepared, ready.sample.ids()))
            }
        };
        let (tie_fraction, warnings) = (prepared.tie_fraction(), prepared.warnings());
        drop(prepared);
        if budgeted {
            self.keep(split, ready.step, kept.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        Some(Point {
            run: Arc::clone(&ready.running.name),
            split: Arc::clone(&ready.split),
            step: ready.step,
            epoch: ready.epoch,
            time: ready.time,
            rows: ready.sample.rows() as u64,
            rows_seen: ready.rows_seen,
            provisional: ready.provisional,
            incomplete: ready.incomplete,
            tie_fraction,
            warnings,
            estimator: estimator_name(settings.kind).to_owned(),
            neighbours: settings.neighbours as u32,
            seed: settings.seed,
            catalogue_version: CATALOGUE_VERSION,
            seconds: started.elapsed().as_secs_f64(),
            scores: scores.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect(),
            change_errors,
        })
    }
}

impl Worker {
    fn keep(&self, split: SplitKey, step: u64, mut kept: Kept) {
        kept.end(self.queue.spent());
        self.metrics.pairs_left.inc_by(kept.pairs_left());
        let run = Arc::clone(&split.run);
        self.keeping.put(split, step, kept);
        // The run may have gone meanwhile, with what it kept.
        if self.runs.find(&run).is_err() {
            self.keeping.forget_run(&run);
        }
    }
}

/// The influences of the newest evaluation of each split, for the errors of changes.
#[derive(Default)]
struct Earlier {
    splits: BTreeMap<(Arc<str>, Arc<str>), (u64, Influences)>,
    evaluations: u64,
}

impl Earlier {
    /// Splits that are kept: some 100 KiB each at 4096 rows. One that was left out has errors again from its second
    /// evaluation on; until then its rule takes the error of rows that are not paired.
    const KEPT: usize = 256;

    fn change_errors(&mut self, key: (Arc<str>, Arc<str>), now: Influences) -> Vec<(String, f64)> {
        self.evaluations += 1;
        let errors = self.splits.get(&key).map_or_else(Vec::new, |(_, before)| now.change_errors(before));
        self.splits.insert(key, (self.evaluations, now));
        if self.splits.len() > Self::KEPT {
            let oldest = self.splits.iter().min_by_key(|(_, (at, _))| *at).map(|(key, _)| key.clone());
            oldest.and_then(|key| self.splits.remove(&key));
        }
        errors
    }
}

/// Threads that score.
pub fn pool(name: &'static str, threads: usize, niceness: i32) -> std::io::Result<rayon::ThreadPool> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(move |at| format!("{name}-{at}"))
        .start_handler(move |_| priority::lower(niceness));
    pool.build().map_err(std::io::Error::other)
}

pub fn estimator_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Published => "published",
        Kind::TieAware => "tie_aware",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_at_work_rests_when_no_core_is_idle_and_not_when_one_is() {
        let budget = Budget { cpu_share: 0.5, busy_cpu_share: 0.05, burst: Duration::ZERO };
        let queue: Queue<()> =
            Queue::new(Ticks::default(), budget, Metrics::register(&prometheus::Registry::new(), "", 0).unwrap());
        let work = || {
            let (started, before) = (Instant::now(), priority::thread_cpu_time());
            while priority::thread_cpu_time() - before < Duration::from_millis(20) {
                std::hint::black_box((0..1000).sum::<u64>());
                queue.pause(1);
            }
            started.elapsed()
        };
        queue.spare(8.0);
        pace::pay();
        work();
        assert!(queue.metrics.worker_cpu.get() >= 0.015, "three slices of 5 ms are paid for on the way");
        queue.spare(0.0);
        // Three slices of 5 ms at a twentieth of a core, but for what ran meanwhile.
        assert!(work() >= Duration::from_millis(3 * 5 * 19));
    }
}
