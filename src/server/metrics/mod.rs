//! Prometheus metrics. Score families and others are read at each scrape.

mod alerts;
mod families;
pub mod history;
mod hub;
mod identities;
pub mod names;
pub mod openmetrics;
mod own;
#[cfg(test)]
mod reference;
pub mod scores;
mod table;
#[cfg(test)]
mod tests;
pub mod upstream;
pub mod verdicts;

use std::sync::Arc;

use prometheus::{Error, Registry};

use super::live::Live;
pub use families::SERIES_PER_FAMILY;
pub use hub::{HubMetrics, register_ages};
use leakage::score::catalogue::CATALOGUE;
pub use own::{Metrics, OtlpMetrics};

/// Registers the families that are read from the runs.
pub fn register_runs(registry: &Registry, live: &Arc<dyn Live>) -> Result<(), Error> {
    scores::register(registry, Arc::clone(live), CATALOGUE)?;
    identities::register(registry, Arc::clone(live))?;
    alerts::register(registry, Arc::clone(live))
}
