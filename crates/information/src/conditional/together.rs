//! The information of a variable about many labels at once, found and under permutations: one statistic for all of
//! them, so cheap that every permutation can be applied to all labels alike. A test by it is exact, because the labels
//! of a row stay together.
//!
//! For a continuous x: Σ −ψ(m) over rows and labels, m the position of the row's k-th neighbour of its own class among
//! its nearest, at most [`FARTHEST`]. That is N times the sum of Ross's estimates but for terms that no permutation
//! changes, for distances that are not tied, neighbours that are not farther and k up to 5; a larger k is taken as
//! [`MOST_NEIGHBOURS`]. Classes are bits, 64 in a word, and a word walks the neighbours of a row at once: a label of
//! more than two classes has a bit for each.
//!
//! For a discrete x: Σ n ln n over the cells of x and each bit, N times the sum of the plug-in estimates but for such
//! terms.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::digamma::Digamma;
use crate::neighbours::rows::{Block, TOGETHER};
use crate::undefined::Undefined;
use crate::variable::{Discrete, Scalar, Variable};

use super::strata::Strata;

/// Neighbours of a row that are looked at.
const FARTHEST: usize = 32;
/// Taken for every k from 6 on.
const MOST_NEIGHBOURS: usize = 8;

/// The statistic of the discrete `labels` as they are, and of `count` orders of their rows within the strata. `pause` is
/// called between orders. Errors unless all labels are discrete and as long as x.
pub fn values_together(
    strata: &Strata,
    labels: &[&Variable],
    count: usize,
    seed: u64,
    pause: impl Fn(),
) -> Result<(f64, Vec<f64>), Undefined> {
    let rows = strata.rows();
    let mut classes = Vec::with_capacity(labels.len());
    for label in labels {
        match label {
            Variable::Discrete(label) if label.classes().len() == rows => classes.push(label),
            Variable::Discrete(label) => return Err(Undefined::UnequalRows(rows, label.classes().len())),
            _ => return Err(Undefined::ContinuousCondition),
        }
    }
    let bits = Bits::new(&classes, rows);
    let mut values = vec![0.0; count + 1];
    for (stratum, x) in strata.parts.iter().enumerate() {
        let members = strata.given.members(stratum);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stratum as u64);
        let near = match x {
            Variable::Discrete(_) => None,
            Variable::Scalar(x) => Some(near_scalars(x)),
            Variable::Vector(x) => Some(near_vectors(x.block())),
        };
        let columns = if near.is_none() { bits.columns(members) } else { Vec::new() };
        let statistic = |order: &[u32]| match (x, &near) {
            (_, Some(near)) => walked(near, &bits.of_rows(members, order), strata.settings.neighbours),
            (Variable::Discrete(x), None) => counted(x, &columns, order),
            (_, None) => unreachable!("what is not discrete has neighbours"),
        };
        let mut order: Vec<u32> = (0..members.len() as u32).collect();
        for value in &mut values {
            pause();
            *value += statistic(&order);
            order.shuffle(&mut random);
        }
    }
    let drawn = values.split_off(1);
    Ok((values[0], drawn))
}

/// The classes of every row as bits.
struct Bits {
    /// The number of words of a row.
    words: usize,
    /// The words, row by row.
    bits: Vec<u64>,
}

/// Some rows' words, word by word.
struct Words(Vec<Vec<u64>>);

impl Bits {
    fn new(labels: &[&Discrete], rows: usize) -> Self {
        let width = |label: &Discrete| if label.sizes().len() == 2 { 1 } else { label.sizes().len() };
        let words = labels.iter().map(|label| width(label)).sum::<usize>().div_ceil(64);
        let mut bits = vec![0; rows * words];
        let mut first = 0;
        for label in labels {
            let of_two = label.sizes().len() == 2;
            for (row, &class) in label.classes().iter().enumerate() {
                if !of_two || class == 1 {
                    let bit = first + if of_two { 0 } else { class as usize };
                    bits[row * words + bit / 64] |= 1 << (bit % 64);
                }
            }
            first += width(label);
        }
        Self { words, bits }
    }

    /// Returns the words of the members in some order.
    fn of_rows(&self, members: &[u32], order: &[u32]) -> Words {
        let word = |at: usize| {
            order.iter().map(|&place| self.bits[members[place as usize] as usize * self.words + at]).collect()
        };
        Words((0..self.words).map(word).collect())
    }

    /// Each bit of the members, 64 of these in a word.
    fn columns(&self, members: &[u32]) -> Vec<Vec<u64>> {
        let column = |bit: usize| {
            let mut column = vec![0_u64; members.len().div_ceil(64)];
            for (at, &row) in members.iter().enumerate() {
                column[at / 64] |= (self.bits[row as usize * self.words + bit / 64] >> (bit % 64) & 1) << (at % 64);
            }
            column
        };
        (0..64 * self.words).map(column).collect()
    }
}

/// The nearest other rows of each row, in ascending distance; fewer where there are fewer.
struct Near {
    each: usize,
    rows: Vec<u32>,
}

/// In the sorted column they are next to the row; of two at one distance the one before comes first.
fn near_scalars(x: &Scalar) -> Near {
    let sorted: Vec<(f64, u32)> = match x.compact() {
        Some(sorted) => {
            sorted.values().iter().map(|&value| f64::from(value)).zip(sorted.rows().iter().copied()).collect()
        }
        None => x.sorted().values().iter().copied().zip(x.sorted().rows().iter().copied()).collect(),
    };
    let each = FARTHEST.min(sorted.len().saturating_sub(1));
    let mut rows = vec![0; each * sorted.len()];
    for (at, &(centre, row)) in sorted.iter().enumerate() {
        let (mut before, mut behind) = (at, at + 1);
        for slot in &mut rows[row as usize * each..][..each] {
            let is_before =
                before > 0 && (behind == sorted.len() || centre - sorted[before - 1].0 <= sorted[behind].0 - centre);
            *slot = if is_before {
                before -= 1;
                sorted[before].1
            } else {
                behind += 1;
                sorted[behind - 1].1
            };
        }
    }
    Near { each, rows }
}

fn near_vectors(x: &Block) -> Near {
    let each = FARTHEST.min(x.rows().saturating_sub(1));
    let mut rows = Vec::with_capacity(each * x.rows());
    let mut together = <[Vec<f64>; TOGETHER]>::default();
    for row in 0..x.rows() {
        if row % TOGETHER == 0 {
            x.squared_euclidean(row, &mut together);
        }
        let distances = together[row % TOGETHER].iter().copied().zip(0..).filter(|(_, other)| *other as usize != row);
        let mut others: Vec<(f64, u32)> = distances.collect();
        let nearer = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if each < others.len() {
            others.select_nth_unstable_by(each, nearer);
            others.truncate(each);
        }
        others.sort_unstable_by(nearer);
        rows.extend(others.iter().map(|other| other.1));
    }
    Near { each, rows }
}

/// Σ −ψ(m) over rows and bits.
fn walked(near: &Near, words: &Words, neighbours: usize) -> f64 {
    let mut found = [0_u64; FARTHEST + 1];
    for word in &words.0 {
        match neighbours {
            0 | 1 => walk::<1>(near, word, &mut found),
            2 => walk::<2>(near, word, &mut found),
            3 => walk::<3>(near, word, &mut found),
            4 => walk::<4>(near, word, &mut found),
            5 => walk::<5>(near, word, &mut found),
            _ => walk::<MOST_NEIGHBOURS>(near, word, &mut found),
        }
    }
    let digamma = Digamma::up_to(FARTHEST + 1);
    found.iter().enumerate().map(|(m, &count)| -(count as f64) * digamma.at(m + 1)).sum()
}

/// Adds to `found`, for each number of nearer rows, the bits whose K-th equal neighbour comes next; the last entry has those
/// without any.
fn walk<const K: usize>(near: &Near, word: &[u64], found: &mut [u64; FARTHEST + 1]) {
    for (&own, list) in word.iter().zip(near.rows.chunks(near.each.max(1))) {
        // The bits that have met at least 1, 2, … K equal neighbours.
        let mut met = [0_u64; K];
        for (at, &other) in list.iter().enumerate() {
            let same = !(own ^ word[other as usize]);
            let before = met[K - 1];
            for times in (1..K).rev() {
                met[times] |= met[times - 1] & same;
            }
            met[0] |= same;
            found[at] += u64::from((met[K - 1] & !before).count_ones());
            if met[K - 1] == u64::MAX {
                break;
            }
        }
        found[FARTHEST] += u64::from(met[K - 1].count_zeros());
    }
}

/// Σ n ln n over the cells of x, in some order, and each bit.
fn counted(x: &Discrete, columns: &[Vec<u64>], order: &[u32]) -> f64 {
    let length = order.len().div_ceil(64);
    let mut of_classes = vec![0_u64; length * x.sizes().len()];
    for (at, &place) in order.iter().enumerate() {
        of_classes[x.classes()[place as usize] as usize * length + at / 64] |= 1 << (at % 64);
    }
    let n_ln_n = |n: u32| if n == 0 { 0.0 } else { f64::from(n) * f64::from(n).ln() };
    let mut sum = 0.0;
    for (rows, &size) in of_classes.chunks(length).zip(x.sizes()) {
        for column in columns {
            let both: u32 = rows.iter().zip(column).map(|(a, b)| (a & b).count_ones()).sum();
            sum += n_ln_n(both) + n_ln_n(size - both);
        }
    }
    sum
}
