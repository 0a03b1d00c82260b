//! Time of a full evaluation: all available scores, those of each cost separately, with the tie-aware estimator on one
//! thread. Prints wall time and CPU time; other programs on the machine affect the latter less.

#[path = "evaluation/mod.rs"]
mod evaluation;
#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::ops::ControlFlow;
use std::time::Instant;

use leakage::prepare::Prepared;
use leakage::run::Run;
use leakage::sample::Sample;
use leakage::score::catalogue::Cost;
use leakage::score::{Wanted, evaluate};

use evaluation::{declaration, sample};
use information::Settings;
use machine::median;

/// Seconds after which a case is not repeated again.
const ENOUGH: f64 = 8.0;
const MOST_REPEATS: usize = 5;

fn main() {
    // As in the program.
    machine::memory::keep_freed();
    println!("a full evaluation on one thread, tie_aware: {}\n", machine::facts());
    println!("{:40} {:>6} {:>7} {:>9} {:>9}  most of it", "case", "N", "scores", "seconds", "on CPU");
    let scalar = |k| (format!("{k} scalar concepts"), k, 2048, None);
    let cem = ("3 concepts of 16 dimensions (CEM)".to_owned(), 3, 2000, Some(16));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    let cases = [scalar(3), cem, scalar(16), scalar(112)];
    let cases = [Cost::Cheap, Cost::Fast, Cost::Slow]
        .into_iter()
        .flat_map(|cost| cases.iter().cloned().map(move |case| (cost, case)));
    for (cost, (name, k, rows, width)) in cases {
        let run = declaration(k);
        let sample = sample(&run, rows, 4, width);
        let (mut times, mut on_cpu) = (Vec::new(), Vec::new());
        let mut costs = Vec::new();
        while times.len() < MOST_REPEATS && times.iter().sum::<f64>() < ENOUGH {
            let (started, cpu) = (Instant::now(), cpu_seconds());
            costs = pool.install(|| measure(&sample, &run, cost));
            times.push(started.elapsed().as_secs_f64());
            on_cpu.push(cpu_seconds() - cpu);
        }
        let scores = costs.len();
        costs.sort_by(|a, b| b.1.total_cmp(&a.1));
        let most: Vec<String> = costs.iter().take(3).map(|(id, seconds)| format!("{id} {seconds:.2}")).collect();
        let name = match cost {
            Cost::Cheap => format!("{name}, cheap"),
            Cost::Fast => name,
            Cost::Slow => format!("{name}, slow"),
        };
        println!("{name:40} {rows:>6} {scores:>7} {:>9.2} {:>9.2}  {}", median(times), median(on_cpu), most.join(", "));
    }
    println!(
        "\nmedian of up to {MOST_REPEATS} evaluations; a score's own time is from the last, without what it shares"
    );
    println!("with those before it");
}

/// CPU time of this process so far in seconds, with a resolution of 10 ms.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // After the name, which may contain spaces, state is field 3, user and system time are fields 14 and 15.
    let fields = stat.rsplit(") ").next().expect("a name in parentheses").split(' ');
    fields.skip(11).take(2).map(|ticks| ticks.parse::<f64>().expect("a number of ticks")).sum::<f64>() / 100.0
}

/// Evaluates all available scores of a cost; the time of each.
fn measure(sample: &Sample, run: &Run, cost: Cost) -> Vec<(&'static str, f64)> {
    let prepared = Prepared::new(sample, run, Settings::default());
    let mut starts = Vec::new();
    let scores = evaluate(&prepared, Wanted::AvailableAt(&[cost]), |_, _, _| {
        starts.push(Instant::now());
        ControlFlow::Continue(())
    });
    starts.push(Instant::now());
    let scores = scores.expect("nothing cancels the evaluation");
    for (score, outcome) in &scores {
        assert!(outcome.value().is_some(), "{} is undefined", score.id);
    }
    let spans = starts.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64());
    scores.iter().map(|(score, _)| score.id).zip(spans).collect()
}
