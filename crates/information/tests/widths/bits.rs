//! Prints the bits of many estimates for `run.sh`, which checks that they are equal at every SIMD width.

use std::sync::Arc;

use information::{Estimate, Key, Kind, Settings, Variable, mutual_information, mutual_information_with_each};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The values of a column of `rows` rows.
type Make = fn(f64, usize, &mut ChaCha8Rng) -> f64;

const KINDS: [(&str, Make); 8] = [
    ("float64", |z, _, _| z),
    ("float32", |z, _, _| f64::from(z as f32)),
    ("saturated", |z, _, _| f64::from((1.0 / (1.0 + (-30.0 * z).exp())) as f32)),
    ("lattice", |z, _, _| (4.0 * z).round() / 4.0),
    ("half tied", |z, row, _| if row % 2 == 0 { f64::from(z as f32) } else { 0.5 }),
    ("nearly constant", |z, row, _| if row % 97 == 0 { z } else { 1.0 + 1e-12 * z }),
    ("huge and tiny", |z, row, _| [1e38, 1e-310, -0.0, 0.0][row % 4] * z),
    ("uniform", |_, _, random| random.random()),
];

fn main() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    many_rows(&mut random);
    for rows in [5, 17, 64, 333, 900] {
        let ids: Arc<[u64]> = (0..rows as u64).collect();
        let hidden: Vec<f64> = (0..rows).map(|_| normal(&mut random)).collect();
        let columns: Vec<Variable> = KINDS
            .iter()
            .zip(0..)
            .map(|((_, make), coordinate)| {
                let values = hidden.iter().enumerate().map(|(row, z)| make(z + normal(&mut random), row, &mut random));
                Variable::scalar(values.collect(), &ids, Key { tensor: 1, coordinate })
            })
            .collect();
        let vectors: Vec<Variable> = [3, 16]
            .map(|width| {
                let values = (0..rows * width).map(|at| hidden[at / width] + normal(&mut random)).collect::<Vec<f64>>();
                Variable::vector(&values, width, &ids, Key { tensor: 2, coordinate: width as u64 })
            })
            .into();
        let class_of = |z: &f64, classes| (z.abs() * 3.0) as i32 % classes;
        let label = |classes| Variable::discrete(&hidden.iter().map(|z| class_of(z, classes)).collect::<Vec<_>>());
        let classes: [Variable; 2] = [2, 7].map(label);
        let labels: Vec<&Variable> = classes.iter().collect();
        let binary = Variable::discrete(&(0..rows as i32).map(|row| row % 2).collect::<Vec<_>>());
        let names: Vec<&str> = KINDS.iter().map(|(name, _)| *name).chain(["3 wide", "16 wide"]).collect();
        let all: Vec<&Variable> = columns.iter().chain(&vectors).collect();
        for kind in [Kind::TieAware, Kind::Published] {
            for neighbours in [1, 3, 10] {
                let settings = Settings { kind, neighbours, repeats: 2, ..Settings::default() };
                for (i, &x) in all.iter().enumerate() {
                    for (j, &y) in all.iter().enumerate().skip(i) {
                        let name = format!("{kind:?} k {neighbours} N {rows} {} and {}", names[i], names[j]);
                        print(&name, mutual_information(x, y, &settings));
                    }
                    for (label, found) in mutual_information_with_each(x, &labels, &settings).into_iter().enumerate() {
                        print(&format!("{kind:?} k {neighbours} N {rows} {} and label {label}", names[i]), found);
                    }
                }
                let found = mutual_information(labels[0], labels[1], &settings);
                print(&format!("{kind:?} k {neighbours} N {rows} labels"), found);
                print(
                    &format!("{kind:?} k {neighbours} N {rows} label"),
                    mutual_information(labels[0], &binary, &settings),
                );
            }
        }
    }
}

/// Enough rows for searches within strips, of columns that do not depend on each other, and for long sums over ties.
fn many_rows(random: &mut ChaCha8Rng) {
    let rows = 2500;
    let ids: Arc<[u64]> = (0..rows as u64).collect();
    let kinds = [(0, 0), (1, 1), (7, 2), (1, 3), (4, 4), (2, 5), (2, 6)];
    let column = |(kind, coordinate): (usize, u64), random: &mut ChaCha8Rng| {
        let values = (0..rows).map(|row| KINDS[kind].1(normal(random), row, random)).collect();
        Variable::scalar(values, &ids, Key { tensor: 1, coordinate })
    };
    let columns: Vec<Variable> = kinds.map(|kind| column(kind, random)).into();
    for neighbours in [1, 3, 10] {
        for (i, j) in [(0, 1), (1, 2), (1, 3), (4, 1), (4, 2), (5, 6)] {
            let settings = Settings { neighbours, ..Settings::default() };
            let name = format!("k {neighbours} N {rows} {} and {}", KINDS[kinds[i].0].0, KINDS[kinds[j].0].0);
            print(&name, mutual_information(&columns[i], &columns[j], &settings));
        }
    }
}

fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

fn print(name: &str, estimate: Result<Estimate, impl std::fmt::Display>) {
    match estimate {
        Err(why) => println!("{name}: {why}"),
        Ok(estimate) => {
            let fold = |bits: u64, term: &f64| bits.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ term.to_bits();
            let terms = estimate.influence.iter().fold(0, fold);
            println!("{name}: {:016x} {terms:016x}", estimate.value.to_bits());
        }
    }
}
