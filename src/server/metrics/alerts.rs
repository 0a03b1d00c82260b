//! The state of the alert rules, read at each scrape.

use std::sync::Arc;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, IntGaugeVec, Opts, Registry};

use super::names;
use super::scores::{SERIES_PER_FAMILY, omitted};
use crate::server::live::Live;
use leakage::alert::State;

const LABELS: [&str; 5] = ["run", "split", "rule", "score", "severity"];

/// Exports [`names::ALERT_STATE`] from [`Live::alerts`].
pub struct AlertCollector {
    live: Arc<dyn Live>,
    empty: IntGaugeVec,
}

impl AlertCollector {
    pub fn register(registry: &Registry, live: Arc<dyn Live>) -> Result<(), Error> {
        let empty = family()?;
        registry.register(Box::new(Self { live, empty }))
    }
}

pub(super) fn family() -> Result<IntGaugeVec, Error> {
    let help = "State of an alert rule for a run: 0 inactive, 1 pending, 2 firing.";
    IntGaugeVec::new(Opts::new(names::ALERT_STATE, help), &LABELS)
}

impl Collector for AlertCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.empty.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(states) = family() else { return Vec::new() };
        let mut standings = self.live.alerts().standings;
        let number = |state: State| match state {
            State::Firing => 2,
            State::Pending => 1,
            State::Inactive => 0,
        };
        // Firing and pending states first, because series above the cap are omitted. Those that fire never are.
        standings.sort_by_key(|standing| std::cmp::Reverse(number(standing.state)));
        let firing = standings.partition_point(|standing| standing.state == State::Firing);
        let shown = firing.max(SERIES_PER_FAMILY).min(standings.len());
        for standing in &standings[..shown] {
            let values = [
                standing.run.as_str(),
                standing.split.as_str(),
                standing.rule.as_str(),
                standing.score.as_str(),
                standing.severity.name(),
            ];
            states.with_label_values(&values).set(number(standing.state));
        }
        let omitted = omitted(names::ALERT_STATE, (standings.len() - shown) as u64);
        states.collect().into_iter().chain(omitted).collect()
    }
}
