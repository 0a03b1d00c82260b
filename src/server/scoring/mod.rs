//! Scoring: the queues of evaluations, and the threads that score them without slowing down training.

pub mod carried;
pub mod compute;
mod cpu_quota;
pub mod onward;
mod pace;
pub mod pool;
mod priority;
pub mod queue;
mod scorer;
pub mod spare;

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::history::Ending;
use crate::schedule::Room;

use super::options::Options;
use super::publish::Publisher;
use super::runs::Runs;
use leakage::score::catalogue::Cost;
use onward::{Onward, Queues};
use pool::WorkerOptions;
use queue::Queue;
use scorer::Scorer;

/// How long evaluations that wait may be scored when the server stops, and how long the score in flight may take then;
/// after that it is abandoned with the process.
const HURRY: Duration = Duration::from_secs(3);
const GRACE: Duration = Duration::from_millis(500);

/// The scorers, one for the first points of passes and one each for the fast and the slow scores that join them, and their
/// shared state.
pub struct Scoring {
    pub onward: Onward,
    options: WorkerOptions,
    /// Ends the scorers of points and of fast scores. Unlike that of slow ones, they first score what waits when the server
    /// stops.
    abandon: CancellationToken,
}

impl Scoring {
    /// Points go to `publisher`; cancelling `stop` ends the slow scores.
    pub fn new(options: &Options, publisher: Publisher, stop: &CancellationToken) -> Self {
        let [cheap, fast, slow] = options.cpu.parts();
        let metrics = &publisher.metrics;
        metrics.scoring_memory_limit.set(options.worker.memory as i64);
        let abandon = CancellationToken::new();
        // One half for points, one for fast scores.
        let room = Room { bytes: options.sampling.waiting_memory() / 2, ..Room::default() };
        let queue = |budget, room, stop: &CancellationToken| {
            Arc::new(Queue::new(options.ticks, budget, room, metrics.clone(), stop.clone()))
        };
        let queues = Queues {
            cheap: queue(cheap, room, &abandon),
            fast: queue(fast, room, &abandon),
            slow: queue(slow, Room::NEWEST, stop),
        };
        Self { onward: Onward { queues, publisher }, options: options.worker, abandon }
    }

    /// Starts the threads and returns that of the points, which ends after that of the fast scores. Errors when a thread
    /// cannot be started.
    pub fn start(&self, runs: &Arc<Runs>) -> std::io::Result<JoinHandle<()>> {
        let scorer = |cost| {
            let (runs, onward) = (Arc::clone(runs), self.onward.clone());
            Scorer { cost, options: self.options, runs, onward }
        };
        // Ends with the process at the latest.
        scorer(Cost::Slow).start(|| ())?;
        let (fast, of_fast) = (scorer(Cost::Fast).start(|| ())?, Arc::clone(&self.onward.queues.fast));
        scorer(Cost::Cheap).start(move || {
            of_fast.hurry();
            // Fails only if that thread panicked.
            let _ = fast.join();
        })
    }

    /// Lets the scorers of points and fast scores finish what waits, and ends that of slow ones: the server stops.
    pub fn hurry(&self) {
        self.onward.queues.cheap.hurry();
        self.onward.queues.slow.wake();
    }

    /// Waits until everything that waited is scored, but at most until [`HURRY`] after `stopped`. What is left then is
    /// not scored.
    pub async fn settle_down(&self, worker: JoinHandle<()>, stopped: Instant) {
        let Onward { queues, publisher } = &self.onward;
        wait_for(&worker, stopped + HURRY).await;
        self.abandon.cancel();
        queues.all().iter().for_each(|queue| queue.wake());
        wait_for(&worker, Instant::now() + GRACE).await;
        for work in queues.cheap.take_all() {
            let reason = "the sidecar stopped before the pass was scored";
            publisher.pass_over(&work.frozen, Ending::Unsettled, reason);
        }
    }
}

async fn wait_for(worker: &JoinHandle<()>, deadline: Instant) {
    while !worker.is_finished() && Instant::now() < deadline {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
