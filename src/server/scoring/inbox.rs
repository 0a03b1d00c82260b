//! Passes frozen samples from the intake to the queue of points.

use std::sync::Arc;

use crate::history::Ending;
use crate::schedule::{Closed, Skipped};
use crate::server::pass_outcomes::Pass;
use crate::server::publish::Publisher;
use crate::server::runs::{Frozen, Outlet};
use leakage::score::expected::expected;

use super::queue::Queue;
use super::worker::first_costs;

/// The [`Outlet`] of the intake.
pub struct Inbox {
    pub queue: Arc<Queue<Frozen>>,
    pub publisher: Publisher,
}

impl Outlet for Inbox {
    fn offer(&self, frozen: Frozen) {
        let evaluation = &frozen.evaluation;
        self.publisher.settlement.expect(Pass::of(evaluation), None);
        if evaluation.sample.rows() == 0 {
            let (key, step) = (&evaluation.key, evaluation.step);
            let reason = "the pass has no rows: none was sent, or all were refused";
            tracing::warn!(run = %key.run, split = %key.split, %step, "{reason}");
            return self.publisher.pass_over(&frozen, Ending::Failed, reason);
        }
        let key = evaluation.key.clone();
        let closed = Closed {
            backlog: evaluation.backlog,
            held_back: evaluation.held_back,
            bytes: evaluation.sample.bytes(),
            expected: first_costs(evaluation)
                .iter()
                .map(|&cost| expected(&evaluation.sample, &evaluation.run, cost))
                .sum(),
            pass: frozen,
        };
        if let Some(Skipped { pass: skipped, why }) = self.queue.push(key, closed) {
            self.publisher.metrics.points_skipped.inc();
            self.publisher.pass_over(&skipped, Ending::Skipped, why.text());
        }
    }
}
