//! I(X;Y|C) of a continuous c from nearest neighbours in all three, Frenzel and Pompe 2007,
//! DOI 10.1103/PhysRevLett.99.204101, equation 7 averaged over rows:
//!
//! ```text
//! I(X;Y|C) = ψ(k) − ⟨ψ(n_xc + 1) + ψ(n_yc + 1) − ψ(n_c + 1)⟩
//! ```
//!
//! Nats. r_i is the distance to the k-th other row in (x, y, c), the largest of the three; n counts the other rows closer
//! than r_i in what it names. Rows of different classes are infinitely far apart, so k_i is at most the other rows of a
//! row's classes, and a row alone in them is left out.
//!
//! Where more than one row is at r_i, as among mixtures and rounded values, the counts are those up to and including r_i,
//! and k the number of rows that near in (x, y, c): Mesner and Shalizi 2021, DOI 10.1109/TIT.2020.3024886, algorithm 1.
//!
//! Distances compare numbers of different units. Each column is therefore replaced by its normal scores, Φ⁻¹ of the middle
//! of its ranks: the information stays what it is, and increasing transformations of a column change nothing. The published
//! kind is the same here: no authors' code computes this.
//!
//! Where it fails: as for KSG, strong dependence needs many rows; x, y and c in many dimensions lower the estimate.
//!
//! Cost: rows are searched outward in the order of c, some N^(2/3) of them for each row.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{ContinuousCDF, Normal};

use crate::checked::check;
use crate::digamma::Digamma;
use crate::settings::Settings;
use crate::undefined::Undefined;
use crate::variable::{Scalar, Variable};

use super::shared::by_numbers;
use super::terms::{Conditional, Terms};

/// Rows on either side with which a search begins.
const FIRST: usize = 32;

/// I(X;Y|C). Both have as many rows as `given`, or it is an error.
pub fn information(x: &Variable, y: &Variable, given: &Scalar, settings: &Settings) -> Result<Conditional, Undefined> {
    let rows = given.values().len();
    for variable in [x, y] {
        if variable.rows() != rows {
            return Err(Undefined::UnequalRows(variable.rows(), rows));
        }
        check(variable, settings)?;
    }
    check(&Variable::Scalar(given.clone()), settings)?;
    let order = given.sorted().rows();
    let c = scores(given.values(), order);
    let [x, y] = [x, y].map(|variable| Side::new(variable, order));
    let digamma = Digamma::up_to(rows + 1);
    let mut terms = Terms::new(rows);
    let mut search = Search::default();
    for (at, &row) in order.iter().enumerate() {
        match search.counts(&c, [&x, &y], at, settings.neighbours) {
            Some([joint, in_x, in_y, in_c]) => {
                let term = digamma.at(joint) - digamma.at(in_x) - digamma.at(in_y) + digamma.at(in_c);
                terms.set(row as usize, term);
            }
            None => terms.leave_out(row as usize),
        }
    }
    terms.share(0..rows as u32, by_numbers(rows, settings.neighbours));
    terms.finish()
}

/// The estimates of `count` orders of y among rows of nearly the same c, eight by eight: about their law where x tells
/// nothing of y beyond c. `pause` is called between them.
pub fn permuted_locally(
    [x, y, given]: [&Variable; 3],
    settings: &Settings,
    count: usize,
    seed: u64,
    pause: impl Fn(),
) -> Result<Vec<f64>, Undefined> {
    const NEAR: usize = 8;
    let Variable::Scalar(given) = given else { return Err(Undefined::ContinuousCondition) };
    information(x, y, given, settings)?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let one = |at: usize| {
        pause();
        // Blocks begin elsewhere each time, so that no two neighbours are always apart.
        let in_order = given.sorted().rows();
        let mut shuffled = in_order.to_vec();
        let (first, rest) = shuffled.split_at_mut((at % NEAR).min(in_order.len()));
        first.shuffle(&mut random);
        rest.chunks_mut(NEAR).for_each(|block| block.shuffle(&mut random));
        let mut order = vec![0; in_order.len()];
        in_order.iter().zip(shuffled).for_each(|(&row, from)| order[row as usize] = from);
        Ok(information(x, &y.reordered(&order), given, settings)?.estimate.unclipped)
    };
    (0..count).map(one).collect()
}

/// Normal scores of a column, in the given order of rows.
fn scores(values: &[f64], order: &[u32]) -> Vec<f64> {
    let normal = Normal::standard();
    let mut ascending: Vec<u32> = (0..values.len() as u32).collect();
    ascending.sort_unstable_by(|&a, &b| values[a as usize].total_cmp(&values[b as usize]));
    let mut scores = vec![0.0; values.len()];
    let mut before = 0;
    for equal in ascending.chunk_by(|&a, &b| values[a as usize] == values[b as usize]) {
        let middle = (before as f64 + 0.5 * equal.len() as f64) / values.len() as f64;
        let score = normal.inverse_cdf(middle);
        equal.iter().for_each(|&row| scores[row as usize] = score);
        before += equal.len();
    }
    order.iter().map(|&row| scores[row as usize]).collect()
}

/// x or y, in the order of c.
enum Side {
    Classes(Vec<u32>),
    /// One column for each coordinate.
    Scores(Vec<Vec<f64>>),
}

impl Side {
    fn new(variable: &Variable, order: &[u32]) -> Self {
        match (variable, variable.continuous()) {
            (Variable::Discrete(v), _) => Self::Classes(order.iter().map(|&row| v.classes()[row as usize]).collect()),
            (_, Some(v)) => Self::Scores(v.coordinates().map(|values| scores(values, order)).collect()),
            (_, None) => unreachable!("what is not discrete is continuous"),
        }
    }

    /// Distances from one position to those from `start` on.
    fn distances(&self, at: usize, start: usize, distances: &mut [f64]) {
        let end = start + distances.len();
        match self {
            Self::Classes(classes) => {
                for (distance, &class) in distances.iter_mut().zip(&classes[start..end]) {
                    *distance = if class == classes[at] { 0.0 } else { f64::INFINITY };
                }
            }
            Self::Scores(columns) => {
                distances.fill(0.0);
                for column in columns {
                    let centre = column[at];
                    for (distance, value) in distances.iter_mut().zip(&column[start..end]) {
                        *distance = distance.max((value - centre).abs());
                    }
                }
            }
        }
    }
}

/// The buffers of a search, which the next one uses again.
#[derive(Default)]
struct Search {
    x: Vec<f64>,
    y: Vec<f64>,
    c: Vec<f64>,
    joint: Vec<f64>,
    scratch: Vec<f64>,
}

impl Search {
    /// The arguments of ψ for the position: of k, in (x, c), in (y, c) and in c. `None` for one alone in its classes.
    fn counts(&mut self, c: &[f64], sides: [&Side; 2], at: usize, k: usize) -> Option<[usize; 4]> {
        let rows = c.len();
        let mut wide = FIRST.max(2 * k);
        let radius = loop {
            let (start, end) = (at.saturating_sub(wide), (at + wide + 1).min(rows));
            self.measure(c, sides, at, start, end);
            self.scratch.clear();
            self.scratch.extend(self.joint.iter().filter(|distance| distance.is_finite()));
            // The row itself is at distance 0.
            let others = self.scratch.len() - 1;
            let whole = start == 0 && end == rows;
            if whole && others == 0 {
                return None;
            }
            if others >= k || whole {
                let radius = *self.scratch.select_nth_unstable_by(k.min(others), f64::total_cmp).1;
                let is_beyond = |other: usize| (c[other] - c[at]).abs() > radius;
                if (start == 0 || is_beyond(start - 1)) && (end == rows || is_beyond(end)) {
                    break radius;
                }
            }
            wide *= 2;
        };
        let count = |inside: &dyn Fn(f64) -> bool, side: &[f64]| {
            side.iter().zip(&self.c).filter(|(side, c)| inside(side.max(**c))).count()
        };
        let at_radius = self.joint.iter().filter(|distance| **distance == radius).count();
        if at_radius == 1 {
            // The row itself makes up for the 1 that is added to each count.
            let inside = |distance: f64| distance < radius;
            let closer = count(&inside, &self.c);
            let others = self.joint.iter().filter(|distance| **distance < radius).count();
            Some([others, count(&inside, &self.x), count(&inside, &self.y), closer])
        } else {
            let inside = |distance: f64| distance <= radius;
            let up_to = |side: &[f64]| count(&inside, side) - 1;
            Some([up_to(&self.joint), up_to(&self.x), up_to(&self.y), up_to(&self.c)])
        }
    }

    fn measure(&mut self, c: &[f64], [x, y]: [&Side; 2], at: usize, start: usize, end: usize) {
        for distances in [&mut self.x, &mut self.y, &mut self.c, &mut self.joint] {
            distances.resize(end - start, 0.0);
        }
        x.distances(at, start, &mut self.x);
        y.distances(at, start, &mut self.y);
        let centre = c[at];
        self.c.iter_mut().zip(&c[start..end]).for_each(|(distance, value)| *distance = (value - centre).abs());
        let each = self.joint.iter_mut().zip(&self.x).zip(&self.y).zip(&self.c);
        each.for_each(|(((joint, x), y), c)| *joint = x.max(*y).max(*c));
    }
}
