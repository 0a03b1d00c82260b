//! Slow scores train networks, and tests of fast scores permute labels. They run in their own thread after the fast scores of
//! the same sample are published, and are then added to the sample's point.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use crate::point::Point;
use crate::prepare::Prepared;
use crate::sample::Evaluation;
use crate::schedule::Job;
use crate::score::catalogue::{Cost, Score};
use crate::score::{Wanted, evaluate, test};
use crate::server::publish::{Late, Publisher};

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
        // A panic in a score must not end the sidecar; the slow scores of this point are lost and the failure is counted.
        match catch_unwind(AssertUnwindSafe(|| pool.install(|| self.late(evaluation)))) {
            Ok(Some(late)) if !(late.outcomes.is_empty() && late.tests.is_empty()) => {
                self.publisher.publish_slow(evaluation, point, late, started.elapsed().as_secs_f64());
            }
            Ok(_) => self.publisher.pass_over_slow(evaluation),
            Err(_) => {
                self.publisher.pass_over_slow(evaluation);
                self.publisher.metrics.score_failures.inc();
                let (key, step) = (&evaluation.key, evaluation.step);
                tracing::error!(run = %key.run, split = %key.split, %step, "a slow score panicked");
            }
        }
    }

    /// All slow scores of a sample, and the tests of its fast ones; `None` if the server stops first.
    fn late(&self, evaluation: &Evaluation) -> Option<Late> {
        let pause = || self.queue.pause(self.options.threads);
        let prepared = Prepared::new(&evaluation.sample, &evaluation.run, self.options.settings)
            .with_pause(&pause)
            .with_memory(self.options.memory / 2);
        let go_on = |_: usize, _: usize, _: &Score| {
            if self.queue.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let tests = test(&prepared, |_| true, go_on)?;
        let scores = evaluate(&prepared, Wanted::AvailableAt(Cost::Slow), go_on)?;
        self.publisher.metrics.scoring_memory.with_label_values(&["slow"]).set(prepared.peak() as i64);
        Some(Late {
            outcomes: scores.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect(),
            tests: tests.into_iter().map(|(score, significance)| (score.id, significance)).collect(),
        })
    }
}
