//! Ross's estimator on vectors by rows of distances, by a tree, and by the search that the estimator chooses: one
//! concept, one binary label, one thread. `cargo bench --bench vectors`, or with other numbers of rows, `cargo bench
//! --bench vectors -- 4096`.

#[path = "evaluation/cem.rs"]
mod cem;
#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::sync::Arc;
use std::time::Instant;

use information::thresholds::{Shortcut, without};
use information::{Key, Settings, Variable, mutual_information_with_each};
use information::{Search, information_by};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use machine::median;

const ROWS: [usize; 5] = [2000, 5000, 20_000, 50_000, 100_000];
const WIDTHS: [usize; 4] = [2, 4, 8, 16];
const NEIGHBOURS: usize = 3;
/// Of the comparison of words.
const LABELS: usize = 112;
const WIDE: usize = 8;
/// Trees of more rows or coordinates are timed only where they are chosen: they may take minutes.
const MOST_ROWS: usize = 20_000;
const MOST_WIDE: usize = 8;
/// Seconds after which a case is not repeated, and repeats at most.
const ENOUGH: f64 = 1.0;
const REPEATS: usize = 7;

fn main() {
    println!("{}", machine::facts());
    println!("I(embedding; label), k = {NEIGHBOURS}, one label; seconds, medians of up to {REPEATS} in turns\n");
    println!("{:10} {:>3} {:>8} {:>9} {:>9} {:>9} {:>7}", "data", "d", "N", "rows", "tree", "chosen", "ratio");
    let given: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    for width in WIDTHS {
        let cem = cem::Cem::trained(width);
        for &rows in if given.is_empty() { &ROWS[..] } else { &given } {
            compare("Gaussian", width, gaussian(rows, width));
            compare("CEM", width, cem.embeddings(rows));
        }
    }
    println!(
        "\nI(embedding; each of {LABELS} labels), d = {WIDE}; seconds, and ratio of the time without words to that with them\n"
    );
    for rows in if given.is_empty() { vec![2048, 10_000] } else { given } {
        words(rows);
    }
}

/// Labels of two classes in words of 64, and each by itself.
fn words(rows: usize) {
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    let (values, _) = gaussian(rows, WIDE);
    let x = Variable::vector(&values, WIDE, &ids, Key { tensor: 0, coordinate: 0 });
    let label = |at: usize| {
        let (column, threshold) = (at % WIDE, (at / WIDE) as f64 / 8.0 - 0.5);
        Variable::discrete(
            &values.iter().skip(column).step_by(WIDE).map(|&v| i32::from(v > threshold)).collect::<Vec<_>>(),
        )
    };
    let labels: Vec<Variable> = (0..LABELS).map(label).collect();
    let labels: Vec<&Variable> = labels.iter().collect();
    let timed = || {
        let started = Instant::now();
        let found = mutual_information_with_each(&x, &labels, &Settings::default());
        (started.elapsed().as_secs_f64(), found)
    };
    let turns: Vec<[f64; 2]> = (0..REPEATS)
        .map(|_| {
            let ((with, found), (without, expected)) = (timed(), without(Shortcut::Words, timed));
            assert_eq!(found, expected, "the same bits");
            [with, without]
        })
        .collect();
    let seconds = median(turns.iter().map(|[with, _]| *with));
    println!("N = {rows:>7} {seconds:>9.4} {:>7.2}", median(turns.iter().map(|[with, without]| without / with)));
}

/// Independent coordinates; the label depends on the first.
fn gaussian(rows: usize, width: usize) -> (Vec<f64>, Vec<i32>) {
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let values: Vec<f64> = (0..rows * width).map(|_| f64::from(random.sample::<f32, _>(StandardNormal))).collect();
    let noisy = |first: f64, random: &mut ChaCha8Rng| i32::from(first + random.sample::<f64, _>(StandardNormal) > 0.0);
    let labels = values.iter().step_by(width).map(|&first| noisy(first, &mut random)).collect();
    (values, labels)
}

fn compare(data: &str, width: usize, (values, labels): (Vec<f64>, Vec<i32>)) {
    let rows = labels.len();
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    let x = Variable::vector(&values, width, &ids, Key { tensor: 0, coordinate: 0 });
    let label = Variable::discrete(&labels);
    let forced = rows <= MOST_ROWS && width <= MOST_WIDE;
    let mut seconds: [Vec<f64>; 3] = Default::default();
    while seconds[0].len() < REPEATS && seconds[0].iter().sum::<f64>() < ENOUGH {
        let mut expected = None;
        for (search, seconds) in [Search::Rows, Search::Tree, Search::Cheaper].into_iter().zip(&mut seconds) {
            if search == Search::Tree && !forced {
                continue;
            }
            let started = Instant::now();
            let found = information_by(search, &x, &label, NEIGHBOURS).expect("a vector, a label, and a tree");
            seconds.push(started.elapsed().as_secs_f64());
            assert_eq!(expected.get_or_insert(found.clone()), &found, "every search gives the same bits");
        }
    }
    let [by_rows, by_tree, chosen] = seconds.map(|seconds| (!seconds.is_empty()).then(|| median(seconds)));
    let column = |seconds: Option<f64>| seconds.map_or("-".to_owned(), |seconds| format!("{seconds:.4}"));
    let ratio = chosen.zip(by_rows).map_or(f64::NAN, |(chosen, by_rows)| chosen / by_rows);
    let [by_rows, by_tree, chosen] = [by_rows, by_tree, chosen].map(column);
    println!("{data:10} {width:>3} {rows:>8} {by_rows:>9} {by_tree:>9} {chosen:>9} {ratio:>7.2}");
}
