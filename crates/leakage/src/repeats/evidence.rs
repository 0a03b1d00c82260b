//! Whether a sample has copies: the share of rows with a jump in the distances to their nearest rows, compared with the
//! share that data of its dimension has without copies.

use super::points::{Distance, MOST_COPIES, Points};

/// Rows looked at first, and at most.
const FIRST: usize = 64;
const MOST: usize = 256;
/// Fewer rows say nothing.
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
        let mut others = (0..points.rows()).filter(|&other| other != row && labels[other] == labels[row]);
        others.any(|other| points.distance(row, other).is_of_copies())
    };
    looked_at(points).is_some_and(|mut rows| rows.by_ref().take(FIRST).any(has_near))
}

/// Distinctive rows from all parts of the sample; `None` where they are too few.
fn looked_at(points: &Points) -> Option<impl Iterator<Item = usize> + use<>> {
    // Multiples of the golden ratio: the first of any number of them are spread evenly.
    const GOLDEN: f64 = 0.618_033_988_749_894_9;
    let eligible: Vec<usize> = (0..points.rows()).filter(|&row| points.is_distinctive(row)).collect();
    let rows = eligible.len();
    let at = move |number: usize| eligible[((number as f64 * GOLDEN).fract() * rows as f64) as usize];
    (rows >= LEAST).then(|| (0..MOST.min(rows)).map(at))
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
        FAR.min(self.points.rows() / 4).max(NEAR)
    }

    fn look_at(&mut self, row: usize) {
        self.looked_at += 1;
        let far = self.far();
        self.distances.clear();
        let others = (0..self.points.rows()).filter(|&other| other != row);
        self.distances.extend(others.map(|other| (self.points.distance(row, other), other as u32)));
        let by_distance = |a: &(Distance, u32), b: &(Distance, u32)| a.0.plain.total_cmp(&b.0.plain);
        self.distances.select_nth_unstable_by(far - 1, by_distance);
        let nearest = &mut self.distances[..far];
        nearest.sort_unstable_by(by_distance);
        let [near, far] = [NEAR, nearest.len()].map(|rank| f64::from(nearest[rank - 1].0.plain));
        if near > 0.0 && far.is_finite() {
            self.growth.push((far / near).ln());
        }
        if has_copies(self.points, row, nearest) {
            self.jumps += 1;
            self.equal += usize::from(nearest[0].0.plain == 0.0);
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

/// Whether the distances from a row to its nearest have a jump behind copies of it.
fn has_copies(points: &Points, row: usize, nearest: &[(Distance, u32)]) -> bool {
    let labels = points.labels();
    let is_alike =
        |(distance, other): &(Distance, u32)| distance.is_of_copies() && labels[*other as usize] == labels[row];
    let mut farthest: f32 = 0.0;
    nearest.windows(2).take(MOST_COPIES).take_while(|pair| is_alike(&pair[0])).any(|pair| {
        farthest = farthest.max(pair[0].0.resolved);
        pair[1].0.resolved >= JUMP * farthest
    })
}
