//! The scorer of fast scores, most of which go over pairs of concepts: they join the points of passes of many concepts. It
//! also computes the points of rolling windows, whose pairs it refreshes as far as the CPU share allows.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use crate::schedule::Job;
use crate::server::runs::{Frozen, Running, Runs};
use leakage::lock::lock;
use leakage::pair_cache::Budgeted;
use leakage::point::Point;
use leakage::repeats::without_repeats;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::panic_text;

use super::compute::{Computing, Late};
use super::onward::{Onward, Scored};
use super::pool::{WorkerOptions, pool};
use super::queue::Queue;
use super::worker::caught;

/// The scorer of the fast scores.
pub struct FastWorker {
    pub options: WorkerOptions,
    pub queue: Arc<Queue<Scored>>,
    /// Has the newest sample of each rolling window.
    pub runs: Arc<Runs>,
    pub onward: Onward,
}

impl FastWorker {
    /// Starts the scorer's thread and its pool. Errors when a thread cannot be started.
    pub fn start(self) -> std::io::Result<JoinHandle<()>> {
        let pool = pool("fast-score", self.options.threads, self.options.niceness)?;
        std::thread::Builder::new()
            .name("fast-scorer".into())
            .spawn(move || self.queue.work(&pool, |job| self.run(&pool, job), |_| ()))
    }

    fn run(&self, pool: &rayon::ThreadPool, job: Job<Scored>) {
        match job {
            Job::Pass(_, scored) => self.join(pool, scored),
            Job::Tick(key) => {
                if let Some(frozen) = self.runs.snapshot(&key) {
                    self.tick(pool, frozen);
                }
            }
        }
    }

    fn join(&self, pool: &rayon::ThreadPool, Scored { frozen, point }: Scored) {
        let (started, publisher) = (Instant::now(), &self.onward.publisher);
        let Frozen { running, evaluation } = &frozen;
        // A score that panics is undefined. After a panic elsewhere the point has no fast scores.
        let point = match catch_unwind(AssertUnwindSafe(|| pool.install(|| self.late(pool, running, evaluation)))) {
            Ok(Some(late)) => {
                let seconds = started.elapsed().as_secs_f64();
                let Some(whole) = publisher.join(&frozen, &point, Cost::Fast, &late, seconds) else { return };
                whole
            }
            // The server stops.
            Ok(None) => return,
            Err(panic) => {
                publisher.note_failure(evaluation, "the fast scores", panic_text(&*panic).unwrap_or_default());
                running.board.close(evaluation, Cost::Fast);
                point
            }
        };
        self.onward.enter(Cost::Slow, Scored { frozen, point });
    }

    /// `None` if the server stops first.
    fn late(&self, pool: &rayon::ThreadPool, running: &Running, evaluation: &Evaluation) -> Option<Late> {
        let (pause, is_stopping) = (|| self.pause(pool), || self.queue.is_stopping());
        let on_failure = |what: &str, text: &str| self.onward.publisher.note_failure(evaluation, what, text);
        let computing = self.computing(&pause, &is_stopping, &on_failure);
        let carry = |influences, rows| running.carried.carry(evaluation, &influences, rows);
        let (late, peak) = computing.fast(evaluation, carry)?;
        self.note(peak);
        Some(late)
    }

    fn tick(&self, pool: &rayon::ThreadPool, frozen: Frozen) {
        let scored = caught(&self.onward.publisher, &frozen, || {
            pool.install(|| {
                let distinct = without_repeats(&frozen.evaluation);
                let point = self.point(pool, &frozen.running, distinct.as_ref().unwrap_or(&frozen.evaluation))?;
                Some((point, distinct))
            })
        });
        if let Some((point, distinct)) = scored {
            self.onward.publish(frozen.with(distinct), point, Cost::AT_ONCE);
        }
    }

    /// The point of a rolling window; `None` if the server stops first. Some pairs may be left for the next tick, see
    /// [`leakage::pair_cache`].
    fn point(&self, pool: &rayon::ThreadPool, running: &Running, evaluation: &Evaluation) -> Option<Point> {
        let (pause, is_stopping, spent) = (|| self.pause(pool), || self.queue.is_stopping(), || self.queue.spent());
        let (split, step) = (&evaluation.key.split, evaluation.step.get());
        let kept = Mutex::new(running.carried.take_pairs(split, step));
        // A sample that is still filling is scored completely, because its pairs would come from samples of different
        // sizes.
        let is_budgeted = !evaluation.provisional;
        let budgeted = is_budgeted.then(|| {
            lock(&kept).begin(evaluation.sample.rows());
            Budgeted { kept: &kept, time: evaluation.time, allowance: self.queue.allowance(), spent: &spent }
        });
        let carry = |influences, rows| running.carried.carry(evaluation, &influences, rows);
        let on_failure = |what: &str, text: &str| self.onward.publisher.note_failure(evaluation, what, text);
        let computing = self.computing(&pause, &is_stopping, &on_failure);
        let (point, peak) = computing.point(evaluation, Cost::AT_ONCE, budgeted, carry)?;
        if is_budgeted {
            let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
            kept.end(self.queue.spent());
            self.onward.publisher.metrics.pairs_left.inc_by(kept.pairs_left());
            running.carried.put_pairs(split, step, kept);
        }
        self.note(peak);
        Some(point)
    }

    fn computing<'a>(
        &self,
        pause: &'a (dyn Fn() + Sync),
        is_stopping: &'a (dyn Fn() -> bool + Sync),
        on_failure: &'a (dyn Fn(&str, &str) + Sync),
    ) -> Computing<'a> {
        let memory = Some(self.options.memory_of(Cost::Fast));
        Computing { settings: self.options.settings, memory, pause, is_stopping, on_failure }
    }

    fn pause(&self, pool: &rayon::ThreadPool) {
        self.queue.pause(self.options.threads, &|job| self.run(pool, job));
    }

    /// Notes the bytes that the scores of an evaluation took.
    fn note(&self, peak: usize) {
        self.onward.publisher.metrics.scoring_memory.with_label_values(&[Cost::Fast.name()]).set(peak as i64);
    }
}
