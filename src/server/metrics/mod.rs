//! Prometheus metrics. All names are in [`names`]; score families are read from the latest points at each scrape.

mod alerts;
mod heap;
mod history;
mod hub;
mod identities;
pub mod names;
pub mod openmetrics;
mod otlp;
mod own;
#[cfg(test)]
mod reference;
mod scores;
#[cfg(test)]
mod tests;
mod upstream;
mod verdicts;

pub use alerts::AlertCollector;
pub use history::HistoryCollector;
pub use hub::{HubMetrics, PushAges};
pub use identities::IdentityCollector;
pub use otlp::OtlpMetrics;
pub use own::Metrics;
pub use scores::{SERIES_PER_FAMILY, ScoreCollector};
pub use upstream::UpstreamCollector;
pub use verdicts::Verdicts;
