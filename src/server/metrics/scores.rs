//! Score families, derived from the latest points.

use std::sync::Arc;

use prometheus::{Error, Registry};

use super::families::{self, Described, Families, OMITTED, SERIES_PER_FAMILY};
use super::names;
use crate::server::live::{Latest, Live};
use leakage::point::{Outcome, Point};
use leakage::score::catalogue::{Score, find};
use leakage::score::reads_task;

const CURVE: [&str; 2] = ["run", "split"];
const CURVE_SCORE: [&str; 3] = ["run", "split", "score"];
const CURVE_CONCEPT: [&str; 3] = ["run", "split", "concept"];
const CURVE_TASK: [&str; 3] = ["run", "split", "task"];

/// Families that every curve has, whatever its scores.
pub(super) const CURVE_FAMILIES: [Described; 13] = [
    (names::STEP, "Optimiser steps at the newest curve point.", &CURVE),
    (names::EPOCH, "Epoch of the newest curve point.", &CURVE),
    (names::SAMPLE_ROWS, "Rows in the sample of the newest curve point.", &CURVE),
    (names::REPEATED_ROWS, "Copies of sampled rows, which are not scored.", &CURVE),
    (names::TIE_FRACTION, "Share of activations that equal another in their column, 0 to 1.", &CURVE),
    (names::PROVISIONAL, "1 while the newest sample is still filling and not part of the curve, else 0.", &CURVE),
    (
        names::EVALUATION_TIMESTAMP,
        "Time at which the sample of the newest curve point was closed, in Unix seconds.",
        &CURVE,
    ),
    (names::STANDARD_ERROR, "Standard error of a score, in the score's unit.", &CURVE_SCORE),
    (names::SCORE_UNDEFINED, "1 for a score that is undefined at the newest curve point.", &CURVE_SCORE),
    (names::CONCEPTS_LEFT_OUT, "Concepts the mean skips; not exported when 0.", &CURVE_SCORE),
    (names::PAIRS_LEFT_OUT, "Ordered pairs of concepts the mean skips; not exported when 0.", &CURVE_SCORE),
    (
        names::PAIR_AGE,
        "Age of the oldest pair of concepts in a score of a rolling window, in seconds; 0 if all are of the newest sample.",
        &CURVE_SCORE,
    ),
    OMITTED,
];

struct ScoreFamilies {
    id: &'static str,
    name: String,
    per_concept: Option<String>,
    /// The values of each task, of a score of the task.
    per_task: Option<String>,
    /// The score is over pairs of concepts.
    pairs: bool,
}

/// Exports the scores of [`Live::latest`]. Errors when a score's id does not form a metric name, or forms one that is taken.
pub fn register(registry: &Registry, live: Arc<dyn Live>, scores: &[Score]) -> Result<(), Error> {
    let mut described: Vec<Described<String>> =
        CURVE_FAMILIES.into_iter().map(|(name, help, labels)| (name.to_owned(), help.to_owned(), labels)).collect();
    let mut describe = |name: String, help: String, labels| {
        described.push((name.clone(), help, labels));
        name
    };
    let families = scores.iter().map(|score| {
        let about = format!("{} Unit: {}. {}, {}.", score.help, score.unit, score.paper.citation(), score.equation);
        let name = describe(names::score(score.id), format!("{}. {about}", score.title), &CURVE);
        let per_concept = score.per_concept.then(|| {
            let help = format!("{}, of each concept. {about}", score.title);
            describe(names::per_concept(score.id), help, &CURVE_CONCEPT)
        });
        let per_task = find(score.id).is_some_and(reads_task).then(|| {
            let help = format!("{}, of each of several tasks. {about}", score.title);
            describe(names::per_task(score.id), help, &CURVE_TASK)
        });
        ScoreFamilies { id: score.id, name, per_concept, per_task, pairs: score.matrix }
    });
    let scores: Vec<_> = families.collect();
    families::register(registry, described, move |families| {
        let (curves, left_out) = (live.latest(), live.curves_left_out());
        for latest in &curves {
            add_curve(families, &scores, latest);
        }
        families.omit_of_each(left_out);
        families.omit(names::VERDICT, curves.len().saturating_sub(SERIES_PER_FAMILY) as u64 + left_out);
    })
}

fn add_curve(families: &mut Families, scores: &[ScoreFamilies], latest: &Latest) {
    let curve = [&*latest.run, &*latest.split];
    let point = latest.point.as_deref().filter(|point| !point.provisional);
    families.add(names::PROVISIONAL, &CURVE, &curve, latest.filling.into());
    let Some(point) = point else { return };
    families.add(names::STEP, &CURVE, &curve, point.step as f64);
    if let Some(epoch) = point.epoch {
        families.add(names::EPOCH, &CURVE, &curve, epoch);
    }
    families.add(names::SAMPLE_ROWS, &CURVE, &curve, point.rows as f64);
    families.add(names::REPEATED_ROWS, &CURVE, &curve, point.repeated_rows as f64);
    families.add(names::TIE_FRACTION, &CURVE, &curve, point.tie_fraction);
    families.add(names::EVALUATION_TIMESTAMP, &CURVE, &curve, point.time);
    for score in scores {
        let mut points = std::iter::once(point).chain(latest.late.iter().map(|late| &**late));
        if let Some(point) = points.find(|point| point.score(score.id).is_some()) {
            add_score(families, score, latest, point);
        }
    }
}

fn add_score(families: &mut Families, score: &ScoreFamilies, latest: &Latest, point: &Point) {
    let curve = [&*latest.run, &*latest.split];
    let with_score = [&*latest.run, &*latest.split, score.id];
    let Some(outcome) = point.score(score.id) else { return };
    if let Some(age) = outcome.age().or((latest.rolling && score.pairs).then_some(0.0)) {
        families.add(names::PAIR_AGE, &CURVE_SCORE, &with_score, age);
    }
    if let Some(left_out) = outcome.left_out() {
        families.add(names::CONCEPTS_LEFT_OUT, &CURVE_SCORE, &with_score, left_out.concepts.len() as f64);
        if left_out.pairs > 0 {
            families.add(names::PAIRS_LEFT_OUT, &CURVE_SCORE, &with_score, left_out.pairs as f64);
        }
    }
    if let (Some(family), Some(of_tasks)) = (&score.per_task, outcome.per_task()) {
        for (task, of_task) in latest.tasks.iter().zip(of_tasks) {
            if let Some(value) = of_task.value() {
                families.add(family, &CURVE_TASK, &[&*latest.run, &*latest.split, task], value.value);
            }
        }
    }
    let value = match outcome {
        Outcome::Value(value) if value.value.is_finite() => value,
        _ => return families.add(names::SCORE_UNDEFINED, &CURVE_SCORE, &with_score, 1.0),
    };
    families.add(&score.name, &CURVE, &curve, value.value);
    if let Some(error) = value.standard_error {
        families.add(names::STANDARD_ERROR, &CURVE_SCORE, &with_score, error);
    }
    if let (Some(family), Some(values)) = (&score.per_concept, &value.per_concept) {
        for (concept, value) in latest.concepts.iter().zip(values) {
            if let Some(value) = value {
                families.add(family, &CURVE_CONCEPT, &[&*latest.run, &*latest.split, concept], *value);
            }
        }
    }
}
