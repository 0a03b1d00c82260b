//! Pairs of scalars as points of a plane, and the distance from each to its k-th nearest.
//!
//! The points are in the order of one coordinate or of the other, and [`walk`](super::walk) goes along it. Where values
//! crowd in one coordinate that can be most of the column, but then not in the other: for a search to be long in both, its
//! ball must be empty while the strips above and beside it are full, and there is no room for many such points (N_w points
//! with w others in both strips need N_w ≤ k(N/w)²). So a point is searched for in the order of the coordinate in which its
//! neighbours stand clearly farther apart, and a search that exceeds its share is left to a second round in the order of the
//! other: the sum stays at about √(kN) a point. Where neither coordinate is clearly thinner and there are many points,
//! [`strips`](super::strips) take most of that away.
//!
//! Choosing the coordinate takes 9 to 14 % off the whole estimate of sigmoids and of columns of different scales, N = 1,024
//! and 2,048, and nothing off that of normal columns, where a few points are left to the other order anyway.

use std::borrow::Cow;
use std::cell::OnceCell;

use super::lanes::Real;
use super::sorted::{MARGIN, Sorted};
use super::strips;
use super::walk::{Found, Search};

/// Points of the plane in the order of x.
pub struct Plane<'a, T> {
    x: &'a Sorted<T>,
    y: &'a Sorted<T>,
    /// The position in y's order of the point at each position in x's.
    rank_y: Vec<u32>,
    /// y of each point, with a margin as x has it.
    along: Vec<T>,
    turned: OnceCell<Box<Self>>,
}

impl<'a, T: Real> Plane<'a, T> {
    /// `x` and `y` are columns of the same rows.
    pub fn new(x: &'a Sorted<T>, y: &'a Sorted<T>) -> Self {
        let (rows, ranks, places) = (x.rows(), y.ranks(), y.places());
        assert_eq!(rows.len(), ranks.len(), "the columns are of the same rows");
        let mut rank_y = vec![0; rows.len()];
        let mut along = vec![T::default(); x.padded().len()];
        for ((&row, rank_y), along) in rows.iter().zip(&mut rank_y).zip(&mut along[MARGIN..]) {
            // SAFETY: rows and ranks are below the number of rows, which is that of the places.
            (*rank_y, *along) = unsafe {
                let rank = *ranks.get_unchecked(row as usize);
                (rank, *places.get_unchecked(rank as usize))
            };
        }
        Self { x, y, rank_y, along, turned: OnceCell::new() }
    }

    /// The same points in the order of y. Worked out when first asked for.
    pub fn turned(&self) -> &Self {
        self.turned.get_or_init(|| Box::new(Self::new(self.y, self.x)))
    }

    /// The position in y's order of each point.
    pub fn rank_y(&self) -> &[u32] {
        &self.rank_y
    }

    /// x of each point, ascending.
    pub fn x(&self) -> &[T] {
        self.x.places()
    }

    /// y of each point, with a margin at either end.
    pub fn padded(&self) -> &[T] {
        &self.along
    }

    /// The radii that belong to the positions in x's order, in y's; as long as what is given.
    pub fn radii_in_y(&self, radii: &[T]) -> Vec<T> {
        let mut turned = vec![T::default(); radii.len()];
        for (&rank, &radius) in self.rank_y.iter().zip(radii) {
            turned[rank as usize] = radius;
        }
        turned
    }

    /// y of each point.
    pub fn along(&self) -> &[T] {
        &self.along[MARGIN..MARGIN + self.rank_y.len()]
    }

    /// Searches for the `k` nearest other points of each of the `queries`, positions in ascending order. Distance is the
    /// larger of those in x and in y; there are more than k points.
    pub fn search(&self, queries: &[u32], k: usize, found: &mut Found<T>) {
        let n = self.rank_y.len();
        let share = share_of(n, k);
        let (in_x, in_y) = match queries.len() == n && self.is_for_strips() {
            true => (Cow::default(), strips::search(self, k, share, found)),
            false => self.by_coordinate(queries),
        };
        let late_in_x = self.search_along(&in_x, k, share, found);
        if in_y.is_empty() && late_in_x.is_empty() {
            return;
        }
        let turned = self.turned();
        let mut found_in_y = Found::new(n);
        let late_in_y = turned.search_along(&self.turn(&in_y), k, share, &mut found_in_y);
        turned.search_along(&self.turn(&late_in_x), k, usize::MAX, &mut found_in_y);
        for at in in_y.into_iter().chain(late_in_x).map(|at| at as usize) {
            let at_y = self.rank_y[at] as usize;
            (found.radii[at], found.levels[at]) = (found_in_y.radii[at_y], found_in_y.levels[at_y]);
        }
        self.search_along(&turned.turn(&late_in_y), k, usize::MAX, found);
    }

    /// Whether strips are worth while: candidates are many, because the neighbours of a point in one order are anywhere in
    /// the other and there are many points, and gaps are about the same, so that balls are about as long as wide.
    fn is_for_strips(&self) -> bool {
        let (x, y) = (&self.x.gaps().about, &self.y.gaps().about);
        let (mut apart, mut unequal) = (0, 0);
        let asked = (0..self.rank_y.len() - 1).step_by(SAMPLED);
        let count = asked.len();
        for at in asked {
            let rank = self.rank_y[at] as usize;
            apart += rank.abs_diff(self.rank_y[at + 1] as usize);
            unequal += usize::from(x[at].abs_diff(y[rank]) > MUCH);
        }
        apart >= FAR_APART * count && unequal * FEW_UNEQUAL < count
    }

    /// The `queries` to be searched for in the order of x and those in the order of y.
    fn by_coordinate<'b>(&self, queries: &'b [u32]) -> (Cow<'b, [u32]>, Vec<u32>) {
        let (x, y) = (self.x.gaps(), self.y.gaps());
        let is_y = |at: u32| y.about[self.rank_y[at as usize] as usize] > x.about[at as usize] + CLEARLY;
        let in_sample = || queries.iter().step_by(SAMPLED).filter(|&&at| is_y(at)).count();
        if y.most <= x.least + CLEARLY || in_sample() * SAMPLED * FEW < self.rank_y.len() {
            return (Cow::Borrowed(queries), Vec::new());
        }
        let (mut in_x, mut in_y) = (vec![0; queries.len()], vec![0; queries.len()]);
        let (mut of_x, mut of_y) = (0, 0);
        for &at in queries {
            // Which it is is up to chance, so no branch depends on it.
            let is_y = is_y(at);
            (in_x[of_x], in_y[of_y]) = (at, at);
            of_x += usize::from(!is_y);
            of_y += usize::from(is_y);
        }
        in_x.truncate(of_x);
        in_y.truncate(of_y);
        (Cow::Owned(in_x), in_y)
    }

    /// Positions in y's order, ascending, of the points at those in x's order.
    fn turn(&self, positions: &[u32]) -> Vec<u32> {
        let mut turned: Vec<u32> = positions.iter().map(|&at| self.rank_y[at as usize]).collect();
        turned.sort_unstable();
        turned
    }

    /// [`Self::search`] in the order of x alone. Returns the positions whose search was given up because it would have
    /// looked at more than `share` candidates.
    fn search_along(&self, queries: &[u32], k: usize, share: usize, found: &mut Found<T>) -> Vec<u32> {
        Search { along: self.x.padded(), across: &self.along, queries, to: None, share }.nearest(k, found)
    }
}

/// Half octaves by which gaps are to be larger in y for y's order to be taken.
const CLEARLY: u16 = 3;
/// A second order is worth while for one point in so many, and one query in so many is asked.
const FEW: usize = 12;
const SAMPLED: usize = 16;

/// Half octaves that gaps may differ by within strips, but for one point in so many.
const MUCH: u16 = 5;
const FEW_UNEQUAL: usize = 4;
/// How far apart in the order of y points next to each other in x are to be for strips. Of N points in any order it is
/// N/3. At N = 1,000 to 1,200 normal columns take 3 to 9 % less in strips, sigmoids of 3 z 8 % less and uniform columns 5 %
/// more, and those of ρ = 0.99 a quarter more, which are left to the order of x. At N = 6,000 and 8,192 strips have these
/// too, and they take as long or up to 8 % less.
const FAR_APART: usize = 300;

/// The candidates that independent columns need for nearly all groups.
fn share_of(rows: usize, k: usize) -> usize {
    2 * ((k * rows) as f64).sqrt() as usize + 32
}

#[cfg(test)]
impl Plane<'_, f32> {
    /// That what was found for a position is what all points give.
    pub fn assert_nearest(&self, at: usize, k: usize, found: &Found<f32>) {
        let [centre_x, centre_y] = [self.x()[at], self.along()[at]];
        let to = |(&x, &y): (&f32, &f32)| (x - centre_x).abs().max((y - centre_y).abs());
        let mut distances: Vec<f32> = self.x().iter().zip(self.along()).map(to).collect();
        // The point itself is at 0.
        let radius = *distances.select_nth_unstable_by(k, f32::total_cmp).1;
        assert_eq!(found.radii[at], radius, "position {at}");
        let inside = distances.iter().filter(|&&distance| distance < radius).count().saturating_sub(1);
        assert_eq!(found.levels[at] as usize, k - inside, "position {at}");
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const N: usize = 4096;
    const K: usize = 3;

    fn column(seed: u64, value: impl Fn(usize, f32) -> f32) -> Sorted<f32> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        Sorted::new(&(0..N).map(|row| value(row, random.random())).collect::<Vec<_>>())
    }

    fn check(x: &Sorted<f32>, y: &Sorted<f32>) {
        let plane = Plane::new(x, y);
        let mut found = Found::new(N);
        plane.search(&(0..N as u32).collect::<Vec<_>>(), K, &mut found);
        (0..N).for_each(|at| plane.assert_nearest(at, K, &found));
    }

    #[test]
    fn points_are_searched_for_in_the_order_of_the_coordinate_that_is_thinner() {
        let (narrow, wide) = (column(1, |_, u| u), column(2, |_, u| 100.0 * u));
        let all: Vec<u32> = (0..N as u32).collect();
        let parts = |x: &Sorted<f32>, y: &Sorted<f32>| {
            let plane = Plane::new(x, y);
            let (in_x, in_y) = plane.by_coordinate(&all);
            (in_x.len(), in_y.len())
        };
        assert_eq!(parts(&narrow, &wide), (0, N));
        assert_eq!(parts(&wide, &narrow), (N, 0));
        assert_eq!(parts(&narrow, &column(3, |_, u| u)), (N, 0));
        check(&narrow, &wide);
        check(&wide, &narrow);
        let sigmoid = |seed| column(seed, |_, u| 1.0 / (1.0 + (10.0 - 20.0 * u).exp()));
        let (in_x, in_y) = parts(&sigmoid(4), &sigmoid(5));
        assert!(in_x + in_y == N && in_x > N / 2 && in_y > N / 8, "{in_x}, {in_y}");
        check(&sigmoid(4), &sigmoid(5));
    }

    #[test]
    fn strips_are_for_many_independent_points_of_about_equal_gaps() {
        let y = column(2, |_, u| u);
        let is_for_strips = |x: &Sorted<f32>| Plane::new(x, &y).is_for_strips();
        assert!(is_for_strips(&column(1, |_, u| u)));
        assert!(is_for_strips(&column(1, |_, u| u * u)));
        // The same random numbers, so that y follows from x.
        assert!(!is_for_strips(&column(2, |_, u| 1.0 - u * u)));
        assert!(!is_for_strips(&column(1, |_, u| 100.0 * u)));
        assert!(!is_for_strips(&column(1, |_, u| 0.01 * u)));
        assert!(!is_for_strips(&column(1, |row, u| if row % 2 == 0 { 0.0 } else { u })));
        let some = |seed, rows| {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            Sorted::new(&(0..rows).map(|_| random.random()).collect::<Vec<f32>>())
        };
        assert!(Plane::new(&some(1, 1200), &some(2, 1200)).is_for_strips());
        assert!(!Plane::new(&some(1, 700), &some(2, 700)).is_for_strips());
        // Most of y follows from x.
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let first: Vec<f32> = (0..1200).map(|_| random.random()).collect();
        let second: Vec<f32> = first.iter().map(|v| v + 0.3 * random.random::<f32>()).collect();
        assert!(!Plane::new(&Sorted::new(&first), &Sorted::new(&second)).is_for_strips());
        check(&column(1, |_, u| u * u), &y);
    }

    #[test]
    fn a_search_that_is_long_in_the_thinner_coordinate_is_left_to_the_other() {
        // Crowds that are far apart: thin though they are in y, most of a ball's strip there is of other crowds.
        let (x, y) = (column(1, |row, u| (row / 48) as f32 + 1e-4 * u), column(2, |_, u| u));
        let plane = Plane::new(&x, &y);
        let all: Vec<u32> = (0..N as u32).collect();
        let (_, in_y) = plane.by_coordinate(&all);
        assert!(in_y.len() > N / 4, "{}", in_y.len());
        let late = plane.turned().search_along(&plane.turn(&in_y), K, share_of(N, K), &mut Found::new(N));
        assert!(late.len() > N / 16, "{}", late.len());
        check(&x, &y);
    }
}
