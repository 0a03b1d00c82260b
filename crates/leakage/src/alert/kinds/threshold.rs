//! A score is above or below a limit.

use serde_json::{Value, json};

use crate::alert::defined_members::in_words;
use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::target::{EachOf, Members, Target};
use crate::false_discovery::{discoveries, upper_tail};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    pub(in crate::alert) target: Target,
    /// The score is too high above this, in its unit. This or `below` is present.
    pub(in crate::alert) above: Option<f64>,
    /// The score is too low below this, in its unit.
    pub(in crate::alert) below: Option<f64>,
    pub(in crate::alert) pace: Pace,
}

impl Kind for Threshold {
    type Memory = ();

    const KEYS: &'static [&'static str] = &["above", "below"];

    fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        let target = Target::read(fields)?;
        let (above, below) = (fields.number("above")?, fields.number("below")?);
        let pace = Pace::read(fields)?;
        if let (Some(above), Some(below)) = (above, below) {
            if above < below {
                let message =
                    format!("got {above}, expected at least `below` {below}: every value would be beyond one");
                return Err(KeyFault::new("above", message));
            }
            if pace.hysteresis * 2.0 > above - below && pace.hysteresis > 0.0 {
                let message = "leaves no room between `below` and `above`: no alert could ever end";
                return Err(KeyFault::new("hysteresis", message));
            }
        }
        Ok(Self { target, above, below, pace })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        let limits = [("above", self.above), ("below", self.below)];
        limits.into_iter().filter_map(|(key, limit)| Some((key, json!(limit?)))).collect()
    }

    fn target(&self) -> Option<Target> {
        Some(self.target)
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, (): &mut (), seen: &Seen) -> Option<Verdict> {
        if let Some(each) = self.target.members {
            return self.judge_each(each, seen);
        }
        let found = seen.point.score(self.target.score)?.value()?;
        let value = found.value;
        let by = self.beyond_by(value);
        let limit = match (self.above, self.below) {
            (Some(limit), _) if value > limit => format!("above {limit}"),
            (_, Some(limit)) if value < limit => format!("below {limit}"),
            _ => "within its limits".to_owned(),
        };
        Some(Verdict {
            beyond: vec![by > 0.0],
            back: by <= -self.pace.hysteresis && by <= 0.0,
            evidence: format!("{}, {limit}", in_words(self.target.score, found)),
            value: Some(value),
            baseline: None,
        })
    }

    fn meaning(&self, lasting: &str) -> String {
        let of = self.target.name();
        match (self.above, self.below) {
            (Some(above), Some(below)) => format!("{of} is above {above} or below {below}{lasting}"),
            (Some(above), None) => format!("{of} is above {above}{lasting}"),
            (None, below) => format!("{of} is below {}{lasting}", below.unwrap_or_default()),
        }
    }
}

impl Threshold {
    /// How far a value is beyond the limits: positive outside.
    fn beyond_by(&self, value: f64) -> f64 {
        let over = self.above.map_or(f64::NEG_INFINITY, |limit| value - limit);
        over.max(self.below.map_or(f64::NEG_INFINITY, |limit| limit - value))
    }

    fn judge_each(&self, each: EachOf, seen: &Seen) -> Option<Verdict> {
        let members = Members::of(self.target.score, each.each, seen.point, seen.concepts)?;
        let p_value = |value: &Option<f64>| {
            let by = self.beyond_by((*value)?);
            Some(match members.error {
                Some(error) if error > 0.0 => upper_tail(by / error),
                _ => f64::from(u8::from(by <= 0.0)),
            })
        };
        let p_values: Vec<Option<f64>> = members.values.iter().map(p_value).collect();
        let found = discoveries(&p_values, each.false_discovery_rate());
        let worst = members.values.iter().flatten().map(|value| self.beyond_by(*value));
        let worst = worst.fold(f64::NEG_INFINITY, f64::max);
        let back = found.is_empty() && worst <= -self.pace.hysteresis;
        let what = |at: usize| format!("{} {:.4}", members.name(at), members.values[at].unwrap_or_default());
        Some(Verdict::of_members(&members, &found, back, what, "beyond the limit"))
    }
}
