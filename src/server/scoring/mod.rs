//! Scoring: the queues of evaluations, and the threads that score them without slowing down training.

pub mod carried;
pub mod compute;
mod cpu_quota;
mod fast;
mod inbox;
pub mod onward;
mod pace;
pub mod pool;
mod priority;
pub mod queue;
mod slow;
pub mod spare;
mod worker;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::history::Ending;
use crate::schedule::Room;

use super::options::Options;
use super::publish::Publisher;
use super::runs::{Frozen, Outlet, Runs};
use fast::FastWorker;
use inbox::Inbox;
use onward::{Onward, Scored};
use pool::WorkerOptions;
use queue::Queue;
use slow::SlowWorker;
use worker::Worker;

/// How long evaluations that wait may be scored when the server stops, and how long the score in flight may take then;
/// after that it is abandoned with the process.
const HURRY: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_millis(500);

/// The scorers, one for the first points of passes and one each for the fast and the slow scores that join them, and their
/// shared state.
pub struct Scoring {
    pub queue: Arc<Queue<Frozen>>,
    pub fast: Arc<Queue<Scored>>,
    pub slow: Arc<Queue<Scored>>,
    options: WorkerOptions,
    pub publisher: Publisher,
    /// Ends the scorers of points and of fast scores. Unlike that of slow ones, they first score what waits when the server
    /// stops.
    abandon: CancellationToken,
}

impl Scoring {
    /// Points go to `publisher`; cancelling `stop` ends the slow scores.
    pub fn new(options: &Options, publisher: Publisher, stop: &CancellationToken) -> Self {
        let [first, fast, slow] = options.cpu.parts();
        let metrics = &publisher.metrics;
        let abandon = CancellationToken::new();
        // One half for points, one for fast scores.
        let room = Room { bytes: options.sampling.waiting_memory() / 2, ..Room::default() };
        metrics.scoring_memory_limit.set(options.worker.memory as i64);
        Self {
            queue: Arc::new(Queue::new(options.ticks, first, room, metrics.clone(), abandon.clone())),
            fast: Arc::new(Queue::new(options.ticks, fast, room, metrics.clone(), abandon.clone())),
            slow: Arc::new(Queue::new(options.ticks, slow, Room::NEWEST, metrics.clone(), stop.clone())),
            options: options.worker,
            publisher,
            abandon,
        }
    }

    /// The outlet through which the intake submits frozen samples.
    pub fn inbox(&self) -> Arc<dyn Outlet> {
        Arc::new(Inbox { queue: Arc::clone(&self.queue), publisher: self.publisher.clone() })
    }

    /// Starts the threads and returns that of the points, which ends after that of the fast scores. Errors when a thread
    /// cannot be started.
    pub fn start(&self, runs: &Arc<Runs>) -> std::io::Result<JoinHandle<()>> {
        let slow =
            SlowWorker { options: self.options, queue: Arc::clone(&self.slow), publisher: self.publisher.clone() };
        slow.start()?;
        let onward =
            Onward { fast: Arc::clone(&self.fast), slow: Arc::clone(&self.slow), publisher: self.publisher.clone() };
        let fast = FastWorker {
            options: self.options,
            queue: Arc::clone(&self.fast),
            runs: Arc::clone(runs),
            onward: onward.clone(),
        };
        let worker = Worker { options: self.options, queue: Arc::clone(&self.queue), onward };
        worker.start(fast.start()?)
    }

    /// Lets the scorers of points and fast scores finish what waits, and ends that of slow ones: the server stops.
    pub fn hurry(&self) {
        self.queue.hurry();
        self.slow.wake();
    }

    /// Waits until everything that waited is scored, but at most until [`HURRY`] after `stopped`. What is left then is
    /// not scored.
    pub async fn settle_down(&self, worker: JoinHandle<()>, stopped: Instant) {
        wait_for(&worker, stopped + HURRY).await;
        self.abandon.cancel();
        self.queue.wake();
        self.fast.wake();
        wait_for(&worker, Instant::now() + GRACE).await;
        for frozen in self.queue.take_all() {
            let reason = "the sidecar stopped before the pass was scored";
            self.publisher.pass_over(&frozen, Ending::Unsettled, reason);
        }
    }
}

async fn wait_for(worker: &JoinHandle<()>, deadline: Instant) {
    while !worker.is_finished() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
