//! The rules without any configuration.

use super::kind::Pace;
use super::kinds::{FewRows, Judge, Rise, Saturated, Stale, Threshold};
use super::rule::{Advice, Rule, Rules, Severity};
use super::target::Target;

/// Rules that hold for any concept bottleneck model, tried on the recorded runs of docs/alerts.md.
///
/// The limit on `icl_excess` stands between models with next to no concept supervision (0.28 to 0.60 in their epochs
/// 3 to 6) and well supervised ones (never above 0.19, and that in their first epochs); that on `ctl_excess` above the
/// 0.34 that the latter pass through. A rise is judged from the ninth evaluation on: until then scores move with what
/// the model learns. That of `ctl_excess` advises nothing: it climbs by right while a model with correlated concepts
/// learns them.
pub fn default_rules() -> Rules {
    let above = |score, limit| {
        let pace = Pace { evaluations: 2, hysteresis: 0.05, ..Pace::AT_ONCE };
        Threshold { target: Target::value_of(score), above: Some(limit), below: None, pace }
    };
    let rise = |score, by| {
        let pace = Pace { warm_up: 8, hysteresis: 0.01, ..Pace::AT_ONCE };
        Rise { target: Target::value_of(score), by, pace }
    };
    let at_once = Pace::AT_ONCE;
    Rules::of(vec![
        stopping("interconcept leakage is high", above("icl_excess", 0.25)),
        // ICL falls again in a run that goes on to leak, and CTL rises.
        stopping("concepts-task leakage is high", above("ctl_excess", 0.45)),
        stopping("interconcept leakage rises", rise("icl_excess", 0.05)),
        rule("concepts-task leakage rises", Severity::Warning, rise("ctl_excess", 0.05)),
        rule("activations saturate", Severity::Info, Saturated { by: 0.2, pace: at_once }),
        rule("few rows", Severity::Warning, FewRows { rows: 500, pace: at_once }),
        rule("no evaluation for hours", Severity::Info, Stale { seconds: 21_600.0 }),
    ])
}

fn rule(name: &str, severity: Severity, judge: impl Into<Judge>) -> Rule {
    Rule { name: name.into(), split: "val".into(), judge: judge.into(), severity, advice: None, runbook: None }
}

fn stopping(name: &str, judge: impl Into<Judge>) -> Rule {
    Rule { advice: Some(Advice { patience: 0 }), ..rule(name, Severity::Critical, judge) }
}
