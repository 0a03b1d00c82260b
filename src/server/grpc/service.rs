//! The state of the gRPC service of a sidecar.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::ingest::Ingest;
use crate::history::Store;
use crate::server::alert_log::AlertLog;
use crate::server::events::Events;
use crate::server::pass_outcomes::Settlement;
use crate::server::runs::Running;
use crate::server::windows::Windows;
use leakage::step::Ordinal;

#[derive(Clone)]
pub struct Service {
    pub ingest: Ingest,
    pub history: Arc<dyn Store>,
    pub events: Events,
    pub settlement: Arc<Settlement>,
    pub windows: Windows,
    pub stop: CancellationToken,
    pub page_url: String,
    /// Empty where curves are in memory.
    pub data_dir: String,
    pub ends_unused: bool,
}

impl Service {
    pub(super) fn running(&self, run: &str) -> Option<Arc<Running>> {
        self.ingest.runs.registry.get(run)
    }

    pub(super) fn log(&self) -> &Arc<AlertLog> {
        &self.ingest.runs.registry.log
    }

    /// Whether the evaluation of a step was scored or skipped. One that waits in line is not, though a newer one may be.
    pub(super) fn is_settled(&self, run: &str, split: &str, step: u64, ordinal: Ordinal) -> bool {
        self.running(run).is_some_and(|running| running.board.is_settled(split, (step, ordinal)))
            && !self.settlement.is_pending(run, split, step)
    }
}
