//! What happens by the clock, in any hub: passes are closed whose ranks do not come, and what is kept no longer is deleted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::history::{HistoryError, Postgres};
use crate::server::metrics::HubMetrics;

/// Interval of looking for overdue passes, and of deleting what is kept no longer.
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
        let (upkeep, mut retained) = (Arc::new(self), Instant::now());
        while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            let due = retained.elapsed() >= RETAIN;
            if due {
                retained = Instant::now();
            }
            let looking = Arc::clone(&upkeep);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || looking.look(due)).await {
                tracing::warn!(%error, "overdue passes could not be closed");
            }
        }
    }

    fn look(&self, retain: bool) -> Result<(), HistoryError> {
        self.store.close_overdue(self.pass_deadline)?;
        let queue = self.store.job_queue()?;
        self.metrics.jobs_waiting.set(queue.waiting as i64);
        self.metrics.jobs_leased.set(queue.leased as i64);
        self.metrics.jobs_oldest.set(queue.oldest_seconds);
        if retain {
            self.store.retain()?;
        }
        Ok(())
    }
}
