//! The way of an evaluation from its first point to its last score: each cost has a queue, and an evaluation enters the next
//! once its scores are published.

use std::sync::Arc;

use crate::schedule::{Closed, Skipped, Why};
use crate::server::publish::Publisher;
use crate::server::runs::Runs;
use leakage::point::Point;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::expected::expected;

use super::queue::Queue;

/// An evaluation whose point is published, and which more scores can join.
pub struct Scored {
    pub evaluation: Evaluation,
    pub point: Arc<Point>,
}

/// The destinations of published evaluations.
#[derive(Clone)]
pub struct Onward {
    pub fast: Arc<Queue<Scored>>,
    pub slow: Arc<Queue<Scored>>,
    pub runs: Arc<Runs>,
    pub publisher: Publisher,
}

impl Onward {
    /// Publishes the point of an evaluation, which has its scores of these costs.
    pub fn publish(&self, evaluation: Evaluation, point: Point, costs: &[Cost]) {
        let (point, has_fast) = (Arc::new(point), costs.contains(&Cost::Fast));
        if self.publisher.publish(&evaluation, &point, has_fast) {
            let next = if has_fast { Cost::Slow } else { Cost::Fast };
            self.enter(next, Scored { evaluation, point });
        }
    }

    /// Puts an evaluation into the queue of the scores of this cost.
    pub fn enter(&self, cost: Cost, scored: Scored) {
        let queue = if cost == Cost::Fast { &self.fast } else { &self.slow };
        let Evaluation { key, sample, run, backlog, .. } = &scored.evaluation;
        let key = key.clone();
        let expected = expected(sample, run, cost);
        // For slow scores only the newest evaluation waits, whichever it is.
        let backlog = *backlog && cost == Cost::Fast;
        let closed = Closed { bytes: sample.bytes(), backlog, expected, ..Closed::live(scored) };
        if let Some(Skipped { pass: skipped, why }) = queue.push(key.clone(), closed) {
            self.publisher.metrics.joins_skipped.with_label_values(&[cost.name()]).inc();
            if why == Why::Backlog {
                // No newer one has taken its place.
                self.publisher.board.close(&skipped.evaluation, cost);
            }
        }
        // The run may have been forgotten meanwhile, in which case nobody else would remove its line.
        if !self.runs.knows(&key.run) {
            queue.forget(&key.run);
        }
    }
}
