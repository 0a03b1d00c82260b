//! Mutual information of two continuous variables from nearest neighbours, estimator 1 of Kraskov, Stögbauer and
//! Grassberger 2004, DOI 10.1103/PhysRevE.69.066138, equation 8:
//!
//! ```text
//! I(X;Y) = ψ(N) + ψ(k) − ⟨ψ(n_x + 1) + ψ(n_y + 1)⟩
//! ```
//!
//! Nats. Distance is the maximum of the distances in x and in y, and within a vector the maximum over its coordinates;
//! r_i is the distance to the k-th other point, n_x the number of other points with |x_j − x_i| < r_i, strictly.
//! N is the number of rows, in any dimension.
//!
//! Where it fails: strong dependence needs many rows (Gao, Ver Steeg and Galstyan 2015, arXiv 1411.2003): the value
//! cannot exceed about ψ(N). Larger k lowers the variance and raises the bias towards 0. It may be negative by chance.
//! A variable with itself has no finite I; its estimate measures N: for k neighbours, ψ(N) − ψ(k) − 1/k.
//!
//! Ties: points on the border of the ball leave n_x and n_y open. The tie-aware estimate takes the expectation over all
//! orders of the distances that are equal to r_i: see [`ties`](super::ties).

use std::borrow::Cow;

use super::digamma::Digamma;
use super::neighbours::carry::{self, Carried, Moves};
use super::neighbours::lanes::{Real, larger};
use super::neighbours::level::{self, Level, Side};
use super::neighbours::rows::{self, Block};
use super::neighbours::sorted::{Inside, Sorted, border, inside, inside_again};
use super::neighbours::walk::{Found, Plane};
use super::ties::{self, Border, Shape};
use super::variable::Continuous;
use super::width::every_width;
use super::{Estimate, Settings};

/// Noise makes equal distances a rarity. Those left, where the mean is 0 or the noise is rounded away, are counted as
/// the authors' code does: strictly, but for a radius of 0 all identical values.
pub fn published(x: Continuous, y: Continuous, settings: &Settings) -> Estimate {
    let (x, y) = in_order(x, y);
    let (n, k, seed) = (x.rows(), settings.neighbours, settings.seed);
    let digamma = Digamma::up_to(n);
    let psis = |near_x: usize, near_y: usize| -(digamma.at(near_x + 1) + digamma.at(near_y + 1));
    let repeats = (0..settings.repeats.max(1)).map(|repeat| {
        let terms = match (x, y) {
            (Continuous::Scalar(a), Continuous::Scalar(b)) => {
                let xs = Sorted::new(&a.with_noise(seed, 0, repeat, Some(b.key())));
                let ys = Sorted::new(&b.with_noise(seed, 1, repeat, Some(a.key())));
                let balls = Balls::new(&xs, &ys, k);
                balls.terms(|at| {
                    let [near_x, near_y] = balls.strictly_inside(at);
                    psis(near_x, near_y)
                })
            }
            _ => {
                let (xs, ys) = (noisy(x, y, seed, 0, repeat), noisy(y, x, seed, 1, repeat));
                of_blocks(&xs, &ys, k, |dx, dy, _, radius| {
                    let near = |distances: &[f64]| {
                        let counts = rows::counts(distances, radius);
                        if radius == 0.0 { counts.border } else { counts.closer }
                    };
                    psis(near(dx), near(dy))
                })
            }
        };
        Estimate::from_terms(digamma.at(n) + digamma.at(k), terms, &[])
    });
    Estimate::over_repeats(&repeats.collect::<Vec<_>>())
}

fn plain(variable: Continuous) -> Cow<Block> {
    match variable {
        Continuous::Scalar(v) => Cow::Owned(Block::new(v.values().to_vec(), v.values().len())),
        Continuous::Vector(v) => Cow::Borrowed(v.block()),
    }
}

fn noisy(this: Continuous, other: Continuous, seed: u64, side: usize, repeat: usize) -> Block {
    match this {
        Continuous::Scalar(v) => Block::new(v.with_noise(seed, side, repeat, Some(other.key())), v.values().len()),
        Continuous::Vector(v) => v.with_noise(seed, side, repeat, Some(other.key())),
    }
}

/// The expectation over random orders of equal distances; without ties the estimator itself.
pub fn tie_aware(x: Continuous, y: Continuous, settings: &Settings) -> Estimate {
    let (n, k) = (x.rows(), settings.neighbours);
    let digamma = digamma_of_ties(n);
    let terms = match (x, y) {
        (Continuous::Scalar(a), Continuous::Scalar(b)) => match (a.compact(), b.compact()) {
            (Some(a), Some(b)) => tie_aware_terms(&Balls::new(a, b, k), &digamma).0,
            _ => tie_aware_terms(&Balls::new(a.sorted(), b.sorted(), k), &digamma).0,
        },
        _ => of_blocks(&plain(x), &plain(y), k, |dx, dy, row, radius| {
            let mut around = Around::default();
            let others = dx.iter().zip(dy).enumerate().filter(|(other, _)| *other != row);
            others.for_each(|(_, (&dx, &dy))| around.add(dx, dy, radius));
            around.closed(k).term(&digamma)
        }),
    };
    Estimate::from_terms(digamma.at(n) + digamma.at(k), terms, &[])
}

/// A position among tied distances counts those of two variables, and several are looked up at once.
fn digamma_of_ties(rows: usize) -> Digamma {
    Digamma::up_to(2 * rows + 2 + 2 * ties::LANES)
}

/// [`tie_aware`] of two columns of float32 values, and what is worth keeping for the next sample of them. The result is
/// the same to the last bit with what was kept of the sample `before` and without.
pub fn tie_aware_and_balls(
    [x, y]: [&Sorted<f32>; 2],
    settings: &Settings,
    before: Option<(&carry::Balls, [&Moves; 2])>,
) -> (Estimate, Option<carry::Balls>) {
    let (n, k) = (x.rows().len(), settings.neighbours);
    let digamma = digamma_of_ties(n);
    let balls = match before {
        Some((before, [moved_x, moved_y])) => Balls::after(before, (x, moved_x), (y, moved_y), k),
        None => Balls::new(x, y, k),
    };
    let (terms, open) = tie_aware_terms(&balls, &digamma);
    (Estimate::from_terms(digamma.at(n) + digamma.at(k), terms, &[]), balls.kept(&open))
}

/// The tie-aware estimate of a variable with itself when no two of its values are equal: in a random order of what is
/// tied, k − 1 points are inside on the side that defines r_i and k on the other, whatever the values are.
pub fn self_information_without_ties(rows: usize, neighbours: usize) -> Estimate {
    let digamma = Digamma::up_to(rows);
    let value = digamma.at(rows) - digamma.at(neighbours) - 1.0 / neighbours as f64;
    Estimate { value, repeats: vec![value], unclipped: value, influence: vec![0.0; rows], draw_variance: 0.0 }
}

/// The pair in an order of its own, so that I(X;Y) and I(Y;X) draw the same noise: by key, then by values.
fn in_order<'a>(x: Continuous<'a>, y: Continuous<'a>) -> (Continuous<'a>, Continuous<'a>) {
    let by_value = || {
        let values = x.coordinates().flatten().zip(y.coordinates().flatten());
        values.map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne())
    };
    let order = x.key().cmp(&y.key()).then_with(|| by_value().unwrap_or(std::cmp::Ordering::Equal));
    if order.is_gt() { (y, x) } else { (x, y) }
}

/// Which points of a plane are identical. Identical points have identical balls and terms.
struct Same {
    /// The position of the first of each point, and how many there are.
    firsts: Vec<(u32, u32)>,
    /// Which of those each position is like.
    like: Vec<u32>,
}

impl Same {
    /// Of the points at `positions`, which ascend in the order of x. Those of one value of x follow each other, so a
    /// note for each value of y is enough.
    fn new<T: Real>(x: &Sorted<T>, y: &Sorted<T>, rank_y: &[u32], positions: &[u32]) -> Self {
        let (runs_x, runs_y) = (&x.runs().bounds, &y.runs().bounds);
        let (mut firsts, mut like) = (Vec::with_capacity(positions.len()), Vec::with_capacity(positions.len()));
        // By where a run in y starts: the last run in x that it was met in, and its point there.
        let mut met = vec![[u32::MAX; 2]; rank_y.len()];
        for &at in positions {
            let run_x = runs_x[at as usize][0];
            let met = &mut met[runs_y[rank_y[at as usize] as usize][0] as usize];
            if met[0] != run_x {
                *met = [run_x, firsts.len() as u32];
                firsts.push((at, 0));
            }
            firsts[met[1] as usize].1 += 1;
            like.push(met[1]);
        }
        Self { firsts, like }
    }

    /// If it is likely that many points are identical.
    fn of_crowded<T: Real>(x: &Sorted<T>, y: &Sorted<T>, rank_y: &[u32], positions: &[u32]) -> Option<Self> {
        // How many pairs of rows would be identical if the columns were independent, and how many there may be.
        let n = positions.len() as f64;
        (x.runs().equal_pairs * y.runs().equal_pairs > 0.5 * n.powi(3)).then(|| Self::new(x, y, rank_y, positions))
    }

    fn first_of_at_most(&self, copies: usize) -> Vec<u32> {
        self.firsts.iter().filter(|first| first.1 as usize <= copies).map(|first| first.0).collect()
    }
}

/// The balls that reach the k-th neighbour of every point of a plane. Positions are those in x's order.
struct Balls<'a, T> {
    x: &'a Sorted<T>,
    y: &'a Sorted<T>,
    k: usize,
    plane: Plane<'a, T>,
    found: Found<T>,
    in_x: Inside,
    in_y: Inside,
}

impl<'a, T: Real> Balls<'a, T> {
    fn new(x: &'a Sorted<T>, y: &'a Sorted<T>, k: usize) -> Self {
        let n = x.rows().len();
        let plane = Plane::new(x, y);
        let (mut found, mut found_y) = (Found::new(n), Found::new(n));
        // What independent columns need for nearly all groups.
        let share = 2 * ((k * n) as f64).sqrt() as usize + 48;
        let all: Vec<u32> = (0..n as u32).collect();
        let same = Same::of_crowded(x, y, plane.rank_y(), &all);
        // Where k others are identical the radius is 0.
        let searched = same.as_ref().map(|same| same.first_of_at_most(k));
        let left_over = plane.search(searched.as_ref().unwrap_or(&all), k, share, &mut found);
        if !left_over.is_empty() {
            let mut positions: Vec<u32> = left_over.iter().map(|&at| plane.rank_y()[at as usize]).collect();
            positions.sort_unstable();
            Plane::new(y, x).search(&positions, k, usize::MAX, &mut found_y);
            for at in left_over.into_iter().map(|at| at as usize) {
                let at_y = plane.rank_y()[at] as usize;
                (found.radii[at], found.levels[at]) = (found_y.radii[at_y], found_y.levels[at_y]);
            }
        }
        if let Some(same) = same {
            for (at, like) in same.like.into_iter().enumerate() {
                let (first, copies) = same.firsts[like as usize];
                let first = first as usize;
                (found.radii[at], found.levels[at]) = match copies as usize {
                    copies if copies <= k => (found.radii[first], found.levels[first]),
                    _ => (T::default(), k as u32),
                };
            }
        }
        for (&rank, &radius) in plane.rank_y().iter().zip(&found.radii) {
            found_y.radii[rank as usize] = radius;
        }
        let (in_x, in_y) = (inside(x.padded(), &found.radii), inside(y.padded(), &found_y.radii));
        Self { x, y, k, plane, found, in_x, in_y }
    }

    /// `term` of every position, by row.
    fn terms(&self, mut term: impl FnMut(usize) -> f64) -> Vec<f64> {
        let mut terms = vec![0.0; self.x.rows().len()];
        for (at, &row) in self.x.rows().iter().enumerate() {
            terms[row as usize] = term(at);
        }
        terms
    }

    /// Whether more than the one distance that set the radius equals it.
    fn is_open(&self, at: usize) -> bool {
        self.in_x.edges(at) + self.in_y.edges(self.rank_y(at)) > 1
    }

    fn rank_y(&self, at: usize) -> usize {
        self.plane.rank_y()[at] as usize
    }

    /// n_x and n_y as the authors' code counts them.
    fn strictly_inside(&self, at: usize) -> [usize; 2] {
        let at_y = self.rank_y(at);
        if self.found.radii[at].widen() == 0.0 {
            let identical = |column: &Sorted<T>, at| {
                let (before, behind) = border(column.places(), at, self.found.radii[at], at..at + 1);
                before.len() + behind.len()
            };
            return [identical(self.x, at), identical(self.y, at_y)];
        }
        [self.in_x.closer(at), self.in_y.closer(at_y)]
    }
}

/// One in so many points may be open where balls are kept.
const MOST_OPEN: usize = 8;

impl<'a> Balls<'a, f32> {
    /// The same as from nothing, from what was kept of the sample before. Each column comes with how it moved since.
    fn after(before: &carry::Balls, x: (&'a Sorted<f32>, &Moves), y: (&'a Sorted<f32>, &Moves), k: usize) -> Self {
        let plane = Plane::new(x.0, y.0);
        let Carried { radii, mut radii_y, mut in_x, mut in_y, again } = Carried::new(before, &plane, x, y);
        let ((x, _), (y, _)) = (x, y);
        let mut found = Found { radii, levels: vec![0; x.rows().len()] };
        plane.search(&again, k, usize::MAX, &mut found);
        for &at in &again {
            radii_y[plane.rank_y()[at as usize] as usize] = found.radii[at as usize];
        }
        let mut again_y: Vec<u32> = again.iter().map(|&at| plane.rank_y()[at as usize]).collect();
        again_y.sort_unstable();
        inside_again(x.padded(), &found.radii, &again, &mut in_x);
        inside_again(y.padded(), &radii_y, &again_y, &mut in_y);
        Self { x, y, k, plane, found, in_x, in_y }
    }

    /// To be told to [`after`](Self::after); `None` where ties leave so much open that most would be found anew.
    fn kept(&self, open: &[u32]) -> Option<carry::Balls> {
        let rows = self.x.rows().len();
        let worthwhile = open.len() * MOST_OPEN <= rows;
        worthwhile.then(|| carry::Balls::new(&self.found.radii[..rows], &self.in_x, &self.in_y, open))
    }
}

/// The terms by row, and the positions in x's order of the points that ties leave open.
fn tie_aware_terms<T: Real>(balls: &Balls<T>, digamma: &Digamma) -> (Vec<f64>, Vec<u32>) {
    let (x, y) = (balls.x, balls.y);
    let mut terms = vec![0.0; x.rows().len()];
    let sides = [(x.ranks(), balls.in_x.packed()), (y.ranks(), balls.in_y.packed())];
    let mut open = Vec::new();
    if closed_terms(sides, digamma.from(1), &mut terms) {
        open.extend((0..terms.len() as u32).filter(|&at| balls.is_open(at as usize)));
    }
    if open.is_empty() {
        return (terms, open);
    }
    let turned = Plane::new(y, x);
    let Same { firsts, like } = Same::new(x, y, balls.plane.rank_y(), &open);
    let firsts: Vec<u32> = firsts.into_iter().map(|(first, _)| first).collect();
    let side_x = Side { column: x, plane: &balls.plane, inside: &balls.in_x };
    let side_y = Side { column: y, plane: &turned, inside: &balls.in_y };
    let levels = level::levels(side_x, side_y, &balls.found.radii, &firsts);
    let mut scratch = Vec::new();
    let of_firsts: Vec<f64> = firsts
        .iter()
        .zip(levels)
        .map(|(&at, levels)| {
            let at = at as usize;
            let around = match levels {
                Some(levels) => balls.around_of(at, levels),
                None => balls.around(at, &turned, &mut scratch),
            };
            around.closed(balls.k).term(digamma)
        })
        .collect();
    for (&at, like) in open.iter().zip(like) {
        terms[x.rows()[at as usize] as usize] = of_firsts[like as usize];
    }
    (terms, open)
}

every_width! {
/// −(ψ(n_x + 1) + ψ(n_y + 1)) of each row, and whether ties leave that open for any. A side is the position of each row in
/// its order, and the counts at each position as [`Inside::packed`] has them; `digamma` is ψ(1), ψ(2), …
fn closed_terms([x, y]: [(&[u32], &[u32]); 2], digamma: &[f64], terms: &mut [f64]) -> bool {
    let ((ranks_x, packed_x), (ranks_y, packed_y)) = (x, y);
    let rows = terms.len();
    assert!(ranks_x.len() == rows && ranks_y.len() == rows);
    assert!(packed_x.len() >= rows && packed_y.len() >= rows && digamma.len() >= rows);
    let mut open = false;
    for row in 0..rows {
        // SAFETY: a rank is below the number of rows, and so is the number of others that are closer.
        let (near_x, near_y, psi_x, psi_y) = unsafe {
            let near_x = *packed_x.get_unchecked(ranks_x[row] as usize);
            let near_y = *packed_y.get_unchecked(ranks_y[row] as usize);
            let psi = |near: u32| *digamma.get_unchecked((near >> 3) as usize);
            (near_x, near_y, psi(near_x), psi(near_y))
        };
        open |= (near_x & 7) + (near_y & 7) > 1;
        terms[row] = -(psi_x + psi_y);
    }
    open
}
}

impl<T: Real> Balls<'_, T> {
    /// What lies about the point at position `at`, of which `levels` is what is at its radius in x and in y.
    fn around_of(&self, at: usize, levels: [Level; 2]) -> Around {
        Around {
            closer: [self.in_x.closer(at), self.in_y.closer(self.rank_y(at))],
            closer_in_both: self.k - self.found.levels[at] as usize,
            only: levels.map(|level| level.closer as usize),
            both: levels[0].border as usize,
            beyond: levels.map(|level| level.beyond as usize),
            missing: 0,
        }
    }

    /// The same in f64, because distances that equal the radius may do so by rounding alone. `turned` is the plane in
    /// y's order, `distances` is overwritten.
    fn around(&self, at: usize, turned: &Plane<T>, distances: &mut Vec<[f64; 2]>) -> Around {
        let at_y = self.rank_y(at);
        let (radius, x, y) = (self.found.radii[at], self.x.places()[at], self.y.places()[at_y]);
        let (near_x, near_y) = (self.in_x.range(at), self.in_y.range(at_y));
        let closer = |a: T, b: T| (a - b).abs() < radius;
        let mut around = Around {
            closer_in_both: self.k - self.found.levels[at] as usize,
            closer: [near_x.len() - 1, near_y.len() - 1],
            ..Around::default()
        };
        let in_x = border(self.x.places(), at, radius, near_x);
        let in_y = border(self.y.places(), at_y, radius, near_y);
        distances.clear();
        let wide = |a: T, b: T| (a.widen() - b.widen()).abs();
        for other in in_x.0.chain(in_x.1) {
            let (other_x, other_y) = (self.x.places()[other], self.plane.along()[other]);
            distances.push([wide(other_x, x), wide(other_y, y)]);
            // It is to be added with both its distances.
            around.closer[1] -= usize::from(closer(other_y, y));
        }
        for other in in_y.0.chain(in_y.1) {
            let (other_x, other_y) = (turned.along()[other], self.y.places()[other]);
            // Points at the radius in both are there already.
            if (other_x - x).abs() != radius {
                distances.push([wide(other_x, x), wide(other_y, y)]);
                around.closer[0] -= usize::from(closer(other_x, x));
            }
        }
        let exact = self.exact_radius(radius, self.k - around.closer_in_both, distances);
        distances.iter().for_each(|&[dx, dy]| around.add(dx, dy, exact));
        around
    }

    /// Rounded to f32, distances may seem equal that are not: the radius is the one in f64 that has its `place`.
    fn exact_radius(&self, radius: T, place: usize, distances: &[[f64; 2]]) -> f64 {
        let joint = || distances.iter().map(|distance| larger(distance[0], distance[1]));
        let rounded = radius.widen();
        // Differences of float32 values mostly are float32 values.
        if joint().filter(|&distance| distance <= rounded).count() >= place
            && joint().filter(|&distance| distance < rounded).count() < place
        {
            return rounded;
        }
        let mut joint: Vec<f64> = joint().collect();
        *joint.select_nth_unstable_by(place - 1, f64::total_cmp).1
    }
}

/// The other points about a point, by their distances.
#[derive(Default)]
struct Around {
    /// In x and in y.
    closer: [usize; 2],
    closer_in_both: usize,
    /// Points at the radius: see [`Shape`].
    only: [usize; 2],
    both: usize,
    beyond: [usize; 2],
    missing: usize,
}

impl Around {
    fn add(&mut self, dx: f64, dy: f64, radius: f64) {
        let (near_x, near_y, level_x, level_y) = (dx < radius, dy < radius, dx == radius, dy == radius);
        self.closer[0] += usize::from(near_x);
        self.closer[1] += usize::from(near_y);
        self.closer_in_both += usize::from(near_x && near_y);
        self.only[0] += usize::from(level_x && near_y);
        self.only[1] += usize::from(near_x && level_y);
        self.both += usize::from(level_x && level_y);
        self.beyond[0] += usize::from(level_x && dy > radius);
        self.beyond[1] += usize::from(level_y && dx > radius);
    }

    /// With all points added, of which the `k` nearest are inside or on the border.
    fn closed(self, k: usize) -> Self {
        Self { missing: k - self.closer_in_both, ..self }
    }

    /// −E(ψ(n_x + 1) + ψ(n_y + 1)).
    fn term(&self, digamma: &Digamma) -> f64 {
        let from = |here: usize, there: usize| {
            let shape = Shape {
                missing: self.missing,
                only_here: self.only[here],
                only_there: self.only[there],
                both: self.both,
                beyond: self.beyond[here],
            };
            Border { closer: self.closer[here], shape }.expected_digamma(digamma)
        };
        -(from(0, 1) + from(1, 0))
    }
}

/// `term` of every row, from its distances to all rows in x and in y, itself and its radius.
fn of_blocks(x: &Block, y: &Block, k: usize, term: impl Fn(&[f64], &[f64], usize, f64) -> f64) -> Vec<f64> {
    let n = x.rows();
    let mut scratch = Vec::with_capacity(n);
    let (mut dx, mut dy, mut joint) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let of_row = |row: usize| {
        dx.fill(0.0);
        dy.fill(0.0);
        x.join_chebyshev(row, &mut dx);
        y.join_chebyshev(row, &mut dy);
        for ((joint, &x), &y) in joint.iter_mut().zip(&dx).zip(&dy) {
            *joint = larger(x, y);
        }
        let radius = rows::kth_distance(&joint, row, k, &mut scratch);
        term(&dx, &dy, row, radius)
    };
    (0..n).map(of_row).collect()
}
