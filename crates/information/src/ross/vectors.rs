//! Ross's estimator for vectors, for many labels at once.
//!
//! The neighbours of a row are found once, from its distances to all rows or from a tree ([`Tree`]). From there a label
//! takes one of two ways:
//!
//! - The nearest neighbours, in order of distance, serve all labels: the position of the k_i-th of the row's class in the
//!   list is m_i. Labels of two classes walk the list together, 64 in a word: the bits in which a neighbour equals the
//!   row are added to counters that are spread over a few words, one for each binary digit.
//! - Where the row's class is small, its k_i-th neighbour would be far down the list: the distances to the class are
//!   looked up instead, and all rows within the radius are counted. So are the few rows whose list was too short.
//!
//! Cost: N²·d for all distances, or a search in a tree for each row; for each row a list of some dozen neighbours, a few
//! operations for each of them and 64 labels, and for each label one term. A class of n rows looked up costs n + N/8.

use crate::digamma::Digamma;
use crate::neighbours::rows::{self, Block, Nearest, TOGETHER};
use crate::neighbours::tree::{Tree, Within};
use crate::settings::Kind;
use crate::thresholds::{LONGEST_LIST, SMALL_CLASS, takes_words};
use crate::value::Estimate;
use crate::variable::Variable;

use super::boundary::Boundary;
use super::classes::Classes;
use super::terms::Terms;

/// Binary digits of the counters that labels share: k is below 2 to this power.
const DIGITS: usize = 4;

impl Terms<'_> {
    /// The terms of all rows, 0 where a row is left out, for each of `labels`.
    pub(super) fn of_vectors(self, x: &Block, labels: &[&Classes]) -> Vec<Vec<f64>> {
        match Tree::new(x, searched_for(labels, x.rows())) {
            Some(tree) => self.by_tree(&tree, labels),
            None => self.by_rows(x, labels),
        }
    }

    fn by_rows(self, x: &Block, labels: &[&Classes]) -> Vec<Vec<f64>> {
        let (together, distances, nearest, own) = Default::default();
        self.of_each(0..x.rows(), ByRows { x, wanted: wanted(labels), together, distances, nearest, own }, labels)
    }

    fn by_tree(self, tree: &Tree, labels: &[&Classes]) -> Vec<Vec<f64>> {
        let rows = tree.order().into_iter().map(|row| row as usize);
        let (nearest, within, own) = Default::default();
        let (wanted, reach) = (wanted(labels), tree.typical());
        self.of_each(rows, ByTree { tree, wanted, reach, nearest, within, own }, labels)
    }

    fn of_each(
        self,
        rows: impl ExactSizeIterator<Item = usize>,
        mut neighbours: impl Neighbours,
        labels: &[&Classes],
    ) -> Vec<Vec<f64>> {
        let (sharing, alone): (Vec<usize>, Vec<usize>) = (0..labels.len()).partition(|&at| shares(labels[at]));
        let words: Vec<Word> = sharing.chunks(64).map(|chunk| Word::new(chunk, labels)).collect();
        let mut terms = vec![vec![0.0; rows.len()]; labels.len()];
        for row in rows {
            neighbours.turn_to(row);
            for word in &words {
                let rest = word.walk(row, neighbours.nearest(), |at, boundary| {
                    terms[at][row] = self.term(labels[at], labels[at].of(row), boundary);
                });
                for at in rest {
                    terms[at][row] = self.term(labels[at], labels[at].of(row), neighbours.look_up(labels[at], row));
                }
            }
            for &at in &alone {
                let classes = labels[at];
                if classes.neighbours_of(row).is_none() {
                    continue;
                }
                let listed = if classes.is_large(row) { in_list(neighbours.nearest(), classes, row) } else { None };
                let boundary = listed.unwrap_or_else(|| neighbours.look_up(classes, row));
                terms[at][row] = self.term(classes, classes.of(row), boundary);
            }
        }
        terms
    }
}

/// The length of the list that serves all labels.
fn wanted(labels: &[&Classes]) -> usize {
    labels.iter().map(|classes| classes.wanted()).max().unwrap_or(0)
}

/// How many neighbours are searched for of a row, as a mean over some: what the labels whose classes are smallest need.
fn searched_for(labels: &[&Classes], rows: usize) -> usize {
    let some = || (0..rows).step_by(rows.div_ceil(SOME_ROWS).max(1));
    let needed = |row: usize| labels.iter().map(|classes| classes.needed(row).min(LONGEST_LIST)).max().unwrap_or(0);
    some().map(needed).sum::<usize>() / some().count().max(1)
}

const SOME_ROWS: usize = 64;

/// How neighbours are found.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    Rows,
    Tree,
    /// The one that is expected to take less.
    Cheaper,
}

/// The tie-aware estimate of a vector and a discrete variable by one way of finding neighbours, for benchmarks and tests:
/// they all give the same bits. `None` for other variables, and where kiddo makes no tree.
#[doc(hidden)]
pub fn information_by(search: Search, x: &Variable, label: &Variable, neighbours: usize) -> Option<Estimate> {
    let (Variable::Vector(x), Variable::Discrete(label)) = (x, label) else { return None };
    let classes = Classes::new(label, neighbours).ok()?;
    let (block, labels) = (x.block(), [&classes]);
    let digamma = Digamma::up_to(block.rows());
    let terms = Terms { digamma: &digamma, kind: Kind::TieAware };
    let mut of_labels = match search {
        Search::Rows => terms.by_rows(block, &labels),
        Search::Tree => terms.by_tree(&Tree::whatever_it_costs(block, searched_for(&labels, block.rows()))?, &labels),
        Search::Cheaper => terms.of_vectors(block, &labels),
    };
    Some(terms.estimate(&classes, of_labels.swap_remove(0)))
}

impl Classes<'_> {
    fn is_large(&self, row: usize) -> bool {
        self.members_with(row).len() * SMALL_CLASS >= self.label.classes().len()
    }

    /// Neighbours that nearly all rows of the large classes need, were the classes anywhere alike; 0 without any such.
    fn wanted(&self) -> usize {
        let n = self.label.classes().len();
        let large =
            self.label.sizes().iter().zip(&self.neighbours).filter(|class| *class.0 as usize * SMALL_CLASS >= n);
        large.map(|(&size, &k)| 4 * k * n / size as usize).max().unwrap_or(0)
    }

    /// The same for the class of a row, whatever its size.
    fn needed(&self, row: usize) -> usize {
        4 * self.neighbours[self.of(row)] * self.label.classes().len() / self.members_with(row).len()
    }
}

/// Whether a label can walk the list with others.
fn shares(classes: &Classes) -> bool {
    let same = classes.neighbours.iter().all(|&k| k == classes.neighbours[0]);
    classes.neighbours.len() == 2 && same && classes.neighbours[0] < 1 << DIGITS && takes_words()
}

/// Up to 64 labels of two classes. Gain: row `Words` of README.md (`cargo bench --bench vectors`).
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

    /// Walks the neighbours of `row` and calls `found` with each label's boundary; returns the labels whose k-th neighbour
    /// is not in the list.
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
            let at_radius = list[at..].iter().take_while(|pair| pair.0 == distance).count();
            if at_radius == 1 {
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
                let boundary = Boundary { closer: at, at_radius: 1, own: 1, missing: 1, is_zero: distance == 0.0 };
                each_bit(reached, |bit| found(self.labels[bit], boundary));
            } else {
                let group = &list[at..at + at_radius];
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
                            Boundary { closer: at, at_radius, own: same, missing, is_zero: distance == 0.0 },
                        );
                    }
                });
            }
            at += at_radius;
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

/// Finds the neighbours of one row after the other.
trait Neighbours {
    fn turn_to(&mut self, row: usize);

    /// The nearest rows, ascending by squared distance: every row that is not among them is farther than the last.
    fn nearest(&self) -> &[(f64, u32)];

    /// The boundary of a row that is not alone in its class, from the distances to the class.
    fn look_up(&mut self, classes: &Classes, row: usize) -> Boundary;
}

/// Walks the list, one distance after the other, to the row's k-th neighbour of the same class, if it is there.
fn in_list(list: &[(f64, u32)], classes: &Classes, row: usize) -> Option<Boundary> {
    let k = classes.neighbours_of(row)?;
    let class = classes.of(row);
    let mut boundary = Boundary { missing: k, ..Boundary::default() };
    for equal in list.chunk_by(|a, b| a.0 == b.0) {
        let of = |pair: &(f64, u32)| classes.of(pair.1 as usize);
        boundary.at_radius = equal.iter().filter(|pair| classes.neighbours[of(pair)] > 0).count();
        boundary.own = equal.iter().filter(|pair| of(pair) == class).count();
        if boundary.own >= boundary.missing {
            return Some(Boundary { is_zero: equal[0].0 == 0.0, ..boundary });
        }
        boundary.closer += boundary.at_radius;
        boundary.missing -= boundary.own;
    }
    None
}

/// From the distances to all rows.
struct ByRows<'a> {
    x: &'a Block,
    wanted: usize,
    /// Squared, of the rows that are computed together.
    together: [Vec<f64>; TOGETHER],
    /// Squared, to every row; infinite to itself.
    distances: Vec<f64>,
    nearest: Nearest,
    own: Vec<f64>,
}

impl Neighbours for ByRows<'_> {
    /// Rows ascend from 0, one by one.
    fn turn_to(&mut self, row: usize) {
        if row.is_multiple_of(TOGETHER) {
            self.x.squared_euclidean(row, &mut self.together);
        }
        std::mem::swap(&mut self.distances, &mut self.together[row % TOGETHER]);
        self.distances[row] = f64::INFINITY;
        if self.wanted > 0 {
            self.nearest.fill(&self.distances, self.wanted);
        }
    }

    fn nearest(&self) -> &[(f64, u32)] {
        &self.nearest.pairs
    }

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

/// Neighbours from a tree.
struct ByTree<'a> {
    tree: &'a Tree,
    wanted: usize,
    /// The squared radius to begin with.
    reach: f64,
    /// The nearest rows of the row that was turned to.
    nearest: Within,
    /// The result of a look-up.
    within: Within,
    own: Vec<f64>,
}

impl Neighbours for ByTree<'_> {
    fn turn_to(&mut self, row: usize) {
        if self.wanted > 0 {
            self.tree.nearest(row, self.wanted, &mut self.reach, &mut self.nearest);
        } else {
            self.nearest.pairs.clear();
        }
    }

    fn nearest(&self) -> &[(f64, u32)] {
        &self.nearest.pairs
    }

    /// From a longer list if that may do, which then serves other labels too.
    fn look_up(&mut self, classes: &Classes, row: usize) -> Boundary {
        let needed = classes.needed(row);
        if needed <= LONGEST_LIST {
            if self.nearest.pairs.len() < needed {
                self.tree.nearest(row, needed, &mut self.reach.clone(), &mut self.nearest);
            }
            if let Some(boundary) = in_list(&self.nearest.pairs, classes, row) {
                return boundary;
            }
        }
        let k = classes.neighbours[classes.of(row)];
        let members = classes.members_with(row);
        self.tree.squared_distances(row, members, &mut self.own);
        if let Some(itself) = members.iter().position(|&other| other as usize == row) {
            self.own.swap_remove(itself);
        }
        let radius = rows::kth_smallest(&mut self.own, k);
        let own = rows::count(&self.own, radius);
        self.tree.within(row, radius, &mut self.within);
        let included = || self.within.pairs.iter().filter(|pair| classes.neighbours_of(pair.1 as usize).is_some());
        let at_radius = included().filter(|pair| pair.0 == radius).count();
        Boundary {
            closer: included().count() - at_radius,
            at_radius,
            own: own.at_radius,
            missing: k - own.closer,
            is_zero: radius == 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::key::Key;

    /// The kinds of vectors to test with.
    #[derive(Clone, Copy, Debug)]
    enum Kinds {
        Gaussian,
        /// Few values a coordinate, so that distances tie and rows repeat.
        Lattice,
        /// On a curved surface of two directions.
        Surface,
        /// Clusters far from each other, one of them of identical rows, and a few outliers.
        Clusters,
        /// Far from the origin, and close to each other.
        Remote,
    }

    fn vectors(kind: Kinds, rows: usize, width: usize, random: &mut ChaCha8Rng) -> Vec<f64> {
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let mut values = Vec::with_capacity(rows * width);
        for row in 0..rows {
            let [a, b] = [normal(), normal()];
            for at in 0..width {
                let turn = at as f64;
                values.push(match kind {
                    Kinds::Gaussian => normal(),
                    Kinds::Lattice => normal().round(),
                    Kinds::Surface => f64::from(((a * turn.cos() + b * turn.sin()).tanh() + 1e-3 * normal()) as f32),
                    Kinds::Clusters => match row % 10 {
                        0..3 => 7.0,
                        9 if row % 170 == 9 => 1e6 * normal(),
                        which => 100.0 * which as f64 + normal(),
                    },
                    Kinds::Remote => 1e5 + 1e-7 * normal(),
                });
            }
        }
        values
    }

    fn kinds() -> impl Strategy<Value = Kinds> {
        use Kinds::*;
        prop_oneof![Just(Gaussian), Just(Lattice), Just(Surface), Just(Clusters), Just(Remote)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn a_tree_gives_the_bits_of_rows(
            kind in kinds(),
            seed: u64,
            rows in prop_oneof![256..1200_usize, 2000..2100_usize],
            width in 2..20_usize,
            classes in prop_oneof![Just(2), Just(3), Just(40), Just(400)],
            share in prop_oneof![Just(0.5), Just(0.03)],
            neighbours in 1..6_usize,
        ) {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let ids: Arc<[u64]> = (0..rows as u64).collect();
            let values = vectors(kind, rows, width, &mut random);
            let x = Variable::vector(&values, width, &ids, Key { tensor: 0, coordinate: 0 });
            // The first classes are rare, and a class may have one row.
            let label: Vec<i32> = (0..rows)
                .map(|row| match random.random::<f64>() < share {
                    true => random.random_range(0..classes),
                    false => i32::from(values[row * width] > 0.0),
                })
                .collect();
            let label = Variable::discrete(&label);
            let by = |search| information_by(search, &x, &label, neighbours);
            let expected = by(Search::Rows);
            prop_assert_eq!(&by(Search::Cheaper), &expected);
            if let Some(tree) = by(Search::Tree) {
                prop_assert_eq!(Some(tree), expected);
            }
        }
    }

    #[test]
    fn trees_are_made_of_low_dimensional_data_and_of_many_rows() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let mut has_tree = |kind, rows: usize, width| {
            let ids: Arc<[u64]> = (0..rows as u64).collect();
            let values = vectors(kind, rows, width, &mut random);
            let x = Variable::vector(&values, width, &ids, Key { tensor: 0, coordinate: 0 });
            let Variable::Vector(x) = x else { unreachable!("vectors of two coordinates and more") };
            Tree::new(x.block(), 24).is_some()
        };
        assert!(has_tree(Kinds::Gaussian, 20_000, 2) && has_tree(Kinds::Surface, 20_000, 16));
        assert!(!has_tree(Kinds::Gaussian, 20_000, 16) && !has_tree(Kinds::Gaussian, 500, 2));
    }
}
