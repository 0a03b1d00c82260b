//! Ross's estimator for vectors, for many labels at once.
//!
//! For one row its distances to all others are computed once. From there a label goes one of two ways:
//!
//! - The nearest neighbours, in order of distance, serve all labels: the place of the k_i-th of the row's class in the
//!   list is m_i. Labels of two classes go through the list together, 64 in a word: the bits in which a neighbour equals
//!   the row are added to counters that are spread over a few words, one for each binary digit.
//! - Where the row's class is small, its k_i-th neighbour would be far down the list: the distances to the class are
//!   looked up instead, and all distances compared with the radius. So are the few rows whose list was too short.
//!
//! Cost: N²·d for the distances; for each row a list of some dozen neighbours, a few operations for each of them and 64
//! labels, and for each label one term. A class of n rows looked up costs n + N/8.

use crate::estimate::neighbours::rows::{self, Block, Nearest, TOGETHER};

use super::boundary::Boundary;
use super::classes::Classes;
use super::terms::Terms;

/// A class of fewer than 1/SMALL of the rows is looked up.
const SMALL: usize = 8;
/// Binary digits of the counters that labels share: k is below 2 to this power.
const DIGITS: usize = 4;

impl Terms<'_> {
    /// The terms of all rows, 0 where a row is left out, for each of `labels`.
    pub fn of_vectors(self, x: &Block, labels: &[&Classes]) -> Vec<Vec<f64>> {
        let n = x.rows();
        let (sharing, alone): (Vec<usize>, Vec<usize>) = (0..labels.len()).partition(|&at| shares(labels[at]));
        let words: Vec<Word> = sharing.chunks(64).map(|chunk| Word::new(chunk, labels)).collect();
        let mut terms = vec![vec![0.0; n]; labels.len()];
        let mut together = Default::default();
        let mut from = From { distances: Vec::new(), nearest: Nearest::default(), own: Vec::new() };
        let wanted = labels.iter().map(|classes| classes.wanted()).max().unwrap_or(0);
        for row in 0..n {
            if row % TOGETHER == 0 {
                x.squared_euclidean(row, &mut together);
            }
            std::mem::swap(&mut from.distances, &mut together[row % TOGETHER]);
            from.distances[row] = f64::INFINITY;
            if wanted > 0 {
                from.nearest.fill(&from.distances, wanted);
            }
            for word in &words {
                let rest = word.walk(row, &from.nearest.pairs, |at, border| {
                    terms[at][row] = self.term(labels[at], labels[at].of(row), border);
                });
                for at in rest {
                    terms[at][row] = self.term(labels[at], labels[at].of(row), from.look_up(labels[at], row));
                }
            }
            for &at in &alone {
                let classes = labels[at];
                if classes.neighbours_of(row).is_none() {
                    continue;
                }
                let listed = if classes.is_large(row) { from.in_list(classes, row) } else { None };
                let border = listed.unwrap_or_else(|| from.look_up(classes, row));
                terms[at][row] = self.term(classes, classes.of(row), border);
            }
        }
        terms
    }
}

impl Classes<'_> {
    fn is_large(&self, row: usize) -> bool {
        self.members_with(row).len() * SMALL >= self.label.classes().len()
    }

    /// Neighbours that nearly all rows of the large classes need, were the classes anywhere alike; 0 without any such.
    fn wanted(&self) -> usize {
        let n = self.label.classes().len();
        let large = self.label.sizes().iter().zip(&self.neighbours).filter(|class| *class.0 as usize * SMALL >= n);
        large.map(|(&size, &k)| 4 * k * n / size as usize).max().unwrap_or(0)
    }
}

/// Whether a label can go through the list with others.
fn shares(classes: &Classes) -> bool {
    let same = classes.neighbours.iter().all(|&k| k == classes.neighbours[0]);
    classes.neighbours.len() == 2 && same && classes.neighbours[0] < 1 << DIGITS
}

/// Up to 64 labels of two classes.
struct Word {
    labels: Vec<usize>,
    /// The classes of each row, a bit for each label.
    bits: Vec<u64>,
    neighbours: Vec<usize>,
}

impl Word {
    fn new(labels: &[usize], all: &[&Classes]) -> Self {
        let rows = all[labels[0]].label.classes().len();
        let mut bits = vec![0; rows];
        for (bit, &at) in labels.iter().enumerate() {
            for (bits, &class) in bits.iter_mut().zip(all[at].label.classes()) {
                *bits |= u64::from(class) << bit;
            }
        }
        Self { labels: labels.to_vec(), bits, neighbours: labels.iter().map(|&at| all[at].neighbours[0]).collect() }
    }

    /// Goes through the neighbours of `row` and tells `found` of each label's border; returns the labels that were not
    /// through at the end of the list.
    fn walk(&self, row: usize, list: &[(f64, u32)], mut found: impl FnMut(usize, Boundary)) -> Vec<usize> {
        let own = self.bits[row];
        let mut open = u64::MAX >> (64 - self.labels.len());
        // Labels whose k is less than the largest begin with a head start.
        let target = self.neighbours.iter().copied().max().unwrap_or(1);
        let mut digits = [0_u64; DIGITS];
        for (bit, &k) in self.neighbours.iter().enumerate() {
            set(&mut digits, bit, target - k);
        }
        let mut at = 0;
        while at < list.len() && open != 0 {
            let distance = list[at].0;
            let level = list[at..].iter().take_while(|pair| pair.0 == distance).count();
            if level == 1 {
                let mut carry = !(own ^ self.bits[list[at].1 as usize]) & open;
                let same = carry;
                for digit in &mut digits {
                    (*digit, carry) = (*digit ^ carry, *digit & carry);
                }
                let mut reached = same;
                for (place, digit) in digits.iter().enumerate() {
                    reached &= if target >> place & 1 == 1 { *digit } else { !digit };
                }
                open &= !reached;
                let border = Boundary { closer: at, at_radius: 1, own: 1, missing: 1, is_zero: distance == 0.0 };
                each_bit(reached, |bit| found(self.labels[bit], border));
            } else {
                let group = &list[at..at + level];
                each_bit(open, |bit| {
                    let matches = |pair: &&(f64, u32)| (own ^ self.bits[pair.1 as usize]) >> bit & 1 == 0;
                    let same = group.iter().filter(matches).count();
                    let before = get(&digits, bit);
                    if before + same < target {
                        set(&mut digits, bit, before + same);
                    } else {
                        open &= !(1 << bit);
                        let missing = target - before;
                        found(
                            self.labels[bit],
                            Boundary { closer: at, at_radius: level, own: same, missing, is_zero: distance == 0.0 },
                        );
                    }
                });
            }
            at += level;
        }
        let mut rest = Vec::new();
        each_bit(open, |bit| rest.push(self.labels[bit]));
        rest
    }
}

fn each_bit(mut bits: u64, mut visit: impl FnMut(usize)) {
    while bits != 0 {
        visit(bits.trailing_zeros() as usize);
        bits &= bits - 1;
    }
}

/// The counter at `bit`.
fn get(digits: &[u64; DIGITS], bit: usize) -> usize {
    (0..DIGITS).map(|place| ((digits[place] >> bit & 1) as usize) << place).sum()
}

fn set(digits: &mut [u64; DIGITS], bit: usize, count: usize) {
    for (place, digit) in digits.iter_mut().enumerate() {
        *digit = *digit & !(1 << bit) | ((count >> place & 1) as u64) << bit;
    }
}

/// What is known of one row.
struct From {
    /// Squared, to every row; infinite to itself.
    distances: Vec<f64>,
    nearest: Nearest,
    own: Vec<f64>,
}

impl From {
    /// Goes through the list, one distance after the other, up to the row's k-th of the same class, if it is there.
    fn in_list(&self, classes: &Classes, row: usize) -> Option<Boundary> {
        let k = classes.neighbours_of(row)?;
        let class = classes.of(row);
        let mut border = Boundary { missing: k, ..Boundary::default() };
        for level in self.nearest.pairs.chunk_by(|a, b| a.0 == b.0) {
            let of = |pair: &(f64, u32)| classes.of(pair.1 as usize);
            border.at_radius = level.iter().filter(|pair| classes.neighbours[of(pair)] > 0).count();
            border.own = level.iter().filter(|pair| of(pair) == class).count();
            if border.own >= border.missing {
                return Some(Boundary { is_zero: level[0].0 == 0.0, ..border });
            }
            border.closer += border.at_radius;
            border.missing -= border.own;
        }
        None
    }

    /// From the distances to the row's class.
    fn look_up(&mut self, classes: &Classes, row: usize) -> Boundary {
        let k = classes.neighbours[classes.of(row)];
        self.own.clear();
        self.own.extend(classes.members_with(row).iter().map(|&other| self.distances[other as usize]));
        let radius = rows::kth_smallest(&mut self.own, k);
        let all = rows::count(&self.distances, radius);
        let own = rows::count(&self.own, radius);
        let left_out = |holds: fn(f64, f64) -> bool| {
            classes.left_out.iter().filter(|&&other| holds(self.distances[other as usize], radius)).count()
        };
        // Squares may leave the range of numbers; then the row's own distance equals the radius too.
        let itself = usize::from(radius == f64::INFINITY);
        Boundary {
            closer: all.closer - left_out(|distance, radius| distance < radius),
            at_radius: all.at_radius - left_out(|distance, radius| distance == radius) - itself,
            own: own.at_radius - itself,
            missing: k - own.closer,
            is_zero: radius == 0.0,
        }
    }
}
