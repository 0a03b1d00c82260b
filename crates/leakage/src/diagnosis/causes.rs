//! Why a run leaks, and what its leakage does.

use strum::VariantArray;

use crate::run::{ActivationKind, Run};

use super::curve::Curve;
use super::heads::{best_on_true_concepts, falls_short, misspecified_head};
use super::judgement::{Evidence, Judgement, Reading, is_found};
use super::leakage::{
    Information, Interventions, as_at_wrong_values, concepts, has_vectors, information, interventions,
};
use crate::limits::{ALIGNMENT, CTL_CONDITIONAL, CTL_EXCESS, INTERVENTION_HARM, TASK_EXCESS};
use crate::score::of_other_threshold;

/// The measure of the task's predictions that interventions change.
fn quality(curve: &Curve) -> &'static str {
    if curve.measured("task_r2").is_ok() { "the R² of the task" } else { "the task accuracy" }
}

pub fn interventions_fail(curve: &Curve) -> Judgement {
    let quality = quality(curve);
    let falls = format!("{quality} falls when all concepts are set to their true values");
    let (found, text, evidence) = match interventions(curve)? {
        Interventions::Fall(evidence) => (true, format!("{falls}: the head uses leaked information"), evidence),
        Interventions::FallToReference(evidence) => {
            (false, format!("{falls}, but only to what heads on the true concepts reach"), evidence)
        }
        Interventions::Hold(evidence, seen) => {
            (false, format!("{quality} holds when all concepts are set to their true values; {seen}"), evidence)
        }
        Interventions::Unclear(evidence, seen) => {
            let text = format!(
                "whether {quality} falls under intervention cannot be told: its interval reaches the limit; {seen}"
            );
            (false, text, evidence)
        }
    };
    Reading::judged(found, text, evidence)
}

pub fn concepts_ignored(curve: &Curve) -> Judgement {
    let drop = match curve.measured("wrong_intervention_drop") {
        Ok(drop) => drop,
        Err(why) => return concepts_bypassed(curve).ok_or(why),
    };
    let quality = quality(curve);
    if let Some(at_true) = as_at_wrong_values(curve, &drop) {
        let text = format!(
            "{quality} falls alike whether all concepts are set to their true or to wrong values: predictions do not rest on \
             them"
        );
        let evidence = vec![drop.beside(INTERVENTION_HARM), at_true.beside(INTERVENTION_HARM)];
        return Reading::judged(true, text, evidence);
    }
    // All wrong values together leave a task such as parity as it is.
    let of_shares: Vec<f64> = curve.behind("wrong_intervention_drop").iter().filter_map(|(_, value)| *value).collect();
    let harm = of_shares.iter().map(|value| of_shares[0] - value).fold(0.0, f64::max);
    let some_matter = harm - drop.half_width() > INTERVENTION_HARM;
    let found = drop.is_below(INTERVENTION_HARM) && !some_matter;
    let text = match (found, drop.is_above(INTERVENTION_HARM)) {
        (false, false) if some_matter => {
            format!("{quality} falls when some concepts are set to wrong values: predictions rest on them")
        }
        (true, _) => {
            format!("{quality} is the same when all concepts are set to wrong values: predictions do not rest on them")
        }
        (false, true) => format!("{quality} falls when all concepts are set to wrong values: predictions rest on them"),
        (false, false) => format!(
            "whether wrong values of all concepts lower {quality} cannot be told: the interval reaches the limit"
        ),
    };
    let before = ["task_accuracy", "task_r2"].into_iter().find_map(|score| curve.measured(score).ok());
    let before = before.map(|before| before.beside(None));
    Reading::judged(found, text, [drop.beside(INTERVENTION_HARM)].into_iter().chain(before).collect())
}

/// The finding that the task is predicted as well with all concepts at their means.
fn concepts_bypassed(curve: &Curve) -> Option<Reading> {
    let drop = curve.measured("concept_ablation_drop").ok().filter(|drop| drop.is_below(INTERVENTION_HARM))?;
    let quality = quality(curve);
    let text = format!("{quality} is the same with all concepts at their means: predictions do not rest on them");
    Some(Reading { found: true, text, evidence: vec![drop.beside(INTERVENTION_HARM)] })
}

/// Numbers that show leakage, of information or of interventions that fail; else what was looked for.
pub enum Leakage {
    Shown { information: bool, evidence: Vec<Evidence> },
    NotSeen(Vec<Evidence>, String),
}

/// Errors say why nothing can be said.
pub fn leakage(curve: &Curve) -> Result<Leakage, String> {
    let interventions = interventions(curve);
    let falls = matches!(interventions, Ok(Interventions::Fall(_)));
    let seen = match interventions {
        Ok(Interventions::Fall(evidence) | Interventions::FallToReference(evidence)) => evidence,
        Ok(Interventions::Hold(evidence, _) | Interventions::Unclear(evidence, _)) => evidence,
        Err(_) => Vec::new(),
    };
    let with_drop = |mut evidence: Vec<Evidence>| {
        evidence.extend(seen.iter().filter(|one| one.limit.is_some()).cloned());
        evidence
    };
    Ok(match information(curve) {
        Ok(Information::Shown(evidence)) => Leakage::Shown { information: true, evidence: with_drop(evidence) },
        _ if falls => Leakage::Shown { information: false, evidence: seen },
        Ok(Information::NotSeen(evidence, text)) => Leakage::NotSeen(with_drop(evidence), text),
        Err(why) => return Err(why),
    })
}

/// Where CTL hides what its conditional twin shows.
fn hidden_from_ctl(curve: &Curve) -> &'static str {
    let above = |score: &str, limit: f64| curve.measured(score).is_ok_and(|one| one.is_above(limit));
    let below = |score: &str, limit: f64| curve.measured(score).is_ok_and(|one| one.is_below(limit));
    match above("ctl_conditional", CTL_CONDITIONAL) && below("ctl_excess", CTL_EXCESS) {
        true => "; CTL does not show it, because it subtracts what the activations have not learnt of their concepts",
        false => "",
    }
}

pub fn insufficient_supervision(curve: &Curve) -> Judgement {
    let concepts = concepts(curve)?;
    match leakage(curve)? {
        Leakage::Shown { information, mut evidence } => {
            evidence.extend(concepts.evidence);
            let what: &str = match information {
                true => "their activations carry information beyond them",
                false => &format!("{} falls under intervention", quality(curve)),
            };
            let text = match concepts.poor {
                true => format!("concepts are poorly learnt and {what}{}", hidden_from_ctl(curve)),
                false if concepts.well => {
                    format!("{what}, but the concepts are well learnt: weak supervision does not explain it")
                }
                false => format!("{what}; that the concepts are poorly learnt is not shown"),
            };
            Reading::judged(concepts.poor, text, evidence)
        }
        Leakage::NotSeen(mut evidence, seen) => {
            evidence.extend(concepts.evidence);
            let learnt = match (concepts.poor, concepts.well) {
                (true, _) => "concepts are poorly learnt",
                (false, true) => "concepts are well learnt",
                (false, false) => "whether concepts are well learnt is not certain",
            };
            let text = format!(
                "{learnt}; information beyond them was looked for and is not clearly above a limit: \
                 {seen}"
            );
            Reading::judged(false, text, evidence)
        }
    }
}

pub fn poorly_learnt_concepts(curve: &Curve) -> Judgement {
    let concepts = concepts(curve)?;
    let (found, text) = match (concepts.poor, leakage(curve)) {
        (false, _) => {
            let text = of_other_threshold(curve.newest()).unwrap_or("no measure of concepts is clearly below its limit");
            (false, text.to_owned())
        }
        (true, Ok(Leakage::Shown { .. })) if curve.run.training.can_leak() => {
            (false, "concepts are poorly learnt: see insufficient supervision".to_owned())
        }
        (true, Ok(_)) => (
            true,
            "activations say little of their concepts; that they carry something else is not shown: train longer, or raise \
             the weight of the concept loss"
                .to_owned(),
        ),
        (true, Err(why)) => {
            (true, format!("activations say little of their concepts; whether they carry something else is unknown: {why}"))
        }
    };
    Reading::judged(found, text, concepts.evidence)
}

pub fn removable_information(curve: &Curve) -> Judgement {
    let held = match interventions(curve)? {
        Interventions::Hold(evidence, _) => Some(evidence),
        _ => None,
    };
    let quality = quality(curve);
    match (information(curve)?, held) {
        (Information::Shown(mut evidence), Some(held)) if is_found(&concepts_ignored(curve)) => {
            evidence.extend(held);
            let text = format!(
                "activations carry information beyond their concepts; that {quality} holds under intervention says nothing \
                 of harm, because predictions do not rest on the concepts"
            );
            Reading::judged(false, text, evidence)
        }
        (Information::Shown(mut evidence), Some(held)) => {
            evidence.extend(held);
            // A head on vectors may find the information in the vectors that interventions put in place.
            let text = match has_vectors(curve) {
                true => format!(
                    "activations carry information beyond their concepts, and {quality} holds under intervention. \
                     Of embeddings this says little: those of the true concepts may carry it, too"
                ),
                false => format!(
                    "activations hold extra information, harmless once concepts are corrected: {quality} holds \
                     when all concepts are set to their true values. Until then predictions may rest on it"
                ),
            };
            Reading::judged(!has_vectors(curve), text, evidence)
        }
        (Information::Shown(evidence), None) => {
            let text = "activations carry information beyond their concepts; that it is harmless once concepts are corrected \
                        is not shown";
            Reading::judged(false, text, evidence)
        }
        (Information::NotSeen(evidence, seen), _) => Reading::judged(
            false,
            format!("information beyond the concepts was looked for and is not clearly above a limit: {seen}"),
            evidence,
        ),
    }
}

pub fn over_expressive_encoding(curve: &Curve) -> Judgement {
    if has_vectors(curve) {
        return over_expressive_vectors(curve);
    }
    let kind = kinds_of_activations(curve.run);
    let concepts = concepts(curve)?;
    let mut evidence = match information(curve)? {
        Information::Shown(evidence) => evidence,
        Information::NotSeen(mut evidence, seen) => {
            evidence.extend(concepts.evidence);
            let text = format!(
                "activations are {kind}; information beyond the concepts was looked for and is not clearly above a limit: \
                 {seen}"
            );
            return Reading::judged(false, text, evidence);
        }
    };
    evidence.extend(concepts.evidence);
    let text = match other_cause(curve, concepts.poor, concepts.well) {
        Err(why) => {
            return Err(format!(
                "activations are {kind} and carry information beyond their concepts; other causes are not excluded: {why}"
            ));
        }
        Ok(Some(cause)) => {
            let text = format!("activations are {kind} and carry information beyond their concepts, but {cause}");
            return Reading::judged(false, text, evidence);
        }
        Ok(None) => format!(
            "activations are {kind}, and carry information beyond concepts that they predict well: the encoding has room for \
             it. Hard activations have none, and a higher weight of the concept loss leaves less"
        ),
    };
    Reading::judged(true, text, evidence)
}

/// The kinds that activations of the run have, such as "logits and continuous values".
fn kinds_of_activations(run: &Run) -> String {
    let name = |kind: &ActivationKind| match kind {
        ActivationKind::Hard => "hard values",
        ActivationKind::Probability => "probabilities",
        ActivationKind::Logit => "logits",
        ActivationKind::Continuous => "continuous values",
    };
    let has = |kind: &&ActivationKind| (0..run.concept_count()).any(|i| run.activation_kind(i) == **kind);
    let names: Vec<&str> = ActivationKind::VARIANTS.iter().filter(has).map(name).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the explanation of leakage that takes precedence over the encoding, if there is one. Errors say why that is not
/// known.
fn other_cause(curve: &Curve, poor: bool, well: bool) -> Result<Option<&'static str>, String> {
    if poor {
        return Ok(Some("the concepts are poorly learnt, which explains it"));
    }
    if !well {
        return Ok(Some("it is not certain that the concepts are well learnt"));
    }
    if (0..curve.run.concept_count()).all(|i| curve.run.activation_kind(i) == ActivationKind::Hard) {
        return Ok(Some("hard values have no room beside the concept: they are its errors"));
    }
    if is_found(&removable_information(curve)) {
        return Ok(Some("it is harmless once concepts are corrected"));
    }
    let (short, _) = falls_short(curve)?;
    if short {
        return Ok(Some("the concept set is incomplete, which explains it"));
    }
    Ok(misspecified_head(curve)?.found.then_some("the head is misspecified, which explains it"))
}

fn over_expressive_vectors(curve: &Curve) -> Judgement {
    let vectors = curve
        .measured("embedding_ct_conditional")
        .map_err(|why| format!("{why}; that of the embeddings alone includes what the concept itself predicts"))?;
    let more = curve.measured("ctl_conditional").ok().map(|scalars| vectors.less(&scalars));
    let found = vectors.is_above(CTL_CONDITIONAL) && more.as_ref().is_none_or(|more| more.is_above(0.0));
    let evidence = [vectors.beside(CTL_CONDITIONAL)].into_iter().chain(more.map(|more| more.beside(0.0))).collect();
    let text = match found {
        true => format!(
            "embeddings reveal {:.2} of the task beyond their concepts; the limit is {CTL_CONDITIONAL}",
            vectors.value
        ),
        false => format!(
            "that embeddings reveal more of the task than their concepts do is not shown: 80 % power to detect {:.3} or more",
            vectors.found_from(CTL_CONDITIONAL)
        ),
    };
    Reading::judged(found, text, evidence)
}

pub fn incomplete_concept_set(curve: &Curve) -> Judgement {
    let (short, mut evidence) = falls_short(curve)?;
    evidence.extend(curve.measured("task_accuracy").ok().map(|accuracy| accuracy.beside(None)));
    let text = match short {
        true if curve.run.training.can_leak() => {
            "heads on the true concepts do not predict the task well: the concept set is incomplete, or the labels are \
                 noisy. A model that does better gets it from leakage, unless a run trained without the task, named as its \
                 reference, does so too"
        }
        true => {
            "heads on the true concepts do not predict the task well: the concept set is incomplete, or the labels are noisy"
        }
        false => "a head on the true concepts predicts the task well",
    };
    Reading::judged(short, text, evidence)
}

pub fn beyond_true_concepts(curve: &Curve) -> Judgement {
    let more = curve.measured("task_excess")?;
    let mut evidence = vec![more.beside(TASK_EXCESS)];
    let beside = [curve.measured("task_accuracy"), best_on_true_concepts(curve)];
    evidence.extend(beside.into_iter().flatten().map(|one| one.beside(None)));
    if !more.is_above(TASK_EXCESS) {
        let text = format!(
            "the model is not clearly more accurate than heads on the true concepts; 80 % power to detect a difference of \
             {:.3} or more",
            more.found_from(TASK_EXCESS)
        );
        return Reading::judged(false, text, evidence);
    }
    let ignored = is_found(&concepts_ignored(curve));
    let (kind, shown) = match interventions(curve) {
        Ok(Interventions::Fall(evidence) | Interventions::Hold(evidence, _)) if ignored => {
            ("predictions do not rest on the concepts: this leakage is not benign", evidence)
        }
        Ok(Interventions::Fall(evidence)) => {
            ("under intervention it does worse than the true concepts allow: this leakage is not benign", evidence)
        }
        Ok(Interventions::FallToReference(evidence) | Interventions::Hold(evidence, _)) => (
            "under intervention it still reaches what the true concepts allow: leakage of an incomplete concept set that may \
             be benign (arXiv:2606.10669)",
            evidence,
        ),
        _ => ("whether it is benign (arXiv:2606.10669) depends on interventions, which are not known", Vec::new()),
    };
    evidence.extend(
        shown.into_iter().filter(|one| evidence.iter().all(|known| known.score != one.score)).collect::<Vec<_>>(),
    );
    let text = format!(
        "the model predicts the task better than heads on the true concepts: it uses information that no true concept has; \
         {kind}"
    );
    Reading::judged(true, text, evidence)
}

pub fn alignment_leakage(curve: &Curve) -> Judgement {
    let measured = curve.measured("alignment_leakage")?;
    let found = measured.is_above(ALIGNMENT);
    let text = match found {
        true => "embeddings that agree with the true concept predict the task better than those that do not".to_owned(),
        false => format!(
            "that embeddings that agree with the true concept predict the task better than others is not shown: 80 % power to \
             detect {:.3} or more",
            measured.found_from(ALIGNMENT)
        ),
    };
    Reading::judged(found, text, vec![measured.beside(ALIGNMENT)])
}
