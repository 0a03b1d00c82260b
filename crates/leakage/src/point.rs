//! Curve points: the scores of one sample, with everything needed to judge and reproduce them.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::step::Ordinal;

/// The concepts or pairs that a score leaves out because they have no value of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Indices of concepts, ascending: those without a value; of a score over pairs those none of whose pairs has one.
    pub concepts: Vec<u32>,
    /// Ordered pairs i ≠ j without a value; 0 for a score over concepts.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub pairs: u64,
    /// Number of concepts that the score is over when it leaves none out.
    pub of: u32,
    /// Why the first of them has no value.
    pub why: String,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl LeftOut {
    /// Whether the same concepts, and as many pairs, are left out.
    pub fn is_same_set(&self, other: &Self) -> bool {
        self.concepts == other.concepts && self.pairs == other.pairs
    }
}

impl fmt::Display for LeftOut {
    /// Writes the set that the score is over, such as "over 111 of 112 concepts". Pairs are counted where concepts do
    /// not explain them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, left) = (u64::from(self.of), self.concepts.len() as u64);
        let pairs = |concepts: u64| concepts * concepts.saturating_sub(1);
        let remaining = of.saturating_sub(left);
        if self.pairs == 0 || self.pairs == pairs(of) - pairs(remaining) {
            write!(f, "over {remaining} of {of} concepts")
        } else {
            write!(f, "over {} of {} pairs", pairs(of).saturating_sub(self.pairs), pairs(of))
        }
    }
}

/// A score's value, in the unit its catalogue row states.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ScoreValue {
    pub value: f64,
    /// Sampling error of `value`, same unit; absent where the score has none (the catalogue says why). Where some parts
    /// come from earlier samples (see `age`), the error of the mean over the parts of this sample alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub standard_error: Option<f64>,
    /// k values; `None` where the score is undefined for that concept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_concept: Option<Vec<Option<f64>>>,
    /// k × k values, row i from concept i; `None` where undefined for that pair.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matrix: Option<Vec<Vec<Option<f64>>>>,
    /// (x, value at x) in ascending x, for a score swept over a threshold; `None` where undefined at x. Part of the
    /// published point and of `score --json`; the history keeps the value alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub curve: Option<Vec<(f64, Option<f64>)>>,
    /// Seconds between the sample on which the oldest pair was computed (for a score without pairs: the oldest concept)
    /// and this point's sample; absent where all were computed on the latter. Only ticks of rolling windows have parts
    /// from earlier samples.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub age: Option<f64>,
    /// k × k ages in seconds, one for each pair, 0 on the diagonal; present where `age` and `matrix` are.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ages: Option<Vec<Vec<f64>>>,
    /// The concepts and pairs that the mean leaves out; absent where it is over all of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<LeftOut>,
    /// Probability of a value at least this high where there is no effect, in (0, 1]; the catalogue names the test.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p_value: Option<f64>,
    /// k adjusted p-values (false discovery rate), each in (0, 1]; `None` where the score is undefined for that concept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_concept_q: Option<Vec<Option<f64>>>,
    /// k × k adjusted p-values, one for each cell of `matrix`; `None` on the diagonal and where undefined for that pair.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matrix_q: Option<Vec<Vec<Option<f64>>>>,
    /// The score of each task, of which `value` is the mean, where there are several.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_task: Option<Vec<Outcome>>,
}

/// The result of a test of a value; the fields are those of [`ScoreValue`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Significance {
    pub p_value: Option<f64>,
    pub per_concept_q: Option<Vec<Option<f64>>>,
    pub matrix_q: Option<Vec<Vec<Option<f64>>>>,
    /// One for each task where there are several; else empty.
    pub per_task: Vec<Significance>,
}

/// Outcome of a score. An undefined score is never reported as 0 or NaN, and always has a reason.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Outcome {
    Undefined(Undefined),
    Value(ScoreValue),
}

/// Why a score has no value, with the parts that do have one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Undefined {
    #[serde(rename = "undefined")]
    pub why: String,
    /// k values; `None` where the score is undefined for that concept.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_concept: Option<Vec<Option<f64>>>,
    /// k × k values; `None` where undefined for that pair.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matrix: Option<Vec<Vec<Option<f64>>>>,
    /// As in [`ScoreValue`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub age: Option<f64>,
    /// As in [`ScoreValue`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ages: Option<Vec<Vec<f64>>>,
    /// The concepts or pairs without a value, where the score is over these and too few of them have one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub left_out: Option<LeftOut>,
    /// As in [`ScoreValue`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_concept_q: Option<Vec<Option<f64>>>,
    /// As in [`ScoreValue`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub matrix_q: Option<Vec<Vec<Option<f64>>>>,
    /// As in [`ScoreValue`].
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub per_task: Option<Vec<Outcome>>,
}

/// The field of either form of an outcome.
macro_rules! part {
    ($outcome:ident.$field:ident) => {
        match $outcome {
            Outcome::Value(value) => &value.$field,
            Outcome::Undefined(undefined) => &undefined.$field,
        }
    };
}

impl Outcome {
    pub fn undefined(why: impl Into<String>) -> Self {
        Self::Undefined(Undefined { why: why.into(), ..Undefined::default() })
    }

    /// Returns the value, or where `undefined` says why there is none, the parts that an undefined score has as well.
    pub fn of(undefined: Option<String>, value: ScoreValue) -> Self {
        let Some(why) = undefined else { return Self::Value(value) };
        let ScoreValue { per_concept, matrix, age, ages, left_out, per_concept_q, matrix_q, per_task, .. } = value;
        Self::Undefined(Undefined { why, per_concept, matrix, age, ages, left_out, per_concept_q, matrix_q, per_task })
    }

    /// This outcome with its value changed, where it has one.
    pub fn map(self, change: impl FnOnce(ScoreValue) -> ScoreValue) -> Self {
        match self {
            Self::Value(value) => Self::Value(change(value)),
            undefined => undefined,
        }
    }

    /// Adds the result of a test. A score that is undefined as a whole has no p-value.
    pub fn add(&mut self, significance: Significance) {
        let Significance { p_value, per_concept_q, matrix_q, per_task } = significance;
        let of_tasks = match self {
            Self::Value(value) => {
                (value.p_value, value.per_concept_q, value.matrix_q) = (p_value, per_concept_q, matrix_q);
                &mut value.per_task
            }
            Self::Undefined(undefined) => {
                (undefined.per_concept_q, undefined.matrix_q) = (per_concept_q, matrix_q);
                &mut undefined.per_task
            }
        };
        of_tasks.iter_mut().flatten().zip(per_task).for_each(|(of_task, significance)| of_task.add(significance));
    }

    pub fn value(&self) -> Option<&ScoreValue> {
        match self {
            Self::Value(value) => Some(value),
            Self::Undefined(_) => None,
        }
    }

    /// Why there is no value.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Value(_) => None,
            Self::Undefined(undefined) => Some(&undefined.why),
        }
    }

    pub fn per_concept(&self) -> Option<&[Option<f64>]> {
        part!(self.per_concept).as_deref()
    }

    pub fn matrix(&self) -> Option<&[Vec<Option<f64>>]> {
        part!(self.matrix).as_deref()
    }

    pub fn per_task(&self) -> Option<&[Outcome]> {
        part!(self.per_task).as_deref()
    }

    pub fn age(&self) -> Option<f64> {
        *part!(self.age)
    }

    pub fn ages(&self) -> Option<&[Vec<f64>]> {
        part!(self.ages).as_deref()
    }

    pub fn left_out(&self) -> Option<&LeftOut> {
        part!(self.left_out).as_ref()
    }

    pub fn p_value(&self) -> Option<f64> {
        self.value().and_then(|value| value.p_value)
    }

    pub fn per_concept_q(&self) -> Option<&[Option<f64>]> {
        part!(self.per_concept_q).as_deref()
    }

    pub fn matrix_q(&self) -> Option<&[Vec<Option<f64>>]> {
        part!(self.matrix_q).as_deref()
    }

    /// Bytes of what it points to.
    fn bytes(&self) -> usize {
        fn square<T>(rows: Option<&[Vec<T>]>) -> usize {
            rows.map_or(0, |rows| rows.iter().map(|row| size_of::<Vec<T>>() + size_of_val(&**row)).sum())
        }
        let text = self.why().map_or(0, str::len);
        let curve = self.value().and_then(|value| value.curve.as_deref()).map_or(0, size_of_val);
        let left_out = self.left_out().map_or(0, |left_out| size_of_val(&*left_out.concepts) + left_out.why.len());
        let per_concept = self.per_concept().map_or(0, size_of_val) + self.per_concept_q().map_or(0, size_of_val);
        let of_tasks = self.per_task().unwrap_or_default().iter().map(|of_task| size_of::<Self>() + of_task.bytes());
        of_tasks.sum::<usize>()
            + text
            + curve
            + left_out
            + per_concept
            + square(self.matrix())
            + square(self.ages())
            + square(self.matrix_q())
    }

    fn without_matrices(&self) -> Self {
        let whole = self.value().map(|value| (value.value, value.standard_error, value.curve.clone(), value.p_value));
        let (value, standard_error, curve, p_value) = whole.unwrap_or_default();
        let parts = ScoreValue {
            value,
            standard_error,
            per_concept: part!(self.per_concept).clone(),
            curve,
            age: self.age(),
            left_out: part!(self.left_out).clone(),
            p_value,
            per_concept_q: part!(self.per_concept_q).clone(),
            per_task: part!(self.per_task).clone(),
            ..ScoreValue::default()
        };
        Self::of(self.why().map(str::to_owned), parts)
    }
}

/// The beginning of a remark on one of several tasks.
pub(crate) fn of_task(name: &str) -> String {
    format!("task '{name}': ")
}

/// All scores of one sample.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    pub run: Arc<str>,
    pub split: Arc<str>,
    /// Number of optimiser steps so far.
    pub step: u64,
    /// The ordinal of the pass among those of its step: the same step may be evaluated again. Absent for the first.
    #[serde(skip_serializing_if = "Ordinal::is_first", default)]
    pub ordinal: Ordinal,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub epoch: Option<f64>,
    /// Seconds since 1970-01-01 UTC at which the sample was closed.
    pub time: f64,
    /// N, the number of rows scored.
    pub rows: u64,
    /// k numbers of rows in which a concept's label is known; empty where all labels are.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub concept_rows: Vec<u64>,
    /// Number of distinct rows the sample was drawn from.
    pub rows_seen: u64,
    /// Rows of the sample that are copies of scored ones, with other ids.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub repeated_rows: u64,
    /// Whether the sample was still filling; such a point is not part of the curve.
    pub provisional: bool,
    /// Whether the pass lacks a rank or rows, for example because its deadline closed it.
    pub incomplete: bool,
    /// Fraction of activations that equal another in their column, in [0, 1].
    pub tie_fraction: f64,
    /// Remarks that affect how the values are read, such as half-precision activations.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub warnings: Vec<String>,
    /// `tie_aware` or `published`.
    pub estimator: String,
    pub neighbours: u32,
    pub seed: u64,
    /// Points of different versions may not be comparable.
    pub catalogue_version: u32,
    /// Wall time of scoring in seconds. On a busy machine most of it is spent in pauses between parts.
    pub seconds: f64,
    /// By catalogue id, in catalogue order.
    pub scores: Vec<(String, Outcome)>,
    /// Standard error of a score's change since the previous evaluation of the split, by catalogue id, in the score's
    /// unit; rows in both samples are paired. Given for scores used for trends, and not kept in the history.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub change_errors: Vec<(String, f64)>,
}

impl Point {
    pub fn score(&self, id: &str) -> Option<&Outcome> {
        self.scores.iter().find(|(score, _)| score == id).map(|(_, outcome)| outcome)
    }

    /// Bytes that it holds, most of them values of pairs and of concepts.
    pub fn bytes(&self) -> usize {
        let scores =
            self.scores.iter().map(|(id, outcome)| id.len() + size_of::<(String, Outcome)>() + outcome.bytes());
        let warnings = self.warnings.iter().map(|warning| size_of::<String>() + warning.len());
        let errors = self.change_errors.iter().map(|(id, _)| size_of::<(String, f64)>() + id.len());
        size_of::<Self>() + size_of_val(&*self.concept_rows) + scores.chain(warnings).chain(errors).sum::<usize>()
    }

    /// The point without values of pairs.
    pub fn without_matrices(&self) -> Self {
        let scores = self.scores.iter().map(|(id, outcome)| (id.clone(), outcome.without_matrices())).collect();
        Self {
            scores,
            run: Arc::clone(&self.run),
            split: Arc::clone(&self.split),
            concept_rows: self.concept_rows.clone(),
            warnings: self.warnings.clone(),
            estimator: self.estimator.clone(),
            change_errors: self.change_errors.clone(),
            ..*self
        }
    }

    /// The point of one of several tasks: the scores that have a value for each task are those of the task alone.
    pub fn of_task(&self, task: usize, name: &str) -> Self {
        let score = |(id, outcome): &(String, Outcome)| {
            let own = outcome.per_task().and_then(|of_tasks| of_tasks.get(task));
            (id.clone(), own.unwrap_or(outcome).clone())
        };
        let (own, of_any) = (of_task(name), "task '");
        let remark = |warning: &String| match warning.strip_prefix(&own) {
            Some(remark) => Some(remark.to_owned()),
            None => (!warning.starts_with(of_any)).then(|| warning.clone()),
        };
        Self {
            scores: self.scores.iter().map(score).collect(),
            run: Arc::clone(&self.run),
            split: Arc::clone(&self.split),
            concept_rows: self.concept_rows.clone(),
            warnings: self.warnings.iter().filter_map(remark).collect(),
            estimator: self.estimator.clone(),
            change_errors: self.change_errors.clone(),
            ..*self
        }
    }

    /// The number of rows in which a concept's label is known, on average over concepts.
    pub fn labelled_rows(&self) -> u64 {
        match self.concept_rows.len() as u64 {
            0 => self.rows,
            concepts => self.concept_rows.iter().sum::<u64>() / concepts,
        }
    }

    /// Such as "480 rows", or "120 of 1200 rows with concept labels".
    pub fn labelled_rows_in_words(&self) -> String {
        match self.labelled_rows() {
            labelled if labelled == self.rows => format!("{labelled} rows"),
            labelled => format!("{labelled} of {} rows with concept labels", self.rows),
        }
    }

    /// See `change_errors`.
    pub fn change_error(&self, id: &str) -> Option<f64> {
        self.change_errors.iter().find(|(score, _)| score == id).map(|(_, error)| *error)
    }
}

/// The part of a point that a comparison of many runs reads: some scores, each as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Brief {
    pub rows: u64,
    pub estimator: String,
    pub neighbours: u32,
    pub catalogue_version: u32,
    /// In the order of the scores asked for; `None` for scores that the point lacks.
    pub scores: Vec<Option<Whole>>,
}

/// A score as a whole, without what concerns single concepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Whole {
    Value {
        value: f64,
        standard_error: Option<f64>,
    },
    /// Why there is no value.
    Undefined(String),
}

impl Brief {
    pub fn of(point: &Point, scores: &[&str]) -> Self {
        let whole = |outcome: &Outcome| match outcome {
            Outcome::Value(of) => Whole::Value { value: of.value, standard_error: of.standard_error },
            Outcome::Undefined(undefined) => Whole::Undefined(undefined.why.clone()),
        };
        Self {
            rows: point.rows,
            estimator: point.estimator.clone(),
            neighbours: point.neighbours,
            catalogue_version: point.catalogue_version,
            scores: scores.iter().map(|score| point.score(score).map(whole)).collect(),
        }
    }
}

/// The axes of a score's [`curve`](ScoreValue::curve).
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurveDescription {
    pub x: &'static str,
    pub y: &'static str,
    /// The score whose value is the x at which the curve is best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best: Option<&'static str>,
    /// A score whose curve belongs on the same axes, for comparison.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub beside: Option<&'static str>,
}

#[cfg(test)]
mod tests {
    use super::LeftOut;

    #[test]
    fn what_is_left_out_is_told_in_concepts_or_in_pairs() {
        let left_out = |concepts: &[u32], pairs| LeftOut { concepts: concepts.to_vec(), pairs, of: 4, why: "x".into() };
        assert_eq!(left_out(&[1], 0).to_string(), "over 3 of 4 concepts");
        assert_eq!(left_out(&[1], 6).to_string(), "over 3 of 4 concepts", "its six pairs");
        assert_eq!(left_out(&[], 3).to_string(), "over 9 of 12 pairs");
        assert_eq!(left_out(&[1], 7).to_string(), "over 5 of 12 pairs");
        assert!(left_out(&[1], 6).is_same_set(&LeftOut { why: "y".into(), ..left_out(&[1], 6) }));
        assert!(!left_out(&[1], 6).is_same_set(&left_out(&[2], 6)));
    }
}
