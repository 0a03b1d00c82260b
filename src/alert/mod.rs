//! Alert rules on curve points: pure state machines, one for each rule and run.
//!
//! A rule compares a score with a threshold. It is *pending* from the first point beyond it and *firing* once that many
//! evaluations in a row were; one point on the right side makes it *inactive* again. Provisional points and undefined
//! scores are no evidence: they change nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::point::Point;
use crate::run::check_name;

/// A threshold on a score.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique among the rules.
    pub name: String,
    /// Catalogue id.
    pub score: String,
    #[serde(default = "Rule::default_split")]
    pub split: String,
    /// The score is too high above this.
    pub above: Option<f64>,
    /// The score is too low below this.
    pub below: Option<f64>,
    /// Evaluations in a row that must be beyond the threshold, at least 1.
    #[serde(default = "Rule::default_evaluations")]
    pub evaluations: u32,
    /// Whether training is advised to stop while it fires.
    #[serde(default)]
    pub advise_stop: bool,
}

impl Rule {
    fn default_split() -> String {
        "val".into()
    }

    fn default_evaluations() -> u32 {
        1
    }

    /// How `value` is beyond the threshold, in words.
    fn breach(&self, value: f64) -> Option<String> {
        if let Some(limit) = self.above.filter(|limit| value > *limit) {
            return Some(format!("{} is {value:.4}, above {limit}", self.score));
        }
        self.below.filter(|limit| value < *limit).map(|limit| format!("{} is {value:.4}, below {limit}", self.score))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Inactive,
    Pending,
    Firing,
}

/// A rule's state for one run.
#[derive(Clone, Debug, PartialEq)]
pub struct Standing {
    pub state: State,
    /// Seconds since 1970-01-01 UTC at which this state began.
    pub since: f64,
    /// In words: value, threshold, for how many evaluations.
    pub evidence: String,
    /// Step of the newest evaluation looked at.
    pub step: u64,
    breaches: u32,
}

/// A rule changed its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    pub rule: String,
    pub run: Arc<str>,
    pub split: Arc<str>,
    pub score: String,
    pub standing: Standing,
}

/// All rules and where they stand.
#[derive(Clone, Debug)]
pub struct Alerts {
    rules: Vec<Rule>,
    standings: BTreeMap<(usize, Arc<str>), Standing>,
}

impl Alerts {
    /// Errors naming the rule and key at fault. `known` tells whether a score id exists.
    pub fn new(rules: Vec<Rule>, known: impl Fn(&str) -> bool) -> Result<Self, Fault> {
        for (at, rule) in rules.iter().enumerate() {
            let fault = |key: &str, message: String| Err(Fault::new(format!("alerts '{}' {key}", rule.name), message));
            check_name(&format!("alerts[{at}] name"), &rule.name)?;
            if rules[..at].iter().any(|earlier| earlier.name == rule.name) {
                return fault("name", "names two rules".into());
            }
            check_name(&format!("alerts '{}' split", rule.name), &rule.split)?;
            if !known(&rule.score) {
                return fault("score", format!("'{}' is no score of the catalogue", rule.score));
            }
            if rule.above.is_none() && rule.below.is_none() {
                return fault("above", "neither `above` nor `below` is given".into());
            }
            if rule.above.iter().chain(&rule.below).any(|limit| !limit.is_finite()) {
                return fault("above", "a threshold is no finite number".into());
            }
            if let (Some(above), Some(below)) = (rule.above, rule.below)
                && above < below
            {
                return fault("above", format!("{above} lies under `below` {below}: every value would be beyond one"));
            }
            if rule.evaluations == 0 {
                return fault("evaluations", "0 came, expected at least 1".into());
            }
        }
        Ok(Self { rules, standings: BTreeMap::new() })
    }

    /// Looks at a point; returns the rules that changed their state.
    pub fn observe(&mut self, point: &Point) -> Vec<Change> {
        if point.provisional {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (at, rule) in self.rules.iter().enumerate().filter(|(_, rule)| *rule.split == *point.split) {
            let Some(value) = point.score(&rule.score).and_then(|outcome| outcome.value()) else { continue };
            let key = (at, Arc::clone(&point.run));
            let standing = self.standings.entry(key).or_insert_with(|| Standing {
                state: State::Inactive,
                since: point.time,
                evidence: String::new(),
                step: point.step,
                breaches: 0,
            });
            let before = standing.state;
            let breach = rule.breach(value.value);
            standing.breaches = if breach.is_some() { standing.breaches + 1 } else { 0 };
            standing.state = match standing.breaches {
                0 => State::Inactive,
                n if n < rule.evaluations => State::Pending,
                _ => State::Firing,
            };
            standing.step = point.step;
            let what = breach.unwrap_or_else(|| format!("{} is {:.4}, within its limits", rule.score, value.value));
            standing.evidence = format!("{what}, {} of {} evaluations", standing.breaches, rule.evaluations);
            if standing.state != before {
                standing.since = point.time;
                changes.push(Change {
                    rule: rule.name.clone(),
                    run: Arc::clone(&point.run),
                    split: Arc::clone(&point.split),
                    score: rule.score.clone(),
                    standing: standing.clone(),
                });
            }
        }
        changes
    }

    /// Every rule and run that was looked at, with where it stands.
    pub fn standings(&self) -> impl Iterator<Item = (&Rule, &Arc<str>, &Standing)> {
        self.standings.iter().map(|((at, run), standing)| (&self.rules[*at], run, standing))
    }

    /// Splits whose evaluations advice rests on.
    pub fn advising_splits(&self) -> Vec<&str> {
        let mut splits: Vec<&str> =
            self.rules.iter().filter(|rule| rule.advise_stop).map(|rule| rule.split.as_str()).collect();
        splits.sort_unstable();
        splits.dedup();
        splits
    }

    /// The firing rules that advise stopping this run.
    pub fn reasons_to_stop<'a>(&'a self, run: &'a str) -> impl Iterator<Item = (&'a Rule, &'a Standing)> {
        self.standings()
            .filter(move |(rule, of, standing)| rule.advise_stop && ***of == *run && standing.state == State::Firing)
            .map(|(rule, _, standing)| (rule, standing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Outcome, ScoreValue};

    fn point(step: u64, icl: Option<f64>) -> Point {
        let outcome = match icl {
            Some(value) => Outcome::Value(ScoreValue { value, ..ScoreValue::default() }),
            None => Outcome::undefined("one class"),
        };
        Point { run: "r".into(), split: "val".into(), step, scores: vec![("icl".into(), outcome)], ..Point::default() }
    }

    fn rule(evaluations: u32) -> Rule {
        Rule {
            name: "leak".into(),
            score: "icl".into(),
            split: "val".into(),
            above: Some(0.2),
            below: None,
            evaluations,
            advise_stop: true,
        }
    }

    #[test]
    fn fires_after_so_many_breaches_in_a_row_and_ends_with_one_good_value() {
        let mut alerts = Alerts::new(vec![rule(2)], |_| true).unwrap();
        let mut states = Vec::new();
        for (step, icl) in
            [Some(0.1), Some(0.3), Some(0.1), Some(0.3), None, Some(0.3), Some(0.2)].into_iter().enumerate()
        {
            states.extend(alerts.observe(&point(step as u64, icl)).into_iter().map(|c| (step, c.standing.state)));
            assert_eq!(alerts.reasons_to_stop("r").count(), usize::from(step == 5), "step {step}");
        }
        use State::*;
        assert_eq!(states, [(1, Pending), (2, Inactive), (3, Pending), (5, Firing), (6, Inactive)]);
    }

    #[test]
    fn provisional_points_are_no_evidence() {
        let mut alerts = Alerts::new(vec![rule(1)], |_| true).unwrap();
        assert!(alerts.observe(&Point { provisional: true, ..point(1, Some(0.9)) }).is_empty());
    }

    #[test]
    fn faulty_rules_are_named() {
        let cases = [
            (Rule { evaluations: 0, ..rule(1) }, "evaluations"),
            (Rule { above: None, ..rule(1) }, "above"),
            (Rule { above: Some(f64::NAN), ..rule(1) }, "above"),
            (Rule { score: "nonsense".into(), ..rule(1) }, "score"),
        ];
        for (rule, key) in cases {
            let fault = Alerts::new(vec![rule], |id| id == "icl").unwrap_err();
            assert!(fault.field.contains("'leak'") && fault.field.ends_with(key), "{fault}");
        }
        assert!(Alerts::new(vec![rule(1), rule(1)], |_| true).unwrap_err().field.ends_with("name"));
    }
}
