//! The order of the jobs that wait: which goes next, and when it may.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Schedule, SplitKey, seconds};

/// Shorter jobs count as this long: what starting one takes.
const LEAST: Duration = Duration::from_millis(1);

/// A split with work.
pub(super) struct Waiting<'a> {
    pub key: &'a SplitKey,
    pub due: Duration,
    /// CPU time that its next job is expected to take; zero where unknown.
    pub cost: Duration,
    /// The time from which on the run waits: when the job was due or the run's last one started.
    since: Duration,
}

impl<P> Schedule<P> {
    /// Every split with work.
    pub(super) fn waits(&self) -> impl Iterator<Item = Waiting<'_>> {
        self.due_times().map(|(key, due)| {
            let since = self.started.get(&key.run).map_or(due, |&started| started.max(due));
            Waiting { key, due, cost: self.cost(key), since }
        })
    }

    /// CPU time that the next job of a split is expected to take; zero where unknown.
    pub(super) fn cost(&self, key: &SplitKey) -> Duration {
        match self.lines.get(key).filter(|line| line.len() > 0) {
            Some(line) => line.cost(self.scale),
            None => self.rolling.get(key).map_or(Duration::ZERO, |rolling| rolling.cost),
        }
    }

    /// From when on a job may start: once the share has paid for the CPU time of earlier jobs, or the job has waited until an
    /// equal part of the share has paid for itself.
    pub(super) fn payable(&self) -> impl Fn(&Waiting) -> Duration {
        let waiting = self.due_times().map(|(key, _)| &*key.run);
        let runs: BTreeSet<&str> = waiting.chain(self.in_flight.iter().map(|job| &*job.key.run)).collect();
        let part = self.account.share() / runs.len().max(1) as f64;
        let all = self.free_at();
        move |waiting| match waiting.cost.is_zero() {
            true => all,
            false => all.min(waiting.since.saturating_add(seconds(waiting.cost.as_secs_f64() / part))),
        }
    }

    /// The job that goes next among those that are due, payable and `wanted`. Of a run that is the one that is due longest;
    /// of all runs the one with the longest wait for each second that its job is expected to take.
    pub(super) fn next(&self, now: Duration, wanted: impl Fn(&Waiting) -> bool) -> Option<SplitKey> {
        let mut runs: BTreeMap<&str, Waiting> = BTreeMap::new();
        let payable = self.payable();
        let may_start = |waiting: &Waiting| waiting.due <= now && wanted(waiting) && payable(waiting) <= now;
        for waiting in self.waits().filter(may_start) {
            match runs.get(&*waiting.key.run) {
                Some(known) if (known.due, known.key) <= (waiting.due, waiting.key) => {}
                _ => drop(runs.insert(&waiting.key.run, waiting)),
            }
        }
        let age = |waiting: &Waiting| now.saturating_sub(waiting.since).div_duration_f64(waiting.cost.max(LEAST));
        let first = runs.into_values().min_by(|a, b| age(b).total_cmp(&age(a)).then(a.due.cmp(&b.due)));
        first.map(|waiting| waiting.key.clone())
    }
}
