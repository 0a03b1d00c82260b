//! Passes frozen samples from the intake to the queue of points and to the board.

use std::sync::Arc;
use std::time::Duration;

use crate::history::Ending;
use crate::schedule::{Closed, Skipped};
use crate::server::board::Beginning;
use crate::server::pass_outcomes::{Mailbox, Pass};
use crate::server::publish::Publisher;
use crate::server::runs::Outlet;
use leakage::run::SplitKey;
use leakage::sample::{Evaluation, Unfinished};
use leakage::score::expected::expected;

use super::onward::Scored;
use super::queue::Queue;
use super::worker::first_costs;

/// The [`Outlet`] of the intake.
pub struct Inbox {
    pub queue: Arc<Queue<Evaluation>>,
    pub fast: Arc<Queue<Scored>>,
    pub slow: Arc<Queue<Scored>>,
    pub publisher: Publisher,
}

impl Outlet for Inbox {
    fn begin(&self, key: &SplitKey, beginning: Beginning) {
        self.publisher.board.begin(key, beginning);
    }

    fn expect(&self, pass: Pass, stream: &Arc<Mailbox>) {
        self.publisher.settlement.expect(pass, Some(stream));
    }

    fn join(&self, pass: &Pass, stream: &Arc<Mailbox>) -> bool {
        self.publisher.settlement.join(pass, stream)
    }

    fn offer(&self, evaluation: Evaluation) {
        self.publisher.settlement.expect(Pass::of(&evaluation), None);
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
            self.pass_over(&evaluation, Ending::Skipped, why.text());
        }
    }

    fn pass_over(&self, evaluation: &Evaluation, ending: Ending, reason: &str) {
        self.publisher.settlement.expect(Pass::of(evaluation), None);
        self.publisher.pass_over(evaluation, ending, reason);
    }

    fn abandon(&self, pass: &Pass, unfinished: &Unfinished, ending: Ending, reason: &str) {
        tracing::warn!(
            run = %pass.key.run, split = %pass.key.split, step = %pass.at, rows = unfinished.rows, reason,
            "an open pass was abandoned"
        );
        self.publisher.settlement.expect(pass.clone(), None);
        self.publisher.settlement.record(pass, ending, reason, unfinished.rows);
    }

    fn is_pending(&self, run: &str) -> bool {
        !self.publisher.settlement.unsettled(run).is_empty()
    }

    fn pending(&self, key: &SplitKey) -> u64 {
        self.publisher.settlement.pending(key)
    }

    fn wait(&self, key: &SplitKey) -> Duration {
        self.queue.wait(key)
    }

    fn bytes(&self) -> usize {
        self.queue.bytes() + self.fast.bytes() + self.slow.bytes()
    }
}
