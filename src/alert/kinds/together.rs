//! Several scores are beyond their limits at once.

use serde_json::{Map, Value, json};

use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::target::Target;
use crate::fault::in_short;
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Above,
    Below,
}

impl Side {
    fn name(self) -> &'static str {
        match self {
            Self::Above => "above",
            Self::Below => "below",
        }
    }
}

impl Condition {
    pub(in crate::alert) const fn above(score: &'static str, limit: f64) -> Self {
        Self { score, side: Side::Above, limit }
    }

    pub(in crate::alert) const fn below(score: &'static str, limit: f64) -> Self {
        Self { score, side: Side::Below, limit }
    }

    /// `{score = "…", above = 0.1}`, or `below`.
    fn read(key: &str, value: &Value) -> Result<Self, KeyFault> {
        let expected = "expected { score = \"…\", above = a number } or below";
        let wrong = || KeyFault::new(key, format!("got {}, {expected}", in_short(&value.to_string())));
        let table: &Map<String, Value> = value.as_object().filter(|table| table.len() == 2).ok_or_else(wrong)?;
        let id = table.get("score").and_then(Value::as_str).ok_or_else(wrong)?;
        let Some(score) = catalogue::find(id) else {
            let message = format!("got the score '{}', expected one of the catalogue", in_short(id));
            return Err(KeyFault::new(key, message));
        };
        let limit = |side: Side| Some((side, table.get(side.name())?.as_f64()?));
        let (side, limit) = limit(Side::Above).or_else(|| limit(Side::Below)).ok_or_else(wrong)?;
        Ok(Self { score: score.id, side, limit })
    }

    fn value_in(&self, point: &Point) -> Option<f64> {
        Some(point.score(self.score)?.value()?.value)
    }

    /// How far a value is beyond the limit: positive where the condition holds.
    fn beyond_by(&self, value: f64) -> f64 {
        match self.side {
            Side::Above => value - self.limit,
            Side::Below => self.limit - value,
        }
    }

    fn words(&self) -> String {
        format!("{} is {} {}", self.score, self.side.name(), self.limit)
    }

    fn evidence(&self, value: f64) -> String {
        let not = if self.beyond_by(value) > 0.0 { "" } else { "not " };
        format!("{} is {value:.4}, {not}{} {}", self.score, self.side.name(), self.limit)
    }

    fn flat(&self) -> Value {
        json!({"score": self.score, self.side.name(): self.limit})
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Together {
    /// All must hold; at least the first is present.
    pub(in crate::alert) all: [Option<Condition>; MOST],
    /// While this one holds the rule does not fire. A score that is absent or undefined does not hold.
    pub(in crate::alert) unless: Option<Condition>,
    pub(in crate::alert) pace: Pace,
}

impl Together {
    pub(in crate::alert) fn of(conditions: &[Condition], pace: Pace) -> Self {
        let mut all = [None; MOST];
        for (place, condition) in all.iter_mut().zip(conditions) {
            *place = Some(*condition);
        }
        Self { all, unless: None, pace }
    }

    fn conditions(&self) -> impl Iterator<Item = &Condition> {
        self.all.iter().flatten()
    }
}

impl Kind for Together {
    /// The newest value of the exception's score, which may have come after the last judgement.
    type Memory = Option<f64>;

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
        let unless = fields.take("unless", "a condition", |value| Some(value.clone()))?;
        let unless = unless.map(|value| Condition::read("unless", &value)).transpose()?;
        Ok(Self { unless, ..Self::of(&conditions, Pace::read(fields)?) })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        let all: Vec<Value> = self.conditions().map(Condition::flat).collect();
        let mut limits = vec![("all", json!(all))];
        limits.extend(self.unless.map(|unless| ("unless", unless.flat())));
        limits
    }

    fn target(&self) -> Option<Target> {
        self.all[0].map(|first| Target::value_of(first.score))
    }

    fn reads(&self) -> Vec<&'static str> {
        self.conditions().chain(&self.unless).map(|condition| condition.score).collect()
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, exception: &mut Option<f64>, seen: &Seen) -> Option<Verdict> {
        *exception = self.unless.and_then(|unless| unless.value_in(seen.point)).or(*exception);
        let values: Vec<(&Condition, f64)> =
            self.conditions().map(|one| Some((one, one.value_in(seen.point)?))).collect::<Option<_>>()?;
        let excepted = self.unless.and_then(|unless| Some((unless, (*exception)?)));
        let excused = excepted.is_some_and(|(unless, value)| unless.beyond_by(value) > 0.0);
        let mut evidence: Vec<String> = values.iter().map(|(one, value)| one.evidence(*value)).collect();
        evidence.extend(excepted.map(|(unless, value)| unless.evidence(value)));
        let inside = |(one, value): &(&Condition, f64)| {
            let by = one.beyond_by(*value);
            by <= 0.0 && by <= -self.pace.hysteresis
        };
        Some(Verdict {
            beyond: vec![!excused && values.iter().all(|(one, value)| one.beyond_by(*value) > 0.0)],
            back: excused || values.iter().any(inside),
            evidence: evidence.join("; "),
            value: values.first().map(|(_, value)| *value),
            baseline: None,
        })
    }

    fn meaning(&self) -> String {
        let all: Vec<String> = self.conditions().map(Condition::words).collect();
        let unless = self.unless.map_or(String::new(), |unless| format!(", unless {}", unless.words()));
        all.join(" and ") + &unless
    }
}
