//! The scores: one catalogue, one file per family, and the evaluation of a sample.

pub mod catalogue;

mod accuracy;
mod activity;
pub mod agreement;
mod calibration;
pub mod clarity;
mod completeness;
mod compute;
mod concept_alignment;
mod concept_rows;
mod concordance;
mod conditional;
mod conditional_null;
mod contributions;
mod dci;
mod disentanglement;
mod embedding;
pub mod expected;
mod feature_alignment;
mod firing;
mod guard;
mod head;
mod holdout;
mod ids;
mod impurity;
mod intervention;
mod joint;
mod labels;
mod leakage;
mod leaking_rows;
mod left_out;
mod matching;
mod meter;
mod misdeclared;
mod niche;
mod numbers;
mod paired;
mod pairs;
mod r4;
mod random_concepts;
mod reference;
mod representation;
mod task;
mod tasks;
mod term;
mod text;
mod trust;
mod units;
mod words;

use std::ops::ControlFlow;

use crate::point::{Outcome, Significance};
use crate::prepare::Prepared;
use catalogue::{CATALOGUE, Cost, Input, Score};
use compute::{compute, missing, test_of};
pub use guard::panic_text;
pub use leaking_rows::{
    LeakingRow, LeakingRows, LeakingRowsOfAll, LeakingRowsOfTasks, SCORE as SCORE_OF_ROWS, Share, task_named,
};
use meter::Meter;
pub use misdeclared::{OTHER_ORDER, OTHER_TASK_ORDER, of_other_order, of_other_threshold, of_rare_class};
pub use paired::Influences;
pub use reference::{HEAD_GAP, REFERENCE_ACCURACY};
pub use tasks::reads_task;

/// The scores of the catalogue to evaluate.
pub enum Wanted<'a> {
    /// All whose inputs the sample has.
    Available,
    /// All of these costs whose inputs the sample has.
    AvailableAt(&'a [Cost]),
    /// These; one whose inputs are missing is undefined, with the missing input named.
    Named(&'a [&'static Score]),
}

/// Evaluates scores in catalogue order, those of several tasks for each task. `before_each` is called ahead of every score that
/// is computed, with its position and the number of scores; `None` when it asks to break off. A score that panics is undefined.
pub fn evaluate(
    prepared: &Prepared,
    wanted: Wanted,
    mut before_each: impl FnMut(usize, usize, &Score) -> ControlFlow<()>,
) -> Option<Vec<(&'static Score, Outcome)>> {
    let chosen: Vec<&'static Score> = match wanted {
        Wanted::Available => CATALOGUE.iter().filter(|score| missing(prepared, score).is_empty()).collect(),
        Wanted::AvailableAt(costs) => available_at(prepared, costs).collect(),
        Wanted::Named(named) => {
            let named = |score: &Score| named.iter().copied().find(|named| named.id == score.id);
            CATALOGUE.iter().filter_map(named).collect()
        }
    };
    if !prepared.has_task_views() {
        let total = chosen.len();
        return compute(prepared, &chosen, |at, score| before_each(at, total, score));
    }
    let (of_tasks, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|score| reads_task(score));
    let total = others.len() + prepared.run().task_count() * of_tasks.len();
    let mut scores = compute(prepared, &others, |at, score| before_each(at, total, score))?;
    if !of_tasks.is_empty() {
        scores.extend(tasks::evaluate(prepared, &of_tasks, |at, score| before_each(others.len() + at, total, score))?);
    }
    scores.sort_by_key(|(score, _)| CATALOGUE.iter().position(|row| row.id == score.id));
    Some(scores)
}

/// Tests the scores of the catalogue that have a test and whose inputs the sample has, among the `wanted`. Slow: see
/// [`Cost::Slow`]. `before_each` is as in [`evaluate`]. A test that takes more memory than it may is left out, as its score
/// is; one that panics is left out with a remark.
pub fn test(
    prepared: &Prepared,
    wanted: impl Fn(&Score) -> bool,
    mut before_each: impl FnMut(usize, usize, &Score) -> ControlFlow<()>,
) -> Option<Vec<(&'static Score, Significance)>> {
    let fits = |score: &Score| Meter::new(prepared).take(prepared, score).is_ok();
    let tested: Vec<&'static Score> = testable(prepared).filter(|score| wanted(score) && fits(score)).collect();
    let is_of_tasks = |score: &&'static Score| prepared.has_task_views() && reads_task(score);
    let (of_tasks, others): (Vec<&'static Score>, Vec<&'static Score>) = tested.into_iter().partition(is_of_tasks);
    let total = others.len() + prepared.run().task_count() * of_tasks.len();
    let mut found = Vec::with_capacity(total);
    for (at, score) in others.iter().enumerate() {
        if before_each(at, total, score).is_break() {
            return None;
        }
        found.extend(test_of(prepared, score).map(|significance| (*score, significance)));
    }
    if !of_tasks.is_empty() {
        found.extend(tasks::test(prepared, &of_tasks, |at, score| before_each(others.len() + at, total, score))?);
    }
    Some(found)
}

/// The scores of these costs whose inputs the sample has.
fn available_at<'a>(prepared: &'a Prepared, costs: &'a [Cost]) -> impl Iterator<Item = &'static Score> + 'a {
    let wanted = move |score: &&Score| costs.contains(&cost_of(prepared, score)) && missing(prepared, score).is_empty();
    CATALOGUE.iter().filter(wanted)
}

/// The scores that have a test and whose inputs the sample has.
fn testable<'a>(prepared: &'a Prepared) -> impl Iterator<Item = &'static Score> + 'a {
    CATALOGUE.iter().filter(|score| score.test.is_some() && missing(prepared, score).is_empty())
}

/// The row's cost, or slow where an input has to be trained first.
fn cost_of(prepared: &Prepared, score: &Score) -> Cost {
    let trains = score.inputs.contains(&Input::ReferenceTaskAccuracy)
        && prepared.run().constants.reference_task_accuracy.is_none();
    if trains { Cost::Slow } else { score.cost }
}
