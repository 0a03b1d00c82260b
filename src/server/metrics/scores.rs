//! Score families, derived from the latest points.

use super::families::{Families, SERIES_PER_FAMILY};
use super::names::{self, CURVE, CURVE_CONCEPT, CURVE_TASK, Family};
use crate::server::live::{Latest, Live};
use leakage::point::{Outcome, Point};
use leakage::score::catalogue::{Score, find};
use leakage::score::reads_task;

/// Families that every curve has, whatever its scores.
pub(super) const CURVE_FAMILIES: [Family; 12] = [
    names::STEP,
    names::EPOCH,
    names::SAMPLE_ROWS,
    names::REPEATED_ROWS,
    names::TIE_FRACTION,
    names::PROVISIONAL,
    names::EVALUATION_TIMESTAMP,
    names::STANDARD_ERROR,
    names::SCORE_UNDEFINED,
    names::CONCEPTS_LEFT_OUT,
    names::PAIRS_LEFT_OUT,
    names::PAIR_AGE,
];

/// Exports the scores of [`Live::latest`].
pub(super) fn add(families: &mut Families, live: &dyn Live, scores: &[Score]) {
    let (curves, left_out) = (live.latest(), live.curves_left_out());
    for latest in &curves {
        let curve = [&*latest.run, &*latest.split];
        families.add(&names::PROVISIONAL, &curve, latest.filling.into());
        if let Some(point) = latest.point.as_deref().filter(|point| !point.provisional) {
            families.add(&names::STEP, &curve, point.step as f64);
            families.add(&names::EPOCH, &curve, point.epoch.unwrap_or(f64::NAN));
            families.add(&names::SAMPLE_ROWS, &curve, point.rows as f64);
            families.add(&names::REPEATED_ROWS, &curve, point.repeated_rows as f64);
            families.add(&names::TIE_FRACTION, &curve, point.tie_fraction);
            families.add(&names::EVALUATION_TIMESTAMP, &curve, point.time);
        }
    }
    for score in scores {
        let (name, per_concept, per_task) =
            (names::score(score.id), names::per_concept(score.id), names::per_task(score.id));
        let about = format!("{} Unit: {}. {}, {}.", score.help, score.unit, score.paper.citation(), score.equation);
        let helps =
            ["", ", of each concept", ", of each of several tasks"].map(|of| format!("{}{of}. {about}", score.title));
        let own = [
            Family { name: &name, help: &helps[0], labels: &CURVE },
            Family { name: &per_concept, help: &helps[1], labels: &CURVE_CONCEPT },
            Family { name: &per_task, help: &helps[2], labels: &CURVE_TASK },
        ];
        for latest in &curves {
            add_score(families, score, &own, latest);
        }
        own.iter().for_each(|family| families.lack(family, left_out));
    }
    CURVE_FAMILIES.iter().for_each(|family| families.lack(family, left_out));
    families.omit(&names::VERDICT, curves.len().saturating_sub(SERIES_PER_FAMILY) as u64 + left_out);
}

/// Adds a score of a curve: its own value, those of each concept and of each task.
fn add_score(families: &mut Families, score: &Score, [own, per_concept, per_task]: &[Family; 3], latest: &Latest) {
    let Some(newest) = latest.point.as_ref().filter(|point| !point.provisional) else { return };
    let mut points = std::iter::once(newest).chain(&latest.late);
    let Some(outcome) = points.find_map(|point| Point::score(point, score.id)) else { return };
    let curve = [&*latest.run, &*latest.split];
    let with = |label| [&*latest.run, &*latest.split, label];
    if let Some(age) = outcome.age().or((latest.rolling && score.matrix).then_some(0.0)) {
        families.add(&names::PAIR_AGE, &with(score.id), age);
    }
    if let Some(left_out) = outcome.left_out() {
        families.add(&names::CONCEPTS_LEFT_OUT, &with(score.id), left_out.concepts.len() as f64);
        if left_out.pairs > 0 {
            families.add(&names::PAIRS_LEFT_OUT, &with(score.id), left_out.pairs as f64);
        }
    }
    if let Some(of_tasks) = outcome.per_task().filter(|_| find(score.id).is_some_and(reads_task)) {
        for (task, of_task) in latest.tasks.iter().zip(of_tasks) {
            if let Some(value) = of_task.value() {
                families.add(per_task, &with(task), value.value);
            }
        }
    }
    let value = match outcome {
        Outcome::Value(value) if value.value.is_finite() => value,
        _ => return families.add(&names::SCORE_UNDEFINED, &with(score.id), 1.0),
    };
    families.add(own, &curve, value.value);
    if let Some(error) = value.standard_error {
        families.add(&names::STANDARD_ERROR, &with(score.id), error);
    }
    if let Some(values) = value.per_concept.as_ref().filter(|_| score.per_concept) {
        for (concept, value) in latest.concepts.iter().zip(values) {
            if let Some(value) = value {
                families.add(per_concept, &with(concept), *value);
            }
        }
    }
}
