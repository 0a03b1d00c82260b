//! Alerts of the running sidecar, and the stop advice that follows from them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::alert::{Alerts, Change, State};
use crate::point::Point;

use super::live::AlertChange;
use super::runs::lock;

/// Answers kept of each run: ranks ask for a step within moments of each other.
const KEPT: usize = 4096;

/// An answer to "should training stop?"
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub stop: bool,
    pub reason: String,
    /// Newest evaluation the answer rests on.
    pub decided_by_step: u64,
}

/// The alerts, and the answers already given.
pub struct Advice {
    splits: Vec<String>,
    state: Mutex<Given>,
}

struct Given {
    alerts: Alerts,
    decisions: BTreeMap<(Arc<str>, u64), Decision>,
    newest: BTreeMap<Arc<str>, u64>,
}

impl Advice {
    pub fn new(alerts: Alerts) -> Self {
        let splits = alerts.advising_splits().into_iter().map(str::to_owned).collect();
        let given = Given { alerts, decisions: BTreeMap::new(), newest: BTreeMap::new() };
        Self { splits, state: Mutex::new(given) }
    }

    /// Splits whose evaluation of a step must be known before advice for it can be given.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.splits.iter().map(String::as_str)
    }

    /// Looks at a new point; returns what watchers should hear.
    pub fn observe(&self, point: &Point) -> Vec<AlertChange> {
        let mut given = lock(&self.state);
        let newest = given.newest.entry(Arc::clone(&point.run)).or_default();
        *newest = point.step.max(*newest);
        given.alerts.observe(point).into_iter().map(change).collect()
    }

    /// The answer for a step of a run. The first one given is kept, so that all ranks get the same.
    pub fn decide(&self, run: &Arc<str>, step: u64) -> Decision {
        let mut given = lock(&self.state);
        let key = (Arc::clone(run), step);
        if let Some(decision) = given.decisions.get(&key) {
            return decision.clone();
        }
        let reasons: Vec<String> = given
            .alerts
            .reasons_to_stop(run)
            .map(|(rule, standing)| format!("{}: {}", rule.name, standing.evidence))
            .collect();
        let reason = match (reasons.is_empty(), self.splits.is_empty()) {
            (false, _) => reasons.join("; "),
            (true, true) => "no rule advises stopping".to_owned(),
            (true, false) => "no rule that advises stopping fires".to_owned(),
        };
        let decided_by_step = given.newest.get(run).copied().unwrap_or_default();
        let decision = Decision { stop: !reasons.is_empty(), reason, decided_by_step };
        given.decisions.insert(key, decision.clone());
        if given.decisions.len() > KEPT {
            // The lowest step of the first run: answers are asked for in ascending steps.
            given.decisions.pop_first();
        }
        decision
    }
}

fn change(change: Change) -> AlertChange {
    AlertChange {
        rule: change.rule,
        run: change.run.to_string(),
        split: change.split.to_string(),
        score: change.score,
        state: match change.standing.state {
            State::Inactive => "inactive",
            State::Pending => "pending",
            State::Firing => "firing",
        },
        since: change.standing.since,
        evidence: change.standing.evidence,
        step: change.standing.step,
    }
}
