//! One side of a comparison: the evaluations of a run, its folds, or of several runs trained alike.

use std::collections::BTreeSet;

use crate::point::{Outcome, Point};

use super::interval::{Estimate, Measured};
use super::usual::{AT_EQUAL_ROWS, ROWS_TOLERANCE};

/// The newest finished evaluations of one run's split, oldest first.
#[derive(Clone, Debug)]
pub struct Evaluations {
    /// k names, in the order of values per concept.
    pub concepts: Vec<String>,
    pub points: Vec<Point>,
}

/// A model, or a class of models.
#[derive(Clone, Debug)]
pub struct Side {
    pub name: String,
    /// One: repeated evaluations of one model on the same rows. More: folds, or runs trained alike, which are the
    /// independent values; the evaluations of each are averaged.
    pub folds: Vec<Evaluations>,
}

impl Evaluations {
    /// The score at each evaluation; `None` where it has no value.
    pub(super) fn whole(&self, score: &str) -> Vec<Option<Measured>> {
        self.points.iter().map(|point| whole(point, score)).collect()
    }

    /// A concept's value at each evaluation. The sampling error of one concept is not kept: √k times that of the mean
    /// over concepts stands for it. That is its root mean square over concepts where their errors are independent, and
    /// more where they agree.
    pub(super) fn concept(&self, score: &str, concept: &str) -> Vec<Option<Measured>> {
        let Some(place) = self.concepts.iter().position(|name| name == concept) else { return Vec::new() };
        let scale = (self.concepts.len() as f64).sqrt();
        let of = |point: &Point| {
            let outcome = point.score(score)?;
            let value = outcome.per_concept()?.get(place).copied().flatten()?;
            let standard_error = outcome.value().and_then(|whole| Some(scale * whole.standard_error?));
            Some(Measured { value, standard_error, rows: point.rows })
        };
        self.points.iter().map(of).collect()
    }
}

impl Side {
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.folds.iter().flat_map(|fold| &fold.points)
    }

    /// Whether any evaluation has the score, defined or not.
    pub fn has(&self, score: &str) -> bool {
        self.points().any(|point| point.score(score).is_some())
    }

    /// The score's mean. Errors say why there is none.
    pub fn estimate(&self, score: &str) -> Result<Estimate, String> {
        self.mean_of(|fold| fold.whole(score)).ok_or_else(|| self.why_not(score))
    }

    /// A concept's mean.
    pub fn concept_estimate(&self, score: &str, concept: &str) -> Option<Estimate> {
        self.mean_of(|fold| fold.concept(score, concept))
    }

    fn mean_of(&self, values: impl Fn(&Evaluations) -> Vec<Option<Measured>>) -> Option<Estimate> {
        let of = |fold: &Evaluations| values(fold).into_iter().flatten().collect::<Vec<_>>();
        let folds = self.folds.iter().filter_map(|fold| Estimate::of_evaluations(&of(fold)));
        let folds: Vec<Estimate> = folds.collect();
        match folds.as_slice() {
            [one] => Some(*one),
            several => Estimate::of_folds(&several.iter().map(|fold| fold.mean).collect::<Vec<_>>()),
        }
    }

    fn why_not(&self, score: &str) -> String {
        let reason = self.points().filter_map(|point| match point.score(score)? {
            Outcome::Undefined(undefined) => Some(undefined.why.clone()),
            Outcome::Value(_) => None,
        });
        match reason.last() {
            Some(why) => format!("undefined in {}: {why}", self.name),
            None => format!("no evaluation of {} that is compared has it", self.name),
        }
    }
}

fn whole(point: &Point, score: &str) -> Option<Measured> {
    let value = point.score(score)?.value()?;
    Some(Measured { value: value.value, standard_error: value.standard_error, rows: point.rows })
}

/// Why a score's values on these sides do not belong on one scale; `None` when they do.
pub(super) fn incomparable(sides: &[&Side], score: &str) -> Option<String> {
    let with = || sides.iter().flat_map(|side| side.points()).filter(|point| point.score(score).is_some());
    let made: BTreeSet<String> = with()
        .map(|point| {
            let Point { estimator, neighbours, catalogue_version, .. } = point;
            format!("{estimator}, {neighbours} neighbours, catalogue version {catalogue_version}")
        })
        .collect();
    if made.len() > 1 {
        return Some(format!("the values were made by {}", made.into_iter().collect::<Vec<_>>().join(" and by ")));
    }
    let (least, most) = (with().map(|p| p.rows).min()?, with().map(|p| p.rows).max()?);
    let apart = (most - least) as f64 > ROWS_TOLERANCE * most as f64;
    (apart && AT_EQUAL_ROWS.contains(&score))
        .then(|| format!("comparable only at equal N, and evaluations have {least} to {most} rows"))
}
