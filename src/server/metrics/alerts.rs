//! The state of the alert rules.

use std::cmp::Reverse;
use std::sync::Arc;

use prometheus::{Error, Registry};

use super::families::{self, Described, SERIES_PER_FAMILY};
use super::names;
use crate::server::live::Live;
use leakage::alert::State;

pub(super) const FAMILY: Described = (
    names::ALERT_STATE,
    "State of an alert rule for a run: 0 inactive, 1 pending, 2 firing.",
    &["run", "split", "rule", "score", "severity"],
);

/// Exports [`Live::alerts`].
pub fn register(registry: &Registry, live: Arc<dyn Live>) -> Result<(), Error> {
    families::register(registry, [FAMILY], move |families| {
        let mut standings = live.alerts().standings;
        let number = |state: State| match state {
            State::Firing => 2,
            State::Pending => 1,
            State::Inactive => 0,
        };
        // Firing and pending states first, because series above the cap are omitted. Those that fire never are.
        standings.sort_by_key(|standing| Reverse(number(standing.state)));
        let firing = standings.partition_point(|standing| standing.state == State::Firing);
        let shown = firing.max(SERIES_PER_FAMILY).min(standings.len());
        for one in &standings[..shown] {
            let values = [&*one.rule, &one.run, &one.score, one.severity.name(), &one.split];
            let labels = ["rule", "run", "score", "severity", "split"];
            families.add_always(FAMILY.0, &labels, &values, number(one.state).into());
        }
        families.omit(FAMILY.0, (standings.len() - shown) as u64);
    })
}
