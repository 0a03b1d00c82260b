//! The curves of several scores, or of all concepts, as columns: a fifth of the bytes of a list of points.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::history::{HistoryError, SeriesPoint};
use leakage::point::LeftOut;
use leakage::step::Ordinal;

use super::app::App;

/// Evaluations in ascending order of steps, and the values of each score there. Those that are superseded follow the current
/// one of their step. Values are rounded to [six significant digits](rounded).
#[derive(Serialize)]
pub(super) struct Curves {
    step: Vec<u64>,
    epoch: Vec<Option<f64>>,
    time: Vec<f64>,
    rows: Vec<u64>,
    tie_fraction: Vec<f64>,
    /// Places of evaluations whose sample was still filling, and of those cut short.
    provisional: Vec<usize>,
    incomplete: Vec<usize>,
    /// Indices of superseded evaluations, to whose step or an earlier one the run has returned since. One list per attempt
    /// that made any, and per evaluation of a step that was evaluated again.
    superseded: Vec<Vec<usize>>,
    scores: BTreeMap<String, Column>,
}

#[derive(Default, Serialize)]
struct Column {
    value: Vec<Option<f64>>,
    standard_error: Vec<Option<f64>>,
    /// Places without a value, by reason.
    undefined: BTreeMap<String, Vec<usize>>,
    /// The concepts or pairs that means leave out, from each place at which that changes.
    left_out: Vec<(usize, Option<LeftOut>)>,
    /// The newest p-value.
    p_value: Option<f64>,
}

impl Curves {
    /// The curves of a run's split from `first_step` on. Blocks.
    pub fn read(app: &App, run: &str, split: &str, scores: &[String], first_step: u64) -> Result<Self, HistoryError> {
        let mut places: BTreeMap<Key, SeriesPoint> = BTreeMap::new();
        let mut series = Vec::new();
        for score in scores {
            let points = app.history.series(run, split, score, None, first_step, None)?;
            for point in &points {
                places.entry(key(point)).or_insert_with(|| point.clone());
            }
            series.push((score, points));
        }
        let at: BTreeMap<Key, usize> = places.keys().enumerate().map(|(at, key)| (*key, at)).collect();
        let each = |marked: fn(&SeriesPoint) -> bool| {
            places.values().enumerate().filter(|(_, point)| marked(point)).map(|(at, _)| at).collect()
        };
        let mut by_attempt: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for ((_, attempt), place) in &at {
            if let Some(attempt) = attempt {
                by_attempt.entry(*attempt).or_default().push(*place);
            }
        }
        Ok(Self {
            step: places.keys().map(|(step, _)| *step).collect(),
            epoch: places.values().map(|point| point.epoch).collect(),
            // A millisecond is enough for an axis.
            time: places.values().map(|point| (point.time * 1000.0).round() / 1000.0).collect(),
            rows: places.values().map(|point| point.rows).collect(),
            tie_fraction: places.values().map(|point| rounded(point.tie_fraction)).collect(),
            provisional: each(|point| point.provisional),
            incomplete: each(|point| point.incomplete),
            superseded: by_attempt.into_values().collect(),
            scores: series.into_iter().map(|(score, points)| (score.clone(), column(&points, &at))).collect(),
        })
    }
}

/// The step and, for a superseded evaluation, its attempt and its number among those of the step.
type Key = (u64, Option<((Option<u32>, Option<u32>), Ordinal)>);

fn key(point: &SeriesPoint) -> Key {
    (point.step, point.superseded.then_some((point.attempt, point.ordinal)))
}

/// Returns at most `most` places, two at least, evenly among `of`, with the first and the last.
pub(super) fn spread(of: usize, most: usize) -> impl Iterator<Item = usize> {
    (0..of.min(most)).map(move |at| if of <= most { at } else { at * (of - 1) / (most - 1) })
}

/// Rounds to six significant digits, more than a chart can show, in half the bytes of a value.
pub(super) fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

fn column(points: &[SeriesPoint], at: &BTreeMap<Key, usize>) -> Column {
    let mut column = Column { value: vec![None; at.len()], standard_error: vec![None; at.len()], ..Column::default() };
    for point in points {
        let place = at[&key(point)];
        column.value[place] = point.value.map(rounded);
        column.standard_error[place] = point.standard_error.map(rounded);
        if let (None, Some(why)) = (point.value, &point.undefined) {
            column.undefined.entry(why.clone()).or_default().push(place);
        }
        let before = column.left_out.last().and_then(|(_, left_out)| left_out.clone());
        if before != point.left_out {
            column.left_out.push((place, point.left_out.clone()));
        }
        column.p_value = point.p_value.filter(|_| !point.superseded).or(column.p_value);
    }
    column
}

/// A score of each concept at evaluations spread evenly over the run.
#[derive(Serialize)]
pub(super) struct ConceptCurves {
    step: Vec<u64>,
    epoch: Vec<Option<f64>>,
    concepts: Vec<String>,
    /// One row for each concept.
    values: Vec<Vec<Option<f64>>>,
}

impl ConceptCurves {
    /// At most `most` evaluations, the first and the newest among them. Blocks.
    pub fn read(app: &App, run: &str, split: &str, score: &str, most: usize) -> Result<Self, HistoryError> {
        let steps = app.history.newest_steps(run, split, usize::MAX >> 1)?;
        let chosen: BTreeSet<u64> = spread(steps.len(), most).map(|at| steps[at]).collect();
        let (declared, _) = app.history.listed(run)?;
        let concepts: Vec<String> = declared.run.concepts.iter().map(|concept| concept.name.clone()).collect();
        let (mut step, mut epoch, mut values) = (Vec::new(), Vec::new(), vec![Vec::new(); concepts.len()]);
        for at in chosen {
            let Some(point) = app.history.point(run, split, Some(at), false)? else { continue };
            let Some(of) = point.score(score).and_then(|outcome| outcome.per_concept()) else { continue };
            step.push(point.step);
            epoch.push(point.epoch);
            for (row, value) in values.iter_mut().zip(of) {
                row.push(value.map(rounded));
            }
        }
        Ok(Self { step, epoch, concepts, values })
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn values_of_curves_have_six_digits() {
        for (value, expected) in [(2.0 / 3.0, "0.666667"), (-1e-7 / 3.0, "-3.33333e-8"), (0.5, "0.5"), (0.0, "0.0")] {
            assert_eq!(serde_json::to_string(&rounded(value)).unwrap(), expected);
        }
    }
}
