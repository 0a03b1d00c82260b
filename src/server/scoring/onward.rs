//! The way of an evaluation from its first point to its last score: each cost has a queue, and an evaluation enters the next
//! once its scores are published.

use std::sync::Arc;

use crate::schedule::{Closed, Skipped, Why};
use crate::server::publish::Publisher;
use crate::server::runs::Frozen;
use leakage::point::Point;
use leakage::sample::Evaluation;
use leakage::score::catalogue::Cost;
use leakage::score::expected::expected;

use super::queue::Queue;

/// An evaluation whose point is published, and which more scores can join.
pub struct Scored {
    pub frozen: Frozen,
    pub point: Arc<Point>,
}

/// The destinations of published evaluations.
#[derive(Clone)]
pub struct Onward {
    pub fast: Arc<Queue<Scored>>,
    pub slow: Arc<Queue<Scored>>,
    pub publisher: Publisher,
}

impl Onward {
    /// Publishes the point of an evaluation, which has its scores of these costs.
    pub fn publish(&self, frozen: Frozen, point: Point, costs: &[Cost]) {
        let (point, has_fast) = (Arc::new(point), costs.contains(&Cost::Fast));
        if self.publisher.publish(&frozen, &point, has_fast) {
            let next = if has_fast { Cost::Slow } else { Cost::Fast };
            self.enter(next, Scored { frozen, point });
        }
    }

    /// Puts an evaluation into the queue of the scores of this cost.
    pub fn enter(&self, cost: Cost, scored: Scored) {
        let queue = if cost == Cost::Fast { &self.fast } else { &self.slow };
        let Evaluation { key, sample, run, backlog, .. } = &scored.frozen.evaluation;
        let key = key.clone();
        let expected = expected(sample, run, cost);
        // For slow scores only the newest evaluation waits, whichever it is.
        let backlog = *backlog && cost == Cost::Fast;
        let closed = Closed { bytes: sample.bytes(), backlog, expected, ..Closed::live(scored) };
        if let Some(Skipped { pass: Scored { frozen, .. }, why }) = queue.push(key, closed) {
            self.publisher.metrics.joins_skipped.with_label_values(&[cost.name()]).inc();
            if why == Why::Backlog {
                // No newer one has taken its place.
                frozen.running.board.close(&frozen.evaluation, cost);
            }
        }
    }
}
