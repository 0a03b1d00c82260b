//! Whether a sample has copies: the share of rows with a jump in the distances to their nearest rows, compared with the
//! share that data of its dimension has without copies. Rows with equal activations are one point, however many they are
//! and whatever their labels.

use super::points::{Distance, MOST_COPIES, Points};

/// Rows looked at first, and at most.
const FIRST: usize = 64;
const MOST: usize = 256;
/// Fewer rows with different activations say nothing.
const LEAST: usize = 32;
/// How much farther away the row after the copies is.
const JUMP: f32 = 4.0;
/// Share of rows with a jump that measured samples without copies do not reach, dimension aside.
const LEAST_SHARE: f64 = 0.06;
/// Ranks of the neighbours whose distances give the dimension, behind all copies.
const NEAR: usize = MOST_COPIES + 1;
const FAR: usize = 4 * NEAR;

/// The finding of copies in a sample.
pub struct Found {
    /// Whether the copies are equal to the last bit.
    pub exact: bool,
}

/// Whether any of the first rows has another one near enough for a copy.
pub fn is_possible(points: &Points) -> bool {
    let labels = points.labels();
    let has_near = |row: usize| {
        let mut others = (0..points.rows()).filter(|&other| other != row);
        others.any(|other| {
            let may_be = labels[other] == labels[row] || points.vector(other) == points.vector(row);
            may_be && points.distance(row, other).is_of_copies()
        })
    };
    looked_at(points).is_some_and(|mut rows| rows.by_ref().take(FIRST).any(has_near))
}

/// Distinctive rows from all parts of the sample; `None` where they are too few.
fn looked_at(points: &Points) -> Option<impl Iterator<Item = usize> + use<>> {
    // Multiples of the golden ratio: the first of any number of them are spread evenly.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let eligible: Vec<usize> = (0..points.rows()).filter(|&row| points.is_distinctive(row)).collect();
    let rows = eligible.len();
    let vectors = points.first().iter().filter(|&&row| points.is_distinctive(row)).count();
    let at = move |number: usize| eligible[((number as f64 * GOLDEN).fract() * rows as f64) as usize];
    (vectors >= LEAST).then(|| (0..MOST.min(rows)).map(at))
}

/// `None` where there is no evidence of copies.
pub fn look(points: &Points) -> Option<Found> {
    let mut search = Search::new(points);
    for (at, row) in looked_at(points)?.enumerate() {
        if at == FIRST && search.jumps == 0 {
            return None;
        }
        search.look_at(row);
    }
    search.found()
}

struct Search<'a> {
    points: &'a Points,
    distances: Vec<(Distance, u32)>,
    looked_at: usize,
    jumps: usize,
    /// Rows with a jump whose nearest row is equal.
    equal: usize,
    /// Logarithms of the ratio of two distances: see [`NEAR`].
    growth: Vec<f64>,
}

impl<'a> Search<'a> {
    fn new(points: &'a Points) -> Self {
        let distances = Vec::with_capacity(points.rows());
        Self { points, distances, looked_at: 0, jumps: 0, equal: 0, growth: Vec::new() }
    }

    /// [`FAR`], or as far as the sample is large.
    fn far(&self) -> usize {
        FAR.min(self.points.first().len() / 4).max(NEAR)
    }

    fn look_at(&mut self, row: usize) {
        self.looked_at += 1;
        let far = self.far();
        let vector = self.points.vector(row);
        self.distances.clear();
        let others = self.points.first().iter().filter(|&&other| self.points.vector(other) != vector);
        self.distances.extend(others.map(|&other| (self.points.distance(row, other), other as u32)));
        let by_distance = |a: &(Distance, u32), b: &(Distance, u32)| a.0.plain.total_cmp(&b.0.plain);
        self.distances.select_nth_unstable_by(far - 1, by_distance);
        let nearest = &mut self.distances[..far];
        nearest.sort_unstable_by(by_distance);
        let [near, far] = [NEAR, far].map(|rank| f64::from(nearest[rank - 1].0.plain));
        if near > 0.0 && far.is_finite() {
            self.growth.push((far / near).ln());
        }
        let has_equal = self.points.has_equal(row);
        if has_copies(self.points, row, has_equal, nearest) {
            self.jumps += 1;
            self.equal += usize::from(has_equal);
        }
    }

    fn found(mut self) -> Option<Found> {
        let share = self.jumps as f64 / self.looked_at as f64;
        // With few columns some rows are near a copy by chance.
        let exact = 10 * self.equal >= 9 * self.jumps;
        (share > LEAST_SHARE + self.share_without_copies()).then_some(Found { exact })
    }

    /// In D dimensions the s-th distance is less than a quarter of the next with probability 4^(−s·D). Twice the sum over s.
    fn share_without_copies(&mut self) -> f64 {
        let far = self.far();
        let middle = self.growth.len() / 2;
        let growth = match self.growth.len() {
            0 => return 0.0,
            _ => *self.growth.select_nth_unstable_by(middle, f64::total_cmp).1,
        };
        // As on a curve at least.
        let dimension = ((far as f64 / NEAR as f64).ln() / growth.max(f64::MIN_POSITIVE)).max(1.0);
        let quarter = f64::from(JUMP).powf(-dimension);
        2.0 * quarter / (1.0 - quarter)
    }
}

/// Whether the distances from a row to its nearest have a jump behind copies of it. `nearest` are rows that are not equal
/// to it, one of each. More than [`MOST_COPIES`] may be a class whose rows have become alike, unless as many other rows
/// have its labels.
fn has_copies(points: &Points, row: usize, has_equal: bool, nearest: &[(Distance, u32)]) -> bool {
    let labels = points.labels();
    let mut farthest = if has_equal { points.distance(row, row).resolved } else { 0.0 };
    for (rank, (distance, other)) in nearest.iter().enumerate() {
        if (has_equal || rank > 0) && distance.resolved >= JUMP * farthest {
            let alike = || labels.iter().filter(|&&of_other| of_other == labels[row]).count();
            return rank <= MOST_COPIES || alike() >= 2 * (rank + 1);
        }
        if !distance.is_of_copies() || labels[*other as usize] != labels[row] {
            return false;
        }
        farthest = farthest.max(distance.resolved);
    }
    false
}
