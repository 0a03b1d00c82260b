//! Keeps a sidecar that a job has started from ending: for open streams of batches, of which a job has one for as long
//! as it has a run, and for evaluations that wait to be scored.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, timeout};

/// A job that has just found the sidecar opens its stream within this time.
const AWHILE: Duration = Duration::from_secs(2);

/// Interval at which evaluations that wait are looked for.
const LOOK: Duration = Duration::from_millis(250);

type HasWork = Box<dyn Fn() -> bool + Send + Sync>;

/// Counts streams. Clones share the count.
#[derive(Clone)]
pub struct Streams {
    open: watch::Sender<usize>,
    has_work: Arc<OnceLock<HasWork>>,
}

/// An open stream.
pub struct Open(watch::Sender<usize>);

impl Default for Streams {
    fn default() -> Self {
        Self { open: watch::Sender::new(0), has_work: Arc::default() }
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Streams").field(&*self.open.borrow()).finish()
    }
}

impl Streams {
    pub fn open(&self) -> Open {
        self.open.send_modify(|count| *count += 1);
        Open(self.open.clone())
    }

    /// Sets, once, how to find out whether evaluations wait to be scored. Until then none do.
    pub fn work(&self, has_work: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.has_work.set(Box::new(has_work));
    }

    /// Waits until no stream has been open for a while, and then until no evaluation waits, or `linger` at most.
    pub async fn unused(&self, linger: Duration) {
        let mut count = self.open.subscribe();
        loop {
            // Waiting fails only without a sender, and this is one.
            let _ = count.wait_for(|count| *count == 0).await;
            let deadline = Instant::now() + linger;
            let mut patience = AWHILE;
            while timeout(patience, count.wait_for(|count| *count > 0)).await.is_err() {
                let has_work = self.has_work.get().is_some_and(|has_work| has_work());
                if !has_work || Instant::now() >= deadline {
                    return;
                }
                patience = LOOK;
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}
