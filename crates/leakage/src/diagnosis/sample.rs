//! The limits that the sample sets to conclusions: its size, and ties that look like leakage.

use super::curve::{Curve, Measured, measured_at};
use super::judgement::{Judgement, Reading};
use crate::limits::{
    CONCEPT_ACCURACY, CTL_CONDITIONAL, CTL_EXCESS, ICL_CONDITIONAL, ICL_EXCESS, INTERVENTION_HARM, ROWS, TIES,
};
use crate::score::catalogue::named;
use crate::score::{OTHER_TASK_ORDER, of_other_order};

pub fn saturation(curve: &Curve) -> Judgement {
    let newest = curve.newest();
    let missing = || curve.measured("icl_excess").err().unwrap_or_else(|| "the newest evaluation has no ICL".into());
    let now = measured_at(newest, "icl_excess").ok_or_else(missing)?;
    let with = curve.alike().filter_map(|point| Some((point, measured_at(point, "icl_excess")?)));
    let lowest = with.min_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
    // The newest is one of them.
    let (before, low) = lowest.ok_or("needs ICL")?;
    if before.step == newest.step {
        let ties = Measured::of("tie_fraction", newest.tie_fraction, newest.step);
        return Reading::judged(false, "ICL is at its lowest", vec![now.beside(None), ties.beside(None)]);
    }
    let since = |score: &str| {
        let change = measured_at(newest, score)?.less(&measured_at(before, score)?);
        Some(change.named(format!("change of {score}")))
    };
    let rise = now.less(&low).named("change of icl_excess");
    let ties = Measured::of("change of tie_fraction", newest.tie_fraction - before.tie_fraction, newest.step);
    let others: Vec<Measured> = ["ctl_excess", "icl_label_excess"].into_iter().filter_map(since).collect();
    let mut evidence = vec![rise.beside(0.0), ties.beside(TIES)];
    evidence.extend(others.iter().map(|change| change.beside(0.0)));
    if others.is_empty() {
        return Err("needs CTL or ICL against labels, to distinguish saturation from leakage".into());
    }
    let moved = ties.value.abs() > TIES;
    let leaks = others.iter().any(|change| change.is_above(0.0));
    let text = match (rise.is_above(0.0), moved, leaks) {
        (true, true, false) => {
            format!("since step {} ICL has risen with the ties, and no other leakage score has", before.step)
        }
        (true, true, true) => {
            format!("since step {} other leakage scores have risen as well as ICL and the ties", before.step)
        }
        (true, false, _) => {
            format!("ICL has risen since step {}, but not because activations saturate", before.step)
        }
        (false, ..) => format!("ICL has not risen since step {}, its lowest", before.step),
    };
    Reading::judged(rise.is_above(0.0) && moved && !leaks, text, evidence)
}

/// Balanced accuracy of two classes by chance; that of more is lower.
const CHANCE: f64 = 0.5;

/// Why nothing is concluded from scores of labels in another order.
pub const OF_OTHERS: &str =
    "the labels are in another order than activations or predictions, so scores that compare them mean nothing";

pub fn labels_in_another_order(curve: &Curve) -> Judgement {
    let remark = of_other_order(curve.newest());
    let evidence = match remark {
        Some(remark) if remark.starts_with(OTHER_TASK_ORDER) => {
            curve.measured("task_balanced_accuracy")?.beside(CHANCE)
        }
        _ => curve.measured("concept_auc")?.beside(CONCEPT_ACCURACY),
    };
    let text = remark.unwrap_or("no activations predict the labels of another concept far better than their own");
    Reading::judged(remark.is_some(), text, vec![evidence])
}

pub fn too_few_rows(curve: &Curve) -> Judgement {
    let newest = curve.newest();
    let rows = Measured::of("rows", newest.labelled_rows() as f64, newest.step);
    let limits = [
        ("ctl_conditional", CTL_CONDITIONAL),
        ("icl_conditional", ICL_CONDITIONAL),
        ("intervention_drop", INTERVENTION_HARM),
        ("ctl_excess", CTL_EXCESS),
        ("icl_excess", ICL_EXCESS),
    ];
    let known: Vec<(&str, Measured, f64)> =
        limits.into_iter().filter_map(|(score, limit)| Some((score, curve.measured(score).ok()?, limit))).collect();
    let half =
        |score: &str, one: &Measured| Measured::of(&format!("uncertainty of {score}"), one.half_width(), newest.step);
    let few = rows.value < ROWS;
    // Few rows are enough for what they show.
    let shown = known.iter().any(|(_, one, limit)| one.is_above(*limit));
    // A value is known well enough if its whole interval lies beyond its limit.
    let is_unclear =
        |one: &Measured, limit: f64| one.half_width() > limit && !one.is_above(limit) && !one.is_below(limit);
    let unclear = known.iter().any(|(_, one, limit)| is_unclear(one, *limit));
    let mut evidence = vec![rows.beside(ROWS)];
    evidence.extend(known.iter().map(|(score, one, limit)| half(score, one).beside(*limit)));
    let text = match (few, unclear) {
        (true, true) => "the sample is too small to conclude from",
        (true, false) if !shown => "the sample is too small to call a model sound: it shows large effects only",
        (false, true) => "the standard errors are as large as the limits",
        (_, false) => {
            let precision = |(score, one, _): &(&str, Measured, f64)| {
                format!("{} is known to ± {:.3} (95 %)", named(score), one.half_width())
            };
            let known: Vec<String> = known.iter().map(precision).collect();
            let text = match known.is_empty() {
                true => format!("{} are enough", newest.labelled_rows_in_words()),
                false => format!("with {} {}", newest.labelled_rows_in_words(), known.join(", ")),
            };
            return Reading::judged(false, text, evidence);
        }
    };
    Reading::judged(true, text, evidence)
}
