//! The streams of batches that are open. A job has one for as long as it has a run.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// A job that has just found the sidecar opens its stream within this time.
const AWHILE: Duration = Duration::from_secs(2);

/// Counts them. Clones share the count.
#[derive(Clone, Debug)]
pub struct Streams(watch::Sender<usize>);

/// An open stream.
pub struct Open(watch::Sender<usize>);

impl Default for Streams {
    fn default() -> Self {
        Self(watch::Sender::new(0))
    }
}

impl Streams {
    pub fn open(&self) -> Open {
        self.0.send_modify(|count| *count += 1);
        Open(self.0.clone())
    }

    /// Waits until none has been open for a while.
    pub async fn none(&self) {
        let mut count = self.0.subscribe();
        loop {
            // Waiting fails only without a sender, and this is one.
            let _ = count.wait_for(|count| *count == 0).await;
            if timeout(AWHILE, count.wait_for(|count| *count > 0)).await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
