//! Computes the scores of a sample with one task, whose labels are all known.

use std::ops::ControlFlow;

use crate::point::{Outcome, Significance};
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::catalogue::{Input, Score};
use super::guard::guarded;
use super::meter::Meter;

/// Computes scores. `before_each` learns the position of each score that is computed; `None` when it asks to break off.
pub fn compute(
    prepared: &Prepared,
    scores: &[&'static Score],
    mut before_each: impl FnMut(usize, &Score) -> ControlFlow<()>,
) -> Option<Vec<(&'static Score, Outcome)>> {
    let mut meter = Meter::new(prepared);
    let evaluate_one = |(at, &score): (usize, &&'static Score)| {
        let missing = missing(prepared, score);
        let outcome = if !missing.is_empty() {
            let was = if missing.len() == 1 { "was" } else { "were" };
            Outcome::undefined(format!("needs {}, which {was} not given", missing.join(" and ")))
        } else if let Some(why) = not_for_latents(prepared, score) {
            Outcome::undefined(why)
        } else if let Err(why) = meter.take(prepared, score) {
            Outcome::undefined(why)
        } else {
            if before_each(at, score).is_break() {
                return None;
            }
            let found = guarded(prepared, score.id, || (score.compute)(prepared).map(finite));
            found.flatten().unwrap_or_else(Outcome::undefined)
        };
        Some((score, outcome))
    };
    let scores = scores.iter().enumerate().map(evaluate_one).collect();
    prepared.note_peak(meter.peak());
    scores
}

/// `None` where the test panics, with a remark.
pub fn test_of(prepared: &Prepared, score: &Score) -> Option<Significance> {
    let test = score.test?;
    let significance = guarded(prepared, &format!("the test of {}", score.id), || test(prepared));
    significance.map_err(|why| prepared.remark(format!("{} has no p-values: {why}", score.id))).ok()
}

/// Inputs of a score that the sample and its run do not have.
pub fn missing(prepared: &Prepared, score: &Score) -> Vec<String> {
    let has = |input: &Input| match input {
        Input::Tensor(name) => prepared.column(*name).is_some(),
        Input::Numbers(name) => prepared.column(*name).is_some() && prepared.run().has_continuous_labels(*name),
        Input::EitherTensor(a, b) => prepared.column(*a).is_some() || prepared.column(*b).is_some(),
        Input::ReferenceTaskAccuracy => {
            prepared.run().constants.reference_task_accuracy.is_some() || can_train_heads(prepared)
        }
        Input::HeadWeights => !prepared.run().constants.head_weights.is_empty(),
        Input::Latents => prepared.run().latents.is_some(),
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
    use super::super::catalogue;
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
