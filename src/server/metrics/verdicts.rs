//! The verdicts on the runs at work, as a scrape reads them.

use prometheus::proto::MetricFamily;

use super::families::{Described, Families};
use super::names;
use crate::server::live::CurveVerdict;

/// [`names::VERDICT`] and [`names::VERDICT_VALUE`]: name, help and labels.
pub(super) const VERDICT_FAMILIES: [Described; 2] = [
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

/// Returns the families of verdicts.
pub fn families(verdicts: &[CurveVerdict]) -> Vec<MetricFamily> {
    let mut families = Families::default();
    for (run, split, verdict) in verdicts {
        let task = verdict.task.as_deref();
        let mut add = |(name, _, labels): Described, values: [Option<&str>; 4], value: f64| {
            // Without a task there is no such label.
            let labels = labels.iter().zip(values).filter_map(|(label, value)| Some((*label, value?)));
            let (labels, values): (Vec<_>, Vec<_>) = labels.unzip();
            families.add(name, &labels, &values, value);
        };
        add(VERDICT_FAMILIES[0], [Some(run), Some(split), task, Some(verdict.state.id())], 1.0);
        if let Some(one) = &verdict.deciding {
            add(VERDICT_FAMILIES[1], [Some(run), Some(&one.score), Some(split), task], one.value);
        }
    }
    families.described(VERDICT_FAMILIES.map(|(name, help, _)| (name, help)))
}
