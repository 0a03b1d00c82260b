//! The verdicts on the runs at work, as a scrape reads them.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, GaugeVec, Opts};

use super::names;
use leakage::diagnosis::Verdict;

/// [`names::VERDICT`] and [`names::VERDICT_VALUE`].
pub struct Verdicts {
    states: GaugeVec,
    values: GaugeVec,
}

impl Verdicts {
    pub fn new() -> Result<Self, Error> {
        let states =
            "1 for the verdict on a run: leaking, possibly_leaking, sound, nothing_found, cannot_tell or too_early.";
        let values = "The score that decides the verdict on a run, in the score's unit.";
        Ok(Self {
            states: GaugeVec::new(Opts::new(names::VERDICT, states), &["run", "split", "verdict"])?,
            values: GaugeVec::new(Opts::new(names::VERDICT_VALUE, values), &["run", "split", "score"])?,
        })
    }

    /// Adds the verdict on a run's split.
    pub fn add(&self, run: &str, split: &str, verdict: &Verdict) {
        self.states.with_label_values(&[run, split, verdict.state.id()]).set(1.0);
        if let Some(one) = verdict.deciding.as_ref().filter(|one| one.value.is_finite()) {
            self.values.with_label_values(&[run, split, &one.score]).set(one.value);
        }
    }

    pub fn desc(&self) -> Vec<&Desc> {
        [&self.states, &self.values].into_iter().flat_map(Collector::desc).collect()
    }

    pub fn families(&self) -> Vec<MetricFamily> {
        [&self.states, &self.values]
            .into_iter()
            .flat_map(Collector::collect)
            .filter(|one| !one.get_metric().is_empty())
            .collect()
    }
}
