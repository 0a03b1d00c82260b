//! Rows that a rolling window replaces between two ticks, and the cost of a tick: `cargo bench --bench ticks`.
//!
//! The first table drives the real sampler with synthetic trainings. The second measures ticks of one window with the
//! CPU time that the default share allows a tick, on an idle machine and on one that training keeps busy.

#[path = "../crates/leakage/benches/evaluation/mod.rs"]
mod evaluation;
#[path = "machine/mod.rs"]
mod machine;

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use conceptwatch::schedule::{Budget, Ticks};
use information::Settings;
use leakage::batch::{Batch, NonFinite};
use leakage::pair_cache::{Budgeted, Kept};
use leakage::point::Outcome;
use leakage::prepare::Prepared;
use leakage::run::{Run, SplitKey};
use leakage::sample::{Attempt, Member, Now, RowNumbers, Sample, Sampling, Source, Split, SplitOptions, WindowKind};
use leakage::score::catalogue::Cost;
use leakage::score::{Wanted, evaluate};
use leakage::step::{Rank, Step};
use leakage::tensor::{DataType, Tensor, TensorName};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use evaluation::{declaration, sample};
use machine::median;

/// Rows of the sample, N.
const ROWS: usize = 4096;
/// `--cpu-share` and `--busy-cpu-share`.
const SHARES: [f64; 2] = [0.5, 0.02];
const CONCEPTS: usize = 112;
/// Rows replaced by a tick, in percent.
const REPLACED: [usize; 5] = [1, 2, 10, 30, 100];
const TICKS: usize = 3;

fn main() {
    // As in the program.
    machine::memory::keep_freed();
    println!("{}\n", machine::facts());
    rows_replaced();
    cost_of_ticks();
}

/// Data sets, their rows, and whether the job sends `sample_ids`, which identify the same rows in every epoch.
const DATA: [(&str, usize, bool); 5] = [
    ("digits", 1437, true),
    ("CUB", 4796, true),
    ("CUB, no sample_ids", 4796, false),
    ("CIFAR-10", 50_000, true),
    ("CelebA", 162_770, true),
];
const BATCHES: [usize; 3] = [32, 128, 512];
/// Steps in an interval of 15 s at 1, 10 and 100 steps per second.
const STEPS: [u64; 3] = [15, 150, 1500];
/// Steps after which the window is in its steady state: eight half-lives.
const WARM_UP: u64 = 4000;

fn rows_replaced() {
    let ticks = Ticks::default();
    println!(
        "rows of a recent window replaced in {} s at 1, 10 and 100 steps a second, and the steps and seconds to a tick,",
        ticks.interval.as_secs()
    );
    println!("which is due when {} of the rows are; N = {ROWS}, half-life 500 steps\n", ticks.least_changed);
    println!(
        "{:20} {:>7} {:>6} {:>8} {:>8} {:>8}   {:>9} {:>8} {:>8} {:>8}",
        "training", "rows", "batch", "1/s, %", "10/s, %", "100/s, %", "steps", "1/s, s", "10/s, s", "100/s, s"
    );
    for (name, rows, ids) in DATA {
        for batch in BATCHES {
            let mut training = Training::new(rows, batch, ids);
            training.run(WARM_UP);
            let shares = STEPS.map(|steps| {
                training.split.snapshot(Now::default());
                training.run(steps);
                100.0 * training.changed()
            });
            training.split.snapshot(Now::default());
            let before = training.step;
            while training.changed() < ticks.least_changed {
                training.run(1);
            }
            let steps = training.step - before;
            let seconds = [1.0, 10.0, 100.0].map(|rate| (steps as f64 / rate).max(ticks.interval.as_secs_f64()));
            println!(
                "{name:20} {rows:>7} {batch:>6} {:>8.1} {:>8.1} {:>8.1}   {steps:>9} {:>8.0} {:>8.0} {:>8.0}",
                shares[0], shares[1], shares[2], seconds[0], seconds[1], seconds[2]
            );
        }
    }
    println!();
}

/// A training of epochs in random order.
struct Training {
    run: Run,
    split: Split,
    order: Vec<u64>,
    at: usize,
    batch: usize,
    ids: bool,
    step: u64,
    random: ChaCha8Rng,
}

impl Training {
    fn new(rows: usize, batch: usize, ids: bool) -> Self {
        let run = declaration(1);
        let options = SplitOptions {
            window: WindowKind::Recent,
            sampling: Sampling { rows: ROWS, seed: 0 },
            ..SplitOptions::default()
        };
        let split = Split::new(SplitKey::new("training", "train"), options, Arc::new(run.clone()));
        let random = ChaCha8Rng::seed_from_u64(0);
        Self { run, split, order: (0..rows as u64).collect(), at: rows, batch, ids, step: 0, random }
    }

    fn run(&mut self, steps: u64) {
        for _ in 0..steps {
            self.step += 1;
            let mut rows = Vec::with_capacity(self.batch);
            while rows.len() < self.batch {
                if self.at == self.order.len() {
                    self.order.shuffle(&mut self.random);
                    self.at = 0;
                }
                let end = self.order.len().min(self.at + self.batch - rows.len());
                rows.extend_from_slice(&self.order[self.at..end]);
                self.at = end;
            }
            let n = rows.len() as u64;
            let values = rows.iter().flat_map(|&row| (row as f32).to_le_bytes()).collect::<Vec<u8>>();
            let mut tensors =
                vec![Tensor::numbers(TensorName::ConceptActivations, DataType::Float32, &[n, 1], values.into())];
            if self.ids {
                let ids = rows.iter().flat_map(|row| row.to_le_bytes()).collect::<Vec<u8>>();
                tensors.push(Tensor::numbers(TensorName::SampleIds, DataType::UInt64, &[n], ids.into()));
            }
            let tensors = tensors.into_iter().collect::<Result<Vec<_>, _>>().expect("valid tensors");
            let batch = Batch::new(tensors, &self.run, NonFinite::Reject).expect("a valid batch");
            let source = Source { client: 1, sequence: self.step };
            let member = Member { attempt: Attempt::default(), world_size: 1, rank: Rank::default() };
            let mut staged = self.split.stage(Step::new(self.step).expect("a small step"), source, member);
            staged.offer(&batch, RowNumbers::default()).expect("a first chunk");
            self.split.commit(staged, None, 0, Now::default()).expect("a batch of the one rank");
        }
    }

    /// Fraction of the rows that changed since the last snapshot.
    fn changed(&self) -> f64 {
        let (changed, rows) = self.split.rolling_rows();
        changed as f64 / rows as f64
    }
}

/// Rows of a larger sample.
struct Window {
    all: Sample,
    rows: Vec<usize>,
    random: ChaCha8Rng,
}

impl Window {
    fn replace(&mut self, count: usize) {
        let mut left: Vec<usize> = (0..self.all.rows()).filter(|row| self.rows.binary_search(row).is_err()).collect();
        for _ in 0..count {
            self.rows.swap_remove(self.random.random_range(0..self.rows.len()));
        }
        for _ in 0..count {
            self.rows.push(left.swap_remove(self.random.random_range(0..left.len())));
        }
        self.rows.sort_unstable();
    }

    fn sample(&self) -> Sample {
        let ids = self.rows.iter().map(|&row| row as u64).collect();
        let columns = self.all.names().filter_map(|name| Some((name, self.all.column(name)?.gather(&self.rows))));
        Sample::new(ids, columns.collect())
    }
}

/// One tick: its CPU-seconds, and the fraction of pairs computed on its sample.
struct Tick {
    seconds: f64,
    fresh: f64,
}

fn cost_of_ticks() {
    let interval = Ticks::default().interval.as_secs_f64();
    let allowances = SHARES.map(|cpu_share| {
        let [_, fast, _] = Budget { cpu_share, ..Budget::default() }.parts();
        fast.cpu_share * interval
    });
    println!(
        "a tick, all fast scores, k = {CONCEPTS}, N = {ROWS}, one thread; CPU-seconds, medians of {TICKS} in turns"
    );
    println!("allowance: {:.2} s idle, {:.2} s busy\n", allowances[0], allowances[1]);
    println!(
        "{:>12} {:>16} {:>9} {:>16} {:>9} {:>16}",
        "replaced, %", "every pair, s", "idle, s", "pairs computed,%", "busy, s", "pairs computed,%"
    );
    println!("{:>12} {:>16} {:>9} {:>16} {:>9} {:>16}", 0, "no tick", "no tick", "", "no tick", "");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    let run = declaration(CONCEPTS);
    for replaced in REPLACED {
        let all = sample(&run, 2 * ROWS, 4, None);
        let mut window = Window { all, rows: (0..ROWS).collect(), random: ChaCha8Rng::seed_from_u64(0) };
        let kept = [Mutex::new(Kept::default()), Mutex::new(Kept::default())];
        let mut ticks: [Vec<Tick>; 3] = Default::default();
        for at in 0..=TICKS {
            let sample = window.sample();
            let turn = [
                pool.install(|| tick(&run, &sample, None)),
                pool.install(|| tick(&run, &sample, Some((&kept[0], allowances[0])))),
                pool.install(|| tick(&run, &sample, Some((&kept[1], allowances[1])))),
            ];
            // The first tick has no predecessor.
            if at > 0 {
                ticks.iter_mut().zip(turn).for_each(|(ticks, tick)| ticks.push(tick));
            }
            window.replace((ROWS * replaced).div_ceil(100));
        }
        let [every, quiet, busy] = ticks.map(|ticks| {
            (median(ticks.iter().map(|tick| tick.seconds)), 100.0 * median(ticks.iter().map(|tick| tick.fresh)))
        });
        println!(
            "{replaced:>12} {:>16.2} {:>9.2} {:>16.0} {:>9.2} {:>16.0}",
            every.0, quiet.0, quiet.1, busy.0, busy.1
        );
    }
}

fn tick(run: &Run, sample: &Sample, kept: Option<(&Mutex<Kept>, f64)>) -> Tick {
    let started = cpu_seconds();
    let spent = || cpu_seconds() - started;
    let prepared = Prepared::new(sample, run, Settings::default());
    let prepared = match kept {
        Some((kept, allowance)) => {
            kept.lock().expect("no score panicked").begin(sample.rows());
            prepared.with_budget(Budgeted { kept, time: 0.0, allowance, spent: &spent })
        }
        None => prepared,
    };
    let scores = evaluate(&prepared, Wanted::AvailableAt(Cost::AT_ONCE), |_, _, _| ControlFlow::Continue(()));
    let scores = scores.expect("nothing cancels the evaluation");
    assert!(scores.iter().all(|(score, outcome)| outcome.value().is_some() || panic!("{} is undefined", score.id)));
    let pairs: usize = scores.iter().filter_map(|(score, outcome)| pairs_of(score.id, outcome)).sum();
    let left = kept.map_or(0, |(kept, _)| {
        let mut kept = kept.lock().expect("no score panicked");
        kept.end(spent());
        kept.pairs_left()
    });
    Tick { seconds: spent(), fresh: 1.0 - left as f64 / pairs as f64 }
}

/// Pairs that a tick may leave, for the scores that represent their family.
fn pairs_of(score: &str, outcome: &Outcome) -> Option<usize> {
    let k = outcome.matrix()?.len();
    match score {
        "icl" => Some(k * (k - 1) / 2),
        "icl_label" => Some(k * (k - 1)),
        _ => None,
    }
}

/// CPU time of this thread so far, in seconds.
fn cpu_seconds() -> f64 {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let nanoseconds = statistics.split(' ').next().and_then(|field| field.parse::<f64>().ok());
    nanoseconds.expect("a number of nanoseconds") / 1e9
}
