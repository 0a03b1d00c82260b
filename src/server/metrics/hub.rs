//! Metrics of a hub.

use prometheus::{Error, IntCounter, IntCounterVec, Opts, Registry};

use super::names;

/// The counters of a hub. Clones share them.
#[derive(Clone)]
pub struct HubMetrics {
    /// Label `outcome`: `applied`, `known` or `refused`.
    pub entries: IntCounterVec,
    /// Labels `call` and `code`, the gRPC code's name.
    pub calls_refused: IntCounterVec,
    /// Changes that this hub learnt from the database.
    pub changes_followed: IntCounter,
}

impl HubMetrics {
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let counters = |name, help, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, Error>(counters)
        };
        let changes_followed = IntCounter::new(
            names::HUB_CHANGES_FOLLOWED,
            "Changes that this hub learnt from the database, its own and those of others.",
        )?;
        registry.register(Box::new(changes_followed.clone()))?;
        Ok(Self {
            entries: counters(
                names::HUB_ENTRIES,
                "Entries that sidecars pushed: applied, known already, or refused because they can never be applied.",
                &["outcome"],
            )?,
            calls_refused: counters(
                names::HUB_CALLS_REFUSED,
                "Calls of sidecars that were refused as a whole, by call and gRPC code.",
                &["call", "code"],
            )?,
            changes_followed,
        })
    }
}
