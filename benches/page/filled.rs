//! Fills a directory with the curves of many runs, on which `tests/page/real.mjs` measures the page of a sidecar.
//!
//! usage: filled DIRECTORY RUNS POINTS CONCEPTS

use conceptwatch::history::{Identity, Limits, RunOutcome, Sqlite, Store};
use leakage::point::{Outcome, Point, ScoreValue};
use leakage::run::{Concept, Run, RunFields};
use leakage::sample::Attempt;
use leakage::sample::priority::priority;
use leakage::score::catalogue::CATALOGUE_VERSION;

const LIMITS: Limits = Limits { bytes: 4 << 30 };
const LAMBDAS: [&str; 5] = ["0.01", "0.1", "1", "5", "10"];
/// The scores of a concept bottleneck model that logs its head and nothing optional. The first have a value for each
/// concept.
const SCORES: [&str; 12] = [
    "ctl_conditional",
    "concept_accuracy",
    "ctl",
    "icl_conditional",
    "icl",
    "intervention_drop",
    "intervention_area",
    "wrong_intervention_drop",
    "intervened_task_accuracy",
    "task_accuracy",
    "task_f1",
    "concept_f1",
];
const PER_CONCEPT: usize = 3;

fn main() {
    let given: Vec<String> = std::env::args().skip(1).collect();
    let [directory, runs, points, concepts] = given.as_slice() else {
        panic!("got {} arguments, expected DIRECTORY RUNS POINTS CONCEPTS", given.len())
    };
    let [runs, points, concepts] = [runs, points, concepts].map(|number| number.parse::<u64>().unwrap());
    let history = Sqlite::open(Some(directory.as_ref()), LIMITS).unwrap();
    for at in 0..runs {
        let (lambda, seed) = (LAMBDAS[at as usize % LAMBDAS.len()], at as usize / LAMBDAS.len());
        let name = format!("cbm-{lambda}-s{seed}");
        let start = 1.78e9 + 3600.0 * at as f64;
        history.record_run(&declared(&name, lambda, seed, concepts), &Identity::default(), start).unwrap();
        for step in 1..=points {
            let point = point(&name, at, step, points, concepts, start);
            history.record_point(&point, Some(Attempt { launch: 0, restart: 0 })).unwrap();
        }
        if at + 1 < runs {
            history.finish_run(&name, start + 3500.0, &RunOutcome::Finished).unwrap();
        }
    }
}

fn declared(name: &str, lambda: &str, seed: usize, concepts: u64) -> Run {
    let concepts = (0..concepts)
        .map(|place| Concept { name: format!("has_part::kind_{place}"), cardinality: 2, ..Concept::default() })
        .collect();
    let labels = [("lambda".to_owned(), lambda.to_owned()), ("seed".to_owned(), seed.to_string())].into();
    Run::try_from(RunFields { name: name.into(), concepts, labels, ..RunFields::default() }).unwrap()
}

/// A pseudorandom number in [0, 1) for an index.
fn noise(at: u64) -> f64 {
    (priority(1, at) >> 11) as f64 / (1_u64 << 53) as f64
}

/// Curves that rise or fall towards a level of their own, with noise.
fn point(run: &str, at: u64, step: u64, points: u64, concepts: u64, start: f64) -> Point {
    let progress = 1.0 - (-5.0 * step as f64 / points as f64).exp();
    let outcome = |place: usize| {
        let number = |cell: u64| noise((at * 64 + place as u64) << 32 | step << 12 | cell);
        let level = 0.1 + 0.7 * noise(at << 8 | place as u64);
        let value = level * progress + 0.03 * number(0);
        let per_concept = || (1..=concepts).map(|concept| Some(value * (0.5 + number(concept)))).collect();
        Outcome::Value(ScoreValue {
            value,
            standard_error: Some(0.01),
            per_concept: (place < PER_CONCEPT).then(per_concept),
            ..ScoreValue::default()
        })
    };
    Point {
        run: run.into(),
        split: "val".into(),
        step: 100 * step,
        epoch: Some(step as f64),
        time: start + 3.0 * step as f64,
        rows: 4096,
        rows_seen: 5794,
        repeated_rows: 0,
        ordinal: Default::default(),
        tie_fraction: 0.01,
        estimator: "tie_aware".into(),
        neighbours: 3,
        catalogue_version: CATALOGUE_VERSION,
        seconds: 0.2,
        scores: SCORES.iter().enumerate().map(|(place, score)| ((*score).to_owned(), outcome(place))).collect(),
        ..Point::default()
    }
}
