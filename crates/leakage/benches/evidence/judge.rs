//! Judges recorded runs by the rules of the alert engine: `judge RUNS.jsonl [NAME=RULES.json …]`.
//!
//! For every run, every set of rules and with and without logged interventions it prints a JSON line with the epoch at
//! which stopping is first advised, and the rule. The set `default` is the built-in one; a file holds a list of rules.

mod curves;

use leakage::alert::{Fields, Rules, default_rules};
use serde_json::json;

use curves::{Recorded, advised};

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("got no file, expected `judge RUNS.jsonl [NAME=RULES.json …]`");
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut sets = vec![("default".to_owned(), default_rules())];
    for argument in arguments {
        let (name, path) = argument.split_once('=').expect("rules are given as NAME=RULES.json");
        let rules: Vec<Fields> = serde_json::from_str(&read(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        sets.push((name.to_owned(), Rules::read(rules).unwrap_or_else(|fault| panic!("{path}: {fault}"))));
    }
    for run in Recorded::all(&read(&path)) {
        for interventions in [true, false] {
            let points = run.points(interventions);
            for (name, rules) in &sets {
                let advice = advised(&points, rules);
                let (epoch, rule) = advice.map_or((None, None), |(epoch, rule)| (Some(epoch), Some(rule)));
                println!(
                    "{}",
                    json!({"data": run.data, "encoding": run.encoding, "training": run.training, "weight": run.weight,
                           "seed": run.seed, "rules": name, "interventions": interventions, "epoch": epoch,
                           "rule": rule})
                );
            }
        }
    }
}
