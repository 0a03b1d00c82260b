//! Metrics of a hub.

use prometheus::{Error, Registry};

use super::families::{self, Described};
use super::names;
use super::table::table;

table! {
    /// The counters of a hub. Clones share them.
    #[derive(Clone)]
    HubMetrics {
        /// `applied`, `known` or `refused`.
        entries: IntCounterVec["outcome"] = names::HUB_ENTRIES,
            "Entries that sidecars pushed: applied, known already, or refused because they can never be applied.";
        /// `code`: the gRPC code's name.
        calls_refused: IntCounterVec["call", "code"] = "conceptwatch_hub_calls_refused_total",
            "Calls of sidecars that were refused as a whole, by call and gRPC code.";
    }
}

const PUSH_AGE: Described = (
    names::HUB_PUSH_AGE,
    "Time since the sidecar of an unfinished run last pushed or asked, in seconds; above 60 it is lost.",
    &["run"],
);

/// Exports the time since each run's sidecar was last heard, in seconds, by run.
pub fn register_ages(
    registry: &Registry,
    ages: impl Fn() -> Vec<(String, f64)> + Send + Sync + 'static,
) -> Result<(), Error> {
    families::register(registry, [PUSH_AGE], move |families| {
        for (run, age) in ages() {
            families.add(PUSH_AGE.0, &["run"], &[&run], age);
        }
    })
}
