//! Shortcuts change only the time: without them estimates have the same bits or, for sums over ties, the same digits.

use half::bf16;
use information::mutual_information_with_each;
use information::thresholds::{Shortcut, without};

use super::*;

const EXACT: [Shortcut; 7] = [
    Shortcut::Float32,
    Shortcut::Cells,
    Shortcut::Duplicates,
    Shortcut::Strips,
    Shortcut::Memory,
    Shortcut::Registers,
    Shortcut::SmallTerms,
];
const SUMS: [Shortcut; 3] = [Shortcut::Mean, Shortcut::ClosedForm, Shortcut::Few];

/// Columns of float32 values and labels that together take every path.
fn columns(rows: usize) -> Vec<Variable> {
    let mut random = random(rows as u64);
    let logits = gaussians(rows, &mut random);
    let sigmoid = |z: f64, steepness: f64| 1.0 / (1.0 + (-steepness * z).exp());
    let mut shaped = |value: &mut dyn FnMut(f64, f64) -> f64| -> Vec<f64> {
        let noise = gaussians(rows, &mut random);
        let values = logits.iter().zip(noise).map(|(z, noise)| f64::from(value(0.6 * z + 0.8 * noise, noise) as f32));
        values.collect()
    };
    let columns = [
        shaped(&mut |z, _| z),
        shaped(&mut |_, noise| noise),
        shaped(&mut |z, _| 100.0 * z),
        shaped(&mut |z, _| sigmoid(z, 3.0)),
        shaped(&mut |z, _| sigmoid(z, 30.0)),
        shaped(&mut |z, _| bf16::from_f64(sigmoid(z, 1.0)).to_f64()),
        shaped(&mut |z, _| bf16::from_f64(sigmoid(z, 12.0)).to_f64()),
        shaped(&mut |z, _| (4.0 * z).round()),
        shaped(&mut |z, _| f64::from(u8::from(z > 0.0))),
        shaped(&mut |z, noise| if noise > 0.0 { 0.5 } else { z }),
    ];
    let classes = [2, 3, 20]
        .map(|count| Variable::discrete(&logits.iter().map(|z| (4.0 * z).abs() as i32 % count).collect::<Vec<_>>()));
    let columns = columns.iter().zip(0..).map(|(values, coordinate)| scalar(values, Key { tensor: 1, coordinate }));
    columns.chain(classes).collect()
}

fn pairs(columns: &[Variable]) -> impl Iterator<Item = (&Variable, &Variable)> {
    columns.iter().enumerate().flat_map(|(i, x)| columns[..i].iter().map(move |y| (x, y)))
}

#[test]
fn estimates_without_a_shortcut_have_the_same_bits() {
    for rows in [300, 2000] {
        let columns = columns(rows);
        for (x, y) in pairs(&columns) {
            for settings in [tie_aware(1 + rows % 7), published(3)] {
                let expected = estimate(x, y, &settings);
                for shortcut in EXACT {
                    assert!(without(shortcut, || estimate(x, y, &settings)) == expected, "{shortcut:?}, N = {rows}");
                }
            }
        }
    }
}

/// Labels of a vector, more than a word holds, some of them of three classes.
#[test]
fn labels_without_words_have_the_same_bits() {
    const WIDTH: usize = 3;
    let mut random = random(1);
    for rows in [150, 600] {
        // Half of the rows repeat an earlier one, so that distances are tied.
        let mut values = gaussians(rows / 2 * WIDTH, &mut random);
        values.extend_from_within(..);
        let ids: Arc<[u64]> = (0..rows as u64).collect();
        let vector = Variable::vector(&values, WIDTH, &ids, Key { tensor: 1, coordinate: 0 });
        let label = |at: usize| {
            let classes = if at % 10 == 9 { 3 } else { 2 };
            let noise = gaussians(rows, &mut random);
            let class = |(row, noise): (usize, &f64)| (2.0 * (values[row * WIDTH] + noise)).abs() as i32 % classes;
            Variable::discrete(&noise.iter().enumerate().map(class).collect::<Vec<_>>())
        };
        let labels: Vec<Variable> = (0..70).map(label).collect();
        let labels: Vec<&Variable> = labels.iter().collect();
        for settings in [tie_aware(1), tie_aware(5), published(3)] {
            let estimates = || mutual_information_with_each(&vector, &labels, &settings);
            assert!(without(Shortcut::Words, estimates) == estimates(), "N = {rows}");
        }
    }
}

#[test]
fn sums_without_a_shortcut_have_the_same_digits() {
    let columns = columns(2000);
    for (x, y) in pairs(&columns) {
        let expected = estimate(x, y, &tie_aware(3)).value;
        for shortcut in SUMS {
            let value = without(shortcut, || estimate(x, y, &tie_aware(3))).value;
            assert!((value - expected).abs() < 1e-12, "{shortcut:?}: {value}, with it {expected}");
        }
    }
}
