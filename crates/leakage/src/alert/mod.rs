//! Alert rules on curve points: pure state machines, one for each rule and run.
//!
//! A rule is *pending* from the first evaluation beyond its limit and *firing* from the n-th in a row. It is *inactive*
//! again when the value is back far enough inside the limit, when the run goes back to an earlier step, or when the run
//! finishes. Provisional points, undefined scores and evaluations whose labels are in another order change nothing.
//!
//! `kinds/` has a file for each kind of rule, `watch` what all kinds share (counting, hysteresis, cooldown), `rule` and
//! `fields` the form in which rules are written, `shift` the test that distinguishes a rise from noise, and `set` what a
//! mean is over.

mod defaults;
mod defined_members;
pub mod false_discovery;
mod fields;
mod kind;
mod kinds;
mod rule;
mod shift;
mod state;
mod target;
mod watch;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::baseline::Baseline;
use crate::point::Point;
use crate::run::Run;
use crate::score::catalogue::{self, Cost};
use crate::score::of_other_order;

pub use defaults::default_rules;
pub use fields::Fields;
pub use kinds::Judge;
pub use rule::{Rule, RuleFault, Rules, Severity};
pub use state::State;
pub use watch::Standing;

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
    rules: Rules,
    runs: BTreeMap<Arc<str>, RunAlerts>,
}

/// The facts about a run, beside its points, that rules depend on.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    concepts: Vec<String>,
    trained_without_task: bool,
    baseline: Option<Baseline>,
}

impl Judged {
    /// baseline: of the run's reference, where it has one.
    pub fn of(run: &Run, baseline: Option<Baseline>) -> Self {
        let concepts = run.concepts.iter().map(|concept| concept.name.clone()).collect();
        Self { concepts, trained_without_task: !run.training.can_leak(), baseline }
    }

    /// The point as rules see it.
    fn seen<'p>(&self, point: &'p Point) -> Cow<'p, Point> {
        self.baseline.as_ref().map_or(Cow::Borrowed(point), |baseline| Cow::Owned(baseline.above(point)))
    }

    fn is_for(&self, rule: &Rule) -> bool {
        !(self.trained_without_task && rule.joint_only)
    }
}

#[derive(Clone, Debug)]
struct RunAlerts {
    judged: Arc<Judged>,
    /// Seconds since 1970-01-01 UTC of the start or the newest resumption.
    started: f64,
    finished: bool,
    /// Step and time of the newest evaluation of each split.
    newest: BTreeMap<Arc<str>, (u64, f64)>,
    /// One for each rule.
    watches: Vec<Watch>,
}

impl Alerts {
    pub fn new(rules: Rules) -> Self {
        Self { rules, runs: BTreeMap::new() }
    }

    pub fn rules(&self) -> &[Arc<Rule>] {
        self.rules.as_slice()
    }

    /// A run started or resumed, at a time in seconds since 1970-01-01 UTC.
    pub fn start(&mut self, run: &Arc<str>, judged: Judged, time: f64) {
        let judged = Arc::new(judged);
        let fresh = || RunAlerts {
            judged: Arc::clone(&judged),
            started: time,
            finished: false,
            newest: BTreeMap::new(),
            watches: self.rules.as_slice().iter().map(|rule| Watch::new(rule)).collect(),
        };
        let known = self.runs.entry(Arc::clone(run)).or_insert_with(fresh);
        known.judged = judged;
        known.started = time;
        known.finished = false;
    }

    /// Judges a point; returns the rules that changed their state. Rules that read scores of [`Cost::Fast`] are left out where
    /// the point has none yet: they judge it once these [join it](Self::observe_late).
    pub fn observe(&mut self, point: &Point) -> Vec<Change> {
        if point.provisional {
            return Vec::new();
        }
        if !self.runs.contains_key(&point.run) {
            self.start(&point.run, Judged::default(), point.time);
        }
        // After its end a run has nobody left to warn, and an alert that began now would never end.
        let Some(run) = self.runs.get_mut(&point.run).filter(|run| !run.finished) else { return Vec::new() };
        let before = run.newest.insert(Arc::clone(&point.split), (point.step, point.time));
        let went_back = before.filter(|(step, _)| point.step < *step);
        let rules = self.rules.as_slice();
        let mut changed = vec![false; rules.len()];
        let judged = Arc::clone(&run.judged);
        let is_here = |&at: &usize| *rules[at].split == *point.split && judged.is_for(&rules[at]);
        let mut here: Vec<usize> = (0..rules.len()).filter(is_here).collect();
        let seen = judged.seen(point);
        for &at in &here {
            let (rule, watch) = (&rules[at], &mut run.watches[at]);
            if went_back.is_some() {
                changed[at] |= watch.restart(rule, point.time);
            }
            if rule.judge.silence().is_some() {
                let why = format!("there is an evaluation at step {}", point.step);
                watch.standing.step = point.step;
                changed[at] |= watch.turn(rule, State::Inactive, point.time, why);
            }
        }
        if of_other_order(point).is_some() {
            // Its scores say nothing of leakage.
            here.clear();
        }
        // Rules that cast doubt on the others are judged first; the sort is stable.
        here.sort_by_key(|&at| !rules[at].judge.casts_doubt());
        let mut doubt = false;
        let is_first = !point.scores.iter().any(|(id, _)| is_fast(id));
        for at in here {
            let (rule, watch) = (&rules[at], &mut run.watches[at]);
            let ended = changed[at];
            if !(is_first && reads_fast(rule)) {
                changed[at] |= watch.observe(rule, &seen, &judged.concepts, doubt);
            }
            if let (true, State::Inactive, Some((step, _))) = (ended, watch.standing.state, went_back) {
                watch.standing.evidence = format!("the run went back from step {step} to {}", point.step);
            }
            doubt |= rule.judge.casts_doubt() && watch.standing.state == State::Firing;
        }
        self.changes(&point.run, changed)
    }

    /// Judges a point that the scores `late` have joined, perhaps after a newer evaluation: only the rules on these scores, and
    /// those that waited for scores of [`Cost::Fast`], see it. Returns the rules that changed their state.
    pub fn observe_late(&mut self, point: &Point, late: &[&str]) -> Vec<Change> {
        let Some(run) = self.runs.get_mut(&point.run).filter(|run| !run.finished) else { return Vec::new() };
        let rules = self.rules.as_slice();
        let mut changed = vec![false; rules.len()];
        let judged = Arc::clone(&run.judged);
        let is_here = |(_, rule): &(usize, &Arc<Rule>)| *rule.split == *point.split && judged.is_for(rule);
        let here = || rules.iter().enumerate().filter(is_here);
        let seen = judged.seen(point);
        let doubts = |(at, rule): (usize, &Arc<Rule>)| {
            rule.judge.casts_doubt() && run.watches[at].standing.state == State::Firing
        };
        let doubt = here().any(doubts);
        let are_fast = late.iter().any(|id| is_fast(id));
        for (at, rule) in here() {
            let is_judged = late.contains(&rule.score()) || (are_fast && reads_fast(rule));
            if is_judged && of_other_order(point).is_none() {
                changed[at] = run.watches[at].observe(rule, &seen, &judged.concepts, doubt);
            }
        }
        self.changes(&point.run, changed)
    }

    /// Looks at the clock, for rules on runs that have fallen silent.
    pub fn look(&mut self, time: f64) -> Vec<Change> {
        let mut all = Vec::new();
        for name in self.runs.keys().cloned().collect::<Vec<_>>() {
            let Some(run) = self.runs.get_mut(&name).filter(|run| !run.finished) else { continue };
            let mut changed = vec![false; self.rules.as_slice().len()];
            for (at, rule) in self.rules.as_slice().iter().enumerate() {
                let Some(seconds) = rule.judge.silence() else { continue };
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
    pub fn finish(&mut self, name: &str, time: f64) -> Vec<Change> {
        self.end(name, time, "the run finished")
    }

    /// Forgets a run that was removed from memory. Its pending and firing alerts end, because nothing would end them later.
    pub fn forget(&mut self, name: &str, time: f64) -> Vec<Change> {
        let changes = self.end(name, time, "the run was removed from memory");
        self.runs.remove(name);
        changes
    }

    fn end(&mut self, name: &str, time: f64, why: &str) -> Vec<Change> {
        let Some((name, _)) = self.runs.get_key_value(name) else { return Vec::new() };
        let name = Arc::clone(name);
        let Some(run) = self.runs.get_mut(&name) else { return Vec::new() };
        run.finished = true;
        let ends = |(rule, watch): (&Arc<Rule>, &mut Watch)| {
            let why = format!("{why}; last: {}", watch.standing.evidence);
            watch.turn(rule, State::Inactive, time, why)
        };
        let changed = self.rules.as_slice().iter().zip(&mut run.watches).map(ends).collect();
        self.changes(&name, changed)
    }

    pub fn knows(&self, run: &str) -> bool {
        self.runs.contains_key(run)
    }

    fn changes(&self, name: &Arc<str>, changed: Vec<bool>) -> Vec<Change> {
        let Some(run) = self.runs.get(name) else { return Vec::new() };
        let change = |(at, _): (usize, bool)| Change {
            rule: Arc::clone(&self.rules.as_slice()[at]),
            run: Arc::clone(name),
            standing: run.watches[at].standing.clone(),
        };
        changed.into_iter().enumerate().filter(|(_, changed)| *changed).map(change).collect()
    }

    /// Every rule and run that has a state, with where it stands.
    pub fn standings(&self) -> impl Iterator<Item = (&Arc<Rule>, &Arc<str>, &Standing)> {
        self.runs.iter().flat_map(|(name, run)| {
            let of_run = self.rules.as_slice().iter().zip(&run.watches);
            of_run.map(move |(rule, watch)| (rule, name, &watch.standing))
        })
    }

    /// Splits whose evaluations advice rests on.
    pub fn advising_splits(&self) -> Vec<&str> {
        let mut splits: Vec<&str> =
            self.rules.as_slice().iter().filter(|rule| rule.advises_stop()).map(|rule| rule.split.as_str()).collect();
        splits.sort_unstable();
        splits.dedup();
        splits
    }

    /// The rules that advise stopping this run now.
    pub fn reasons_to_stop<'a>(&'a self, run: &'a str) -> impl Iterator<Item = (&'a Rule, &'a Standing)> {
        let watches = self.runs.get(run).map_or(&[][..], |run| &run.watches);
        let stops = self.rules.as_slice().iter().zip(watches).filter(|(_, watch)| watch.standing.advises_stop);
        stops.map(|(rule, watch)| (&**rule, &watch.standing))
    }
}

/// Whether a score joins the points of wide samples after the cheap ones.
fn is_fast(id: &str) -> bool {
    catalogue::find(id).is_some_and(|score| score.cost == Cost::Fast)
}

fn reads_fast(rule: &Rule) -> bool {
    rule.judge.reads().into_iter().any(is_fast)
}

#[cfg(test)]
mod tests;
