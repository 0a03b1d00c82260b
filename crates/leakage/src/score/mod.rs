//! The scores: one catalogue, one file per family, and the evaluation of a sample.

pub mod catalogue;

mod accuracy;
mod activity;
pub mod agreement;
mod calibration;
pub mod clarity;
mod completeness;
mod concept_alignment;
mod concept_rows;
mod concordance;
mod conditional;
mod conditional_embedding;
mod conditional_null;
mod contributions;
mod dci;
mod disentanglement;
mod embedding;
pub mod expected;
mod feature_alignment;
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
mod multiple;
mod niche;
mod numbers;
mod paired;
mod pairs;
mod r4;
mod reference;
mod representation;
mod task;
mod term;
mod text;
mod trust;
mod units;
mod words;

use std::ops::ControlFlow;

use crate::point::{Outcome, Significance};
use crate::prepare::Prepared;
use crate::tensor::TensorName;
use catalogue::{CATALOGUE, Cost, Input, Score};
use guard::guarded;
pub use guard::panic_text;
pub use leaking_rows::{LeakingRow, LeakingRows, LeakingRowsOfAll, SCORE as SCORE_OF_ROWS, Share};
use meter::Meter;
pub use misdeclared::{OTHER_ORDER, of_other_order, of_rare_class};
pub use paired::Influences;

/// The scores of the catalogue to evaluate.
pub enum Wanted<'a> {
    /// All whose inputs the sample has.
    Available,
    /// All of these costs whose inputs the sample has.
    AvailableAt(&'a [Cost]),
    /// These; one whose inputs are missing is undefined, with the missing input named.
    Named(&'a [&'static Score]),
}

/// Evaluates scores in catalogue order. `before_each` is called ahead of every score that is computed, with its
/// position and the number of scores; `None` when it asks to break off. A score that panics is undefined.
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
    let total = chosen.len();
    let mut meter = Meter::new(prepared);
    let evaluate_one = |(at, score): (usize, &'static Score)| {
        let missing = missing(prepared, score);
        let outcome = if !missing.is_empty() {
            let was = if missing.len() == 1 { "was" } else { "were" };
            Outcome::undefined(format!("needs {}, which {was} not given", missing.join(" and ")))
        } else if let Some(why) = not_for_latents(prepared, score) {
            Outcome::undefined(why)
        } else if let Err(why) = meter.take(prepared, score) {
            Outcome::undefined(why)
        } else {
            if before_each(at, total, score).is_break() {
                return None;
            }
            guarded(prepared, score.id, || finite((score.compute)(prepared))).unwrap_or_else(Outcome::undefined)
        };
        Some((score, outcome))
    };
    let scores = chosen.into_iter().enumerate().map(evaluate_one).collect();
    prepared.note_peak(meter.peak());
    scores
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
    let mut found = Vec::with_capacity(tested.len());
    for (at, score) in tested.iter().enumerate() {
        if before_each(at, tested.len(), score).is_break() {
            return None;
        }
        found.extend(test_of(prepared, score).map(|significance| (*score, significance)));
    }
    Some(found)
}

fn test_of(prepared: &Prepared, score: &Score) -> Option<Significance> {
    let test = score.test?;
    let significance = guarded(prepared, &format!("the test of {}", score.id), || test(prepared));
    significance.map_err(|why| prepared.remark(format!("{} has no p-values: {why}", score.id))).ok()
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

/// Inputs of a score that the sample and its run do not have.
fn missing(prepared: &Prepared, score: &Score) -> Vec<String> {
    let has = |input: &Input| match input {
        Input::Tensor(name) => prepared.column(*name).is_some(),
        Input::Numbers(name) => prepared.column(*name).is_some() && prepared.run().has_continuous_labels(*name),
        Input::EitherTensor(a, b) => prepared.column(*a).is_some() || prepared.column(*b).is_some(),
        Input::ReferenceTaskAccuracy => {
            prepared.run().constants.reference_task_accuracy.is_some() || can_train_heads(prepared)
        }
        Input::HeadWeights => !prepared.run().constants.head_weights.is_empty(),
        Input::ConceptParts => !prepared.run().constants.concept_parts.is_empty(),
    };
    score.inputs.iter().filter(|input| !has(input)).map(Input::to_string).collect()
}

/// Why a score that reads each concept's own activation has no value where activations are latents.
fn not_for_latents(prepared: &Prepared, score: &Score) -> Option<String> {
    let latents = prepared.run().latents.filter(|_| !score.latents)?;
    let reads_activations = |input: &Input| match input {
        Input::Tensor(name) => *name == TensorName::ConceptActivations,
        // Active concepts take the place of activations, which take that of embeddings.
        Input::EitherTensor(a, b) => {
            *a == TensorName::ConceptActivations
                || (*b == TensorName::ConceptActivations && prepared.column(*a).is_none())
        }
        _ => false,
    };
    score.inputs.iter().any(reads_activations).then(|| {
        format!(
            "concept_activations hold {latents} latents, of which none belongs to a concept: alignment matches them, \
             and aligned_ois scores the matched ones"
        )
    })
}

/// Without a stated reference accuracy, heads are trained on the true concepts.
fn can_train_heads(prepared: &Prepared) -> bool {
    [TensorName::ConceptLabels, TensorName::TaskLabels].into_iter().all(|name| prepared.column(name).is_some())
}

/// The row's cost, or slow where an input has to be trained first.
fn cost_of(prepared: &Prepared, score: &Score) -> Cost {
    let trains = score.inputs.contains(&Input::ReferenceTaskAccuracy)
        && prepared.run().constants.reference_task_accuracy.is_none();
    if trains { Cost::Slow } else { score.cost }
}

/// No score may give out NaN or an infinity: where arithmetic failed all the same, say so.
fn finite(outcome: Outcome) -> Outcome {
    let cells = outcome.matrix().unwrap_or_default().iter().flatten();
    let parts = outcome.per_concept().unwrap_or_default().iter().chain(cells).flatten();
    let whole = outcome.value().map(|value| [Some(value.value), value.standard_error]);
    let curve = outcome.value().and_then(|value| value.curve.as_ref()).into_iter().flatten();
    let on_curve: Vec<f64> = curve.filter_map(|(_, value)| *value).collect();
    let mut numbers = whole.iter().flatten().flatten().chain(parts).chain(&on_curve);
    match numbers.find(|number| !number.is_finite()) {
        Some(number) => Outcome::undefined(format!("the arithmetic left the range of numbers ({number})")),
        None => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{Batch, NonFinite};
    use crate::run::{Concept, Run, RunFields};
    use crate::sample::Sample;
    use crate::tensor::{DataType, Tensor};
    use information::Settings;

    #[test]
    fn a_test_that_panics_leaves_a_remark() {
        let concepts = vec![Concept { name: "c".into(), cardinality: 2, ..Concept::default() }];
        let run = Run::try_from(RunFields { name: "r".into(), concepts, ..RunFields::default() }).unwrap();
        let labels = Tensor::numbers(TensorName::TaskLabels, DataType::UInt8, &[2], vec![0, 1].into()).unwrap();
        let sample = Sample::of_batch(&Batch::new(vec![labels], &run, NonFinite::Reject).unwrap(), &run);
        let prepared = Prepared::new(&sample, &run, Settings::default());
        let score = Score { test: Some(|_| panic!("no rows")), ..*catalogue::find("ctl_conditional").unwrap() };
        assert!(test_of(&prepared, &score).is_none());
        let [remark] = &prepared.warnings()[..] else { panic!("one remark") };
        assert!(remark.starts_with("ctl_conditional has no p-values: internal error (no rows)"), "{remark}");
    }
}
