//! What a pair of columns takes by the shape of its ties, beside a pair of independent columns without any:
//! `cargo bench --no-default-features --bench shapes`, or with numbers of rows of one's own,
//! `cargo bench --no-default-features --bench shapes -- 300 10000`.

#[path = "machine/mod.rs"]
mod machine;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use conceptwatch::estimate::{Key, Settings, Variable, mutual_information};
use half::{bf16, f16};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use machine::median;

const ROWS: [usize; 3] = [1024, 2048, 4096];
/// Each pair of them is one of so many estimates.
const COLUMNS: usize = 16;
const TURNS: usize = 15;

/// One value of a column, from a number of the standard normal distribution and a uniform one.
type Value = fn(f64, f64) -> f32;

/// A name, how to make a value, the share of values that repeat another one of the column, and the ratio that was asked
/// for.
const SHAPES: [(&str, Value, f64, f64); 9] = [
    ("50 % ties", |z, _| z as f32, 0.5, 2.0),
    ("half of the rows at one value", |z, u| if u < 0.5 { 0.5 } else { z as f32 }, 0.0, 3.0),
    ("bfloat16 sigmoids", |z, _| bf16::from_f64(sigmoid(z)).to_f32(), 0.0, 3.0),
    ("float16 sigmoids", |z, _| f16::from_f64(sigmoid(z)).to_f32(), 0.0, 3.0),
    ("saturated: sigmoid of 12 z", |z, _| sigmoid(12.0 * z) as f32, 0.0, 3.0),
    ("steeper: sigmoid of 30 z", |z, _| sigmoid(30.0 * z) as f32, 0.0, 3.0),
    ("some 25 levels", |z, _| (4.0 * z).round() as f32, 0.0, 3.0),
    ("100 levels", |_, u| (100.0 * u).floor() as f32, 0.0, 3.0),
    ("constant but few", |z, u| if u < 0.95 { 0.5 } else { z as f32 }, 0.0, 3.0),
];

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Columns whose order and ties are known already.
fn columns(rows: usize, value: Value, ties: f64) -> Vec<Variable> {
    let mut random = ChaCha8Rng::seed_from_u64(rows as u64);
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    let tied = (rows as f64 * ties) as usize / 2;
    let column = |coordinate| {
        let drawn = (0..rows).map(|_| value(random.sample(StandardNormal), random.random()));
        let mut values: Vec<f64> = drawn.map(f64::from).collect();
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut random);
        (0..tied).for_each(|at| values[order[at]] = values[order[tied + at]]);
        Variable::scalar(values, &ids, Key { tensor: 0, coordinate })
    };
    let columns: Vec<Variable> = (0..COLUMNS as u64).map(column).collect();
    all_pairs(&columns);
    columns
}

/// Seconds that the estimates of all pairs take.
fn all_pairs(columns: &[Variable]) -> f64 {
    let settings = Settings::default();
    let started = Instant::now();
    for (i, x) in columns.iter().enumerate() {
        for y in &columns[..i] {
            black_box(mutual_information(x, y, &settings).expect("columns that vary"));
        }
    }
    started.elapsed().as_secs_f64()
}

fn main() {
    // As the program does.
    conceptwatch::memory::keep_freed();
    let asked: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    let all_rows = if asked.is_empty() { &ROWS[..] } else { &asked };
    println!("{}", machine::facts());
    println!(
        "Pairs of columns that are sorted already, k = 3, one thread. ns a row, and times what independent columns"
    );
    println!("without ties take; medians of {TURNS} turns with them.\n");
    print!("{:<30}", "");
    all_rows.iter().for_each(|rows| print!(" {:>14}", format!("N = {rows}")));
    println!(" {:>6}", "asked");
    let without_ties: Vec<_> = all_rows.iter().map(|&rows| columns(rows, |z, _| z as f32, 0.0)).collect();
    let pairs = (COLUMNS * (COLUMNS - 1) / 2) as f64;
    print!("{:<30}", "independent");
    for (columns, &rows) in without_ties.iter().zip(all_rows) {
        let seconds = median((0..TURNS).map(|_| all_pairs(columns)));
        print!(" {:>8.1}      ", seconds / pairs / rows as f64 * 1e9);
    }
    println!();
    for (name, value, ties, at_most) in SHAPES {
        print!("{name:<30}");
        for (without_ties, &rows) in without_ties.iter().zip(all_rows) {
            let columns = columns(rows, value, ties);
            let turns: Vec<[f64; 2]> = (0..TURNS).map(|_| [all_pairs(without_ties), all_pairs(&columns)]).collect();
            let ratio = median(turns.iter().map(|[without, with]| with / without));
            let seconds = median(turns.iter().map(|[_, with]| *with));
            print!(" {:>8.1} {ratio:>5.2}", seconds / pairs / rows as f64 * 1e9);
        }
        println!(" {at_most:>6}");
    }
}
