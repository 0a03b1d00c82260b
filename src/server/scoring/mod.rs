//! Scoring: what waits for the schedule, and the threads that compute it out of the way of training.

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

/// Time for the scores in flight when the server stops; they end with the process if they take longer.
const GRACE: Duration = Duration::from_millis(500);

/// The two scorers, and what they share.
pub struct Scoring {
    pub queue: Arc<Queue<Evaluation>>,
    pub slow: Arc<Queue<Scored>>,
    pub keeping: Arc<Keeping>,
    options: WorkerOptions,
    publisher: Publisher,
}

impl Scoring {
    /// `publisher` is where points go; `stop` ends the jobs in flight at their next score.
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

    /// Where the intake hands on what it has frozen.
    pub fn inbox(&self) -> Arc<dyn Outlet> {
        Arc::new(Inbox {
            queue: Arc::clone(&self.queue),
            board: Arc::clone(&self.publisher.board),
            metrics: self.publisher.metrics.clone(),
        })
    }

    /// Starts the threads; that of the fast scores is returned. Errors when threads cannot be made.
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

    /// Wakes threads that rest or wait, to see that they are to stop.
    pub fn wake(&self) {
        self.queue.wake();
        self.slow.wake();
    }
}

/// Waits for a scorer that was told to stop, for at most half a second.
pub async fn settle_down(worker: JoinHandle<()>) {
    let deadline = Instant::now() + GRACE;
    while !worker.is_finished() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
