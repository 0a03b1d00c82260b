//! Alerts of the running sidecar: evaluates the rules on new points, notifies watchers and receivers of changes, and
//! derives the stop advice.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

use leakage::alert::{Alerts, Change, Judged, Rule, Standing, State};
use leakage::point::Point;
use leakage::sample::Attempt;

use super::events::Events;
use super::live::{AlertChange, AlertsStatus, Event};
use super::notify::Notifier;
use leakage::lock::lock;

/// Answers kept for each run; few are enough, since all ranks ask about a step at almost the same time.
const KEPT: usize = 4096;
/// Past changes kept for pages that are opened later.
const CHANGES: usize = 2000;
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

/// The state of all alert rules, and the stop advice already given.
pub struct Advice {
    splits: Vec<String>,
    events: Events,
    notifier: Notifier,
    state: Mutex<Given>,
}

struct Given {
    alerts: Alerts,
    decisions: BTreeMap<Arc<str>, BTreeMap<(Attempt, u64), Decision>>,
    newest: BTreeMap<Arc<str>, u64>,
    changes: VecDeque<Arc<AlertChange>>,
}

impl Advice {
    pub fn new(alerts: Alerts, events: Events, notifier: Notifier) -> Self {
        let splits = alerts.advising_splits().into_iter().map(str::to_owned).collect();
        let (decisions, newest, changes) = Default::default();
        Self { splits, events, notifier, state: Mutex::new(Given { alerts, decisions, newest, changes }) }
    }

    /// Splits whose evaluation of a step must be known before advice for it can be given.
    pub fn splits(&self) -> impl Iterator<Item = &str> {
        self.splits.iter().map(String::as_str)
    }

    /// Notes that a run started or resumed, at `time` in seconds since 1970-01-01 UTC. Returns whether it is new to this
    /// process.
    pub fn start(&self, run: &Arc<str>, judged: Judged, time: f64) -> bool {
        let mut given = lock(&self.state);
        let new = !given.alerts.knows(run);
        given.alerts.start(run, judged, time);
        new
    }

    /// Notes that a newer attempt of a run begins: its advice depends on its own evaluations only.
    pub fn begin(&self, run: &str) {
        lock(&self.state).newest.remove(run);
    }

    /// Splits that any rule evaluates.
    pub fn judged_splits(&self) -> Vec<String> {
        let given = lock(&self.state);
        let splits: BTreeSet<&str> = given.alerts.rules().iter().map(|rule| rule.split()).collect();
        splits.into_iter().map(str::to_owned).collect()
    }

    /// Replays the points of a run that an earlier process evaluated, oldest first. Watchers are not notified again.
    /// Receivers of alerts are notified of the alerts that still fire, because they will be notified of the resolution.
    pub fn restore(&self, run: &Arc<str>, points: &[Point]) {
        let mut given = lock(&self.state);
        for point in points {
            let newest = given.newest.entry(Arc::clone(run)).or_default();
            *newest = point.step.max(*newest);
            for Change { rule, run, standing } in given.alerts.observe(point) {
                given.keep(Arc::new(change_of(&rule, &run, &standing)));
            }
        }
        let firing = given.alerts.standings().filter(|(_, of, standing)| *of == run && standing.state == State::Firing);
        for (rule, run, standing) in firing {
            self.notifier.tell(Arc::new(change_of(rule, run, standing)));
        }
    }

    /// Evaluates the rules on a new point. One of a run that was forgotten while it was scored changes nothing: nobody
    /// would remove what it left.
    pub fn observe(&self, point: &Point) {
        self.tell(|given| {
            if !given.alerts.knows(&point.run) {
                return Vec::new();
            }
            let newest = given.newest.entry(Arc::clone(&point.run)).or_default();
            *newest = point.step.max(*newest);
            given.alerts.observe(point)
        });
    }

    /// Evaluates the rules on the scores `late`, which have joined a point that was observed before.
    pub fn observe_late(&self, point: &Point, late: &[&str]) {
        self.tell(|given| given.alerts.observe_late(point, late));
    }

    /// Evaluates the rules that depend on time, at `time` in seconds since 1970-01-01 UTC.
    pub fn look(&self, time: f64) {
        self.tell(|given| given.alerts.look(time));
    }

    /// Ends the alerts of a run that finished.
    pub fn finish(&self, run: &Arc<str>, time: f64) {
        self.tell(|given| given.alerts.finish(run, time));
    }

    /// Forgets a run, at `time` in seconds since 1970-01-01 UTC, and resolves its alerts at the receivers, which would
    /// otherwise keep them for ever.
    pub fn forget(&self, run: &str, time: f64) {
        self.tell(|given| {
            given.newest.remove(run);
            given.decisions.remove(run);
            given.alerts.forget(run, time)
        });
    }

    /// Sends the changes to watchers, the log and the receivers of alerts. It holds the lock to keep them in order, and
    /// never waits for a recipient.
    fn tell(&self, look: impl FnOnce(&mut Given) -> Vec<Change>) {
        let mut given = lock(&self.state);
        for Change { rule, run, standing } in look(&mut given) {
            let change = Arc::new(change_of(&rule, &run, &standing));
            tracing::info!(
                rule = %change.rule, run = %change.run, state = change.state.name(), evidence = %change.evidence, "alert"
            );
            given.keep(Arc::clone(&change));
            self.events.send(Event::Alert(Arc::clone(&change)));
            self.notifier.tell(change);
        }
    }

    pub fn status(&self) -> AlertsStatus {
        let given = lock(&self.state);
        AlertsStatus {
            rules: given.alerts.rules().to_vec(),
            standings: given.alerts.standings().map(|(rule, run, standing)| change_of(rule, run, standing)).collect(),
            changes: given.changes.iter().cloned().collect(),
            last_known: Vec::new(),
        }
    }

    /// The alerts of a run that have fired, each as when it fired last, by rule.
    pub fn fired(&self, run: &str) -> Vec<Arc<AlertChange>> {
        let given = lock(&self.state);
        let of_run = given.changes.iter().filter(|change| change.run == run && change.state == State::Firing);
        let newest: BTreeMap<_, _> = of_run.map(|change| ((&change.rule, &change.split), change)).collect();
        newest.into_values().cloned().collect()
    }

    /// The newest of `steps` at which the attempt was advised to stop.
    pub fn missed(&self, run: &str, attempt: Attempt, steps: &[u64]) -> Option<Missed> {
        let given = lock(&self.state);
        let of_run = given.decisions.get(run)?;
        let stopped = |step: &u64| of_run.get(&(attempt, *step)).filter(|decision| decision.stop);
        let newest = steps.iter().filter(|step| stopped(step).is_some()).max()?;
        stopped(newest).map(|decision| Missed { step: *newest, reason: decision.reason.clone() })
    }

    /// The advice for an attempt of a run at a step, of which the scores of the splits `late` are not known yet. The first
    /// answer is kept, so that all ranks get the same one.
    pub fn decide(&self, run: &Arc<str>, attempt: Attempt, step: u64, late: &[&str]) -> Decision {
        let mut given = lock(&self.state);
        if let Some(decision) = given.decisions.get(run).and_then(|of_run| of_run.get(&(attempt, step))) {
            return decision.clone();
        }
        let reasons: Vec<String> = given
            .alerts
            .reasons_to_stop(run)
            .map(|(rule, standing)| {
                let action = rule.action().map_or(String::new(), |action| format!(". {action}"));
                format!("{}: {}{action}", rule.name(), standing.evidence)
            })
            .collect();
        let reason = match (reasons.is_empty(), self.splits.is_empty()) {
            (false, _) => reasons.join("; "),
            (true, true) => "no rule advises stopping".to_owned(),
            (true, false) => "no rule that advises stopping fires".to_owned(),
        };
        let decided_by_step = given.newest.get(run).copied().unwrap_or_default();
        let reason = match late.is_empty() {
            true => reason,
            false => {
                let splits = late.join(", ");
                format!("the scores of step {step} are late ({splits}); by those of step {decided_by_step}: {reason}")
            }
        };
        let decision = Decision { stop: !reasons.is_empty(), reason, decided_by_step };
        given.answer(run, attempt, step, decision)
    }
}

impl Given {
    fn answer(&mut self, run: &Arc<str>, attempt: Attempt, step: u64, decision: Decision) -> Decision {
        let of_run = self.decisions.entry(Arc::clone(run)).or_default();
        let kept = of_run.entry((attempt, step)).or_insert(decision).clone();
        if of_run.len() > KEPT {
            // Removes the lowest step of the oldest attempt: ranks ask in ascending order of steps.
            of_run.pop_first();
        }
        kept
    }

    /// In the order of time, because what is restored is older than what was told since.
    fn keep(&mut self, change: Arc<AlertChange>) {
        let at = self.changes.partition_point(|kept| kept.since <= change.since);
        self.changes.insert(at, change);
        if self.changes.len() > CHANGES {
            self.changes.pop_front();
        }
    }
}

fn change_of(rule: &Rule, run: &str, standing: &Standing) -> AlertChange {
    AlertChange {
        rule: rule.name().to_owned(),
        run: run.to_owned(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::events::Bounds;
    use crate::server::metrics::Metrics;
    use leakage::alert::default_rules;

    fn advice() -> Advice {
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let notifier = Notifier::start(crate::server::NotifyOptions::default(), String::new(), metrics);
        Advice::new(Alerts::new(default_rules()), Events::new(Bounds::default()), notifier)
    }

    /// A receiver keeps a firing alert until it is resolved there.
    #[tokio::test]
    async fn each_alert_of_a_run_that_is_forgotten_is_over() {
        let (advice, run): (_, Arc<str>) = (advice(), "r".into());
        advice.start(&run, Judged::default(), 1.0);
        advice.observe(&Point { run: Arc::clone(&run), split: "val".into(), ..Point::default() });
        let changes =
            |state| -> Vec<_> { advice.status().changes.into_iter().filter(|change| change.state == state).collect() };
        let (firing, over) = (changes(State::Firing), changes(State::Inactive));
        assert!(!firing.is_empty() && over.is_empty(), "a sample without rows");
        advice.forget(&run, 7.0);
        let over = changes(State::Inactive);
        for fired in &firing {
            let over = over.iter().find(|over| over.rule == fired.rule).unwrap();
            assert_eq!((over.since, &over.run), (7.0, &fired.run));
            assert!(over.evidence.starts_with("the run was removed from memory; last: "), "{}", over.evidence);
        }
        advice.forget(&run, 8.0);
        assert_eq!(changes(State::Inactive).len(), over.len());
    }

    #[tokio::test]
    async fn a_point_that_comes_after_its_run_was_forgotten_leaves_nothing() {
        let advice = advice();
        let run: Arc<str> = "r".into();
        let point = Point { run: Arc::clone(&run), split: "val".into(), ..Point::default() };
        advice.start(&run, Judged::default(), 1.0);
        advice.observe(&point);
        assert!(!advice.status().standings.is_empty());
        assert_eq!(lock(&advice.state).newest.len(), 1);
        advice.forget(&run, 2.0);
        advice.observe(&point);
        assert!(advice.status().standings.is_empty());
        assert_eq!(lock(&advice.state).newest.len(), 0);
    }
}
