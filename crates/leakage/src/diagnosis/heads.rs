//! The accuracy that heads on the true concepts reach, and whether the run's head is of a kind that can reach it.

use super::curve::{Curve, Measured};
use super::judgement::{Evidence, Judgement, Reading};
use crate::limits::{HEAD_GAP, INCOMPLETE, REFERENCE_ACCURACY};

/// Both reference heads.
fn heads(curve: &Curve) -> Result<(Measured, Measured), String> {
    Ok((curve.measured("reference_accuracy_linear")?, curve.measured("reference_accuracy_mlp")?))
}

/// The accuracy that the run states for its head on the true concepts.
fn stated(curve: &Curve) -> Option<Measured> {
    let accuracy = curve.run.constants.reference_task_accuracy?;
    Some(Measured::of("reference_task_accuracy", accuracy, curve.newest().step))
}

/// The highest known accuracy of a head on the true concepts. Errors say why there is none.
pub fn best_on_true_concepts(curve: &Curve) -> Result<Measured, String> {
    let trained = heads(curve);
    let why = trained.as_ref().err().cloned().unwrap_or_default();
    let all = trained.ok().into_iter().flat_map(|(linear, mlp)| [linear, mlp]).chain(stated(curve));
    all.max_by(|a, b| a.value.total_cmp(&b.value)).ok_or(why)
}

/// The balanced accuracy of the better head on the true concepts, where the run states none.
pub fn balanced(curve: &Curve) -> Option<Measured> {
    let excess = curve.measured("task_excess").ok().filter(|_| stated(curve).is_none())?;
    let accuracy = curve.measured_with(&excess, "task_balanced_accuracy")?;
    Some(accuracy.less(&excess).named("balanced accuracy of heads on the true concepts"))
}

/// Neither head, nor the run's own by its stated accuracy, reaches [`REFERENCE_ACCURACY`] within its error, or both reach it
/// by the most frequent class alone.
pub fn falls_short(curve: &Curve) -> Result<(bool, Vec<Evidence>), String> {
    let stated = stated(curve);
    let known: Vec<Measured> = match (heads(curve), &stated) {
        (Ok((linear, mlp)), _) => [linear, mlp].into_iter().chain(stated).collect(),
        (Err(_), Some(one)) if !one.is_below(REFERENCE_ACCURACY) => vec![one.clone()],
        (Err(why), _) => return Err(why),
    };
    let balanced = balanced(curve).filter(|balanced| balanced.is_below(INCOMPLETE));
    let short = balanced.is_some() || known.iter().all(|one| one.is_below(REFERENCE_ACCURACY));
    let evidence = known.iter().map(|one| one.beside(REFERENCE_ACCURACY));
    Ok((short, evidence.chain(balanced.map(|balanced| balanced.beside(INCOMPLETE))).collect()))
}

pub fn misspecified_head(curve: &Curve) -> Judgement {
    let (linear, mlp) = heads(curve)?;
    let is_linear = curve.run.constants.has_linear_head();
    let (own, whose) = match stated(curve) {
        Some(stated) => (stated, "the run's head, by its stated accuracy on the true concepts,"),
        None if is_linear => (linear, "the run's head is linear, and a linear head on the true concepts"),
        None => (linear, "a linear head on the true concepts"),
    };
    let gap = mlp.less(&own);
    let evidence = vec![gap.beside(HEAD_GAP), own.beside(None), mlp.beside(None)];
    if !gap.is_above(HEAD_GAP) {
        let from = gap.found_from(HEAD_GAP);
        let text = format!(
            "{whose} is not clearly less accurate than an MLP; 80 % power to detect a difference of \
             {from:.3} or more"
        );
        return Reading::judged(false, text, evidence);
    }
    if own.score() == "reference_accuracy_linear" && !is_linear {
        return Err(format!(
            "on the true concepts a linear head reaches {:.3} and an MLP {:.3}, but the run states neither its head nor \
             reference_task_accuracy: whether its head is linear is not known",
            own.value, mlp.value
        ));
    }
    let text =
        format!("{whose} is less accurate than an MLP: it cannot represent how the task depends on the concepts");
    Reading::judged(true, text, evidence)
}
