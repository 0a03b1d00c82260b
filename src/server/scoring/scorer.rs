//! The scorer of a cost: one thread that takes due jobs from its queue and computes them in a pool of its own.
//!
//! - Cheap: the first points of passes. Of a small sample they have all scores but the slow ones, of a wide one the cheap ones.
//! - Fast: scores that go over pairs of concepts join the points of wide passes. Also the points of rolling windows, whose pairs
//!   are refreshed as far as the CPU share allows.
//! - Slow: scores that train networks, and tests that permute labels, join a point after all its other scores.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::history::Ending;
use crate::schedule::{Budget, Job};
use crate::server::runs::{Frozen, Running, Runs};
use leakage::lock::lock;
use leakage::pair_cache::Budgeted;
use leakage::point::Point;
use leakage::repeats::without_repeats;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::panic_text;

use super::compute::Computing;
use super::onward::{Onward, Work, first_costs};
use super::pool::{WorkerOptions, pool};
use super::queue::Queue;

/// The niceness of the threads that score first points, at most. Beside training that leaves no core idle, threads that use
/// idle cores only scored 10 of 63 passes of 1 s, these 81 of 81 (docs/benchmarks.md); the CPU share limits both.
const FIRST: i32 = 12;

pub struct Scorer {
    pub cost: Cost,
    pub options: WorkerOptions,
    /// Has the newest sample of each rolling window.
    pub runs: Arc<Runs>,
    /// Receives evaluations once their points are published.
    pub onward: Onward,
}

impl Scorer {
    /// Starts the thread and its pool. When the server stops, the thread calls `last` and ends. Errors when a thread cannot be
    /// started.
    pub fn start(self, last: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
        let (name, pool_name, niceness) = match self.cost {
            Cost::Cheap => ("scorer", "score", self.options.niceness.min(FIRST)),
            Cost::Fast => ("fast-scorer", "fast-score", self.options.niceness),
            Cost::Slow => ("slow-scorer", "slow-score", self.options.niceness),
        };
        let pool = pool(pool_name, self.options.threads, niceness)?;
        std::thread::Builder::new().name(name.into()).spawn(move || {
            self.queue().work(&pool, |job| self.run(&pool, job), |cpu| self.bill(cpu));
            last();
        })
    }

    fn queue(&self) -> &Queue<Work> {
        self.onward.queues.of(self.cost)
    }

    /// Has the higher costs pay for the CPU time of first points.
    fn bill(&self, cpu: Duration) {
        if self.cost == Cost::Cheap {
            let [by_fast, by_slow] = Budget::PAID;
            self.onward.queues.fast.bill(cpu.mul_f64(by_fast));
            self.onward.queues.slow.bill(cpu.mul_f64(by_slow));
        }
    }

    fn run(&self, pool: &rayon::ThreadPool, job: Job<Work>) {
        match job {
            Job::Pass(_, Work { frozen, point: Some(point) }) => self.join(pool, frozen, point),
            Job::Pass(_, Work { frozen, point: None }) => {
                self.score(pool, frozen, |evaluation, running| {
                    let costs = first_costs(evaluation);
                    Some((self.point(pool, running, evaluation, costs, None)?, costs))
                });
            }
            Job::Tick(key) => {
                if let Some(frozen) = self.runs.snapshot(&key) {
                    self.score(pool, frozen, |evaluation, running| {
                        Some((self.point_of_window(pool, running, evaluation)?, Cost::AT_ONCE))
                    });
                }
            }
        }
    }

    /// Publishes the first point of an evaluation, with its scores of some costs; none where the server stops. The pass then
    /// stays pending, and is recorded with those that wait.
    fn score(
        &self,
        pool: &rayon::ThreadPool,
        frozen: Frozen,
        point: impl FnOnce(&Evaluation, &Running) -> Option<(Point, &'static [Cost])> + Send,
    ) {
        let distinct_point = || {
            let distinct = without_repeats(&frozen.evaluation);
            let (point, costs) = point(distinct.as_ref().unwrap_or(&frozen.evaluation), &frozen.running)?;
            Some((point, costs, distinct))
        };
        match catch_unwind(AssertUnwindSafe(|| pool.install(distinct_point))) {
            Ok(Some((point, costs, distinct))) => self.onward.publish(frozen.with(distinct), point, costs),
            Ok(None) => {}
            // A score that panics is undefined; a panic elsewhere must not end the sidecar either.
            Err(panic) => {
                self.note_failure(&frozen.evaluation, "the point", panic_text(&*panic).unwrap_or_default());
                let why = "a score failed because of a bug in the program";
                self.onward.publisher.pass_over(&frozen, Ending::Failed, why);
            }
        }
    }

    /// Adds the scores of this cost to a published point.
    fn join(&self, pool: &rayon::ThreadPool, frozen: Frozen, point: Arc<Point>) {
        let started = Instant::now();
        let Frozen { running, evaluation } = &frozen;
        let late = || {
            let carry = |influences, rows| running.carried.carry(evaluation, &influences, rows);
            self.compute(pool, evaluation, |computing| computing.late(evaluation, self.cost, carry))
        };
        // After a panic elsewhere than in a score the point has none of these scores.
        let point = match catch_unwind(AssertUnwindSafe(|| pool.install(late))) {
            Ok(Some(late)) if !late.is_empty() => {
                let seconds = started.elapsed().as_secs_f64();
                let joined = self.onward.publisher.join(&frozen, &point, self.cost, &late, seconds);
                let Some(whole) = joined else { return };
                whole
            }
            found => {
                if let Err(panic) = &found {
                    let what = format!("the {} scores", self.cost.name());
                    self.note_failure(evaluation, &what, panic_text(&**panic).unwrap_or_default());
                }
                running.board.close(evaluation, self.cost);
                // The server stops.
                if let Ok(None) = found {
                    return;
                }
                point
            }
        };
        if self.cost == Cost::Fast {
            self.onward.enter(Cost::Slow, frozen, point);
        }
    }

    /// The point of an evaluation with all scores of these costs; `None` if the server stops first.
    fn point(
        &self,
        pool: &rayon::ThreadPool,
        running: &Running,
        evaluation: &Evaluation,
        costs: &[Cost],
        budgeted: Option<Budgeted>,
    ) -> Option<Point> {
        let carry = |influences, rows| running.carried.carry(evaluation, &influences, rows);
        self.compute(pool, evaluation, |computing| computing.point(evaluation, costs, budgeted, carry))
    }

    /// The point of a rolling window; `None` if the server stops first. Some pairs may be left for the next tick, see
    /// [`leakage::pair_cache`].
    fn point_of_window(&self, pool: &rayon::ThreadPool, running: &Running, evaluation: &Evaluation) -> Option<Point> {
        let (split, step, spent) = (&evaluation.key.split, evaluation.step.get(), || self.queue().spent());
        let kept = Mutex::new(running.carried.take_pairs(split, step));
        // A sample that is still filling is scored completely, because its pairs would come from samples of different
        // sizes.
        if evaluation.provisional {
            return self.point(pool, running, evaluation, Cost::AT_ONCE, None);
        }
        lock(&kept).begin(evaluation.sample.rows());
        let allowance = self.queue().allowance();
        let budgeted = Budgeted { kept: &kept, time: evaluation.time, allowance, spent: &spent };
        let point = self.point(pool, running, evaluation, Cost::AT_ONCE, Some(budgeted))?;
        let mut kept = kept.into_inner().unwrap_or_else(PoisonError::into_inner);
        kept.end(spent());
        self.onward.publisher.metrics.pairs_left.inc_by(kept.pairs_left());
        running.carried.put_pairs(split, step, kept);
        Some(point)
    }

    /// Computes scores of an evaluation within the memory of this cost, and notes the most bytes that any of them took.
    fn compute<R>(
        &self,
        pool: &rayon::ThreadPool,
        evaluation: &Evaluation,
        compute: impl FnOnce(&Computing) -> Option<(R, usize)>,
    ) -> Option<R> {
        let (result, peak) = compute(&Computing {
            settings: self.options.settings,
            memory: Some(self.options.memory_of(self.cost)),
            pause: &|| self.bill(self.queue().pause(self.options.threads, &|job| self.run(pool, job))),
            is_stopping: &|| self.queue().is_stopping(),
            on_failure: &|what, text| self.note_failure(evaluation, what, text),
        })?;
        self.onward.publisher.metrics.scoring_memory.with_label_values(&[self.cost.name()]).set(peak as i64);
        Some(result)
    }

    fn note_failure(&self, evaluation: &Evaluation, what: &str, text: &str) {
        self.onward.publisher.note_failure(evaluation, what, text);
    }
}
