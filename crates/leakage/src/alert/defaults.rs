//! The rules without any configuration.

use crate::limits::{
    CONCEPT_AUC, CTL_CONDITIONAL, CTL_HIGH, CTL_R2, CTL_R2_RISE, CTL_RISE, CTL_UNLEARNT, HARM_LASTS, ICL_HIGH,
    INTERVENTION_DROP, INTERVENTION_HARM, LEAST_RISE, REFERENCE_ACCURACY, TASK_EXCESS, WARM_UP,
};

use super::kind::Pace;
use super::kinds::{Condition, FewRows, Judge, Rise, Saturated, Stale, Together};
use super::rule::{Rule, Rules, Severity, Stopping};
use super::target::Target;

/// Rules that hold across the data sets, encodings and concept weights of docs/evidence.md. The limits stand in
/// [`crate::limits`].
///
/// The first evaluations are not judged: a model that learns its concepts passes through every limit. A rise is judged
/// from the ninth on: until then scores move with what the model learns. Intervention drops rise out of the negative while
/// concepts are learnt, and conditional leakage up to what sound models have: those rises do not count.
pub fn default_rules() -> Rules {
    let pace = |evaluations| Pace { evaluations, warm_up: WARM_UP, hysteresis: 0.02, ..Pace::AT_ONCE };
    let rise = |score, above| {
        let pace = Pace { warm_up: 8, hysteresis: 0.01, ..Pace::AT_ONCE };
        Rise { target: Target::value_of(score), by: LEAST_RISE, above, without: None, pace }
    };
    // Logit bottlenecks whose interventions do no harm rise, too.
    let without_interventions =
        |score, by, above| Rise { by, without: Some("intervention_drop"), ..rise(score, Some(above)) };
    // A single row of a rare class moves a balanced accuracy far.
    let surely_above = |score, limit| Condition::above(score, limit).with_whole_interval();
    let harmless = Condition::below("intervention_drop", INTERVENTION_HARM);
    let not_learnt = [Condition::above("ctl_conditional", CTL_UNLEARNT), Condition::below("concept_auc", CONCEPT_AUC)];
    let number_not_learnt =
        [Condition::above("ctl_conditional_r2", CTL_R2), Condition::below("concept_auc", CONCEPT_AUC)];
    let removed = [Condition::above("ctl_conditional", CTL_CONDITIONAL), harmless];
    let unknown = [Condition::above("ctl_conditional", CTL_CONDITIONAL)];
    let number_unknown = [Condition::above("ctl_conditional_r2", CTL_R2)];
    // The model is not at fault where the true concepts, or noisy labels of them, allow no more.
    let allowed = Condition::below("intervention_score", INTERVENTION_HARM);
    let unless_harmless = |conditions: &[Condition], evaluations| {
        Together::of(conditions, pace(evaluations)).unless(&[harmless, allowed])
    };
    let high = |score, limit| {
        let pace = Pace { hysteresis: 0.05, ..pace(2) };
        Together::of(&[Condition::above(score, limit)], pace).unless(&[harmless, allowed])
    };
    let breaks = Together::of(&[surely_above("intervention_drop", INTERVENTION_DROP)], pace(4)).unless(&[allowed]);
    // To set concepts to noisy labels harms an honest head, too, and only a head on the labels tells.
    let may_be_noisy = Condition::below("reference_accuracy_mlp", REFERENCE_ACCURACY);
    let harm = Together::of(&[surely_above("intervention_drop", INTERVENTION_HARM)], pace(HARM_LASTS))
        .unless(&[allowed, may_be_noisy.or_unknown()]);
    // Honest predictors of noisy labels have a low AUC and know more of the task than the labels do.
    let instead = Together::of(&not_learnt, pace(4)).unless(&[harmless, allowed, may_be_noisy]);
    Rules::of(vec![
        stopping("interconcept leakage is high", high("icl_excess", ICL_HIGH), SUPERVISE),
        stopping("concepts-task leakage is high", high("ctl_excess", CTL_HIGH), SUPERVISE),
        stopping(
            "interventions break the task",
            breaks,
            "With every concept set to its true value the head predicts worse than before: it does not read the concepts. \
             Raise the weight of the concept loss, or train the bottleneck first.",
        ),
        stopping(
            "interventions keep doing harm",
            harm,
            "With every concept set to its true value the head predicts worse than before, evaluation after evaluation. \
             Raise the weight of the concept loss, or train the bottleneck first.",
        ),
        stopping("activations predict the task instead of their concepts", instead, SUPERVISE),
        stopping(
            "activations predict a number instead of their concepts",
            unless_harmless(&number_not_learnt, 4),
            SUPERVISE,
        ),
        stopping(
            "the task is predicted beyond its concepts",
            unless_harmless(&[surely_above("task_excess", TASK_EXCESS)], 3),
            "The true concepts do not determine the task this well: a head that sees them alone loses what is beyond. Add \
             concepts, or give the rest of the task a side channel.",
        ),
        stopping("interconcept leakage rises", rise("icl_excess", None), LATE),
        stopping("what interventions cost rises", rise("intervention_drop", Some(INTERVENTION_HARM)), LATE),
        stopping("leakage to the task rises", without_interventions("ctl_conditional", CTL_RISE, CTL_UNLEARNT), LATE),
        stopping("leakage to a number rises", without_interventions("ctl_conditional_r2", CTL_R2_RISE, CTL_R2), LATE),
        warning("conditional interconcept leakage rises", rise("icl_conditional", None), LATE),
        // Below 0 it is what was not learnt, and rises as concepts are learnt.
        warning("concepts-task leakage rises", rise("ctl_excess", Some(LEAST_RISE)), ""),
        warning("conditional leakage is high", unless_harmless(&unknown, 3), UNKNOWN),
        warning("conditional leakage to a number is high", unless_harmless(&number_unknown, 3), UNKNOWN),
        warning(
            "harmless leakage",
            // Predictions that rest on no concept hold whatever the activations hold.
            Together::of(&removed, pace(3)).unless(&[Condition::below("wrong_intervention_drop", INTERVENTION_HARM)]),
            "Activations hold information about the task beyond their concepts, and setting the concepts to their true \
             values costs no accuracy. Do not read an activation as the degree of its concept alone.",
        ),
        rule("activations saturate", Severity::Info, Saturated { by: 0.2, pace: Pace::AT_ONCE }),
        rule("few rows", Severity::Warning, FewRows { rows: 500, pace: Pace::AT_ONCE }),
        rule("no evaluation for hours", Severity::Info, Stale { seconds: 21_600.0 }),
    ])
}

/// The advice for concepts that stand for something else.
const SUPERVISE: &str =
    "Raise the weight of the concept loss; without interventions, log them to see what the head rests on.";

/// The advice for leakage of which nothing says whether the head rests on it.
const UNKNOWN: &str = "Activations hold information about the task beyond their concepts. Without interventions, log them \
                       to see whether the head rests on it.";

/// The advice for a rise after the first epochs.
const LATE: &str =
    "Compare with what changed: a schedule of weights, a learning rate, data. Go back to the evaluation before.";

fn rule(name: &str, severity: Severity, judge: impl Into<Judge>) -> Rule {
    let (name, judge) = (name.into(), judge.into());
    Rule { name, split: "val".into(), judge, severity, stopping: None, runbook: None, action: None, joint_only: false }
}

fn warning(name: &str, judge: impl Into<Judge>, action: &str) -> Rule {
    let action = (!action.is_empty()).then(|| action.to_owned());
    Rule { action, joint_only: true, ..rule(name, Severity::Warning, judge) }
}

fn stopping(name: &str, judge: impl Into<Judge>, action: &str) -> Rule {
    Rule { stopping: Some(Stopping { patience: 0 }), severity: Severity::Critical, ..warning(name, judge, action) }
}
