//! Timed work of a hub: sees whether a write succeeds, tells watchers what changed, and deletes data past its retention.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::shown::Shown;

/// Interval of looking, and so the age of what `/ready` says.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of deleting, which takes at most half of it.
const RETAIN: Duration = Duration::from_secs(60);

pub struct Upkeep {
    pub shown: Arc<Shown>,
    /// Runs that are silent for longer are removed.
    pub age: Option<Duration>,
}

impl Upkeep {
    pub async fn run(self, stop: CancellationToken) {
        let (mut retained, age) = (Instant::now(), self.age);
        while stop.run_until_cancelled(tokio::time::sleep(LOOK)).await.is_some() {
            let shown = Arc::clone(&self.shown);
            let is_due = retained.elapsed() >= RETAIN;
            if is_due {
                retained = Instant::now();
            }
            let work = move || {
                shown.store.probe();
                shown.tell();
                match is_due {
                    true => shown.store.retain(age, RETAIN / 2).map(drop),
                    false => Ok(()),
                }
            };
            if let Ok(Err(error)) = tokio::task::spawn_blocking(work).await {
                tracing::warn!(%error, "what is kept no longer could not be deleted");
            }
        }
    }
}
