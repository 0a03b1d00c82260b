//! `conceptwatch score-tensors` and `conceptwatch estimate`: the Python functions `score` and `mutual_information`, which
//! run them as children. Nothing is written to disk, and a failure ends the child alone.

use std::collections::BTreeMap;
use std::io::{Write, stderr, stdin, stdout};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use clap::Args;
use rayon::prelude::*;
use serde_json::{Value, json};

use information::{Key, Settings, Variable, conditional_information, mutual_information};
use leakage::point::Point;

use crate::server::pipe::{self, Columns};

use super::failure::Failure;
use super::scoring::{Scoring, TOO_FEW, assessment_on};

/// Score the tensors on standard input
pub fn score(options: &Scoring) -> Result<bool, Failure> {
    options.named().map_err(Failure::bad_input)?;
    let memory = options.memory();
    let (run, batch, used) = pipe::batch(&mut stdin().lock(), memory)?;
    let began = Instant::now();
    let found = options.score(&run, batch, memory - used, &say).map_err(Failure::running)?;
    let seconds = began.elapsed().as_secs_f64();
    let point = Point { seconds, ..found.point() };
    let concluded = assessment_on(&run, &point).filter(|_| !point.scores.is_empty());
    let concluded = concluded
        .ok_or_else(|| Failure::bad_input(format!("no score can be computed from these tensors, {TOO_FEW}")))?;
    // Where nobody reads any more, nobody misses it.
    Ok(stdout().write_all(&pipe::answer(&point, concluded)).is_ok())
}

/// Estimate mutual information of the arrays on standard input
#[derive(Args)]
pub struct EstimateOptions {
    /// Number of neighbours of the estimators.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=1000))]
    neighbours: u16,
}

pub fn estimate(options: &EstimateOptions) -> Result<String, Failure> {
    let mut of_name: BTreeMap<String, Vec<Variable>> = BTreeMap::new();
    for (name, columns) in pipe::columns(&mut stdin().lock())? {
        of_name.entry(name).or_default().extend(variables(columns));
    }
    let mut taken = |name| of_name.remove(name).unwrap_or_default();
    let (x, y, given) = (taken("x"), taken("y"), taken("given").pop());
    let [y] = &y[..] else { return Err(Failure::bad_input("expected one y")) };
    let settings = Settings { neighbours: usize::from(options.neighbours), ..Settings::default() };
    let (total, begun) = (x.len(), AtomicUsize::new(0));
    let of_column = |x: &Variable| {
        if say(&format!("{}/{total} columns", begun.fetch_add(1, Ordering::Relaxed) + 1)).is_break() {
            return None;
        }
        let estimate = match &given {
            Some(given) => conditional_information(x, y, given, &settings).map(|found| found.estimate),
            None => mutual_information(x, y, &settings),
        };
        Some(match estimate {
            Ok(found) => json!({"value": found.value, "standard_error": found.sampling_error()}),
            Err(why) => json!({"undefined": why.to_string()}),
        })
    };
    let found: Option<Vec<Value>> = x.par_iter().map(of_column).collect();
    found.map(|found| format!("{}\n", json!(found))).ok_or_else(|| Failure::running("nobody waits for the answer"))
}

fn variables(columns: Columns) -> Vec<Variable> {
    let (columns, width) = match columns {
        Columns::Classes(columns) => return columns.iter().map(|column| Variable::discrete(column)).collect(),
        Columns::Numbers(columns, width) => (columns, width),
    };
    let rows = columns.first().map_or(0, Vec::len) / width;
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    // The key distinguishes columns in the noise of the published estimator, which is not used here.
    let key = Key { tensor: 0, coordinate: 0 };
    columns.iter().map(|column| Variable::vector(column, width, &ids, key)).collect()
}

/// Says what is done to the process that waits, and breaks off once it has gone.
fn say(what: &str) -> ControlFlow<()> {
    match stderr().write_all(format!("{what}\n").as_bytes()) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    }
}
