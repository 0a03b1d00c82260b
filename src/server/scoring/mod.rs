//! Scoring: the queues of evaluations, and the threads that score them without slowing down training.

mod inbox;
pub mod keeping;
mod pace;
pub mod pool;
mod priority;
pub mod queue;
pub mod slow;
pub mod spare;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::sample::Evaluation;

use super::options::Options;
use super::publish::Publisher;
use super::runs::{Outlet, Runs};
use inbox::Inbox;
use keeping::Keeping;
use pool::WorkerOptions;
use queue::Queue;
use slow::{Scored, SlowWorker};
use worker::Worker;

/// How long scores in flight may take when the server stops; after that they are abandoned with the process.
const GRACE: Duration = Duration::from_millis(500);

/// The scorers of fast and slow scores, and their shared state.
pub struct Scoring {
    pub queue: Arc<Queue<Evaluation>>,
    pub slow: Arc<Queue<Scored>>,
    pub keeping: Arc<Keeping>,
    options: WorkerOptions,
    publisher: Publisher,
}

impl Scoring {
    /// Points go to `publisher`; cancelling `stop` ends the jobs in flight at their next score.
    pub fn new(options: &Options, publisher: Publisher, stop: &CancellationToken) -> Self {
        let [fast, slow] = options.cpu.parts();
        let metrics = &publisher.metrics;
        Self {
            queue: Arc::new(Queue::new(options.ticks, fast, metrics.clone(), stop.clone())),
            slow: Arc::new(Queue::new(options.ticks, slow, metrics.clone(), stop.clone())),
            keeping: Arc::new(Keeping::default()),
            options: options.worker,
            publisher,
        }
    }

    /// The outlet through which the intake submits frozen samples.
    pub fn inbox(&self) -> Arc<dyn Outlet> {
        Arc::new(Inbox {
            queue: Arc::clone(&self.queue),
            board: Arc::clone(&self.publisher.board),
            metrics: self.publisher.metrics.clone(),
        })
    }

    /// Starts the threads and returns that of the fast scores. Errors when a thread cannot be started.
    pub fn start(&self, runs: &Arc<Runs>) -> std::io::Result<JoinHandle<()>> {
        let slow =
            SlowWorker { options: self.options, queue: Arc::clone(&self.slow), publisher: self.publisher.clone() };
        slow.start()?;
        let worker = Worker {
            options: self.options,
            queue: Arc::clone(&self.queue),
            keeping: Arc::clone(&self.keeping),
            slow: Arc::clone(&self.slow),
            runs: Arc::clone(runs),
            publisher: self.publisher.clone(),
        };
        worker.start()
    }

    /// Wakes resting and waiting threads, so that they notice a stop.
    pub fn wake(&self) {
        self.queue.wake();
        self.slow.wake();
    }
}

/// Waits at most [`GRACE`] for a stopping scorer.
pub async fn settle_down(worker: JoinHandle<()>) {
    let deadline = Instant::now() + GRACE;
    while !worker.is_finished() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
