//! The rules without any configuration.

use super::rule::{Rule, Severity};

/// Rules that hold for any concept bottleneck model, tried on the recorded runs of docs/alerts.md.
///
/// The limit on `icl_excess` stands between models with next to no concept supervision (0.28 to 0.60 in their epochs
/// 3 to 6) and well supervised ones (never above 0.19, and that in their first epochs); that on `ctl_excess` above the
/// 0.34 that the latter pass through. A rise is judged from the ninth
/// evaluation on: until then scores move with what the model learns. That of `ctl_excess` advises nothing: it climbs
/// by right while a model with correlated concepts learns them.
pub fn default_rules() -> Vec<Rule> {
    let rule = |name: &str, score: &str| Rule { name: name.into(), score: score.into(), ..Rule::default() };
    vec![
        Rule {
            above: Some(0.25),
            evaluations: 2,
            hysteresis: 0.05,
            severity: Severity::Critical,
            advise_stop: true,
            ..rule("interconcept leakage is high", "icl_excess")
        },
        // ICL falls again in a run that goes on to leak, and CTL rises.
        Rule {
            above: Some(0.45),
            evaluations: 2,
            hysteresis: 0.05,
            severity: Severity::Critical,
            advise_stop: true,
            ..rule("concepts-task leakage is high", "ctl_excess")
        },
        Rule {
            rise: Some(0.05),
            warm_up: 8,
            hysteresis: 0.01,
            severity: Severity::Critical,
            advise_stop: true,
            ..rule("interconcept leakage rises", "icl_excess")
        },
        Rule { rise: Some(0.05), warm_up: 8, hysteresis: 0.01, ..rule("concepts-task leakage rises", "ctl_excess") },
        Rule { saturated: Some(0.2), severity: Severity::Info, ..rule("activations saturate", "") },
        Rule { few_rows: Some(500), ..rule("few rows", "") },
        Rule { stale: Some(21_600.0), severity: Severity::Info, ..rule("no evaluation for hours", "") },
    ]
}
