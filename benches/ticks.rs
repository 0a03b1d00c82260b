//! What a tick of a rolling window takes by the share of its rows that were replaced since the one before, beside an
//! evaluation that knows nothing of the one before: `cargo bench --bench ticks`, or with shares of one's own in thousandths,
//! `cargo bench --bench ticks -- 10 20`.

#[path = "evaluation/mod.rs"]
mod evaluation;
#[path = "machine/mod.rs"]
mod machine;

use std::sync::Mutex;
use std::time::Instant;

use conceptwatch::estimate::Settings;
use conceptwatch::estimate::kept::Neighbours;
use conceptwatch::point::Outcome;
use conceptwatch::prepare::Prepared;
use conceptwatch::run::Run;
use conceptwatch::sample::Sample;
use conceptwatch::score::catalogue;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use evaluation::{declaration, sample};
use machine::median;

const CONCEPTS: usize = 112;
const ROWS: usize = 2048;
/// Replaced rows, in a thousandth of all.
const REPLACED: [usize; 9] = [0, 1, 10, 20, 30, 50, 100, 300, 1000];
/// Ticks before neighbours are kept.
const WARM_UP: usize = 2;
const TICKS: usize = 5;
const ROOM: usize = 1 << 30;

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

fn main() {
    // As the program does.
    conceptwatch::memory::keep_freed();
    println!("{}", machine::facts());
    println!("icl, k = {CONCEPTS}, N = {ROWS}, one thread; seconds, medians of {TICKS} ticks in turns\n");
    println!("{:>12} {:>14} {:>12} {:>6} {:>10}", "replaced, %", "from nothing", "with memory", "ratio", "kept, MB");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread can be started");
    let run = declaration(CONCEPTS);
    let asked: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    for &replaced in if asked.is_empty() { &REPLACED[..] } else { &asked } {
        let count = (ROWS * replaced).div_ceil(1000);
        let all = sample(&run, 3 * ROWS, 4, None);
        let mut window = Window { all, rows: (0..ROWS).collect(), random: ChaCha8Rng::seed_from_u64(0) };
        let kept = Mutex::new(Neighbours::new(ROOM));
        let (mut alone, mut after) = (Vec::new(), Vec::new());
        for tick in 0..WARM_UP + TICKS {
            window.replace(count);
            let sample = window.sample();
            let timed = |kept: Option<&Mutex<Neighbours>>| pool.install(|| icl(&run, &sample, kept));
            let ((without, expected), (with, got)) = (timed(None), timed(Some(&kept)));
            assert!(expected == got, "an update has the value of an evaluation from nothing");
            if tick >= WARM_UP {
                alone.push(without);
                after.push(with);
            }
        }
        let held = kept.into_inner().expect("no score panicked").bytes() as f64 / 1e6;
        let (ratio, percent) = (median(after.iter().zip(&alone).map(|(a, b)| a / b)), replaced as f64 / 10.0);
        let (alone, after) = (median(alone), median(after));
        println!("{percent:>12} {alone:>14.3} {after:>12.3} {ratio:>6.2} {held:>10.0}");
    }
}

fn icl(run: &Run, sample: &Sample, kept: Option<&Mutex<Neighbours>>) -> (f64, Outcome) {
    let icl = catalogue::find("icl").expect("a score of the catalogue");
    let started = Instant::now();
    let prepared = Prepared::new(sample, run, Settings::default());
    let prepared = match kept {
        Some(kept) => prepared.with_neighbours(kept),
        None => prepared,
    };
    let outcome = (icl.compute)(&prepared);
    (started.elapsed().as_secs_f64(), outcome)
}
