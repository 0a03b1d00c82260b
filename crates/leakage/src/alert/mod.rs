//! Alert rules on curve points: pure state machines, one for each rule of a run.
//!
//! A rule is *pending* from the first evaluation beyond its limit and *firing* from the n-th in a row. It is *inactive*
//! again when the value is back far enough inside the limit, when the run goes back to an earlier step, or when the run
//! finishes. Provisional points, undefined scores and evaluations whose labels are in another order change nothing.
//!
//! `kinds/` has a file for each kind of rule, `watch` what all kinds share (counting, hysteresis, cooldown), `rule` and
//! `fields` the form in which rules are written, `watches` the tasks of a run, `shift` the test that distinguishes a rise from noise, and `set` what a
//! mean is over.

mod defaults;
mod defined_members;
mod fields;
mod kind;
mod kinds;
mod rule;
mod shift;
mod state;
mod target;
mod watch;
mod watches;

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

use watches::{SeenPoint, Watches};

/// A rule changed its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub rule: Arc<Rule>,
    pub standing: Standing,
}

/// All rules and where they stand for one run.
#[derive(Clone, Debug)]
pub struct Alerts {
    rules: Rules,
    judged: Judged,
    /// Seconds since 1970-01-01 UTC of the start or the newest resumption; `None` before the first.
    started: Option<f64>,
    finished: bool,
    /// Step and time of the newest evaluation of each split.
    newest: BTreeMap<Arc<str>, (u64, f64)>,
    /// One for each rule.
    watches: Vec<Watches>,
    /// The same, before the newest evaluation of each rule's split.
    before: Vec<Watches>,
}

/// The facts about a run, beside its points, that rules depend on.
#[derive(Clone, Debug, Default)]
pub struct Judged {
    concepts: Vec<String>,
    /// Names of several tasks; empty for one.
    tasks: Vec<String>,
    trained_without_task: bool,
    baseline: Option<Baseline>,
}

impl Judged {
    /// baseline: of the run's reference, where it has one.
    pub fn of(run: &Run, baseline: Option<Baseline>) -> Self {
        let concepts = run.concepts.iter().map(|concept| concept.name.clone()).collect();
        let tasks = Some(&run.tasks).filter(|tasks| tasks.len() > 1).into_iter().flatten();
        let tasks = tasks.map(|task| task.name.clone()).collect();
        Self { concepts, tasks, trained_without_task: !run.training.can_leak(), baseline }
    }

    /// The point as rules see it.
    fn seen<'p>(&self, point: &'p Point) -> Cow<'p, Point> {
        self.baseline.as_ref().map_or(Cow::Borrowed(point), |baseline| Cow::Owned(baseline.above(point)))
    }

    fn is_for(&self, rule: &Rule) -> bool {
        !(self.trained_without_task && rule.joint_only)
    }
}

impl Alerts {
    pub fn new(rules: Rules) -> Self {
        let watches: Vec<_> = rules.as_slice().iter().map(|rule| Watches::new(rule)).collect();
        let (judged, newest) = Default::default();
        Self { rules, judged, started: None, finished: false, newest, before: watches.clone(), watches }
    }

    /// The run started or resumed, at a time in seconds since 1970-01-01 UTC. Returns whether it had not before.
    pub fn start(&mut self, judged: Judged, time: f64) -> bool {
        self.judged = judged;
        self.finished = false;
        self.started.replace(time).is_none()
    }

    /// Judges a point; returns the rules that changed their state. Rules that read scores of [`Cost::Fast`] are left out where
    /// the point has none yet: they judge it once these [join it](Self::observe_late).
    pub fn observe(&mut self, point: &Point) -> Vec<Change> {
        // After its end a run has nobody left to warn, and an alert that began now would never end.
        if point.provisional || self.finished {
            return Vec::new();
        }
        let before = self.newest.insert(Arc::clone(&point.split), (point.step, point.time));
        let went_back = before.filter(|(step, _)| point.step < *step);
        let replaces = before.is_some_and(|(step, _)| point.step == step);
        let stood: Vec<_> = self.watches.iter().map(|watch| (watch.standing().state, watch.standing().since)).collect();
        let (rules, judged) = (self.rules.as_slice(), &self.judged);
        let mut changed = vec![false; rules.len()];
        let is_here = |&at: &usize| *rules[at].split == *point.split && judged.is_for(&rules[at]);
        let mut here: Vec<usize> = (0..rules.len()).filter(is_here).collect();
        let seen = judged.seen(point);
        let seen = SeenPoint::new(&seen, &judged.tasks);
        for &at in &here {
            let (rule, watch) = (&rules[at], &mut self.watches[at]);
            if went_back.is_some() {
                changed[at] |= watch.restart(rule, point.time);
            }
            // Only the newest evaluation of a step counts: the model is the same.
            match replaces {
                true => watch.clone_from(&self.before[at]),
                false => self.before[at].clone_from(watch),
            }
            if rule.judge.silence().is_some() {
                let why = format!("there is an evaluation at step {}", point.step);
                watch.standing_mut().step = point.step;
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
            let (rule, watch) = (&rules[at], &mut self.watches[at]);
            let ended = changed[at];
            if !(is_first && reads_fast(rule)) {
                changed[at] |= watch.observe(rule, &seen, &judged.concepts, doubt);
            }
            if let (true, State::Inactive, Some((step, _))) = (ended, watch.standing().state, went_back) {
                watch.standing_mut().evidence = format!("the run went back from step {step} to {}", point.step);
            }
            doubt |= rule.judge.casts_doubt() && watch.standing().state == State::Firing;
        }
        if replaces {
            for (at, (state, since)) in stood.into_iter().enumerate() {
                let standing = self.watches[at].standing_mut();
                changed[at] = standing.state != state;
                if !changed[at] {
                    standing.since = since;
                }
            }
        }
        self.changes(changed)
    }

    /// Judges a point that the scores `late` have joined, perhaps after a newer evaluation: only the rules on these scores, and
    /// those that waited for scores of [`Cost::Fast`], count it. Others note their exceptions. Returns the rules that changed
    /// their state.
    pub fn observe_late(&mut self, point: &Point, late: &[&str]) -> Vec<Change> {
        if self.finished {
            return Vec::new();
        }
        let (rules, judged) = (self.rules.as_slice(), &self.judged);
        let mut changed = vec![false; rules.len()];
        let is_here = |(_, rule): &(usize, &Arc<Rule>)| *rule.split == *point.split && judged.is_for(rule);
        let here = || rules.iter().enumerate().filter(is_here);
        let seen = judged.seen(point);
        let seen = SeenPoint::new(&seen, &judged.tasks);
        let doubts = |(at, rule): (usize, &Arc<Rule>)| {
            rule.judge.casts_doubt() && self.watches[at].standing().state == State::Firing
        };
        let doubt = here().any(doubts);
        let are_fast = late.iter().any(|id| is_fast(id));
        for (at, rule) in here() {
            let is_judged = late.contains(&rule.score()) || (are_fast && reads_fast(rule));
            if of_other_order(point).is_none() {
                changed[at] = match is_judged {
                    true => self.watches[at].observe(rule, &seen, &judged.concepts, doubt),
                    false => self.watches[at].excuse(rule, &seen, late),
                };
            }
        }
        self.changes(changed)
    }

    /// Looks at the clock, for rules on runs that have fallen silent.
    pub fn look(&mut self, time: f64) -> Vec<Change> {
        let Some(started) = self.started.filter(|_| !self.finished) else { return Vec::new() };
        let mut changed = vec![false; self.watches.len()];
        for (at, rule) in self.rules.as_slice().iter().enumerate() {
            let Some(seconds) = rule.judge.silence() else { continue };
            let newest = self.newest.get(&*rule.split).map_or(started, |(_, time)| time.max(started));
            if time - newest > seconds {
                let why = format!("no evaluation of '{}' for more than {seconds} s", rule.split);
                changed[at] = self.watches[at].turn(rule, State::Firing, time, why);
            }
        }
        self.changes(changed)
    }

    /// Ends whatever is pending or firing: the run finished, or was removed from memory, as `why` says. No point changes a
    /// state until the run resumes.
    pub fn end(&mut self, why: &str, time: f64) -> Vec<Change> {
        self.finished = true;
        let ends = |(rule, watch): (&Arc<Rule>, &mut Watches)| {
            let why = format!("{why}; last: {}", watch.standing().evidence);
            watch.turn(rule, State::Inactive, time, why)
        };
        let changed = self.rules.as_slice().iter().zip(&mut self.watches).map(ends).collect();
        self.changes(changed)
    }

    fn changes(&self, changed: Vec<bool>) -> Vec<Change> {
        let of_all = self.standings().zip(changed).filter(|(_, changed)| *changed);
        of_all.map(|((rule, standing), _)| Change { rule: Arc::clone(rule), standing: standing.clone() }).collect()
    }

    /// Every rule, with where it stands.
    pub fn standings(&self) -> impl Iterator<Item = (&Arc<Rule>, &Standing)> {
        self.rules.as_slice().iter().zip(self.watches.iter().map(Watches::standing))
    }

    /// The rules that advise stopping the run now.
    pub fn reasons_to_stop(&self) -> impl Iterator<Item = (&Rule, &Standing)> {
        self.standings().filter(|(_, standing)| standing.advises_stop).map(|(rule, standing)| (&**rule, standing))
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
