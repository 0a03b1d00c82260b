//! Slow scores train networks, and tests of fast scores permute labels. They run in their own thread after the fast scores of
//! the same sample are published, and are then added to the sample's point.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::point::Point;
use crate::sample::Evaluation;
use crate::schedule::Job;
use crate::score::panic_text;
use crate::server::publish::Publisher;

use super::compute::{Computing, Late};
use super::pool::{WorkerOptions, pool};
use super::queue::Queue;

/// An evaluation whose fast scores are published.
pub struct Scored {
    pub evaluation: Evaluation,
    pub point: Arc<Point>,
}

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
        std::thread::Builder::new().name("slow-scorer".into()).spawn(move || self.work(&pool)).map(drop)
    }

    fn work(&self, pool: &rayon::ThreadPool) {
        self.queue.work(pool, |job| {
            // Only scored samples are queued here, never ticks.
            if let Job::Pass(_, scored) = job {
                self.score(pool, &scored);
            }
        });
    }

    fn score(&self, pool: &rayon::ThreadPool, Scored { evaluation, point }: &Scored) {
        let started = Instant::now();
        // A score that panics is undefined. After a panic elsewhere the point has no slow scores.
        match catch_unwind(AssertUnwindSafe(|| pool.install(|| self.late(evaluation)))) {
            Ok(Some(late)) if !late.is_empty() => {
                self.publisher.publish_slow(evaluation, point, late, started.elapsed().as_secs_f64());
            }
            Ok(_) => self.publisher.pass_over_slow(evaluation),
            Err(panic) => {
                self.publisher.note_failure(evaluation, "the slow scores", panic_text(&*panic).unwrap_or_default());
                self.publisher.pass_over_slow(evaluation);
            }
        }
    }

    /// `None` if the server stops first.
    fn late(&self, evaluation: &Evaluation) -> Option<Late> {
        let (late, peak) = Computing {
            settings: self.options.settings,
            memory: Some(self.options.memory / 2),
            pause: &|| self.queue.pause(self.options.threads),
            is_stopping: &|| self.queue.is_stopping(),
            on_failure: &|what, text| self.publisher.note_failure(evaluation, what, text),
        }
        .late(evaluation)?;
        self.publisher.metrics.scoring_memory.with_label_values(&["slow"]).set(peak as i64);
        Some(late)
    }
}
