//! The scorer of slow scores, which train networks, and of tests, which permute labels. They join the point of a sample after
//! all its other scores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::schedule::Job;
use crate::server::publish::Publisher;
use crate::server::runs::Frozen;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::panic_text;

use super::compute::{Computing, Late};
use super::onward::Scored;
use super::pool::{WorkerOptions, pool};
use super::queue::Queue;

/// The scorer of the slow scores.
pub struct SlowWorker {
    pub options: WorkerOptions,
    pub queue: Arc<Queue<Scored>>,
    pub publisher: Publisher,
}

impl SlowWorker {
    /// Starts the thread and its pool, which end with the process at the latest. Errors when a thread cannot be started.
    pub fn start(self) -> std::io::Result<()> {
        let pool = pool("slow-score", self.options.threads, self.options.niceness)?;
        std::thread::Builder::new()
            .name("slow-scorer".into())
            .spawn(move || self.queue.work(&pool, |job| self.run(&pool, job), |_| ()))
            .map(drop)
    }

    fn run(&self, pool: &rayon::ThreadPool, job: Job<Scored>) {
        // Only scored samples are queued here, never ticks.
        if let Job::Pass(_, scored) = job {
            self.score(pool, &scored);
        }
    }

    fn score(&self, pool: &rayon::ThreadPool, Scored { frozen, point }: &Scored) {
        let started = Instant::now();
        let Frozen { running, evaluation } = frozen;
        // A score that panics is undefined. After a panic elsewhere the point has no slow scores.
        match catch_unwind(AssertUnwindSafe(|| pool.install(|| self.late(pool, evaluation)))) {
            Ok(Some(late)) if !late.is_empty() => {
                self.publisher.join(frozen, point, Cost::Slow, &late, started.elapsed().as_secs_f64());
            }
            Ok(_) => running.board.close(evaluation, Cost::Slow),
            Err(panic) => {
                self.publisher.note_failure(evaluation, "the slow scores", panic_text(&*panic).unwrap_or_default());
                running.board.close(evaluation, Cost::Slow);
            }
        }
    }

    /// `None` if the server stops first.
    fn late(&self, pool: &rayon::ThreadPool, evaluation: &Evaluation) -> Option<Late> {
        let (late, peak) = Computing {
            settings: self.options.settings,
            memory: Some(self.options.memory_of(Cost::Slow)),
            pause: &|| _ = self.queue.pause(self.options.threads, &|job| self.run(pool, job)),
            is_stopping: &|| self.queue.is_stopping(),
            on_failure: &|what, text| self.publisher.note_failure(evaluation, what, text),
        }
        .late(evaluation)?;
        self.publisher.metrics.scoring_memory.with_label_values(&[Cost::Slow.name()]).set(peak as i64);
        Some(late)
    }
}
