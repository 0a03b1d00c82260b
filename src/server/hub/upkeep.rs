//! Deletes data past its retention, at a fixed interval, in any hub.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::history::Postgres;

/// Interval of deleting, which takes at most half of it.
const RETAIN: Duration = Duration::from_secs(60);

pub struct Upkeep {
    pub store: Arc<Postgres>,
}

impl Upkeep {
    pub async fn run(self, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(RETAIN)).await.is_some() {
            let store = Arc::clone(&self.store);
            if let Ok(Err(error)) = tokio::task::spawn_blocking(move || store.retain(RETAIN / 2)).await {
                tracing::warn!(%error, "what is kept no longer could not be deleted");
            }
        }
    }
}
