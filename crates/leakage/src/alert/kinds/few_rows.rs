//! A sample is too small for its scores to say much.

use serde_json::{Value, json};

use crate::alert::fields::{Fields, KeyFault};
use crate::alert::kind::{Kind, Pace, Seen, Verdict};
use crate::alert::target::Target;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FewRows {
    /// Fewer than this are too few; at least 1.
    pub(in crate::alert) rows: u64,
    pub(in crate::alert) pace: Pace,
}

impl Kind for FewRows {
    type Memory = ();

    const KEYS: &'static [&'static str] = &["few_rows"];

    fn read(fields: &mut Fields) -> Result<Self, KeyFault> {
        Target::refuse(fields, "few_rows")?;
        let rows = fields.whole("few_rows", 1, u64::MAX)?.unwrap_or(1);
        Ok(Self { rows, pace: Pace::read(fields)? })
    }

    fn limits(&self) -> Vec<(&'static str, Value)> {
        vec![("few_rows", json!(self.rows))]
    }

    fn pace(&self) -> Pace {
        self.pace
    }

    fn judge(&self, (): &mut (), seen: &Seen) -> Option<Verdict> {
        let rows = seen.point.labelled_rows();
        let beyond = rows < self.rows;
        Some(Verdict {
            beyond: vec![beyond],
            back: rows as f64 >= self.rows as f64 + self.pace.hysteresis,
            evidence: format!(
                "{}, {} {}",
                seen.point.labelled_rows_in_words(),
                if beyond { "fewer than" } else { "at least" },
                self.rows
            ),
            value: Some(rows as f64),
            baseline: None,
        })
    }

    fn meaning(&self, lasting: &str) -> String {
        format!("the sample has fewer than {} rows{lasting}", self.rows)
    }
}
