//! One rule's memory of one run: what it saw, how often in a row, and where it stands.

use serde::Serialize;

use crate::point::Point;

use super::discoveries::{discoveries, upper_tail};
use super::rise::{Phase, Reading, Rise};
use super::rule::{Kind, Rule, Scope, Severity};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    #[default]
    Inactive,
    Pending,
    Firing,
}

impl State {
    pub fn name(self) -> &'static str {
        match self {
            Self::Inactive => "inactive",
            Self::Pending => "pending",
            Self::Firing => "firing",
        }
    }
}

/// Where a rule stands for one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Standing {
    pub state: State,
    /// Seconds since 1970-01-01 UTC at which this state began.
    pub since: f64,
    /// In words: value, limit, for how many evaluations.
    pub evidence: String,
    /// Step of the newest evaluation looked at.
    pub step: u64,
    /// Of the score or what else is judged, at that evaluation.
    pub value: Option<f64>,
    /// That a rise is measured from.
    pub baseline: Option<f64>,
    /// The rule's, or less where ties cast doubt on a rise.
    pub severity: Severity,
    /// Whether it advises to stop now.
    pub advises_stop: bool,
}

/// What an evaluation is to a rule.
struct Verdict {
    beyond: bool,
    /// Far enough inside the limit for an alert to end.
    back: bool,
    evidence: String,
    value: Option<f64>,
    baseline: Option<f64>,
}

/// Shares by which the mean tie fraction follows the newest, and by which N may change without another curve.
const FOLLOW_TIES: f64 = 0.2;
const SAME_ROWS: f64 = 0.01;

#[derive(Clone, Debug, Default)]
pub struct Watch {
    pub standing: Standing,
    /// N of the stretch that a rise is judged on.
    rows: u64,
    /// One of the score, or one for each concept or pair.
    rises: Vec<Rise>,
    /// Evaluations in a row beyond the limit, of the score or of each concept or pair.
    counts: Vec<u32>,
    ties: Option<f64>,
    seen: u32,
    cooldown: u32,
    fired_for: u32,
    /// A rise that began while ties jumped.
    doubtful: bool,
}

impl Watch {
    /// Looks at an evaluation of the rule's split; whether the state changed. `saturated`: ties have jumped.
    pub fn observe(&mut self, rule: &Rule, point: &Point, concepts: &[String], saturated: bool) -> bool {
        let Some(verdict) = self.judge(rule, point, concepts) else { return false };
        self.seen += 1;
        if self.seen <= rule.warm_up {
            self.counts.fill(0);
        }
        let before = self.standing.state;
        let count = self.counts.iter().copied().max().unwrap_or(0);
        let state = match before {
            State::Firing if verdict.back => {
                self.cooldown = rule.cooldown;
                State::Inactive
            }
            State::Firing => State::Firing,
            _ if self.seen <= rule.warm_up => State::Inactive,
            _ if self.cooldown > 0 => {
                self.cooldown -= 1;
                State::Inactive
            }
            _ if count == 0 => State::Inactive,
            _ if count < rule.evaluations => State::Pending,
            _ => State::Firing,
        };
        self.fired_for = if state == State::Firing { self.fired_for + 1 } else { 0 };
        if state == State::Firing && before != State::Firing {
            self.doubtful = saturated && matches!(rule.kind(), Kind::Rise { .. });
        }
        let doubt =
            if self.doubtful && state == State::Firing { "; ties jumped, so this may be no leakage" } else { "" };
        let waits = match state {
            State::Inactive if self.seen <= rule.warm_up => {
                format!(", evaluation {} of {} to warm up", self.seen, rule.warm_up)
            }
            _ => format!(", {count} of {} evaluations", rule.evaluations),
        };
        self.standing.step = point.step;
        self.standing.value = verdict.value;
        self.standing.baseline = verdict.baseline;
        self.standing.evidence = format!("{}{waits}{doubt}", verdict.evidence);
        self.settle(rule, state, point.time) || before != state
    }

    /// Goes to a state for a reason that is no evaluation; whether that is a change.
    pub fn turn(&mut self, rule: &Rule, state: State, time: f64, evidence: String) -> bool {
        if self.standing.state == state {
            return false;
        }
        self.standing.evidence = evidence;
        self.settle(rule, state, time)
    }

    /// Forgets all it saw, as of a run that went back; whether an alert or a suspicion ends by it.
    pub fn restart(&mut self, rule: &Rule, time: f64) -> bool {
        let changed = self.turn(rule, State::Inactive, time, String::new());
        *self = Self { standing: std::mem::take(&mut self.standing), ..Self::default() };
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
        let waited = self.fired_for > rule.patience;
        self.standing.advises_stop = firing && rule.advise_stop && waited && !self.doubtful;
        changed
    }

    /// `None` where the evaluation is no evidence: it changes nothing.
    fn judge(&mut self, rule: &Rule, point: &Point, concepts: &[String]) -> Option<Verdict> {
        match rule.kind() {
            Kind::Threshold { above, below } => self.threshold(rule, point, concepts, (above, below)),
            Kind::Rise { by } => self.rise(rule, point, concepts, by),
            Kind::FewRows { rows } => {
                let beyond = point.rows < rows;
                self.count(0, 1, beyond);
                let evidence =
                    format!("{} rows, {} {rows}", point.rows, if beyond { "fewer than" } else { "at least" });
                let back = point.rows as f64 >= rows as f64 + rule.hysteresis;
                Some(Verdict { beyond, back, evidence, value: Some(point.rows as f64), baseline: None })
            }
            Kind::Saturated { by } => {
                let usual = *self.ties.get_or_insert(point.tie_fraction);
                let jump = point.tie_fraction - usual;
                self.ties = Some(usual + FOLLOW_TIES * jump);
                let beyond = jump > by;
                self.count(0, 1, beyond);
                let evidence = format!("the tie fraction is {:.3}, lately {usual:.3}", point.tie_fraction);
                let back = jump <= by - rule.hysteresis;
                Some(Verdict { beyond, back, evidence, value: Some(point.tie_fraction), baseline: Some(usual) })
            }
            Kind::Stale { .. } => None,
        }
        .inspect(|verdict| debug_assert!(!(verdict.beyond && verdict.back)))
    }

    fn threshold(
        &mut self,
        rule: &Rule,
        point: &Point,
        concepts: &[String],
        (above, below): (Option<f64>, Option<f64>),
    ) -> Option<Verdict> {
        // How far a value is beyond the limits: positive outside.
        let beyond_by = |value: f64| {
            let over = above.map_or(f64::NEG_INFINITY, |limit| value - limit);
            over.max(below.map_or(f64::NEG_INFINITY, |limit| limit - value))
        };
        let limit = |value: f64| match (above, below) {
            (Some(limit), _) if value > limit => format!("above {limit}"),
            (_, Some(limit)) if value < limit => format!("below {limit}"),
            _ => "within its limits".to_owned(),
        };
        if rule.scope == Scope::Run {
            let value = point.score(&rule.score)?.value()?.value;
            let by = beyond_by(value);
            self.count(0, 1, by > 0.0);
            let evidence = format!("{} is {value:.4}, {}", rule.score, limit(value));
            let back = by <= -rule.hysteresis && by <= 0.0;
            return Some(Verdict { beyond: by > 0.0, back, evidence, value: Some(value), baseline: None });
        }
        let members = Members::of(rule, point, concepts)?;
        let p_value = |value: &Option<f64>| {
            let by = beyond_by((*value)?);
            Some(match members.error {
                Some(error) if error > 0.0 => upper_tail(by / error),
                _ => f64::from(u8::from(by <= 0.0)),
            })
        };
        let p_values: Vec<Option<f64>> = members.values.iter().map(p_value).collect();
        let found = discoveries(&p_values, rule.false_discovery_rate());
        let worst = members.values.iter().flatten().map(|value| beyond_by(*value)).fold(f64::NEG_INFINITY, f64::max);
        let back = found.is_empty() && worst <= -rule.hysteresis;
        let what = |at: usize| format!("{} {:.4}", members.name(at), members.values[at].unwrap_or_default());
        Some(self.of_members(&members, &found, back, what, "beyond the limit"))
    }

    fn rise(&mut self, rule: &Rule, point: &Point, concepts: &[String], by: f64) -> Option<Verdict> {
        let same_rows = point.rows.abs_diff(self.rows) as f64 <= SAME_ROWS * self.rows as f64;
        if self.rows > 0 && !same_rows {
            // A pass that broke off is no new stretch of the curve.
            if point.incomplete {
                return None;
            }
            self.rises.clear();
        }
        let phase = match self.standing.state {
            State::Firing => Phase::Hold,
            _ if self.seen < rule.warm_up => Phase::Learn,
            _ => Phase::Judge,
        };
        // From a negative baseline, what comes up to 0 is no leakage yet.
        let over = |value: f64, reading: &Reading| value - reading.baseline.max(0.0);
        if rule.scope == Scope::Run {
            let value = point.score(&rule.score)?.value()?;
            let unpaired = value.standard_error.map(|error| error * std::f64::consts::SQRT_2);
            let error = point.change_error(&rule.score).or(unpaired);
            let began_anew = self.begin(point.rows, 1);
            let reading = self.rises[0].observe(value.value, error, phase);
            let beyond = reading.is_some_and(|reading| reading.rises && over(value.value, &reading) > by);
            self.count(0, 1, beyond);
            let (evidence, back) = match &reading {
                Some(r) => {
                    let evidence = format!(
                        "{} is {:.4}, its baseline {:.4}: {:.1} errors of {:.4}",
                        rule.score, value.value, r.baseline, r.z, r.error
                    );
                    (evidence, over(value.value, r) <= by - rule.hysteresis)
                }
                None if began_anew => (format!("{} is judged anew from {} rows on", rule.score, point.rows), true),
                None => (format!("{} is {:.4}, its baseline is being learnt", rule.score, value.value), true),
            };
            let baseline = Some(self.rises[0].baseline());
            return Some(Verdict { beyond, back: back && !beyond, evidence, value: Some(value.value), baseline });
        }
        let members = Members::of(rule, point, concepts)?;
        self.begin(point.rows, members.values.len());
        let error = members.error.map(|error| error * std::f64::consts::SQRT_2);
        let readings: Vec<Option<(f64, Reading)>> = (self.rises.iter_mut().zip(&members.values))
            .map(|(rise, value)| Some(((*value)?, rise.observe((*value)?, error, phase)?)))
            .collect();
        let p_value = |read: &Option<(f64, Reading)>| {
            let (value, reading) = read.as_ref()?;
            Some(if over(*value, reading) > by { upper_tail(reading.two_in_a_row) } else { 1.0 })
        };
        let p_values: Vec<Option<f64>> = readings.iter().map(p_value).collect();
        let found = discoveries(&p_values, rule.false_discovery_rate());
        let worst = readings.iter().flatten().map(|(value, r)| over(*value, r)).fold(f64::NEG_INFINITY, f64::max);
        let back = found.is_empty() && worst <= by - rule.hysteresis;
        let what = |at: usize| match &readings[at] {
            Some((value, r)) => format!("{} {value:.4}, from {:.4}", members.name(at), r.baseline),
            None => members.name(at),
        };
        Some(self.of_members(&members, &found, back, what, "risen"))
    }

    /// One test for each of `members`, new where N or their number changed; whether it did so after an earlier stretch.
    fn begin(&mut self, rows: u64, members: usize) -> bool {
        let anew = self.rises.len() != members && self.rows > 0;
        if self.rises.len() != members {
            self.rises = vec![Rise::default(); members];
            self.rows = rows;
        }
        anew
    }

    fn count(&mut self, at: usize, of: usize, beyond: bool) {
        self.counts.resize(of, 0);
        self.counts[at] = if beyond { self.counts[at] + 1 } else { 0 };
    }

    fn of_members(
        &mut self,
        members: &Members,
        found: &[usize],
        back: bool,
        what: impl Fn(usize) -> String,
        verb: &str,
    ) -> Verdict {
        /// Named in the evidence.
        const NAMED: usize = 3;
        let all = members.values.len();
        for at in 0..all {
            self.count(at, all, found.contains(&at));
        }
        let mut named: Vec<String> = found.iter().take(NAMED).map(|&at| what(at)).collect();
        if found.len() > NAMED {
            named.push(format!("and {} more", found.len() - NAMED));
        }
        let list = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
        let evidence = format!("{} of {all} {} {verb}{list}", found.len(), members.kind);
        let value = found.first().and_then(|&at| members.values[at]);
        Verdict { beyond: !found.is_empty(), back, evidence, value, baseline: None }
    }
}

/// A score's values for each concept or pair.
struct Members<'p> {
    values: Vec<Option<f64>>,
    /// Standard error of one of them: that of their mean times √(their number), as if each erred on its own.
    error: Option<f64>,
    /// Row and column of each pair; empty for concepts.
    places: Vec<(usize, usize)>,
    concepts: &'p [String],
    kind: &'static str,
}

impl<'p> Members<'p> {
    fn of(rule: &Rule, point: &Point, concepts: &'p [String]) -> Option<Self> {
        let outcome = point.score(&rule.score)?;
        let (values, places, kind) = match rule.scope {
            Scope::Pair => {
                let matrix = outcome.matrix()?;
                let cell = |i: usize, j: usize| matrix.get(i).and_then(|row| row.get(j)).copied().flatten();
                let k = matrix.len();
                let symmetric = (0..k).all(|i| (0..i).all(|j| cell(i, j) == cell(j, i)));
                let pairs = (0..k).flat_map(|i| (0..k).map(move |j| (i, j)));
                let places: Vec<_> = pairs.filter(|(i, j)| if symmetric { i < j } else { i != j }).collect();
                (places.iter().map(|&(i, j)| cell(i, j)).collect(), places, "pairs")
            }
            _ => (outcome.per_concept()?.to_vec(), Vec::new(), "concepts"),
        };
        let mean_error = outcome.value().and_then(|value| value.standard_error);
        let error = mean_error.map(|error: f64| error * (values.len() as f64).sqrt());
        Some(Self { values, error, places, concepts, kind })
    }

    fn name(&self, at: usize) -> String {
        let name = |i: usize| self.concepts.get(i).cloned().unwrap_or_else(|| format!("concept {i}"));
        match self.places.get(at) {
            Some(&(i, j)) => format!("'{}' with '{}'", name(i), name(j)),
            None => format!("'{}'", name(at)),
        }
    }
}
