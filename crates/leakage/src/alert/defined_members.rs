//! The concepts or pairs that a score's mean was over at the previous evaluation, so that a change of that set is not
//! taken for a change of the score.

use crate::point::{LeftOut, ScoreValue};
use crate::score::catalogue::named;

/// Least share of the concepts or pairs that both evaluations must have.
const COMMON: f64 = 0.5;

/// A mean and its parts at one evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Set {
    left_out: Option<LeftOut>,
    value: f64,
    /// The values of concepts, or of pairs for a score that has them, NaN where there is none; empty where the score is
    /// not their plain mean. Four bytes each: 50 kB for the pairs of 112 concepts.
    parts: Vec<f32>,
}

impl Set {
    pub fn of(value: &ScoreValue) -> Self {
        let parts: Vec<Option<f64>> = match (&value.matrix, &value.per_concept) {
            (Some(matrix), _) => {
                let off_diagonal = |(i, row): (usize, &Vec<Option<f64>>)| {
                    row.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, cell)| *cell).collect::<Vec<_>>()
                };
                matrix.iter().enumerate().flat_map(off_diagonal).collect()
            }
            // The means of pairs per concept are over different sets themselves.
            (None, Some(_)) if value.left_out.as_ref().is_some_and(|left_out| left_out.pairs > 0) => Vec::new(),
            (None, per_concept) => per_concept.clone().unwrap_or_default(),
        };
        let known = || parts.iter().flatten();
        let mean = known().sum::<f64>() / known().count().max(1) as f64;
        let is_plain = (mean - value.value).abs() <= 1e-9 * (1.0 + value.value.abs());
        let parts =
            if is_plain { parts.iter().map(|part| part.map_or(f32::NAN, |x| x as f32)).collect() } else { vec![] };
        Self { left_out: value.left_out.clone(), value: value.value, parts }
    }

    /// How far the mean moves from `before` to this evaluation only because it is over another set: the change of its
    /// distance from the mean over what both have. 0 where the sets are equal, `None` where too little is common.
    pub fn moved_since(&self, before: &Self) -> Option<f64> {
        let equal = match (&self.left_out, &before.left_out) {
            (None, None) => true,
            (Some(a), Some(b)) => a.is_same_set(b),
            _ => false,
        };
        if equal {
            return Some(0.0);
        }
        let pairs = || self.parts.iter().zip(&before.parts).filter(|(a, b)| !a.is_nan() && !b.is_nan());
        let count = pairs().count();
        if self.parts.len() != before.parts.len() || (count as f64) < COMMON * self.parts.len() as f64 || count == 0 {
            return None;
        }
        let (now, then) = pairs().fold((0.0, 0.0), |(now, then), (a, b)| (now + f64::from(*a), then + f64::from(*b)));
        let (now, then) = (now / count as f64, then / count as f64);
        Some((self.value - now) - (before.value - then))
    }
}

/// The score's value in words, with what it is over: "joint leakage (joint_leakage) is 0.5100 over 111 of 112 concepts".
pub fn in_words(score: &str, value: &ScoreValue) -> String {
    let over = value.left_out.as_ref().map_or(String::new(), |left_out| format!(" {left_out}"));
    format!("{} is {:.4}{over}", named(score), value.value)
}
