//! The way of an evaluation to its last score: each cost of scores has a queue, and an evaluation enters the next once its scores
//! are published.

use std::sync::Arc;
use std::time::Duration;

use crate::history::Ending;
use crate::schedule::{Closed, Skipped, Why};
use crate::server::pass_outcomes::Pass;
use crate::server::publish::Publisher;
use crate::server::runs::Frozen;
use leakage::point::Point;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::expected::{expected, is_at_once};

use super::queue::Queue;

/// An evaluation that waits for scores.
pub struct Work {
    pub frozen: Frozen,
    /// Its published point, which more scores can join; `None` before the first ones.
    pub point: Option<Arc<Point>>,
}

/// The queues of the scorers, one for each cost.
#[derive(Clone)]
pub struct Queues {
    /// Passes without a point.
    pub cheap: Arc<Queue<Work>>,
    /// Points of passes of many concepts, and the rolling windows.
    pub fast: Arc<Queue<Work>>,
    pub slow: Arc<Queue<Work>>,
}

impl Queues {
    /// In the order in which an evaluation goes through them.
    pub fn all(&self) -> [&Queue<Work>; 3] {
        [Cost::Cheap, Cost::Fast, Cost::Slow].map(|cost| self.of(cost))
    }

    pub fn of(&self, cost: Cost) -> &Queue<Work> {
        match cost {
            Cost::Cheap => &self.cheap,
            Cost::Fast => &self.fast,
            Cost::Slow => &self.slow,
        }
    }

    /// Bytes of all that waits or is in flight.
    pub fn bytes(&self) -> usize {
        self.all().map(Queue::bytes).iter().sum()
    }

    /// How long the oldest evaluation without a point, or window, has been due.
    pub fn lag(&self) -> Duration {
        self.cheap.lag().max(self.fast.lag())
    }
}

/// The costs of the scores that the first point of a pass has.
pub fn first_costs(evaluation: &Evaluation) -> &'static [Cost] {
    if is_at_once(&evaluation.sample, &evaluation.run) { Cost::AT_ONCE } else { &[Cost::Cheap] }
}

/// Passes evaluations from the intake to their points, and on to later scores.
#[derive(Clone)]
pub struct Onward {
    pub queues: Queues,
    pub publisher: Publisher,
}

impl Onward {
    /// Takes a sample that the intake has frozen.
    pub fn offer(&self, frozen: Frozen) {
        let evaluation = &frozen.evaluation;
        self.publisher.settlement.expect(Pass::of(evaluation), None);
        if evaluation.sample.rows() == 0 {
            let (key, step) = (&evaluation.key, evaluation.step);
            let reason = "the pass has no rows: none was sent, or all were refused";
            tracing::warn!(run = %key.run, split = %key.split, %step, "{reason}");
            return self.publisher.pass_over(&frozen, Ending::Failed, reason);
        }
        let of_cost = |&cost: &Cost| expected(&evaluation.sample, &evaluation.run, cost);
        let key = evaluation.key.clone();
        let closed = Closed {
            backlog: evaluation.backlog,
            held_back: evaluation.held_back,
            bytes: evaluation.sample.bytes(),
            expected: first_costs(evaluation).iter().map(of_cost).sum(),
            pass: Work { frozen, point: None },
        };
        if let Some(Skipped { pass: skipped, why }) = self.queues.cheap.push(key, closed) {
            self.publisher.metrics.points_skipped.inc();
            self.publisher.pass_over(&skipped.frozen, Ending::Skipped, why.text());
        }
    }

    /// Publishes the point of an evaluation, which has its scores of these costs.
    pub fn publish(&self, frozen: Frozen, point: Point, costs: &[Cost]) {
        let (point, has_fast) = (Arc::new(point), costs.contains(&Cost::Fast));
        if self.publisher.publish(&frozen, &point, has_fast) {
            self.enter(if has_fast { Cost::Slow } else { Cost::Fast }, frozen, point);
        }
    }

    /// Puts an evaluation with a point into the queue of the scores of this cost.
    pub fn enter(&self, cost: Cost, frozen: Frozen, point: Arc<Point>) {
        let Evaluation { key, sample, run, backlog, .. } = &frozen.evaluation;
        let (key, bytes, expected) = (key.clone(), sample.bytes(), expected(sample, run, cost));
        // For slow scores only the newest evaluation waits, whichever it is.
        let backlog = *backlog && cost == Cost::Fast;
        let closed = Closed { bytes, backlog, expected, ..Closed::live(Work { frozen, point: Some(point) }) };
        if let Some(Skipped { pass: Work { frozen, .. }, why }) = self.queues.of(cost).push(key, closed) {
            self.publisher.metrics.joins_skipped.with_label_values(&[cost.name()]).inc();
            if why == Why::Backlog {
                // No newer one has taken its place.
                frozen.running.board.close(&frozen.evaluation, cost);
            }
        }
    }
}
