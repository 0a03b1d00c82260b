//! What conditional leakage costs beside the scores that it is a twin of, and what its tests and joint leakage cost:
//! CPU time of one scoring thread, which other programs on the machine affect less than wall time.

#[path = "evaluation/mod.rs"]
mod evaluation;
#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::ops::ControlFlow;

use leakage::prepare::Prepared;
use leakage::run::Run;
use leakage::sample::Sample;
use leakage::score::{Wanted, catalogue, evaluate, test};

use evaluation::{declaration, sample};
use information::Settings;
use machine::median;

const CONCEPTS: usize = 112;
const ROWS: usize = 2048;
/// Turns of a score and its twin, and the seconds that a score takes in a turn at least.
const TURNS: usize = 15;
const TURN: f64 = 0.2;
const REPEATS: usize = 3;

fn main() {
    // As in the program.
    machine::memory::keep_freed();
    println!("{CONCEPTS} scalar concepts, N = {ROWS}, tie_aware, one thread: {}\n", machine::facts());
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    let run = declaration(CONCEPTS);
    let of = |classes| sample(&run, ROWS, classes, None);
    let (few, many) = (of(4), of(200));

    println!("{:18} {:12} {:>7} {:>12} {:>12} {:>6}", "score", "beside", "classes", "CPU-seconds", "beside", "ratio");
    let twins = [("ctl_conditional", "ctl"), ("icl_conditional", "icl_label")];
    for ((score, twin), (sample, classes)) in
        twins.into_iter().flat_map(|pair| [(pair, (&few, 4)), (pair, (&many, 200))])
    {
        let [own, its, ratio] = pool.install(|| beside(score, twin, &run, sample));
        println!("{score:18} {twin:12} {classes:>7} {own:>12.4} {its:>12.4} {ratio:>6.2}");
    }

    println!("\n{:26} {:>7} {:>12}", "slow", "classes", "CPU-seconds");
    for (sample, classes) in [(&few, 4), (&many, 200)] {
        for score in ["ctl_conditional", "icl_conditional"] {
            let seconds = pool.install(|| repeated(|| test_once(score, &run, sample)));
            println!("{:26} {classes:>7} {seconds:>12.2}", format!("test of {score}"));
        }
        let seconds = pool.install(|| repeated(|| score_once("joint_leakage", &run, sample)));
        println!("{:26} {classes:>7} {seconds:>12.2}", "joint_leakage");
    }
    println!("\nmedians of {TURNS} turns, taken one after the other, and of {REPEATS} repeats");
}

/// CPU-seconds of a score and of its twin, and their ratio, as medians of turns.
fn beside(score: &str, twin: &str, run: &Run, sample: &Sample) -> [f64; 3] {
    let [(score, own), (twin, its)] = [score, twin].map(|id| {
        let once = cpu_seconds_of(1, || score_once(id, run, sample));
        (id, (TURN / once.max(1e-3)).ceil() as u32)
    });
    let turns: Vec<(f64, f64)> = (0..TURNS)
        .map(|_| {
            let of_score = cpu_seconds_of(own, || score_once(score, run, sample));
            (of_score, cpu_seconds_of(its, || score_once(twin, run, sample)))
        })
        .collect();
    let all = |value: fn(&(f64, f64)) -> f64| median(turns.iter().map(value));
    [all(|turn| turn.0), all(|turn| turn.1), all(|turn| turn.0 / turn.1)]
}

fn score_once(id: &str, run: &Run, sample: &Sample) {
    let score = catalogue::find(id).expect("a score of the catalogue");
    let prepared = Prepared::new(sample, run, Settings::default());
    let scores = evaluate(&prepared, Wanted::Named(&[score]), |_, _, _| ControlFlow::Continue(()));
    for (score, outcome) in scores.expect("nothing cancels the evaluation") {
        assert!(outcome.value().is_some(), "{} is undefined", score.id);
    }
}

fn test_once(id: &str, run: &Run, sample: &Sample) {
    let prepared = Prepared::new(sample, run, Settings::default());
    let tests = test(&prepared, |score| score.id == id, |_, _, _| ControlFlow::Continue(()));
    for (score, test) in tests.expect("nothing cancels the tests") {
        assert!(test.p_value.is_some(), "{} has no test", score.id);
    }
}

/// CPU time of the calling thread in seconds, mean of some calls.
fn cpu_seconds_of(calls: u32, call: impl Fn()) -> f64 {
    let started = cpu_seconds();
    for _ in 0..calls {
        call();
    }
    (cpu_seconds() - started) / f64::from(calls)
}

fn repeated(call: impl Fn()) -> f64 {
    median((0..REPEATS).map(|_| cpu_seconds_of(1, &call)))
}

/// CPU time of the calling thread so far in seconds.
fn cpu_seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = text.split(' ').next().expect("a first field").parse::<f64>();
    nanoseconds.expect("a number of nanoseconds") / 1e9
}
