//! One rule's memory of one run: how often in a row it was beyond its limit, and where it stands.

use serde::Serialize;

use crate::point::Point;

use super::kind::{Pace, Seen, Verdict};
use super::kinds::Judging;
use super::rule::{Rule, Severity};
use super::state::State;

/// The state of a rule for one run, with its evidence.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    pub state: State,
    /// Seconds since 1970-01-01 UTC at which this state began.
    pub since: f64,
    /// The value, its limit and for how many evaluations, in words.
    pub evidence: String,
    /// Step of the newest evaluation judged.
    pub step: u64,
    /// The value of the score, or of what else is judged, at that evaluation.
    pub value: Option<f64>,
    /// The level that a rise is measured from.
    pub baseline: Option<f64>,
    /// The rule's severity, or a lower one while ties cast doubt on it.
    pub severity: Severity,
    /// Whether it advises to stop now.
    pub advises_stop: bool,
}

#[derive(Clone, Debug)]
pub struct Watch {
    pub standing: Standing,
    judging: Judging,
    /// Evaluations in a row beyond the limit, of the score or of each concept or pair.
    counts: Vec<u32>,
    seen: u32,
    cooldown: u32,
    fired_for: u32,
    /// The alert began while ties jumped.
    doubtful: bool,
}

impl Watch {
    pub fn new(rule: &Rule) -> Self {
        let (standing, judging) = (Standing::default(), rule.judge.begin());
        Self { standing, judging, counts: Vec::new(), seen: 0, cooldown: 0, fired_for: 0, doubtful: false }
    }

    /// Judges an evaluation of the rule's split; whether the state changed. `doubt`: another rule casts doubt on it.
    pub fn observe(&mut self, rule: &Rule, point: &Point, concepts: &[String], doubt: bool) -> bool {
        let (before, pace) = (self.standing.state, rule.judge.pace());
        let seen = Seen { point, concepts, state: before, warming_up: self.seen < pace.warm_up };
        let Some(verdict) = self.judging.judge(&seen) else { return false };
        debug_assert!(!(verdict.back && verdict.beyond.contains(&true)));
        self.seen += 1;
        self.count(&verdict.beyond, self.seen <= pace.warm_up);
        let count = self.counts.iter().copied().max().unwrap_or(0);
        let state = self.next(before, count, &verdict, pace);
        self.fired_for = if state == State::Firing { self.fired_for + 1 } else { 0 };
        if state == State::Firing && before != State::Firing {
            self.doubtful = doubt && rule.judge.is_doubted();
        }
        self.standing.evidence = verdict.evidence + &self.so_far(state, count, pace);
        self.standing.step = point.step;
        self.standing.value = verdict.value;
        self.standing.baseline = verdict.baseline;
        self.settle(rule, state, point.time) || before != state
    }

    /// Notes exceptions whose scores joined a point `late`; whether one that holds ends an alert or a suspicion.
    pub fn excuse(&mut self, rule: &Rule, point: &Point, late: &[&str]) -> bool {
        let Some(exception) = self.judging.excuse(point, late, self.standing.step) else { return false };
        self.counts.clear();
        self.fired_for = 0;
        let evidence = format!("{}; {exception}", self.standing.evidence);
        self.turn(rule, State::Inactive, point.time, evidence)
    }

    fn count(&mut self, beyond: &[bool], warming_up: bool) {
        self.counts.resize(beyond.len(), 0);
        for (count, beyond) in self.counts.iter_mut().zip(beyond) {
            *count = if *beyond && !warming_up { *count + 1 } else { 0 };
        }
    }

    fn next(&mut self, before: State, count: u32, verdict: &Verdict, pace: Pace) -> State {
        match before {
            State::Firing if verdict.back => {
                self.cooldown = pace.cooldown;
                State::Inactive
            }
            State::Firing => State::Firing,
            _ if self.seen <= pace.warm_up => State::Inactive,
            _ if self.cooldown > 0 => {
                self.cooldown -= 1;
                State::Inactive
            }
            _ if count == 0 => State::Inactive,
            _ if count < pace.evaluations => State::Pending,
            _ => State::Firing,
        }
    }

    /// For how many evaluations, in words that follow the verdict's.
    fn so_far(&self, state: State, count: u32, pace: Pace) -> String {
        let evaluations = match count {
            _ if state == State::Inactive && self.seen <= pace.warm_up => {
                format!(", evaluation {} of {} to warm up", self.seen, pace.warm_up)
            }
            0 if state == State::Firing => ", and not yet clearly back, so the alert goes on".to_owned(),
            0 => String::new(),
            count if count < pace.evaluations => format!(", {count} of {} evaluations", pace.evaluations),
            1 => ", for 1 evaluation".to_owned(),
            count => format!(", for {count} evaluations"),
        };
        match self.doubtful && state == State::Firing {
            true => evaluations + "; ties jumped, so this may not be leakage",
            false => evaluations,
        }
    }

    /// Goes to a state for a reason other than an evaluation; whether that is a change.
    pub fn turn(&mut self, rule: &Rule, state: State, time: f64, evidence: String) -> bool {
        if self.standing.state == state {
            return false;
        }
        self.standing.evidence = evidence;
        self.settle(rule, state, time)
    }

    /// Forgets all it saw, because the run went back to an earlier step; whether that ends an alert or a suspicion.
    pub fn restart(&mut self, rule: &Rule, time: f64) -> bool {
        let changed = self.turn(rule, State::Inactive, time, String::new());
        *self = Self { standing: std::mem::take(&mut self.standing), ..Self::new(rule) };
        changed
    }

    fn settle(&mut self, rule: &Rule, state: State, time: f64) -> bool {
        let changed = self.standing.state != state;
        if changed {
            self.standing.since = time;
        }
        let firing = state == State::Firing;
        self.standing.state = state;
        self.standing.severity =
            if self.doubtful && firing { rule.severity.min(Severity::Warning) } else { rule.severity };
        let patient = rule.stopping.is_some_and(|stopping| self.fired_for > stopping.patience);
        self.standing.advises_stop = firing && patient && !self.doubtful;
        changed
    }
}
