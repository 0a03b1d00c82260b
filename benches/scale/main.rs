//! The parts of `make bench-scale` in this crate: a database with thousands of runs, and sidecars that push to hubs.
//! `python/benches/scale.py` runs it; each command prints one line of JSON.
//!
//! usage: scale COMMAND [--NAME VALUE]...

mod fill;
mod push;

use std::collections::BTreeMap;
use std::str::FromStr;

use leakage::point::{Outcome, Point, ScoreValue};
use leakage::run::{Concept, Run, RunFields};
use leakage::score::catalogue::CATALOGUE;

/// The options of a command, by name.
struct Options(BTreeMap<String, String>);

impl Options {
    fn text(&self, name: &str) -> &str {
        self.0.get(name).unwrap_or_else(|| panic!("--{name} is missing"))
    }

    fn number<T: FromStr>(&self, name: &str) -> T {
        let text = self.text(name);
        text.parse().unwrap_or_else(|_| panic!("--{name}: got '{text}', expected a number"))
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| argument != "--bench").peekable();
    let command = arguments.next().unwrap_or_default();
    let mut options = BTreeMap::new();
    while let Some(name) = arguments.next() {
        let value = arguments.next_if(|next| !next.starts_with("--")).unwrap_or_default();
        options.insert(name.trim_start_matches("--").to_owned(), value);
    }
    let options = Options(options);
    let said = match command.as_str() {
        "fill" => fill::fill(&options),
        "size" => fill::size(&options),
        "push" => push::push(&options),
        // Without a command, as `cargo bench` and `cargo test --all-targets` start it.
        "" => return,
        other => panic!("got command '{other}', expected fill, size or push"),
    };
    println!("{said}");
}

const LAMBDAS: [&str; 6] = ["0.01", "0.1", "0.5", "1", "5", "10"];

/// The label λ of the run with this index.
fn lambda(at: usize) -> &'static str {
    LAMBDAS[at % LAMBDAS.len()]
}

fn run(name: &str, at: usize, concepts: usize) -> Run {
    let concepts = (0..concepts)
        .map(|place| Concept { name: format!("concept {place}"), cardinality: 2, ..Concept::default() })
        .collect();
    let labels = [("lambda".to_owned(), lambda(at).to_owned())].into();
    Run::try_from(RunFields { name: name.into(), concepts, labels, ..RunFields::default() }).unwrap()
}

/// A pseudorandom number in [0, 1) for an index.
fn noise(at: u64) -> f64 {
    (leakage::sample::priority::priority(1, at) >> 11) as f64 / (1_u64 << 53) as f64
}

/// All scores of the catalogue, every other one with values per concept; with `matrices`, four with values per pair.
fn point(run: &str, at: usize, step: u64, concepts: usize, matrices: bool) -> Point {
    let level = (at % LAMBDAS.len()) as f64;
    let outcome = |place: usize| {
        let number = |cell: usize| noise(((at * 64 + place) as u64) << 40 | step << 20 | cell as u64);
        let per_concept = || (0..concepts).map(|concept| Some(number(concept + 1))).collect();
        let row = |from: usize| (0..concepts).map(|to| (from != to).then(|| number(from * concepts + to))).collect();
        Outcome::Value(ScoreValue {
            value: 0.4 - 0.05 * level + 0.05 * number(0),
            standard_error: Some(0.01),
            per_concept: place.is_multiple_of(2).then(per_concept),
            matrix: (matrices && place < 4).then(|| (0..concepts).map(row).collect()),
            ..ScoreValue::default()
        })
    };
    Point {
        run: run.into(),
        split: "val".into(),
        step,
        epoch: Some(step as f64),
        time: 1.8e9 + step as f64,
        rows: 4096,
        rows_seen: 4096,
        repeated_rows: 0,
        ordinal: Default::default(),
        tie_fraction: 0.01,
        estimator: "tie_aware".into(),
        neighbours: 3,
        catalogue_version: 2,
        seconds: 1.5,
        scores: CATALOGUE.iter().enumerate().map(|(place, score)| (score.id.to_owned(), outcome(place))).collect(),
        ..Point::default()
    }
}
