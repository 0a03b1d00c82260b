//! Overview of the cost of the estimators: `cargo bench --bench figures`, or of the rows whose scores contain a word:
//! `cargo bench --bench figures -- conditional`. For a comparison with other programs:
//! `make bench-peers`.

#[path = "evaluation/mod.rs"]
mod evaluation;
#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::ops::ControlFlow;
use std::time::Instant;

use leakage::prepare::Prepared;
use leakage::run::Run;
use leakage::sample::Sample;
use leakage::score::{Wanted, catalogue, evaluate, test};

use evaluation::{declaration, sample};
use information::Settings;
use machine::median;

const REPEATS: usize = 3;

struct Figure {
    scores: &'static [&'static str],
    concepts: usize,
    rows: usize,
    task_classes: u8,
    width: Option<usize>,
    /// Number of neighbour estimates of mutual information, without label entropies.
    estimates: usize,
    /// Of the permutation tests of the scores in place of the scores.
    tests: bool,
}

const SCALARS: Figure =
    Figure { scores: &["icl"], concepts: 112, rows: 2048, task_classes: 4, width: None, estimates: 6328, tests: false };
const VECTORS: Figure = Figure {
    scores: &["embedding_ct", "embedding_ic", "embedding_self"],
    width: Some(16),
    estimates: 12_656,
    ..SCALARS
};

const JOINT: Figure = Figure { scores: &["joint_leakage"], estimates: 0, ..SCALARS };

const FIGURES: [Figure; 20] = [
    SCALARS,
    Figure { rows: 10_000, ..SCALARS },
    Figure { concepts: 312, rows: 1024, estimates: 48_828, ..SCALARS },
    Figure { scores: &["ctl"], rows: 5794, task_classes: 200, estimates: 112, ..SCALARS },
    Figure { scores: &["icl_label"], estimates: 12_432, ..SCALARS },
    Figure { scores: &["icl_conditional"], estimates: 12_432, ..SCALARS },
    Figure { scores: &["ctl"], estimates: 112, ..SCALARS },
    Figure { scores: &["ctl_conditional"], estimates: 112, ..SCALARS },
    Figure { scores: &["ctl"], task_classes: 200, estimates: 112, ..SCALARS },
    Figure { scores: &["ctl_conditional"], task_classes: 200, estimates: 112, ..SCALARS },
    VECTORS,
    Figure { scores: &["embedding_ct_conditional", "embedding_ic_conditional"], estimates: 12_544, ..VECTORS },
    Figure { scores: &["alignment_leakage"], estimates: 224, ..VECTORS },
    Figure { scores: &["ctl_conditional"], estimates: 199 * 112, tests: true, ..SCALARS },
    Figure { scores: &["ctl_conditional"], task_classes: 200, estimates: 199 * 112, tests: true, ..SCALARS },
    Figure { scores: &["icl_conditional"], estimates: 199 * 12_432, tests: true, ..SCALARS },
    Figure { scores: &["icl_conditional"], task_classes: 200, estimates: 199 * 12_432, tests: true, ..SCALARS },
    Figure { scores: &["embedding_ct_conditional"], estimates: 199 * 112, tests: true, ..VECTORS },
    JOINT,
    Figure { task_classes: 200, ..JOINT },
];

fn main() {
    // As in the program.
    machine::memory::keep_freed();
    let settings = Settings::default();
    println!("{}", machine::facts());
    println!("estimator tie_aware, {} neighbours; seconds, median of {REPEATS}\n", settings.neighbours);
    println!(
        "{:44} {:>4} {:>6} {:>7} {:>10} {:>9} {:>10} {:>6}",
        "scores", "k", "N", "classes", "estimates", "1 thread", "2 threads", "ratio"
    );
    let pools = [1, 2].map(|threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("threads can be started")
    });
    let word = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    let chosen = FIGURES.into_iter().filter(|figure| figure.scores.join(", ").contains(&word));
    for figure in chosen {
        let Figure { scores, concepts, rows, task_classes, width, estimates, tests } = figure;
        let run = declaration(concepts);
        let sample = sample(&run, rows, task_classes, width);
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..REPEATS {
            for (pool, times) in pools.iter().zip(&mut times) {
                times.push(pool.install(|| {
                    if tests {
                        seconds_of_tests(scores, &run, &sample, settings)
                    } else {
                        seconds(scores, &run, &sample, settings)
                    }
                }));
            }
        }
        let [one, two] = times.map(median);
        let (name, ratio) = (if tests { "test of " } else { "" }.to_owned() + &scores.join(", "), one / two);
        println!(
            "{name:44} {concepts:>4} {rows:>6} {task_classes:>7} {estimates:>10} {one:>9.3} {two:>10.3} {ratio:>6.2}"
        );
    }
    println!("\nembeddings: 16 wide.");
}

fn seconds(ids: &[&str], run: &Run, sample: &Sample, settings: Settings) -> f64 {
    let named: Vec<_> = ids.iter().map(|id| catalogue::find(id).expect("a score of the catalogue")).collect();
    let started = Instant::now();
    let prepared = Prepared::new(sample, run, settings);
    let scores = evaluate(&prepared, Wanted::Named(&named), |_, _, _| ControlFlow::Continue(()));
    for (score, outcome) in scores.expect("nothing cancels the evaluation") {
        assert!(outcome.value().is_some(), "{} is undefined", score.id);
    }
    started.elapsed().as_secs_f64()
}

fn seconds_of_tests(ids: &[&str], run: &Run, sample: &Sample, settings: Settings) -> f64 {
    let started = Instant::now();
    let prepared = Prepared::new(sample, run, settings);
    let tests = test(&prepared, |score| ids.contains(&score.id), |_, _, _| ControlFlow::Continue(()));
    for (score, test) in tests.expect("nothing cancels the tests") {
        assert!(test.p_value.is_some(), "{} has no test", score.id);
    }
    started.elapsed().as_secs_f64()
}
