//! The state of a run that the parts of a running sidecar hold besides its samples, and how they forget it.

use std::sync::Arc;

use crate::history::{Ending, Store};

use super::pass_outcomes::{Pass, Settlement};
use super::runs::Frozen;
use super::scoring::onward::Scored;
use super::scoring::queue::Queue;
use super::windows::Windows;

#[derive(Clone)]
pub struct Traces {
    pub history: Arc<dyn Store>,
    pub settlement: Arc<Settlement>,
    pub windows: Windows,
    pub queue: Arc<Queue<Frozen>>,
    pub fast: Arc<Queue<Scored>>,
    pub slow: Arc<Queue<Scored>>,
}

impl Traces {
    /// Forgets a run that was removed from memory.
    pub fn forget(&self, run: &str) {
        let (windows, name) = (self.windows.clone(), run.to_owned());
        tokio::task::spawn_blocking(move || windows.remove(&name));
        for Frozen { evaluation, .. } in self.queue.forget(run) {
            let reason = "the run was removed from memory before the pass was scored";
            self.settlement.record(&Pass::of(&evaluation), Ending::Skipped, reason, evaluation.rows_seen);
        }
        self.history.forget_run(run);
        self.fast.forget(run);
        self.slow.forget(run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Limits, Sqlite};
    use crate::schedule::{Budget, Room, Ticks};
    use crate::server::metrics::Metrics;
    use leakage::run::SplitKey;
    use std::time::Duration;
    use tokio_util::sync::CancellationToken;

    fn queue<W>(metrics: &Metrics) -> Arc<Queue<W>> {
        let budget = Budget { cpu_share: 1.0, busy_cpu_share: 1.0, burst: Duration::ZERO };
        let stop = CancellationToken::new();
        Arc::new(Queue::new(Ticks::default(), budget, Room::default(), metrics.clone(), stop))
    }

    /// Every part that holds something of a run holds its name.
    #[tokio::test]
    async fn no_part_holds_the_name_of_a_run_that_was_forgotten() {
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let history: Arc<dyn Store> = Arc::new(Sqlite::open(None, Limits { bytes: 1 << 26 }).unwrap());
        let traces = Traces {
            history: Arc::clone(&history),
            settlement: Arc::new(Settlement::new(history, metrics.clone())),
            windows: Windows::new(None, metrics.clone()),
            queue: queue(&metrics),
            fast: queue(&metrics),
            slow: queue(&metrics),
        };
        let name: Arc<str> = "r".into();
        let key = SplitKey { run: Arc::clone(&name), split: "val".into() };
        traces.fast.look(&[(key.clone(), 1, 1)]);
        let held = Arc::strong_count(&name);
        assert!(held >= 3, "{held}");
        drop(key);
        traces.forget("r");
        assert_eq!(Arc::strong_count(&name), 1);
    }
}
