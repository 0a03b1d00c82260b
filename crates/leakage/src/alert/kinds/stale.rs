//! A run that has not finished has no evaluation for some time. The rule reads the clock; an evaluation ends its alert.

use serde_json::{Value, json};

use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::target::Target;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stale {
    /// Seconds without an evaluation, above 0.
    pub(in crate::alert) seconds: f64,
}

impl Kind for Stale {
    type Memory = ();

    const KEYS: &'static [&'static str] = &["stale"];

    fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        Target::refuse(fields, "stale")?;
        let seconds = fields
            .take("stale", "a number of seconds above 0", |value| value.as_f64().filter(|seconds| *seconds > 0.0))?;
        if Pace::read(fields)? != Pace::AT_ONCE {
            let message = "has no `evaluations`, `warm_up`, `cooldown` or `hysteresis`: it waits for one evaluation";
            return Err(KeyFault::new("stale", message));
        }
        Ok(Self { seconds: seconds.unwrap_or_default() })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        vec![("stale", json!(self.seconds))]
    }

    fn pace(&self) -> Pace {
        Pace::AT_ONCE
    }

    fn silence(&self) -> Option<f64> {
        Some(self.seconds)
    }

    fn judge(&self, (): &mut (), _: &Seen) -> Option<Verdict> {
        None
    }

    fn meaning(&self, lasting: &str) -> String {
        format!("there has been no evaluation for more than {} s{lasting}", self.seconds)
    }
}
