//! Passes frozen samples from the intake to the queue of points and to the board.

use std::sync::Arc;

use crate::history::Ending;
use crate::schedule::{Closed, Skipped};
use crate::server::board::Beginning;
use crate::server::pass_outcomes::Pass;
use crate::server::publish::Publisher;
use crate::server::runs::Outlet;
use leakage::run::SplitKey;
use leakage::sample::Evaluation;
use leakage::score::expected::expected;

use super::queue::Queue;
use super::worker::first_costs;

/// The [`Outlet`] of the intake.
pub struct Inbox {
    pub queue: Arc<Queue<Evaluation>>,
    pub publisher: Publisher,
}

impl Outlet for Inbox {
    fn begin(&self, key: &SplitKey, beginning: Beginning) {
        self.publisher.board.begin(key, beginning);
    }

    fn offer(&self, evaluation: Evaluation) {
        self.publisher.settlement.expect(Pass::of(&evaluation), None);
        if evaluation.sample.rows() == 0 {
            let (key, step) = (&evaluation.key, evaluation.step);
            tracing::warn!(run = %key.run, split = %key.split, %step, "a pass had no rows");
            return self.publisher.pass_over(&evaluation, Ending::Failed, "the pass had no rows");
        }
        let closed = Closed {
            backlog: evaluation.backlog,
            held_back: evaluation.held_back,
            bytes: evaluation.sample.bytes(),
            expected: first_costs(&evaluation)
                .iter()
                .map(|&cost| expected(&evaluation.sample, &evaluation.run, cost))
                .sum(),
            pass: evaluation,
        };
        if let Some(Skipped { pass: evaluation, why }) = self.queue.push(closed.pass.key.clone(), closed) {
            self.publisher.metrics.points_skipped.inc();
            self.publisher.pass_over(&evaluation, Ending::Skipped, why.text());
        }
    }
}
