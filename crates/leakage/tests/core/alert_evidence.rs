//! The runs of docs/evidence.md, judged by the default rules: those that collapse under intervention are stopped, sound
//! ones are not. `make evidence` recorded them.

#[path = "../../benches/evidence/curves.rs"]
mod curves;

use std::collections::BTreeMap;

use leakage::alert::default_rules;

use curves::{Recorded, advised};

const RUNS: &str = include_str!("../../../../docs/evidence/runs.jsonl");
/// Bottlenecks trained otherwise, and inputs that hide the concepts: they fixed no limit.
const APART: [&str; 3] = ["digits-10-blurred", "tabular-blurred", "tabular-hidden"];

#[derive(Default)]
struct Count {
    runs: usize,
    stopped: usize,
}

impl Count {
    fn share(&self) -> f64 {
        self.stopped as f64 / self.runs as f64
    }
}

fn last(run: &Recorded, score: &str) -> f64 {
    run.scores[score].last().copied().flatten().expect("the score is defined after the last epoch")
}

/// Stopped runs among those that collapse and among sound ones.
fn counts(runs: &[Recorded], interventions: bool) -> [Count; 2] {
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for run in runs {
        let most = best.entry(&run.data).or_default();
        *most = most.max(last(run, "concept_accuracy"));
    }
    let (mut counts, rules): ([Count; 2], _) = (Default::default(), default_rules());
    for run in runs.iter().filter(|run| run.training == "joint" && !APART.contains(&run.data.as_str())) {
        let drop = last(run, "intervention_drop");
        let sound = drop < 0.02 && last(run, "concept_accuracy") >= best[run.data.as_str()] - 0.02;
        let at = match (drop > 0.3, sound) {
            (true, _) => 0,
            (_, true) => 1,
            _ => continue,
        };
        counts[at].runs += 1;
        let advice = advised(&run.points(interventions), &rules);
        counts[at].stopped += usize::from(advice.is_some());
        if advice.is_some() == sound {
            println!("{} {} λ {} seed {}: {advice:?}", run.data, run.encoding, run.weight, run.seed);
        }
    }
    counts
}

#[test]
fn runs_that_collapse_under_intervention_are_stopped_and_sound_ones_are_not() {
    let runs = Recorded::all(RUNS);
    for interventions in [true, false] {
        let [collapsing, sound] = counts(&runs, interventions);
        println!("{} of {}, {} of {}", collapsing.stopped, collapsing.runs, sound.stopped, sound.runs);
        assert!(collapsing.runs >= 150 && collapsing.share() >= 0.95, "{interventions}: {}", collapsing.share());
        assert!(sound.runs >= 150 && sound.share() <= 0.02, "{interventions}: {}", sound.share());
    }
}

#[test]
fn each_rule_that_advises_says_what_to_do() {
    for rule in default_rules().as_slice().iter().filter(|rule| rule.advises_stop()) {
        assert!(rule.action().is_some_and(|action| action.ends_with('.')), "{}", rule.name());
    }
}
