//! A hub's implementation of [`Live`].

use std::sync::Arc;
use std::time::Instant;

use super::board::SharedBoard;
use crate::VERSION;
use crate::history::Store;
use crate::point::Point;
use crate::score::catalogue::CATALOGUE_VERSION;
use crate::server::advice::Advice;
use crate::server::live::{AlertsStatus, Latest, Live, RunStatus, Status};
use crate::server::metrics::Metrics;

/// The state of a hub that the API and the metrics read, as learnt from the database.
pub struct State {
    pub history: Arc<dyn Store>,
    pub board: Arc<SharedBoard>,
    pub advice: Arc<Advice>,
    pub metrics: Metrics,
    pub started: Instant,
}

impl Live for State {
    fn runs(&self) -> Vec<RunStatus> {
        // Rows arrive at the sidecars, which count them.
        self.board.open().into_iter().map(|run| RunStatus { name: run.to_string(), splits: Vec::new() }).collect()
    }

    fn latest(&self) -> Vec<Latest> {
        self.board.latest()
    }

    fn admits(&self, point: &Point) -> bool {
        self.board.admits(point)
    }

    fn alerts(&self) -> AlertsStatus {
        self.advice.status()
    }

    fn forget(&self, run: &str) {
        self.board.forget(run);
        self.advice.forget(run, self.board.clock.now());
    }

    fn status(&self) -> Status {
        Status {
            version: VERSION,
            catalogue_version: CATALOGUE_VERSION,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            staleness_seconds: self.metrics.staleness.get(),
            ..Status::default()
        }
    }

    fn ready(&self) -> Result<(), String> {
        match self.history.waiting().why {
            Some(why) => Err(format!("the database cannot be reached: {why}")),
            None => Ok(()),
        }
    }
}
