//! Time per pair of columns by the shape of their values, and the gain of each shortcut of the estimators:
//! `cargo bench --bench shapes`, or with other numbers of rows,
//! `cargo bench --bench shapes -- 300 10000`, or some shortcuts alone,
//! `cargo bench --bench shapes -- Cells Strips`.

#[path = "../../../benches/machine/mod.rs"]
mod machine;

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use half::{bf16, f16};
use information::thresholds::{Shortcut, without};
use information::{Key, Settings, Variable, mutual_information};
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use machine::median;

const ROWS: [usize; 3] = [1024, 2048, 4096];
/// Rows for the shortcuts: a typical evaluation and a large one.
const ROWS_OF_SHORTCUTS: [usize; 2] = [2048, 10_000];
/// Number of columns; every pair of them is estimated.
const COLUMNS: usize = 16;
const COLUMNS_OF_SHORTCUTS: usize = 6;
const TURNS: usize = 15;

/// How columns are generated.
#[derive(Clone, Copy)]
struct Data {
    name: &'static str,
    /// One value, from a number of the standard normal distribution and a uniform one.
    value: fn(f64, f64) -> f32,
    /// Fraction of values that repeat another one of the column.
    ties: f64,
    /// Correlation of the normal numbers of two columns.
    correlation: f64,
    /// Whether the values are classes.
    discrete: bool,
}

const LOGITS: Data = Data { name: "logits", value: |z, _| z as f32, ties: 0.0, correlation: 0.0, discrete: false };
const DEPENDENT: Data = Data { name: "logits, correlation 0.9", correlation: 0.9, ..LOGITS };
const SIGMOIDS: Data = Data { name: "sigmoids", value: |z, _| sigmoid(z) as f32, ..LOGITS };
const TIES: Data = Data { name: "50 % ties", ties: 0.5, ..LOGITS };
const ONE_VALUE: Data =
    Data { name: "half of the rows at one value", value: |z, u| if u < 0.5 { 0.5 } else { z as f32 }, ..LOGITS };
const BFLOAT16: Data = Data { name: "bfloat16 sigmoids", value: |z, _| bf16::from_f64(sigmoid(z)).to_f32(), ..LOGITS };
const FLOAT16: Data = Data { name: "float16 sigmoids", value: |z, _| f16::from_f64(sigmoid(z)).to_f32(), ..LOGITS };
const SATURATED: Data = Data { name: "saturated: sigmoids of 12 z", value: |z, _| sigmoid(12.0 * z) as f32, ..LOGITS };
const SATURATED_BFLOAT16: Data =
    Data { name: "bfloat16 sigmoids of 12 z", value: |z, _| bf16::from_f64(sigmoid(12.0 * z)).to_f32(), ..LOGITS };
const STEEPER: Data = Data { name: "steeper: sigmoids of 30 z", value: |z, _| sigmoid(30.0 * z) as f32, ..LOGITS };
const LEVELS_25: Data = Data { name: "some 25 levels", value: |z, _| (4.0 * z).round() as f32, ..LOGITS };
const LEVELS_100: Data = Data { name: "100 levels", value: |_, u| (100.0 * u).floor() as f32, ..LOGITS };
const HARD: Data = Data { name: "hard labels", value: |z, _| if z > 0.0 { 1.0 } else { 0.0 }, ..LOGITS };
const CLASSES: Data = Data { name: "binary classes", discrete: true, ..HARD };
const CONSTANT: Data =
    Data { name: "95 % of the rows at one value", value: |z, u| if u < 0.95 { 0.5 } else { z as f32 }, ..LOGITS };

const SHAPES: [Data; 9] = [TIES, ONE_VALUE, BFLOAT16, FLOAT16, SATURATED, STEEPER, LEVELS_25, LEVELS_100, CONSTANT];

/// Each shortcut with the data it is intended for, and data as produced by trainings.
const SHORTCUTS: [(Shortcut, &[Data]); 10] = [
    (Shortcut::Float32, &[LOGITS, SIGMOIDS, SATURATED, STEEPER]),
    (Shortcut::Cells, &[HARD, LEVELS_25, LEVELS_100, BFLOAT16, SATURATED_BFLOAT16]),
    (Shortcut::Duplicates, &[SATURATED_BFLOAT16, STEEPER, ONE_VALUE, CONSTANT, SATURATED]),
    (Shortcut::Strips, &[LOGITS, SIGMOIDS, DEPENDENT]),
    (Shortcut::Mean, &[TIES, BFLOAT16, FLOAT16, STEEPER]),
    (Shortcut::ClosedForm, &[HARD, SATURATED_BFLOAT16, STEEPER, LEVELS_25]),
    (Shortcut::Few, &[BFLOAT16, FLOAT16, LEVELS_25, LEVELS_100]),
    (Shortcut::Memory, &[BFLOAT16, FLOAT16, LEVELS_25]),
    (Shortcut::Registers, &[LOGITS, SIGMOIDS, BFLOAT16, SATURATED]),
    (Shortcut::SmallTerms, &[CLASSES, HARD, LOGITS]),
];

fn sigmoid(z: f64) -> f64 {
    1.0 / (1.0 + (-z).exp())
}

/// Columns with precomputed order and ties.
fn columns(count: usize, rows: usize, data: Data) -> Vec<Variable> {
    let mut random = ChaCha8Rng::seed_from_u64(rows as u64);
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    let tied = (rows as f64 * data.ties) as usize / 2;
    let common: Vec<f64> = (0..rows).map(|_| random.sample(StandardNormal)).collect();
    let (together, alone) = (data.correlation.sqrt(), (1.0 - data.correlation).sqrt());
    let column = |coordinate: u64| {
        let mut normal = |common: &f64| together * common + alone * random.sample::<f64, _>(StandardNormal);
        let normal: Vec<f64> = common.iter().map(&mut normal).collect();
        let mut values: Vec<f64> = normal.into_iter().map(|z| f64::from((data.value)(z, random.random()))).collect();
        let mut order: Vec<usize> = (0..rows).collect();
        order.shuffle(&mut random);
        (0..tied).for_each(|at| values[order[at]] = values[order[tied + at]]);
        match data.discrete {
            true => Variable::discrete(&values.iter().map(|&value| value as i32).collect::<Vec<_>>()),
            false => Variable::scalar(values, &ids, Key { tensor: 0, coordinate }),
        }
    };
    let columns: Vec<Variable> = (0..count as u64).map(column).collect();
    all_pairs(&columns);
    columns
}

/// Seconds for the estimates of all pairs.
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

/// From the seconds of all pairs.
fn nanoseconds_a_row(seconds: f64, columns: usize, rows: usize) -> f64 {
    seconds / (columns * (columns - 1) / 2) as f64 / rows as f64 * 1e9
}

fn main() {
    // As in the program.
    machine::memory::keep_freed();
    let given: Vec<usize> = std::env::args().filter_map(|argument| argument.parse().ok()).collect();
    println!("{}", machine::facts());
    println!("Pairs of sorted columns, k = 3, one thread; medians of {TURNS} turns.\n");
    let named: Vec<String> = SHORTCUTS.iter().map(|(shortcut, _)| format!("{shortcut:?}")).collect();
    let named: Vec<String> = std::env::args().filter(|argument| named.contains(argument)).collect();
    if named.is_empty() {
        shapes(if given.is_empty() { &ROWS } else { &given });
    }
    shortcuts(if given.is_empty() { &ROWS_OF_SHORTCUTS } else { &given }, &named);
}

/// ns per row, and the ratio to independent columns without ties, measured in alternation.
fn shapes(all_rows: &[usize]) {
    println!("ns per row, and ratio to independent columns without ties:\n");
    print!("{:<30}", "");
    all_rows.iter().for_each(|rows| print!(" {:>14}", format!("N = {rows}")));
    println!();
    let without_ties: Vec<_> = all_rows.iter().map(|&rows| columns(COLUMNS, rows, LOGITS)).collect();
    print!("{:<30}", "independent");
    for (columns, &rows) in without_ties.iter().zip(all_rows) {
        let seconds = median((0..TURNS).map(|_| all_pairs(columns)));
        print!(" {:>8.1}      ", nanoseconds_a_row(seconds, COLUMNS, rows));
    }
    println!();
    for data in SHAPES {
        print!("{:<30}", data.name);
        for (without_ties, &rows) in without_ties.iter().zip(all_rows) {
            let columns = columns(COLUMNS, rows, data);
            let turns: Vec<[f64; 2]> = (0..TURNS).map(|_| [all_pairs(without_ties), all_pairs(&columns)]).collect();
            let ratio = median(turns.iter().map(|[without, with]| with / without));
            let seconds = median(turns.iter().map(|[_, with]| *with));
            print!(" {:>8.1} {ratio:>5.2}", nanoseconds_a_row(seconds, COLUMNS, rows));
        }
        println!();
    }
}

/// ns per row, and the ratio of the time without the shortcut to that with it, in alternation; all shortcuts if none is
/// named.
fn shortcuts(all_rows: &[usize], named: &[String]) {
    println!("\nns per row, and ratio of the time without the shortcut to that with it:\n");
    print!("{:<12}{:<30}", "shortcut", "");
    all_rows.iter().for_each(|rows| print!(" {:>14}", format!("N = {rows}")));
    println!();
    for (shortcut, all_data) in SHORTCUTS {
        let name = format!("{shortcut:?}");
        if !named.is_empty() && !named.contains(&name) {
            continue;
        }
        for &data in all_data {
            print!("{name:<12}{:<30}", data.name);
            for &rows in all_rows {
                let columns = columns(COLUMNS_OF_SHORTCUTS, rows, data);
                let turns: Vec<[f64; 2]> =
                    (0..TURNS).map(|_| [all_pairs(&columns), without(shortcut, || all_pairs(&columns))]).collect();
                let ratio = median(turns.iter().map(|[with, without]| without / with));
                let seconds = median(turns.iter().map(|[with, _]| *with));
                print!(" {:>8.1} {ratio:>5.2}", nanoseconds_a_row(seconds, COLUMNS_OF_SHORTCUTS, rows));
            }
            println!();
        }
    }
}
