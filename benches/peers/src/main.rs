//! The Rust side of the comparison with other estimators. Reads one request per line on standard input and answers each
//! with one line of JSON. `peers.py` alternates between its own peers and this program, so that load affects both
//! alike.

mod columns;
#[allow(dead_code, reason = "a setting of the allocator is all that is needed")]
#[path = "../../../src/memory.rs"]
mod memory;
mod pairs;
mod scores;

use std::io::{BufRead, Write};
use std::time::Instant;

use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
#[serde(tag = "task", rename_all = "snake_case")]
enum Request {
    /// Mutual information of two columns, without precomputed order or ties.
    Pair { who: pairs::Who, x: String, y: String, neighbours: usize, seconds: f64 },
    /// Time per pair over all pairs of sorted columns, and time to sort one column.
    Matrix { columns: String, rows: usize, seconds: f64 },
    /// One or more scores of a sample.
    Scores { ids: Vec<String>, sample: scores::Files, threads: usize, seconds: f64 },
}

#[derive(Serialize)]
struct Answer {
    /// Median of one call.
    seconds: f64,
    /// The computed value, for comparison; NaN where the request measures only a time.
    value: f64,
    /// Median time to sort one of the columns, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    sort: Option<f64>,
}

fn main() {
    // As the program does; it serves the other crates as well.
    memory::keep_freed();
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let request: Request = serde_json::from_str(&line.expect("text on standard input")).expect("a request");
        let answer = match request {
            Request::Pair { who, x, y, neighbours, seconds } => {
                let (x, y) = (columns::floats(&x), columns::floats(&y));
                let (seconds, value) = timed(seconds, || pairs::information(who, &x, &y, neighbours));
                Answer { seconds, value, sort: None }
            }
            Request::Matrix { columns, rows, seconds } => {
                let columns = columns::floats(&columns);
                let variables = pairs::variables(&columns, rows);
                let (total, value) = timed(seconds, || pairs::all(&variables));
                let (sort, _) = timed(seconds, || pairs::sort(&columns[..rows]));
                let pairs = variables.len() * (variables.len() - 1) / 2;
                Answer { seconds: total / pairs as f64, value, sort: Some(sort) }
            }
            Request::Scores { ids, sample, threads, seconds } => {
                let (run, sample) = sample.load();
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
                let (seconds, value) = pool.install(|| timed(seconds, || scores::evaluate(&ids, &run, &sample)));
                Answer { seconds, value, sort: None }
            }
        };
        writeln!(out, "{}", serde_json::to_string(&answer).expect("plain numbers")).expect("standard output");
        out.flush().expect("standard output");
    }
}

/// Median time of a call, from as many as fit into `seconds` and at least three, and the last result.
fn timed(seconds: f64, mut call: impl FnMut() -> f64) -> (f64, f64) {
    let mut times: Vec<f64> = Vec::new();
    let begin = Instant::now();
    let mut value = f64::NAN;
    while times.len() < 3 || begin.elapsed().as_secs_f64() < seconds {
        let start = Instant::now();
        value = std::hint::black_box(call());
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    (times[times.len() / 2], value)
}
