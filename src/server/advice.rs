//! The alerts of a run and its stop advice: evaluates the rules on new points, has changes told, and derives the advice.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use leakage::alert::{Alerts, Change, Judged, Rule, Standing, State};
use leakage::lock::lock;
use leakage::point::Point;
use leakage::sample::Attempt;

use super::alert_log::AlertLog;
use super::live::AlertChange;

/// Answers kept for each run; few are enough, since all ranks ask about a step at almost the same time.
const KEPT: usize = 4096;
/// Newest points of each split that the rules evaluate again when a process takes up a run of an earlier one.
pub const RESTORED: usize = 200;

/// An answer to "should training stop?"
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub stop: bool,
    pub reason: String,
    /// Newest evaluation the answer rests on.
    pub decided_by_step: u64,
}

/// Advice to stop that some rank was given at a step for which another had no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub step: u64,
    pub reason: String,
}

/// Steps without an answer that a question may name.
pub const MOST_UNANSWERED: usize = 64;

/// The states of all alert rules for a run, and the stop advice already given.
pub struct Advice {
    run: Arc<str>,
    log: Arc<AlertLog>,
    state: Mutex<Given>,
}

struct Given {
    alerts: Alerts,
    decisions: BTreeMap<(Attempt, u64), Decision>,
    /// Step of the newest evaluation.
    newest: u64,
}

impl Advice {
    pub fn new(run: Arc<str>, log: Arc<AlertLog>) -> Self {
        let alerts = Alerts::new(log.rules.clone());
        let (decisions, newest) = Default::default();
        Self { run, log, state: Mutex::new(Given { alerts, decisions, newest }) }
    }

    /// Notes that the run started or resumed, at `time` in seconds since 1970-01-01 UTC. Returns whether it is new to this
    /// process.
    pub fn start(&self, judged: Judged, time: f64) -> bool {
        lock(&self.state).alerts.start(judged, time)
    }

    /// Notes that a newer attempt of the run begins: its advice depends on its own evaluations only.
    pub fn begin(&self) {
        lock(&self.state).newest = 0;
    }

    /// Replays points that an earlier process evaluated, oldest first. Watchers are not notified again. Receivers of alerts
    /// are notified of the alerts that still fire, because they will be notified of the resolution.
    pub fn restore(&self, points: &[Point]) {
        let mut given = lock(&self.state);
        for point in points {
            for Change { rule, standing } in given.observe(point) {
                self.log.keep(self.change_of(&rule, &standing));
            }
        }
        for (rule, standing) in given.alerts.standings().filter(|(_, standing)| standing.state == State::Firing) {
            self.log.tell_receivers(self.change_of(rule, standing));
        }
    }

    /// Evaluates the rules on a new point.
    pub fn observe(&self, point: &Point) {
        self.tell(|given| given.observe(point));
    }

    /// Evaluates the rules on the scores `late`, which have joined a point that was observed before.
    pub fn observe_late(&self, point: &Point, late: &[&str]) {
        self.tell(|given| given.alerts.observe_late(point, late));
    }

    /// Evaluates the rules that depend on time, at `time` in seconds since 1970-01-01 UTC.
    pub fn look(&self, time: f64) {
        self.tell(|given| given.alerts.look(time));
    }

    /// Ends the alerts, at `time` in seconds since 1970-01-01 UTC: the run finished, or was removed from memory, as `why`
    /// says. Receivers would otherwise keep them for ever.
    pub fn end(&self, why: &str, time: f64) {
        self.tell(|given| given.alerts.end(why, time));
    }

    /// Has the changes told. It holds the lock to keep them in order.
    fn tell(&self, look: impl FnOnce(&mut Given) -> Vec<Change>) {
        let mut given = lock(&self.state);
        for Change { rule, standing } in look(&mut given) {
            self.log.tell(self.change_of(&rule, &standing));
        }
    }

    /// Where each rule stands.
    pub fn standings(&self) -> Vec<AlertChange> {
        let given = lock(&self.state);
        given.alerts.standings().map(|(rule, standing)| self.change_of(rule, standing)).collect()
    }

    /// The newest of `steps` at which the attempt was advised to stop.
    pub fn missed(&self, attempt: Attempt, steps: &[u64]) -> Option<Missed> {
        let given = lock(&self.state);
        let stopped = |step: &u64| given.decisions.get(&(attempt, *step)).filter(|decision| decision.stop);
        let newest = steps.iter().filter(|step| stopped(step).is_some()).max()?;
        stopped(newest).map(|decision| Missed { step: *newest, reason: decision.reason.clone() })
    }

    /// The advice for an attempt at a step, of which the scores of the splits `late` are not known yet. The first answer is
    /// kept, so that all ranks get the same one. `looked_at`: the run has a split that rules which advise stopping look at.
    pub fn decide(&self, attempt: Attempt, step: u64, late: &[&str], looked_at: bool) -> Decision {
        let mut given = lock(&self.state);
        if let Some(decision) = given.decisions.get(&(attempt, step)) {
            return decision.clone();
        }
        let reasons: Vec<String> = given
            .alerts
            .reasons_to_stop()
            .map(|(rule, standing)| {
                let action = rule.action().map_or(String::new(), |action| format!(". {action}"));
                format!("{}: {}{action}", rule.name(), standing.evidence)
            })
            .collect();
        let splits: Vec<&str> = self.log.rules.advising_splits().into_iter().collect();
        let reason = match (reasons.is_empty(), splits.is_empty()) {
            (false, _) => reasons.iter().map(|why| why.trim_end_matches('.')).collect::<Vec<_>>().join("; "),
            (true, true) => "no rule advises stopping".to_owned(),
            (true, false) if !looked_at => {
                let splits = splits.join(", ");
                format!("no rule that advises stopping looks at a split of this run; the rules look at: {splits}")
            }
            (true, false) => "no rule that advises stopping fires".to_owned(),
        };
        let decided_by_step = given.newest;
        let reason = match late.is_empty() {
            // As where every row was refused.
            true if looked_at && decided_by_step < step && reasons.is_empty() => {
                let of_newest = if decided_by_step > 0 {
                    format!("; the newest are of step {decided_by_step}")
                } else {
                    String::new()
                };
                format!("{reason}; step {step} has no scores{of_newest}")
            }
            true => reason,
            false => {
                let splits = late.join(", ");
                format!("the scores of step {step} are late ({splits}); by those of step {decided_by_step}: {reason}")
            }
        };
        let decision = Decision { stop: !reasons.is_empty(), reason, decided_by_step };
        given.decisions.insert((attempt, step), decision.clone());
        if given.decisions.len() > KEPT {
            // Removes the lowest step of the oldest attempt: ranks ask in ascending order of steps.
            given.decisions.pop_first();
        }
        decision
    }

    fn change_of(&self, rule: &Rule, standing: &Standing) -> AlertChange {
        AlertChange {
            rule: rule.name().to_owned(),
            run: self.run.to_string(),
            split: rule.split().to_owned(),
            score: rule.score().to_owned(),
            state: standing.state,
            since: standing.since,
            evidence: standing.evidence.clone(),
            step: standing.step,
            severity: if standing.state == State::Firing { standing.severity } else { rule.severity() },
            advises_stop: standing.advises_stop,
            value: standing.value,
            baseline: standing.baseline,
            runbook: rule.runbook().map(str::to_owned),
        }
    }
}

impl Given {
    fn observe(&mut self, point: &Point) -> Vec<Change> {
        self.newest = point.step.max(self.newest);
        self.alerts.observe(point)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::events::{Bounds, Events};
    use crate::server::metrics::Metrics;
    use crate::server::notify::Notifier;
    use leakage::alert::default_rules;

    /// A receiver keeps a firing alert until it is resolved there.
    #[tokio::test]
    async fn each_alert_of_a_run_that_is_removed_is_over_and_none_fires_after_it() {
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let notifier = Notifier::start(crate::server::NotifyOptions::default(), String::new(), metrics);
        let log = Arc::new(AlertLog::new(default_rules(), Events::new(Bounds::default()), notifier));
        let advice = Advice::new("r".into(), Arc::clone(&log));
        assert!(advice.start(Judged::default(), 1.0) && !advice.start(Judged::default(), 1.0));
        let point = Point { run: "r".into(), split: "val".into(), ..Point::default() };
        advice.observe(&point);
        let changes = |state| -> Vec<_> {
            log.status(Vec::new()).changes.into_iter().filter(|change| change.state == state).collect()
        };
        let (firing, over) = (changes(State::Firing), changes(State::Inactive));
        assert!(!firing.is_empty() && over.is_empty(), "a sample without rows");
        advice.end("the run was removed from memory", 7.0);
        let over = changes(State::Inactive);
        for fired in &firing {
            let over = over.iter().find(|over| over.rule == fired.rule).unwrap();
            assert_eq!((over.since, &over.run), (7.0, &fired.run));
            assert!(over.evidence.starts_with("the run was removed from memory; last: "), "{}", over.evidence);
        }
        advice.observe(&point);
        advice.observe_late(&point, &["icl"]);
        advice.look(1e9);
        advice.end("the run was removed from memory", 8.0);
        assert_eq!((changes(State::Firing).len(), changes(State::Inactive).len()), (firing.len(), over.len()));
    }
}
