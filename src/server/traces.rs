//! What the parts of a running sidecar hold of a run beside its samples, and how they let go of it.

use std::sync::Arc;

use crate::history::{Ending, Store};
use crate::sample::Evaluation;

use super::advice::Advice;
use super::board::Board;
use super::scoring::keeping::Keeping;
use super::scoring::queue::Queue;
use super::scoring::slow::Scored;
use super::settlement::{Pass, Settlement};
use super::windows::Windows;

#[derive(Clone)]
pub struct Traces {
    pub history: Arc<dyn Store>,
    pub board: Arc<Board>,
    pub settlement: Arc<Settlement>,
    pub windows: Windows,
    pub queue: Arc<Queue<Evaluation>>,
    pub slow: Arc<Queue<Scored>>,
    pub keeping: Arc<Keeping>,
    pub advice: Arc<Advice>,
}

impl Traces {
    /// Forgets a run that was removed from memory.
    pub fn forget(&self, run: &str) {
        let (windows, name) = (self.windows.clone(), run.to_owned());
        tokio::task::spawn_blocking(move || windows.remove(&name));
        for evaluation in self.queue.forget(run) {
            let reason = "the run was removed from memory before the pass was scored";
            self.settlement.record(&Pass::of(&evaluation), Ending::Skipped, reason, evaluation.rows_seen);
        }
        self.history.forget_run(run);
        self.slow.forget(run);
        self.keeping.forget_run(run);
        self.board.forget(run);
        self.advice.forget(run);
    }
}
