//! The scorer of the fast scores: one thread that takes due jobs from the schedule and computes them in its own pool.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use crate::history::Ending;
use crate::kept::{Budgeted, Kept};
use crate::lock::lock;
use crate::point::Point;
use crate::repeats::without_repeats;
use crate::run::SplitKey;
use crate::sample::Evaluation;
use crate::schedule::{Closed, Job};
use crate::score::panic_text;
use crate::server::publish::Publisher;
use crate::server::runs::Runs;

use super::compute::Computing;
use super::earlier::Earlier;
use super::keeping::Keeping;
use super::pool::{WorkerOptions, pool};
use super::queue::Queue;
use super::slow::Scored;

/// The scorer of the fast scores.
pub struct Worker {
    pub options: WorkerOptions,
    pub queue: Arc<Queue<Evaluation>>,
    /// Values that rolling splits keep between ticks.
    pub keeping: Arc<Keeping>,
    pub earlier: Arc<Earlier>,
    /// Receives samples once their fast scores are published.
    pub slow: Arc<Queue<Scored>>,
    /// Provides snapshots of rolling samples.
    pub runs: Arc<Runs>,
    pub publisher: Publisher,
}

impl Worker {
    /// Starts the scorer's thread and its pool. Errors when a thread cannot be started.
    pub fn start(self) -> std::io::Result<std::thread::JoinHandle<()>> {
        let pool = pool("score", self.options.threads, self.options.niceness)?;
        std::thread::Builder::new().name("scorer".into()).spawn(move || self.work(&pool))
    }

    fn work(&self, pool: &rayon::ThreadPool) {
        self.queue.work(pool, |job| {
            let (evaluation, tick) = match job {
                Job::Pass(_, evaluation) => (Some(evaluation), false),
                Job::Tick(key) => (self.runs.snapshot(&key), true),
            };
            if let Some(evaluation) = evaluation {
                self.score(pool, evaluation, tick);
            }
        });
    }

    fn score(&self, pool: &rayon::ThreadPool, evaluation: Evaluation, tick: bool) {
        // A score that panics is undefined. A panic elsewhere must not end the sidecar either: the point is lost and counted.
        let scored = catch_unwind(AssertUnwindSafe(|| {
            pool.install(|| {
                let distinct = without_repeats(&evaluation);
                let point = self.point(distinct.as_ref().unwrap_or(&evaluation), tick)?;
                Some((point, distinct))
            })
        }));
        match scored {
            Ok(Some((point, distinct))) => {
                let (point, evaluation) = (Arc::new(point), distinct.unwrap_or(evaluation));
                if self.publisher.publish(&evaluation, &point) {
                    let bytes = evaluation.sample.bytes();
                    let closed = Closed { bytes, ..Closed::live(Scored { evaluation, point }) };
                    let key = closed.pass.evaluation.key.clone();
                    self.slow.push(key.clone(), closed);
                    // The run may have been forgotten meanwhile, in which case nobody else would remove its line.
                    if !self.runs.knows(&key.run) {
                        self.slow.forget(&key.run);
                    }
                }
            }
            // The server stops. The pass stays pending, and is recorded with those that wait.
            Ok(None) => {}
            Err(panic) => {
                self.publisher.note_failure(&evaluation, "the point", panic_text(&*panic).unwrap_or_default());
                self.publisher.pass_over(&evaluation, Ending::Failed, "a score failed because of a bug in the program");
            }
        }
    }

    /// The point of a sample with all fast scores; `None` if the server stops first. A tick may leave some pairs for the
    /// next, see [`crate::kept`].
    fn point(&self, evaluation: &Evaluation, tick: bool) -> Option<Point> {
        let pause = || self.queue.pause(self.options.threads);
        let spent = || self.queue.spent();
        let split = evaluation.key.clone();
        let step = evaluation.step.get();
        let kept = Mutex::new(self.keeping.take(&split, step));
        // Only ticks of full samples have a budget. Passes and the last sample of a run are scored completely, and so is a
        // sample that is still filling, because its pairs would come from samples of different sizes.
        let is_budgeted = tick && !evaluation.provisional;
        let budgeted = is_budgeted.then(|| {
            lock(&kept).begin(evaluation.sample.rows());
            Budgeted { kept: &kept, time: evaluation.time, allowance: self.queue.allowance(), spent: &spent }
        });
        let computing = Computing {
            settings: self.options.settings,
            memory: Some(self.options.memory / 2),
            pause: &pause,
            is_stopping: &|| self.queue.is_stopping(),
            on_failure: &|what, text| self.publisher.note_failure(evaluation, what, text),
        };
        let change_errors = |influences| self.earlier.change_errors(split.clone(), influences);
        let (point, peak) = computing.point(evaluation, budgeted, change_errors)?;
        self.publisher.metrics.scoring_memory.with_label_values(&["fast"]).set(peak as i64);
        let run = Arc::clone(&split.run);
        if is_budgeted {
            self.keep(split, step, kept.into_inner().unwrap_or_else(PoisonError::into_inner));
        }
        // The run may have been forgotten meanwhile, in which case nobody else would remove what is kept of it.
        if !self.runs.knows(&run) {
            self.keeping.forget_run(&run);
            self.earlier.forget_run(&run);
        }
        Some(point)
    }

    fn keep(&self, split: SplitKey, step: u64, mut kept: Kept) {
        kept.end(self.queue.spent());
        self.publisher.metrics.pairs_left.inc_by(kept.pairs_left());
        self.keeping.put(split, step, kept);
    }
}
