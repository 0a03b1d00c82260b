//! What happens by the clock, in any hub: passes are closed whose ranks do not come, and what is kept no longer is deleted.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::history::{HistoryError, Postgres};
use crate::server::metrics::HubMetrics;

/// Interval of looking for overdue passes, and of deleting what is kept no longer, which takes at most half of it.
const LOOK: Duration = Duration::from_secs(1);
const RETAIN: Duration = Duration::from_secs(60);

pub struct Upkeep {
    pub store: Arc<Postgres>,
    pub metrics: HubMetrics,
    /// As of a sidecar.
    pub pass_deadline: Duration,
}

impl Upkeep {
    pub async fn run(self, stop: CancellationToken) {
        let upkeep = Arc::new(self);
        // Side by side: no pass waits for what is deleted.
        tokio::join!(
            upkeep.every(LOOK, &stop, "overdue passes could not be closed", Self::close),
            upkeep.every(RETAIN, &stop, "what is kept no longer could not be deleted", |upkeep| {
                upkeep.store.retain(RETAIN / 2).map(drop)
            }),
        );
    }

    async fn every(
        self: &Arc<Self>,
        interval: Duration,
        stop: &CancellationToken,
        failed: &str,
        work: fn(&Self) -> Result<(), HistoryError>,
    ) {
        while stop.run_until_cancelled(tokio::time::sleep(interval)).await.is_some() {
            let upkeep = Arc::clone(self);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || work(&upkeep)).await {
                tracing::warn!(%error, "{failed}");
            }
        }
    }

    fn close(&self) -> Result<(), HistoryError> {
        self.store.close_overdue(self.pass_deadline)?;
        let queue = self.store.job_queue()?;
        self.metrics.jobs_waiting.set(queue.waiting as i64);
        self.metrics.jobs_leased.set(queue.leased as i64);
        self.metrics.jobs_oldest.set(queue.oldest_seconds);
        Ok(())
    }
}
