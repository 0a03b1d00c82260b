//! The input of the rules: a run and its evaluations.

use crate::limits::INTERVAL;
use crate::point::{Outcome, Point};
use crate::run::Run;
use crate::score::catalogue::named;

use super::judgement::Evidence;

/// Standard errors between that interval's end and the mean of a normal distribution of which 80 % lie beyond it.
const POWER: f64 = 0.84;

/// A run and the finished evaluations of one split, oldest first, at least one.
pub struct Curve<'a> {
    pub run: &'a Run,
    points: &'a [Point],
    later: &'a [Point],
}

/// Scores of the labels alone, which a later evaluation has for an earlier one, too.
const OF_LABELS: [&str; 2] = ["reference_accuracy_linear", "reference_accuracy_mlp"];

/// A value with its sampling error.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    score: String,
    pub value: f64,
    pub standard_error: Option<f64>,
    step: u64,
}

impl<'a> Curve<'a> {
    /// `None` without evaluations.
    pub fn new(run: &'a Run, points: &'a [Point]) -> Option<Self> {
        (!points.is_empty()).then_some(Self { run, points, later: &[] })
    }

    /// The evaluations that came after the newest of these.
    pub fn before(self, later: &'a [Point]) -> Self {
        Self { later, ..self }
    }

    pub fn newest(&self) -> &'a Point {
        self.points.last().expect("a curve has a point")
    }

    /// Evaluations of the newest one's N, to 1 %: ICL has another scale at another N.
    pub fn alike(&self) -> impl Iterator<Item = &'a Point> {
        let rows = self.newest().rows as f64;
        self.points.iter().filter(move |point| (point.rows as f64 - rows).abs() <= 0.01 * rows)
    }

    /// A score at the newest evaluation that has it, because slow ones are not computed at each. Errors say why there is
    /// none.
    pub fn measured(&self, score: &str) -> Result<Measured, String> {
        match self.newest_of(score) {
            Some((point, Outcome::Value(_))) => Ok(measured_at(point, score).expect("it has a value")),
            Some((_, Outcome::Undefined(undefined))) => {
                Err(format!("{} is undefined: {}", named(score), undefined.why))
            }
            None => Err(format!("needs {}, which no evaluation has", named(score))),
        }
    }

    /// The newest evaluation that has a score, and the score.
    fn newest_of(&self, score: &str) -> Option<(&'a Point, &'a Outcome)> {
        let later = if OF_LABELS.contains(&score) { self.later } else { &[] };
        self.points.iter().rev().chain(later).find_map(|point| Some((point, point.score(score)?)))
    }

    /// A score at the evaluation that another one is from.
    pub fn measured_with(&self, other: &Measured, score: &str) -> Option<Measured> {
        measured_at(self.point_of(other)?, score)
    }

    /// The evaluation that a score is from.
    pub fn point_of(&self, measured: &Measured) -> Option<&'a Point> {
        self.points.iter().rev().find(|point| point.step == measured.step)
    }

    /// The points of a curve behind a score, at the newest evaluation that has it.
    pub fn behind(&self, score: &str) -> &'a [(f64, Option<f64>)] {
        let value = self.points.iter().rev().find_map(|point| point.score(score)?.value());
        value.and_then(|value| value.curve.as_deref()).unwrap_or_default()
    }

    /// Whether no evaluation has the score yet, not even as undefined.
    pub fn is_due(&self, score: &str) -> bool {
        self.newest_of(score).is_none()
    }

    /// A score of each concept that has it at the newest evaluation with the score, and the concept's name; the lowest
    /// first.
    pub fn of_concepts(&self, score: &str) -> Vec<(f64, &str)> {
        let found = self.points.iter().rev().find_map(|point| point.score(score)?.per_concept());
        let values = found.unwrap_or_default().iter().zip(&self.run.concepts);
        let mut named: Vec<(f64, &str)> =
            values.filter_map(|(value, concept)| Some(((*value)?, concept.name.as_str()))).collect();
        named.sort_by(|a, b| a.0.total_cmp(&b.0));
        named
    }
}

pub fn measured_at(point: &Point, score: &str) -> Option<Measured> {
    let value = point.score(score)?.value()?;
    let (value, standard_error) = (value.value, value.standard_error);
    Some(Measured { score: score.to_owned(), value, standard_error, step: point.step })
}

impl Measured {
    pub fn of(score: &str, value: f64, step: u64) -> Self {
        Self { score: score.to_owned(), value, standard_error: None, step }
    }

    pub fn score(&self) -> &str {
        &self.score
    }

    /// The smallest true value that is found above the limit with a power of 80 %, given this error.
    pub fn found_from(&self, limit: f64) -> f64 {
        limit + (INTERVAL + POWER) * self.standard_error.unwrap_or(0.0)
    }

    pub fn half_width(&self) -> f64 {
        INTERVAL * self.standard_error.unwrap_or(0.0)
    }

    /// Its whole interval is above.
    pub fn is_above(&self, limit: f64) -> bool {
        self.value - self.half_width() > limit
    }

    /// Its whole interval is below.
    pub fn is_below(&self, limit: f64) -> bool {
        self.value + self.half_width() < limit
    }

    /// This minus the other, with errors as if independent: too large where both share rows.
    pub fn less(&self, other: &Self) -> Self {
        let square = |of: &Self| of.standard_error.unwrap_or(0.0).powi(2);
        let error = (square(self) + square(other)).sqrt();
        Self {
            score: format!("{} − {}", self.score, other.score),
            value: self.value - other.value,
            standard_error: (error > 0.0).then_some(error),
            step: self.step,
        }
    }

    pub fn named(self, score: impl Into<String>) -> Self {
        Self { score: score.into(), ..self }
    }

    pub fn beside(&self, limit: impl Into<Option<f64>>) -> Evidence {
        Evidence {
            score: self.score.clone(),
            value: self.value,
            standard_error: self.standard_error,
            limit: limit.into(),
            step: self.step,
        }
    }
}
