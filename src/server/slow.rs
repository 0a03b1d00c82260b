//! Slow scores: they train networks, in a thread of their own, once the fast scores of the same sample are out. They
//! then join the point of the curve that the sample already has.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Instant;

use tokio::sync::broadcast;

use crate::history::History;
use crate::point::{Outcome, Point};
use crate::prepare::Prepared;
use crate::schedule::Job;
use crate::score::catalogue::{CATALOGUE, Cost};
use crate::score::{Wanted, evaluate};

use super::advice::Advice;
use super::live::Event;
use super::metrics::Metrics;
use super::runs::{Ready, Runs};
use super::worker::{Queue, WorkerOptions, pool};

/// A sample whose fast scores are out.
pub struct Scored {
    pub ready: Ready,
    pub point: Arc<Point>,
}

/// Everything the slow scores work with.
pub struct SlowWorker {
    pub options: WorkerOptions,
    pub queue: Arc<Queue<Scored>>,
    pub runs: Arc<Runs>,
    pub history: Arc<History>,
    pub advice: Arc<Advice>,
    pub events: broadcast::Sender<Event>,
    pub metrics: Metrics,
}

impl SlowWorker {
    /// Starts the thread and its pool of one. It ends with the process at the latest. Errors when threads cannot be
    /// made.
    pub fn start(self) -> std::io::Result<()> {
        let pool = pool("slow-score", 1, self.options.niceness)?;
        std::thread::Builder::new().name("slow-scorer".into()).spawn(move || self.work(&pool)).map(drop)
    }

    fn work(&self, pool: &rayon::ThreadPool) {
        self.queue.work(pool, |job| {
            // Only samples that were scored wait here, no ticks.
            if let Job::Pass(_, scored) = job {
                self.score(pool, &scored);
            }
        });
    }

    fn score(&self, pool: &rayon::ThreadPool, Scored { ready, point }: &Scored) {
        let started = Instant::now();
        // A panic in a score must not end the monitor; the slow scores of this point are lost and counted.
        let Ok(outcomes) = catch_unwind(AssertUnwindSafe(|| pool.install(|| self.outcomes(ready)))) else {
            self.metrics.score_failures.inc();
            tracing::error!(
                run = %ready.running.name, split = %ready.split, step = ready.step, "a slow score panicked"
            );
            return;
        };
        let Some(outcomes) = outcomes.filter(|outcomes| !outcomes.is_empty()) else { return };
        // A run that came back from a checkpoint may have evaluated the same step again.
        let latest = self.runs.newest_point(&ready.running.name, &ready.split);
        if latest.is_some_and(|latest| latest.step == point.step && latest.time != point.time) {
            return;
        }
        let slow = Arc::new(Point { scores: outcomes, ..Point::clone(point) });
        let whole = Arc::new(joined(point, &slow, started.elapsed().as_secs_f64()));
        if let Err(error) = self.history.record_point(&whole) {
            self.metrics.history_errors.inc();
            tracing::error!(run = %point.run, step = point.step, %error, "slow scores could not be stored");
        }
        self.advice.observe_late(&slow);
        self.runs.settle_slow(&ready.running, &ready.split, Arc::clone(&whole), slow);
        // Fails when nobody listens.
        let _ = self.events.send(Event::Point(whole));
    }

    /// All slow scores of a sample; `None` when stopping.
    fn outcomes(&self, ready: &Ready) -> Option<Vec<(String, Outcome)>> {
        let pause = || self.queue.pause(1);
        let prepared = Prepared::new(&ready.sample, &ready.running.run, self.options.settings).with_pause(&pause);
        let scores = evaluate(&prepared, Wanted::AvailableAt(Cost::Slow), |_, _, _| {
            if self.queue.is_stopping() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        Some(scores.into_iter().map(|(score, outcome)| (score.id.to_owned(), outcome)).collect())
    }
}

/// The point with its slow scores, in catalogue order.
fn joined(point: &Point, slow: &Point, seconds: f64) -> Point {
    let mut whole = Point { seconds: point.seconds + seconds, ..point.clone() };
    whole.scores.extend(slow.scores.iter().cloned());
    whole.scores.sort_by_key(|(id, _)| CATALOGUE.iter().position(|score| score.id == *id));
    whole
}
