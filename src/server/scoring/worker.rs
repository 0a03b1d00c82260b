//! The scorer of the points of passes: one thread that takes due jobs from the schedule and computes them in its own pool.
//! For a small sample it computes all scores but the slow ones, for a wide one the cheap ones.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use crate::history::Ending;
use crate::schedule::{Budget, Job};
use crate::server::publish::Publisher;
use crate::server::runs::{Frozen, Running};
use leakage::point::Point;
use leakage::repeats::without_repeats;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::expected::is_at_once;
use leakage::score::panic_text;

use super::compute::Computing;
use super::onward::Onward;
use super::pool::{WorkerOptions, pool};
use super::queue::Queue;

/// The niceness of the threads that score first points, at most. Beside training that leaves no core idle, threads that use
/// idle cores only scored 10 of 63 passes of 1 s, these 81 of 81 (docs/benchmarks.md); the CPU share limits both.
const FIRST: i32 = 12;

/// The scorer of the points of passes.
pub struct Worker {
    pub options: WorkerOptions,
    pub queue: Arc<Queue<Frozen>>,
    /// Receives evaluations once their points are published.
    pub onward: Onward,
}

/// The costs of the scores that the first point of a pass has.
pub fn first_costs(evaluation: &Evaluation) -> &'static [Cost] {
    if is_at_once(&evaluation.sample, &evaluation.run) { Cost::AT_ONCE } else { &[Cost::Cheap] }
}

impl Worker {
    /// Starts the scorer's thread and its pool. When the server stops it scores what waits, lets the scorer of the fast
    /// scores, whose thread is `fast`, do the same, and ends with it. Errors when a thread cannot be started.
    pub fn start(self, fast: JoinHandle<()>) -> std::io::Result<JoinHandle<()>> {
        let pool = pool("score", self.options.threads, self.options.niceness.min(FIRST))?;
        std::thread::Builder::new().name("scorer".into()).spawn(move || {
            self.queue.work(&pool, |job| self.run(&pool, job), |cpu| self.bill(cpu));
            self.onward.fast.hurry();
            // Fails only if that thread panicked.
            let _ = fast.join();
        })
    }

    fn bill(&self, cpu: Duration) {
        let [by_fast, by_slow] = Budget::PAID;
        self.onward.fast.bill(cpu.mul_f64(by_fast));
        self.onward.slow.bill(cpu.mul_f64(by_slow));
    }

    fn run(&self, pool: &rayon::ThreadPool, job: Job<Frozen>) {
        // Ticks are queued with the fast scores.
        if let Job::Pass(_, frozen) = job {
            self.score(pool, frozen);
        }
    }

    fn score(&self, pool: &rayon::ThreadPool, frozen: Frozen) {
        let scored = caught(&self.onward.publisher, &frozen, || {
            pool.install(|| {
                let distinct = without_repeats(&frozen.evaluation);
                let evaluation = distinct.as_ref().unwrap_or(&frozen.evaluation);
                let costs = first_costs(evaluation);
                let point = self.point(pool, &frozen.running, evaluation, costs)?;
                Some((point, costs, distinct))
            })
        });
        // Without a point the server stops. The pass stays pending, and is recorded with those that wait.
        if let Some((point, costs, distinct)) = scored {
            self.onward.publish(frozen.with(distinct), point, costs);
        }
    }

    /// The point of a pass with all scores of these costs; `None` if the server stops first.
    fn point(
        &self,
        pool: &rayon::ThreadPool,
        running: &Running,
        evaluation: &Evaluation,
        costs: &[Cost],
    ) -> Option<Point> {
        let computing = Computing {
            settings: self.options.settings,
            memory: Some(self.options.memory_of(Cost::Cheap)),
            pause: &|| self.bill(self.queue.pause(self.options.threads, &|job| self.run(pool, job))),
            is_stopping: &|| self.queue.is_stopping(),
            on_failure: &|what, text| self.onward.publisher.note_failure(evaluation, what, text),
        };
        let carry = |influences, rows| running.carried.carry(evaluation, &influences, rows);
        let (point, peak) = computing.point(evaluation, costs, None, carry)?;
        self.onward.publisher.metrics.scoring_memory.with_label_values(&[Cost::Cheap.name()]).set(peak as i64);
        Some(point)
    }
}

/// The point of an evaluation, unless it panics. A score that does is undefined; a panic elsewhere must not end the sidecar
/// either: the point is lost and counted.
pub fn caught<T>(publisher: &Publisher, frozen: &Frozen, point: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(point)).unwrap_or_else(|panic| {
        publisher.note_failure(&frozen.evaluation, "the point", panic_text(&*panic).unwrap_or_default());
        publisher.pass_over(frozen, Ending::Failed, "a score failed because of a bug in the program");
        None
    })
}
