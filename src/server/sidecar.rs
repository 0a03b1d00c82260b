//! The sidecar's implementation of [`Live`].

use std::sync::Arc;
use std::time::Instant;

use crate::VERSION;
use crate::history::Store;
use leakage::point::Point;
use leakage::score::catalogue::CATALOGUE_VERSION;

use super::live::{AlertsStatus, Latest, Live, RunIdentity, RunStatus, Status, UnwritableStatus, UpstreamStatus};
use super::metrics::Metrics;
use super::runs::Runs;
use super::scoring::carried::RowsOfStep;
use super::scoring::onward::Queues;
use super::upstream::Reach;

pub struct Sidecar {
    pub history: Arc<dyn Store>,
    pub runs: Arc<Runs>,
    pub queues: Queues,
    pub metrics: Metrics,
    pub cpu_share: f64,
    pub estimator: &'static str,
    pub started: Instant,
    /// `None` without a hub.
    pub reach: Option<Arc<Reach>>,
}

impl Live for Sidecar {
    fn runs(&self) -> Vec<RunStatus> {
        self.runs.statuses()
    }

    fn latest(&self) -> Vec<Latest> {
        self.runs.registry.latest()
    }

    fn identities(&self) -> Vec<RunIdentity> {
        self.runs.identities()
    }

    fn admits(&self, point: &Point) -> bool {
        self.runs.registry.admits(point)
    }

    fn alerts(&self) -> AlertsStatus {
        self.runs.registry.alerts()
    }

    fn forget(&self, run: &str) {
        self.runs.remove(run);
    }

    fn status(&self) -> Status {
        Status {
            version: VERSION,
            catalogue_version: CATALOGUE_VERSION,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            lag_seconds: self.queues.lag().as_secs_f64(),
            rows_dropped: self.metrics.all_rows_dropped(),
            points_skipped: self.metrics.points_skipped.get(),
            memory_bytes: self.runs.memory() as u64,
            memory_limit_bytes: self.runs.options().memory as u64,
            scoring_memory_bytes: ["cheap", "fast", "slow"]
                .map(|scores| self.metrics.scoring_memory.with_label_values(&[scores]).get() as u64)
                .iter()
                .sum(),
            scoring_memory_limit_bytes: self.metrics.scoring_memory_limit.get() as u64,
            staleness_seconds: self.metrics.staleness.get(),
            cpu_share: self.cpu_share,
            cpu_seconds: self.metrics.worker_cpu.get(),
            estimator: self.estimator,
            unwritable: UnwritableStatus::of(self.history.waiting()),
            upstream: self.upstream(),
        }
    }

    fn upstream(&self) -> Option<UpstreamStatus> {
        self.reach.as_ref().map(|reach| reach.status())
    }

    fn ready(&self) -> Result<(), String> {
        if let Some(why) = self.history.waiting().why {
            return Err(format!("the history cannot be written, points wait in memory: {why}"));
        }
        let used = self.runs.memory();
        let limit = self.runs.options().memory;
        if used < limit { Ok(()) } else { Err(format!("samples hold {used} bytes, expected less than {limit}")) }
    }

    fn leaking_rows(&self, run: &str, split: &str) -> Option<(Arc<[String]>, Arc<RowsOfStep>)> {
        let running = self.runs.registry.get(run)?;
        Some((Arc::clone(&running.concepts), running.carried.leaking_rows(split)?))
    }

    fn slowness(&self) -> Option<String> {
        self.history.waiting().slowness()
    }
}
