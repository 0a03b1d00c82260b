//! Metrics of a hub.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, GaugeVec, IntCounterVec, Opts, Registry};

use super::names;
use super::scores::{SERIES_PER_FAMILY, omitted};

/// The counters of a hub. Clones share them.
#[derive(Clone)]
pub struct HubMetrics {
    /// Label `outcome`: `applied`, `known` or `refused`.
    pub entries: IntCounterVec,
    /// Labels `call` and `code`, the gRPC code's name.
    pub calls_refused: IntCounterVec,
}

impl HubMetrics {
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let counters = |name, help, labels: &[&str]| {
            let counters = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counters.clone()))?;
            Ok::<_, Error>(counters)
        };
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
        })
    }
}

/// The time since each run's sidecar was last heard, in seconds, by run, read at each scrape.
pub struct PushAges<F> {
    ages: F,
    empty: GaugeVec,
}

impl<F: Fn() -> Vec<(String, f64)> + Send + Sync + 'static> PushAges<F> {
    pub fn register(registry: &Registry, ages: F) -> Result<(), Error> {
        registry.register(Box::new(Self { ages, empty: family()? }))
    }
}

fn family() -> Result<GaugeVec, Error> {
    let help = "Time since the sidecar of an unfinished run last pushed or asked, in seconds; above 60 it is lost.";
    GaugeVec::new(Opts::new(names::HUB_PUSH_AGE, help), &["run"])
}

impl<F: Fn() -> Vec<(String, f64)> + Send + Sync + 'static> Collector for PushAges<F> {
    fn desc(&self) -> Vec<&Desc> {
        self.empty.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (all, Ok(gauges)) = ((self.ages)(), family()) else { return Vec::new() };
        for (run, age) in all.iter().take(SERIES_PER_FAMILY) {
            gauges.with_label_values(&[run]).set(*age);
        }
        let omitted = omitted(names::HUB_PUSH_AGE, all.len().saturating_sub(SERIES_PER_FAMILY) as u64);
        gauges.collect().into_iter().chain(omitted).collect()
    }
}
