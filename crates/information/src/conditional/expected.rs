//! The mean of the plug-in information over all ways to pair two columns of class numbers: what counting finds where there
//! is nothing. Vinh, Epps and Bailey 2010, Journal of Machine Learning Research 11, equation 24a:
//!
//! ```text
//! E I = Σ_ij E[ n/N · ln(N n / (a_i b_j)) ],   n ~ hypergeometric(N, a_i, b_j)
//! ```
//!
//! Nats. With f(n) = n ln n this is ln N + (Σ_ij E f(n) − Σ_i f(a_i) − Σ_j f(b_j)) / N, and E f(n) depends on the sizes of
//! the two classes alone, so classes of one size share it. Probabilities follow from one another, outward from the mode;
//! what is left out is below rounding. Cost: some √n terms for each pair of sizes.

use std::borrow::Cow;
use std::sync::LazyLock;

/// E I from the sizes of the classes, which add up to the same N on both sides.
pub fn expected_information(x: &[u32], y: &[u32]) -> f64 {
    let rows: u32 = x.iter().sum();
    let table = NLogN::up_to(rows);
    let (x, y) = (by_size(x), by_size(y));
    let alone = |sizes: &[(u32, f64)]| sizes.iter().map(|&(size, count)| count * table.at(size)).sum::<f64>();
    let mut together = 0.0;
    for &(a, of_a) in &x {
        for &(b, of_b) in &y {
            together += of_a * of_b * expectation(&table, rows, a, b);
        }
    }
    f64::from(rows).ln() + (together - alone(&x) - alone(&y)) / f64::from(rows)
}

/// Sizes in ascending order, with how many classes have each.
fn by_size(sizes: &[u32]) -> Vec<(u32, f64)> {
    let mut sorted = sizes.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as f64)).collect()
}

/// E f(n): n of a rows drawn from `rows` are among b.
fn expectation(table: &NLogN, rows: u32, a: u32, b: u32) -> f64 {
    /// Weights this small, relative to the sum so far, end a tail: it falls geometrically from there on.
    const NEGLIGIBLE: f64 = 1e-19;
    let (least, most) = ((a + b).saturating_sub(rows), a.min(b));
    let real = |n: u32| f64::from(n);
    // P(n + 1) / P(n).
    let ratio = |n: u32| real(a - n) * real(b - n) / (real(n + 1) * real(rows + n + 1 - a - b));
    let mode = ((u64::from(a + 1) * u64::from(b + 1)) / u64::from(rows + 2)) as u32;
    let mode = mode.clamp(least, most);
    let (mut weights, mut sum) = (1.0, table.at(mode));
    let mut weight = 1.0;
    for n in mode..most {
        weight *= ratio(n);
        weights += weight;
        sum += weight * table.at(n + 1);
        if weight < NEGLIGIBLE * weights {
            break;
        }
    }
    weight = 1.0;
    for n in (least..mode).rev() {
        weight /= ratio(n);
        weights += weight;
        sum += weight * table.at(n);
        if weight < NEGLIGIBLE * weights {
            break;
        }
    }
    sum / weights
}

/// n ln n.
struct NLogN(Cow<'static, [f64]>);

/// Entries computed once for all: more than samples usually need.
const SHARED: u32 = 1 << 16;
static TABLE: LazyLock<Vec<f64>> = LazyLock::new(|| NLogN::table(SHARED));

impl NLogN {
    fn up_to(largest: u32) -> Self {
        Self(if largest <= SHARED { Cow::Borrowed(&*TABLE) } else { Cow::Owned(Self::table(largest)) })
    }

    fn table(largest: u32) -> Vec<f64> {
        (0..=largest).map(|n| if n == 0 { 0.0 } else { f64::from(n) * f64::from(n).ln() }).collect()
    }

    fn at(&self, n: u32) -> f64 {
        self.0[n as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean over all distinct orders of y, by recursion over the rows.
    fn by_enumeration(x: &[u32], y: &[u32]) -> f64 {
        fn visit(labels: &[usize], left: &mut [u32], counts: &mut Vec<Vec<u32>>, total: &mut (f64, f64), rows: u32) {
            let Some((&of_x, rest)) = labels.split_first() else {
                let size_x: Vec<u32> = counts.iter().map(|row| row.iter().sum()).collect();
                let size_y: Vec<u32> = (0..counts[0].len()).map(|j| counts.iter().map(|row| row[j]).sum()).collect();
                let mut information = 0.0;
                for (i, row) in counts.iter().enumerate() {
                    for (j, &n) in row.iter().enumerate().filter(|(_, n)| **n > 0) {
                        let share = f64::from(n) / f64::from(rows);
                        information +=
                            share * (share * f64::from(rows).powi(2) / f64::from(size_x[i] * size_y[j])).ln();
                    }
                }
                total.0 += information;
                total.1 += 1.0;
                return;
            };
            for j in 0..left.len() {
                // Rows are told apart: each of those left of a class is a way of its own.
                for _ in 0..left[j] {
                    left[j] -= 1;
                    counts[of_x][j] += 1;
                    visit(rest, left, counts, total, rows);
                    counts[of_x][j] -= 1;
                    left[j] += 1;
                }
            }
        }
        let labels: Vec<usize> = x.iter().enumerate().flat_map(|(i, &size)| vec![i; size as usize]).collect();
        let mut total = (0.0, 0.0);
        visit(&labels, &mut y.to_vec(), &mut vec![vec![0; y.len()]; x.len()], &mut total, x.iter().sum());
        total.0 / total.1
    }

    #[test]
    fn it_is_the_mean_over_all_orders() {
        for (x, y) in [(&[3, 4][..], &[2, 5][..]), (&[1, 1, 5], &[7]), (&[2, 2, 3], &[1, 3, 3]), (&[6], &[1, 5])] {
            let (found, expected) = (expected_information(x, y), by_enumeration(x, y));
            assert!((found - expected).abs() < 1e-12, "{x:?} {y:?}: {found}, not {expected}");
        }
    }

    #[test]
    fn of_many_rows_it_is_the_bias_of_counting() {
        // (a − 1)(b − 1)/2N, Paninski 2003.
        let found = expected_information(&[40_000, 60_000], &[10_000, 20_000, 70_000]);
        assert!((found * 1e5 - 1.0).abs() < 1e-3, "{found}");
    }
}
