//! The verdicts on the runs at work, as a scrape reads them.

use prometheus::proto::MetricFamily;

use super::names;
use super::scores::{Families, gathered};
use leakage::diagnosis::Verdict;

/// [`names::VERDICT`] and [`names::VERDICT_VALUE`]: name, help and labels.
pub(super) const VERDICT_FAMILIES: [(&str, &str, &[&str]); 2] = [
    (
        names::VERDICT,
        "1 for the verdict on a run: leaking, possibly_leaking, sound, nothing_found, cannot_tell or too_early. task: the one of \
         several that decides.",
        &["run", "split", "task", "verdict"],
    ),
    (
        names::VERDICT_VALUE,
        "The score that decides the verdict on a run, in the score's unit. task: the one of several that decides.",
        &["run", "score", "split", "task"],
    ),
];

/// The verdicts on several runs.
#[derive(Default)]
pub struct Verdicts(Families);

impl Verdicts {
    /// Adds the verdict on a run's split.
    pub fn add(&mut self, run: &str, split: &str, verdict: &Verdict) {
        let task = verdict.task.as_deref();
        let mut add = |(name, _, labels): (&str, &str, &[&str]), values: [Option<&str>; 4], value: f64| {
            // Without a task there is no such label.
            let labels = labels.iter().zip(values).filter_map(|(label, value)| Some((*label, value?)));
            let (labels, values): (Vec<_>, Vec<_>) = labels.unzip();
            self.0.add(name, &labels, &values, value);
        };
        add(VERDICT_FAMILIES[0], [Some(run), Some(split), task, Some(verdict.state.id())], 1.0);
        if let Some(one) = &verdict.deciding {
            add(VERDICT_FAMILIES[1], [Some(run), Some(&one.score), Some(split), task], one.value);
        }
    }

    pub fn families(mut self) -> Vec<MetricFamily> {
        let family = |(name, help, _): (&str, &str, &[&str])| Some(gathered(name, help, self.0.take(name)?));
        VERDICT_FAMILIES.into_iter().filter_map(family).collect()
    }
}
