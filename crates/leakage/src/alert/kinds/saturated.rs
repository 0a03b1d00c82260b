//! The tie fraction jumps: activations saturate. Ties lower the normaliser of `icl` and raise its value, so a rise that
//! begins meanwhile may not be leakage.

use serde_json::{Value, json};

use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::target::Target;

/// Share by which the mean tie fraction follows the newest.
const FOLLOW: f64 = 0.2;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Saturated {
    /// Least jump of the tie fraction over its recent mean, in [0, 1].
    pub(in crate::alert) by: f64,
    pub(in crate::alert) pace: Pace,
}

impl Kind for Saturated {
    /// The recent mean of the tie fraction.
    type Memory = Option<f64>;

    const KEYS: &'static [&'static str] = &["saturated"];

    const CASTS_DOUBT: bool = true;

    fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        Target::refuse(fields, "saturated")?;
        let by = fields.take("saturated", "a share from 0 to 1", |value| {
            value.as_f64().filter(|share| (0.0..=1.0).contains(share))
        })?;
        Ok(Self { by: by.unwrap_or_default(), pace: Pace::read(fields)? })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        vec![("saturated", json!(self.by))]
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, mean: &mut Option<f64>, seen: &Seen) -> Option<Verdict> {
        let ties = seen.point.tie_fraction;
        let usual = mean.unwrap_or(ties);
        let jump = ties - usual;
        *mean = Some(usual + FOLLOW * jump);
        Some(Verdict {
            beyond: vec![jump > self.by],
            back: jump <= self.by - self.pace.hysteresis,
            evidence: format!("the tie fraction is {ties:.3}, its recent mean {usual:.3}"),
            value: Some(ties),
            baseline: Some(usual),
        })
    }

    fn meaning(&self, lasting: &str) -> String {
        format!("the tie fraction jumped by more than {}{lasting}", self.by)
    }
}
