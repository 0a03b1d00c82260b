//! Metrics of a hub.

use prometheus::core::Collector;
use prometheus::{Error, Gauge, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::names;

/// What sidecars send to a hub, counted. Clones share them.
#[derive(Clone)]
pub struct HubMetrics {
    /// Label `outcome`: `applied`, `known` or `refused`.
    pub entries: IntCounterVec,
    /// Labels `call` and `code`, the gRPC code's name.
    pub calls_refused: IntCounterVec,
    /// Changes that this hub learnt from the database.
    pub changes_followed: IntCounter,
    pub jobs_waiting: IntGauge,
    pub jobs_leased: IntGauge,
    /// Seconds.
    pub jobs_oldest: Gauge,
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
        let jobs_waiting = IntGauge::new(
            names::HUB_JOBS_WAITING,
            "Evaluations that wait for a worker, the same at every hub of a database.",
        )?;
        let jobs_leased = IntGauge::new(names::HUB_JOBS_LEASED, "Evaluations that workers are computing.")?;
        let jobs_oldest = Gauge::new(
            names::HUB_JOBS_OLDEST,
            "How long the evaluation that has waited longest for a worker has waited, in seconds.",
        )?;
        let all: [Box<dyn Collector>; 4] = [
            Box::new(changes_followed.clone()),
            Box::new(jobs_waiting.clone()),
            Box::new(jobs_leased.clone()),
            Box::new(jobs_oldest.clone()),
        ];
        all.into_iter().try_for_each(|one| registry.register(one))?;
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
            jobs_waiting,
            jobs_leased,
            jobs_oldest,
        })
    }
}
