//! Prometheus metrics. Most families are read at each scrape.

mod families;
mod identities;
pub mod names;
pub mod openmetrics;
mod own;
#[cfg(test)]
mod reference;
mod scores;
mod scrape;
mod table;
#[cfg(test)]
mod tests;

pub use families::SERIES_PER_FAMILY;
pub use own::{HubMetrics, Metrics, OtlpMetrics};
pub use scrape::scraped;
