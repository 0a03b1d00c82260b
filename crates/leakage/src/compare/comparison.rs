//! Two means and what their difference shows.

use serde::{Deserialize, Serialize};

use crate::score::catalogue;

use super::interval::{Estimate, Interval};
use super::side::{Sided, incomparable};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    HigherInA,
    HigherInB,
    /// The interval of the difference contains 0, or the difference is [too small to matter](LEAST).
    Compatible,
    Undefined,
}

/// Differences below this matter to nobody, however certain they are: scores are shares and differences of shares.
const LEAST: f64 = 0.001;

/// Two means and their difference, a − b.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub a: Option<Interval>,
    pub b: Option<Interval>,
    pub difference: Option<Interval>,
    /// Two-sided, of no difference; absent where the error is unknown.
    pub p_value: Option<f64>,
    pub verdict: Verdict,
    /// Why there is no verdict.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub undefined: Option<String>,
}

impl Comparison {
    /// A score of two sides; undefined with a reason where they have no values on one scale.
    pub(super) fn between(a: &dyn Sided, b: &dyn Sided, score: &str, confidence: f64) -> Self {
        let sides = (a.estimate(score), b.estimate(score));
        match (sides, incomparable(&[a, b], score)) {
            ((Ok(a), Ok(b)), None) => Self::of(score, &a, &b, confidence),
            ((a, b), why) => Self::without_verdict(score, [a, b], why, confidence),
        }
    }

    /// The sides that have a mean, and why the two are not compared: the reason of a side without one, or else `why`.
    pub(super) fn without_verdict(
        score: &str,
        sides: [Result<Estimate, String>; 2],
        why: Option<String>,
        confidence: f64,
    ) -> Self {
        let reason = sides.iter().find_map(|side| side.as_ref().err().cloned()).or(why).unwrap_or_default();
        let [a, b] = sides.map(|side| Some(side.ok()?.interval(confidence).within(range_of(score))));
        Self { a, b, ..Self::undefined(reason) }
    }

    pub(super) fn of(score: &str, a: &Estimate, b: &Estimate, confidence: f64) -> Self {
        Self::by(score, a, b, &a.less(b), confidence)
    }

    /// From a difference whose error is known better than from both sides alone.
    pub(super) fn by(score: &str, a: &Estimate, b: &Estimate, difference: &Estimate, confidence: f64) -> Self {
        let interval = difference.interval(confidence);
        let (least, most) = range_of(score);
        let (verdict, undefined) = match (interval.low, interval.high) {
            (Some(low), _) if low > 0.0 && interval.mean >= LEAST => (Verdict::HigherInA, None),
            (_, Some(high)) if high < 0.0 && interval.mean <= -LEAST => (Verdict::HigherInB, None),
            (Some(_), Some(_)) => (Verdict::Compatible, None),
            _ => (
                Verdict::Undefined,
                Some("the error is unknown: the score has none, and there is one run only".to_owned()),
            ),
        };
        Self {
            a: Some(a.interval(confidence).within((least, most))),
            b: Some(b.interval(confidence).within((least, most))),
            difference: Some(interval.within((least - most, most - least))),
            p_value: difference.p_value(),
            verdict,
            undefined,
        }
    }

    pub(super) fn undefined(why: impl Into<String>) -> Self {
        let verdict = Verdict::Undefined;
        Self { a: None, b: None, difference: None, p_value: None, verdict, undefined: Some(why.into()) }
    }

    /// Such as "is higher in soft by 0.1200 (0.1050 to 0.1350)".
    pub(super) fn in_words(&self, a: &str, b: &str) -> String {
        let Some(Interval { mean, low: Some(low), high: Some(high), .. }) = self.difference else {
            return format!("cannot be compared: {}", self.undefined.as_deref().unwrap_or("there are no values"));
        };
        match self.verdict {
            Verdict::HigherInA => format!("is higher in {a} by {mean:.4} ({low:.4} to {high:.4})"),
            Verdict::HigherInB => format!("is higher in {b} by {:.4} ({:.4} to {:.4})", -mean, -high, -low),
            _ => format!("shows no difference ({mean:.4}, {low:.4} to {high:.4})"),
        }
    }
}

/// Least and largest value of a score; unbounded for a score that the catalogue does not have.
pub(super) fn range_of(score: &str) -> (f64, f64) {
    catalogue::find(score).map_or((f64::NEG_INFINITY, f64::INFINITY), |row| row.range)
}
