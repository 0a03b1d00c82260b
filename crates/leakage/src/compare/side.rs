//! One side of a comparison: the evaluations of a run, its folds, or of several runs trained alike.

use std::collections::{BTreeMap, BTreeSet};

use crate::point::{Outcome, Point, ScoreValue};

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

    /// The means of a concept in both sides, over the folds in which both have it.
    pub(super) fn concept_estimates(sides: [&Self; 2], score: &str, concept: &str) -> Option<[Estimate; 2]> {
        let [mut a, mut b] = sides.map(|side| side.of_folds(|fold| fold.concept(score, concept)));
        if a.len() == b.len() {
            (a, b) = a.into_iter().zip(b).filter(|(a, b)| a.is_some() && b.is_some()).unzip();
        }
        Some([mean_of_folds(&a)?, mean_of_folds(&b)?])
    }

    fn of_folds(&self, values: impl Fn(&Evaluations) -> Vec<Option<Measured>>) -> Vec<Option<Estimate>> {
        let of = |fold| Estimate::of_evaluations(&values(fold).into_iter().flatten().collect::<Vec<_>>());
        self.folds.iter().map(of).collect()
    }

    /// Both sides without the scores of folds in which one of them has no value: means over other folds would differ because
    /// the folds do. Also returns notes on these folds.
    pub(super) fn of_same_folds(sides: [&Self; 2], scores: &BTreeSet<&str>) -> ([Self; 2], Vec<String>) {
        let mut matched = sides.map(Self::clone);
        let mut notes: BTreeMap<(usize, String), Vec<String>> = BTreeMap::new();
        let count = sides[0].folds.len();
        for &score in scores.iter().filter(|_| count > 1 && count == sides[1].folds.len()) {
            let has = sides.map(|side| side.of_folds(|fold| fold.whole(score)));
            // A side without any value says why itself.
            if has.iter().any(|of| of.iter().flatten().next().is_none()) {
                continue;
            }
            for fold in 0..count {
                let Some(without) = has.iter().position(|of| of[fold].is_none()) else { continue };
                let mut reasons =
                    sides[without].folds[fold].points.iter().filter_map(|point| point.score(score)?.why());
                let (name, why) = (&sides[without].name, reasons.next_back());
                let why = why.map_or(format!("{name} does not have it there"), |why| why_not(name, Some(why)));
                notes.entry((fold, why)).or_default().push(score.to_owned());
                for point in matched.iter_mut().flat_map(|side| &mut side.folds[fold].points) {
                    for (_, outcome) in point.scores.iter_mut().filter(|(id, _)| id == score) {
                        let value = ScoreValue {
                            per_concept: outcome.per_concept().map(<[_]>::to_vec),
                            ..ScoreValue::default()
                        };
                        *outcome = Outcome::of(Some("no split has it in both runs".to_owned()), value);
                    }
                }
            }
        }
        let split = |fold: usize| &sides[0].folds[fold].points[0].split;
        let note = |((fold, why), scores): ((usize, String), Vec<String>)| {
            format!("split '{}' is left out of {}: {why}", split(fold), scores.join(", "))
        };
        (matched, notes.into_iter().map(note).collect())
    }
}

/// The values of a side that a verdict reads.
pub trait Sided {
    fn name(&self) -> &str;

    /// The score's mean. Errors say why there is none.
    fn estimate(&self, score: &str) -> Result<Estimate, String>;

    /// How the evaluations were made that have the score, defined or not; `None` where none has it.
    fn made(&self, score: &str) -> Option<Made>;

    fn has(&self, score: &str) -> bool {
        self.made(score).is_some()
    }
}

/// How evaluations were made.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// Estimator, neighbours and catalogue version, in words.
    pub by: BTreeSet<String>,
    /// Least and largest N.
    pub rows: (u64, u64),
}

impl Made {
    pub(super) fn by(estimator: &str, neighbours: u32, catalogue_version: u32) -> String {
        format!("{estimator}, {neighbours} neighbours, catalogue version {catalogue_version}")
    }

    pub(super) fn and(mut self, other: Self) -> Self {
        self.by.extend(other.by);
        self.rows = (self.rows.0.min(other.rows.0), self.rows.1.max(other.rows.1));
        self
    }
}

impl Sided for Side {
    fn name(&self) -> &str {
        &self.name
    }

    fn estimate(&self, score: &str) -> Result<Estimate, String> {
        mean_of_folds(&self.of_folds(|fold| fold.whole(score))).ok_or_else(|| {
            let reasons = self.points().filter_map(|point| point.score(score)?.why());
            why_not(&self.name, reasons.last())
        })
    }

    fn made(&self, score: &str) -> Option<Made> {
        let with = self.points().filter(|point| point.score(score).is_some());
        let of = |point: &Point| Made {
            by: [Made::by(&point.estimator, point.neighbours, point.catalogue_version)].into(),
            rows: (point.rows, point.rows),
        };
        with.map(of).reduce(Made::and)
    }
}

/// The mean over the folds that have one, or the only one with its error.
pub(super) fn mean_of_folds(folds: &[Option<Estimate>]) -> Option<Estimate> {
    match folds.iter().flatten().collect::<Vec<_>>()[..] {
        [one] => Some(*one),
        ref several => Estimate::of_folds(&several.iter().map(|fold| fold.mean).collect::<Vec<_>>()),
    }
}

/// Why a side has no mean of a score, from the last reason that its evaluations give.
pub(super) fn why_not(side: &str, reason: Option<&str>) -> String {
    match reason {
        Some(why) => format!("undefined in {side}: {why}"),
        None => format!("no evaluation of {side} that is compared has it"),
    }
}

fn whole(point: &Point, score: &str) -> Option<Measured> {
    let value = point.score(score)?.value()?;
    Some(Measured { value: value.value, standard_error: value.standard_error, rows: point.rows })
}

/// Why a score's values on these sides do not belong on one scale; `None` when they do.
pub(super) fn incomparable(sides: &[&dyn Sided], score: &str) -> Option<String> {
    let made = sides.iter().filter_map(|side| side.made(score)).reduce(Made::and)?;
    if made.by.len() > 1 {
        return Some(format!("the values were made by {}", made.by.into_iter().collect::<Vec<_>>().join(" and by ")));
    }
    let (least, most) = made.rows;
    let apart = (most - least) as f64 > ROWS_TOLERANCE * most as f64;
    (apart && AT_EQUAL_ROWS.contains(&score))
        .then(|| format!("comparable only at equal N, and evaluations have {least} to {most} rows"))
}
