//! Alert rules on curve points: pure state machines, one for each rule and run.
//!
//! A rule is *pending* from the first evaluation beyond its limit and *firing* once so many in a row were; it is
//! *inactive* again when the value has come back far enough, when the run goes back to an earlier step, or when the run
//! finishes. Provisional points and undefined scores are no evidence: they change nothing.

mod defaults;
pub mod discoveries;
pub mod rise;
mod rule;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::point::Point;

pub use defaults::default_rules;
pub use rule::{Kind, Parts, Rule, RuleFault, Scope, Severity};
pub use watch::{Standing, State};

use watch::Watch;

/// A rule changed its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub rule: Arc<Rule>,
    pub run: Arc<str>,
    pub standing: Standing,
}

/// All rules and where they stand.
#[derive(Clone, Debug)]
pub struct Alerts {
    rules: Vec<Arc<Rule>>,
    runs: BTreeMap<Arc<str>, RunAlerts>,
}

#[derive(Clone, Debug, Default)]
struct RunAlerts {
    concepts: Arc<[String]>,
    /// Seconds since 1970-01-01 UTC of the start or the newest resumption.
    started: f64,
    finished: bool,
    /// Step and time of the newest evaluation of each split.
    newest: BTreeMap<Arc<str>, (u64, f64)>,
    /// One for each rule.
    watches: Vec<Watch>,
}

impl Alerts {
    /// Errors naming the rule and key at fault. `score` tells which parts a score of the catalogue has.
    pub fn new(rules: Vec<Rule>, score: impl Fn(&str) -> Option<Parts>) -> Result<Self, RuleFault> {
        for (at, rule) in rules.iter().enumerate() {
            rule.check(at, &score)?;
            if rules[..at].iter().any(|earlier| earlier.name == rule.name) {
                let (name, message) = (rule.name.clone(), "names two rules".to_owned());
                return Err(RuleFault { at, name, key: "name", message });
            }
        }
        Ok(Self { rules: rules.into_iter().map(Arc::new).collect(), runs: BTreeMap::new() })
    }

    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }

    /// A run started or came back, at a time in seconds since 1970-01-01 UTC.
    pub fn start(&mut self, run: &Arc<str>, concepts: Arc<[String]>, time: f64) {
        let watches = vec![Watch::default(); self.rules.len()];
        let fresh = || RunAlerts { watches, ..RunAlerts::default() };
        let known = self.runs.entry(Arc::clone(run)).or_insert_with(fresh);
        known.concepts = concepts;
        known.started = time;
        known.finished = false;
    }

    /// Looks at a point; returns the rules that changed their state.
    pub fn observe(&mut self, point: &Point) -> Vec<Change> {
        if point.provisional {
            return Vec::new();
        }
        if !self.runs.contains_key(&point.run) {
            self.start(&point.run, Arc::default(), point.time);
        }
        // What is scored after the end has nobody left to warn, and no end of its own.
        let Some(run) = self.runs.get_mut(&point.run).filter(|run| !run.finished) else { return Vec::new() };
        let before = run.newest.insert(Arc::clone(&point.split), (point.step, point.time));
        let went_back = before.filter(|(step, _)| point.step < *step);
        let mut changed = vec![false; self.rules.len()];
        let here: Vec<usize> = (0..self.rules.len()).filter(|&at| *self.rules[at].split == *point.split).collect();
        for &at in &here {
            let (rule, watch) = (&self.rules[at], &mut run.watches[at]);
            if went_back.is_some() {
                changed[at] |= watch.restart(rule, point.time);
            }
            if matches!(rule.kind(), Kind::Stale { .. }) {
                let why = format!("an evaluation came at step {}", point.step);
                watch.standing.step = point.step;
                changed[at] |= watch.turn(rule, State::Inactive, point.time, why);
            }
        }
        // What casts doubt on the others comes first.
        let is_doubt = |at: usize| matches!(self.rules[at].kind(), Kind::Saturated { .. });
        let mut saturated = false;
        for at in
            here.iter().copied().filter(|&at| is_doubt(at)).chain(here.iter().copied().filter(|&at| !is_doubt(at)))
        {
            let watch = &mut run.watches[at];
            let ended = changed[at];
            changed[at] |= watch.observe(&self.rules[at], point, &run.concepts, saturated);
            if let (true, State::Inactive, Some((step, _))) = (ended, watch.standing.state, went_back) {
                watch.standing.evidence = format!("the run went back from step {step} to {}", point.step);
            }
            saturated |= is_doubt(at) && watch.standing.state == State::Firing;
        }
        self.changes(&point.run, changed)
    }

    /// Looks at scores that came later than the others of their evaluation, perhaps after that of a newer one: only the
    /// rules on these scores see them. Returns the alerts that changed.
    pub fn observe_late(&mut self, point: &Point) -> Vec<Change> {
        let Some(run) = self.runs.get_mut(&point.run).filter(|run| !run.finished) else { return Vec::new() };
        let mut changed = vec![false; self.rules.len()];
        for (at, rule) in self.rules.iter().enumerate() {
            if *rule.split == *point.split && point.score(&rule.score).is_some() {
                changed[at] = run.watches[at].observe(rule, point, &run.concepts, false);
            }
        }
        self.changes(&point.run, changed)
    }

    /// Looks at the clock: rules on runs that have fallen silent.
    pub fn look(&mut self, time: f64) -> Vec<Change> {
        let mut all = Vec::new();
        for name in self.runs.keys().cloned().collect::<Vec<_>>() {
            let Some(run) = self.runs.get_mut(&name).filter(|run| !run.finished) else { continue };
            let mut changed = vec![false; self.rules.len()];
            for (at, rule) in self.rules.iter().enumerate() {
                let Kind::Stale { seconds } = rule.kind() else { continue };
                let newest = run.newest.get(&*rule.split).map_or(run.started, |(_, time)| time.max(run.started));
                if time - newest > seconds {
                    let why = format!("no evaluation of '{}' for more than {seconds} s", rule.split);
                    changed[at] = run.watches[at].turn(rule, State::Firing, time, why);
                }
            }
            all.extend(self.changes(&name, changed));
        }
        all
    }

    /// Ends whatever is pending or firing of a run that finished. Its states are kept until it is forgotten.
    pub fn finish(&mut self, name: &Arc<str>, time: f64) -> Vec<Change> {
        let Some(run) = self.runs.get_mut(name) else { return Vec::new() };
        run.finished = true;
        let ends = |(rule, watch): (&Arc<Rule>, &mut Watch)| {
            let why = format!("the run finished; last: {}", watch.standing.evidence);
            watch.turn(rule, State::Inactive, time, why)
        };
        let changed = self.rules.iter().zip(&mut run.watches).map(ends).collect();
        self.changes(name, changed)
    }

    pub fn forget(&mut self, run: &str) {
        self.runs.remove(run);
    }

    pub fn knows(&self, run: &str) -> bool {
        self.runs.contains_key(run)
    }

    fn changes(&self, name: &Arc<str>, changed: Vec<bool>) -> Vec<Change> {
        let Some(run) = self.runs.get(name) else { return Vec::new() };
        let change = |(at, _): (usize, bool)| Change {
            rule: Arc::clone(&self.rules[at]),
            run: Arc::clone(name),
            standing: run.watches[at].standing.clone(),
        };
        changed.into_iter().enumerate().filter(|(_, changed)| *changed).map(change).collect()
    }

    /// Every rule and run that has a state, with where it stands.
    pub fn standings(&self) -> impl Iterator<Item = (&Arc<Rule>, &Arc<str>, &Standing)> {
        self.runs.iter().flat_map(|(name, run)| {
            let of_run = self.rules.iter().zip(&run.watches);
            of_run.map(move |(rule, watch)| (rule, name, &watch.standing))
        })
    }

    /// Splits whose evaluations advice rests on.
    pub fn advising_splits(&self) -> Vec<&str> {
        let mut splits: Vec<&str> =
            self.rules.iter().filter(|rule| rule.advise_stop).map(|rule| rule.split.as_str()).collect();
        splits.sort_unstable();
        splits.dedup();
        splits
    }

    /// The rules that advise stopping this run now.
    pub fn reasons_to_stop<'a>(&'a self, run: &'a str) -> impl Iterator<Item = (&'a Rule, &'a Standing)> {
        let watches = self.runs.get(run).map_or(&[][..], |run| &run.watches);
        let stops = self.rules.iter().zip(watches).filter(|(_, watch)| watch.standing.advises_stop);
        stops.map(|(rule, watch)| (&**rule, &watch.standing))
    }
}

#[cfg(test)]
mod tests;
