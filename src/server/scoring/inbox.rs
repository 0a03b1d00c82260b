//! Passes frozen samples from the intake to the queue of the fast scores and to the board.

use std::sync::Arc;
use std::time::Duration;

use crate::run::SplitKey;
use crate::sample::Evaluation;
use crate::server::board::{Beginning, Board};
use crate::server::metrics::Metrics;
use crate::server::runs::Outlet;

use super::queue::Queue;

/// The [`Outlet`] of the intake.
pub struct Inbox {
    pub queue: Arc<Queue<Evaluation>>,
    pub board: Arc<Board>,
    pub metrics: Metrics,
}

impl Outlet for Inbox {
    fn begin(&self, key: &SplitKey, beginning: Beginning) {
        self.board.begin(key, beginning);
    }

    fn offer(&self, evaluation: Evaluation) {
        if let Some(replaced) = self.queue.push(evaluation.key.clone(), evaluation) {
            self.metrics.points_skipped.inc();
            tracing::debug!(
                run = %replaced.key.run, split = %replaced.key.split, step = %replaced.step,
                "an evaluation was skipped: a newer one was ready before it could be scored"
            );
        }
    }

    fn pass_over(&self, evaluation: &Evaluation) {
        self.board.settle(evaluation, None);
        self.board.pass_over_slow(evaluation);
    }

    fn wait(&self, key: &SplitKey) -> Duration {
        self.queue.wait(key)
    }
}
