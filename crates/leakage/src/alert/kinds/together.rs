//! Several scores are beyond their limits at once.

use serde_json::{Map, Value, json};

use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::target::Target;
use crate::field_error::in_short;
use crate::limits::{INTERVAL, reads_no_concept};
use crate::point::Point;
use crate::score::catalogue;

/// Conditions of one rule.
const MOST: usize = 3;

/// A score above or below a limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Condition {
    /// Catalogue id.
    pub(in crate::alert) score: &'static str,
    pub(in crate::alert) side: Side,
    /// In the score's unit.
    pub(in crate::alert) limit: f64,
    /// Whether the 95 % interval must be beyond the limit as a whole.
    pub(in crate::alert) whole_interval: bool,
    /// Whether an exception holds while no evaluation has had the score.
    pub(in crate::alert) or_unknown: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Side {
    Above,
    Below,
}

impl Side {
    fn name(self) -> &'static str {
        self.into()
    }
}

impl Condition {
    pub(in crate::alert) const fn above(score: &'static str, limit: f64) -> Self {
        Self { score, side: Side::Above, limit, whole_interval: false, or_unknown: false }
    }

    pub(in crate::alert) const fn below(score: &'static str, limit: f64) -> Self {
        Self { score, side: Side::Below, limit, whole_interval: false, or_unknown: false }
    }

    pub(in crate::alert) const fn with_whole_interval(self) -> Self {
        Self { whole_interval: true, ..self }
    }

    pub(in crate::alert) const fn or_unknown(self) -> Self {
        Self { or_unknown: true, ..self }
    }

    /// `{score = "…", above = 0.1}`, or `below`, and optionally `whole_interval = true` or, of an exception,
    /// `or_unknown = true`.
    fn read(key: &str, value: &Value) -> Result<Self, KeyFault> {
        let expected = "expected { score = \"…\", above = a number } or below, and no more than whole_interval = true or, \
                        in unless, or_unknown = true";
        let wrong = || KeyFault::new(key, format!("got {}, {expected}", in_short(&value.to_string())));
        let table: &Map<String, Value> = value.as_object().ok_or_else(wrong)?;
        let flag = |name| table.get(name).map(|given: &Value| given.as_bool().ok_or_else(wrong)).transpose();
        let (whole_interval, or_unknown) = (flag("whole_interval")?, flag("or_unknown")?);
        let flags = [whole_interval, or_unknown].iter().flatten().count();
        if table.len() != 2 + flags || (or_unknown.is_some() && key != "unless") {
            return Err(wrong());
        }
        let id = table.get("score").and_then(Value::as_str).ok_or_else(wrong)?;
        let Some(score) = catalogue::find(id) else {
            let message = format!("got the score '{}', expected one of the catalogue", in_short(id));
            return Err(KeyFault::new(key, message));
        };
        let limit = |side: Side| Some((side, table.get(side.name())?.as_f64()?));
        let (side, limit) = limit(Side::Above).or_else(|| limit(Side::Below)).ok_or_else(wrong)?;
        let (whole_interval, or_unknown) = (whole_interval.unwrap_or(false), or_unknown.unwrap_or(false));
        Ok(Self { score: score.id, side, limit, whole_interval, or_unknown })
    }

    fn read_of(&self, point: &Point) -> Option<Reading> {
        let found = point.score(self.score)?.value()?;
        let half_width = found.standard_error.filter(|_| self.whole_interval).map_or(0.0, |error| INTERVAL * error);
        Some(Reading { step: point.step, value: found.value, half_width })
    }

    /// Reads the score for an exception. That the true concepts allow no more excuses only a head that reads them.
    fn read_as_exception(&self, point: &Point) -> Option<Reading> {
        self.read_of(point).filter(|_| self.score != "intervention_score" || !reads_no_concept(point))
    }

    /// How far a value is beyond the limit.
    fn beyond_by(&self, value: f64) -> f64 {
        match self.side {
            Side::Above => value - self.limit,
            Side::Below => self.limit - value,
        }
    }

    fn holds(&self, reading: Reading) -> bool {
        self.beyond_by(reading.value) > reading.half_width
    }

    fn words(&self) -> String {
        let whole = if self.whole_interval { " with its whole interval" } else { "" };
        let unknown = if self.or_unknown { "unknown or " } else { "" };
        format!("{} is {unknown}{} {}{whole}", self.score, self.side.name(), self.limit)
    }

    /// Describes a reading, with its step where the evaluation is another.
    fn evidence(&self, reading: Reading, step: u64) -> String {
        let not = if self.holds(reading) { "" } else { "not " };
        let at = if reading.step == step { String::new() } else { format!(" at step {}", reading.step) };
        let interval =
            if self.whole_interval { format!(" ± {:.4} (95 %)", reading.half_width) } else { String::new() };
        let (score, side) = (catalogue::named(self.score), self.side.name());
        format!("{score} is {:.4}{interval}{at}, {not}{side} {}", reading.value, self.limit)
    }

    fn flat(&self) -> Value {
        let mut flat = json!({"score": self.score, self.side.name(): self.limit});
        for (key, flag) in [("whole_interval", self.whole_interval), ("or_unknown", self.or_unknown)] {
            if flag {
                flat[key] = json!(true);
            }
        }
        flat
    }
}

/// A score's value, and half of its 95 % interval where the condition asks for it.
#[derive(Clone, Copy, Debug)]
pub struct Reading {
    step: u64,
    value: f64,
    half_width: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// All must hold; at least the first is present.
    pub(in crate::alert) all: [Option<Condition>; MOST],
    /// While one of these holds the rule does not fire. A score that is absent or undefined does not hold, unless the
    /// condition says so.
    pub(in crate::alert) exceptions: [Option<Condition>; MOST],
    pub(in crate::alert) pace: Pace,
}

impl Together {
    pub(in crate::alert) fn of(conditions: &[Condition], pace: Pace) -> Self {
        Self { all: places(conditions), exceptions: [None; MOST], pace }
    }

    pub(in crate::alert) fn unless(self, exceptions: &[Condition]) -> Self {
        Self { exceptions: places(exceptions), ..self }
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter().flatten()
    }
}

fn places(conditions: &[Condition]) -> [Option<Condition>; MOST] {
    std::array::from_fn(|at| conditions.get(at).copied())
}

/// The evaluations in a row since any condition was inside its limit, and the exceptions at them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// Step of the first of them.
    since: Option<u64>,
    /// The newest reading of each exception, which may come after the judgement. One of an earlier evaluation excuses none
    /// of these, but for a score that is waited for.
    known: [Option<Reading>; MOST],
}

impl Together {
    /// The exceptions, with their readings in `known`.
    fn excepted<'a>(
        &'a self,
        known: &'a [Option<Reading>; MOST],
    ) -> impl Iterator<Item = (Condition, Option<Reading>)> + 'a {
        self.exceptions.iter().zip(known).filter_map(|(exception, known)| Some(((*exception)?, *known)))
    }
}

impl Kind for Together {
    type Memory = Memory;

    const KEYS: &'static [&'static str] = &["all", "unless"];

    fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        Target::refuse(fields, "all")?;
        let list = fields.take("all", "a list of one to three conditions", |value| {
            value.as_array().filter(|list| (1..=MOST).contains(&list.len())).cloned()
        })?;
        let list =
            list.ok_or_else(|| KeyFault::new("all", "is missing, expected what `unless` is an exception from"))?;
        let conditions: Vec<Condition> =
            list.iter().map(|value| Condition::read("all", value)).collect::<Result<_, _>>()?;
        let unless =
            fields.take("unless", "a condition, or a list of one to three of which any is an exception", |value| {
                let list = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
                (1..=MOST).contains(&list.len()).then_some(list)
            })?;
        let unless = unless.unwrap_or_default();
        let exceptions: Vec<Condition> =
            unless.iter().map(|value| Condition::read("unless", value)).collect::<Result<_, _>>()?;
        Ok(Self::of(&conditions, Pace::read(fields)?).unless(&exceptions))
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        let all: Vec<Value> = self.conditions().map(Condition::flat).collect();
        let mut limits = vec![("all", json!(all))];
        let exceptions: Vec<Value> = self.exceptions.iter().flatten().map(Condition::flat).collect();
        match &exceptions[..] {
            [] => {}
            [one] => limits.push(("unless", one.clone())),
            several => limits.push(("unless", json!(several))),
        }
        limits
    }

    fn target(&self) -> Option<Target> {
        self.all[0].map(|first| Target::value_of(first.score))
    }

    fn reads(&self) -> Vec<&'static str> {
        self.conditions().chain(self.exceptions.iter().flatten()).map(|condition| condition.score).collect()
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, memory: &mut Memory, seen: &Seen) -> Option<Verdict> {
        let step = seen.point.step;
        let readings: Option<Vec<(&Condition, Reading)>> =
            self.conditions().map(|one| Some((one, one.read_of(seen.point)?))).collect();
        let inside = |(one, reading): &(&Condition, Reading)| {
            let by = one.beyond_by(reading.value);
            by <= 0.0 && by <= -self.pace.hysteresis
        };
        let inside = readings.as_ref().is_some_and(|readings| readings.iter().any(inside));
        let of_point = |at: usize| self.exceptions[at]?.read_as_exception(seen.point);
        let known: [_; MOST] = std::array::from_fn(|at| of_point(at).or(memory.known[at]));
        let stays = |at: usize| !inside || self.exceptions[at].is_some_and(|exception| exception.or_unknown);
        memory.known = std::array::from_fn(|at| known[at].filter(|_| stays(at)));
        let readings = readings?;
        memory.since = if inside { None } else { memory.since.or(Some(step)) };
        let excused =
            self.excepted(&known).any(|(one, known)| known.map_or(one.or_unknown, |reading| one.holds(reading)));
        let mut evidence: Vec<String> = readings.iter().map(|(one, reading)| one.evidence(*reading, step)).collect();
        evidence.extend(self.excepted(&known).filter_map(|(one, reading)| Some(one.evidence(reading?, step))));
        Some(Verdict {
            beyond: vec![!excused && readings.iter().all(|(one, reading)| one.holds(*reading))],
            back: excused || inside,
            evidence: evidence.join("; "),
            value: readings.first().map(|(_, reading)| reading.value),
            baseline: None,
        })
    }

    fn excuse(&self, memory: &mut Memory, point: &Point, late: &[&str], step: u64) -> Option<String> {
        let is_of_these = memory.since.is_some_and(|since| point.step >= since);
        for (exception, known) in self.exceptions.iter().zip(&mut memory.known) {
            let joined = exception.filter(|one| late.contains(&one.score) && (is_of_these || one.or_unknown));
            let reading = joined.and_then(|one| one.read_as_exception(point));
            *known = reading.filter(|reading| known.is_none_or(|known| known.step <= reading.step)).or(*known);
        }
        let holding =
            |(one, known): (Condition, Option<Reading>)| Some((one, known.filter(|known| one.holds(*known))?));
        self.excepted(&memory.known).find_map(holding).map(|(exception, reading)| exception.evidence(reading, step))
    }

    fn meaning(&self, lasting: &str) -> String {
        let all: Vec<String> = self.conditions().map(Condition::words).collect();
        let exceptions: Vec<String> = self.exceptions.iter().flatten().map(Condition::words).collect();
        let unless =
            if exceptions.is_empty() { String::new() } else { format!(", unless {}", exceptions.join(" or ")) };
        all.join(" and ") + lasting + &unless
    }
}
