//! The information that a variable has about labels in random order within the strata: the law of the estimate where there
//! is no information beyond that of the strata. Under that hypothesis every order of a label within its strata is as likely
//! as the one found, so a test by them is exact for any number of rows, classes and ties.
//!
//! Two uses: the values themselves, for one label; and their variance, for many. Of a label of two classes the latter
//! depends on how many rows of a stratum have the rarer one, and little on the exact number, so it is drawn at numbers a
//! factor of √2 apart and interpolated between them: 111 labels then cost as much as some 15.
//!
//! x keeps its neighbours while labels change, so a permutation costs what a label does in
//! [`Strata::information_with_each`].

use std::collections::HashMap;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::checked::check;
use crate::settings::Kind;
use crate::undefined::Undefined;
use crate::variable::{Discrete, Variable};

use super::strata::Strata;
use super::terms::Found;

/// Mean and variance of an estimate, in nats and their square.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    pub mean: f64,
    pub variance: f64,
}

/// Estimates of labels in random order within the strata of x.
pub struct Permutations<'s> {
    strata: &'s Strata<'s>,
    /// How many each moment is from.
    count: usize,
    seed: u64,
    /// By stratum and rows of the rarer of two classes.
    of_two: HashMap<(usize, u32), Moments>,
}

/// Labels that are estimated together: they share the neighbours of vectors.
const TOGETHER: usize = 64;

impl<'s> Permutations<'s> {
    /// The same `seed` gives the same orders. Moments are from `count` of them, at least 2.
    pub fn new(strata: &'s Strata, count: usize, seed: u64) -> Self {
        Self { strata, count: count.max(2), seed, of_two: HashMap::new() }
    }

    /// The estimates of `count` orders of y, comparable with that of y as it is. `pause` is called between them.
    pub fn values(&self, y: &Variable, count: usize, pause: impl Fn()) -> Result<Vec<f64>, Undefined> {
        let parts = self.parts(y)?;
        let mut values = vec![0.0; count];
        let mut kept = 0.0;
        for (stratum, (x, y)) in self.strata.parts.iter().zip(&parts).enumerate() {
            let rows = self.kept(x, y) as f64;
            kept += rows;
            let drawn = self.within(x, y, count, &mut self.random(stratum, u32::MAX), &pause);
            values.iter_mut().zip(drawn).for_each(|(value, drawn)| *value += rows * drawn);
        }
        values.iter_mut().for_each(|value| *value /= kept);
        Ok(values)
    }

    /// The moments of the estimates of such orders.
    pub fn moments(&mut self, y: &Variable, pause: impl Fn()) -> Result<Moments, Undefined> {
        let parts = self.parts(y)?;
        let (mut sum, mut kept) = (Moments::default(), 0.0);
        for (stratum, y) in parts.iter().enumerate() {
            let rows = self.kept(&self.strata.parts[stratum], y) as f64;
            kept += rows;
            let Moments { mean, variance } = self.moments_within(stratum, y, &pause);
            sum.mean += rows * mean;
            sum.variance += rows * rows * variance;
        }
        Ok(Moments { mean: sum.mean / kept, variance: sum.variance / (kept * kept) })
    }

    fn parts(&self, y: &Variable) -> Result<Vec<Variable>, Undefined> {
        if y.rows() != self.strata.rows() {
            return Err(Undefined::UnequalRows(self.strata.rows(), y.rows()));
        }
        check(y, self.strata.settings)?;
        let parts = y.parts(self.strata.given);
        let kept: usize = self.strata.parts.iter().zip(&parts).map(|(x, y)| self.kept(x, y)).sum();
        let (rows, left_out) = (y.rows(), y.rows() - kept);
        if 2 * left_out > rows { Err(Undefined::MostlyAlone { left_out, rows }) } else { Ok(parts) }
    }

    /// Rows of a stratum that are not left out.
    fn kept(&self, x: &Variable, y: &Variable) -> usize {
        x.rows() - self.strata.left_out(x, y).len()
    }

    /// A stream of its own for everything that is drawn, so that nothing depends on what was drawn before.
    fn random(&self, stratum: usize, what: u32) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        random.set_stream((stratum as u64) << 32 | u64::from(what));
        random
    }

    fn moments_within(&mut self, stratum: usize, y: &Variable, pause: &impl Fn()) -> Moments {
        match y {
            Variable::Discrete(label) if label.sizes().len() < 2 => Moments::default(),
            Variable::Discrete(label) if label.sizes().len() == 2 => {
                let rows = label.classes().len() as u32;
                let rarer = label.sizes()[0].min(label.sizes()[1]);
                let [low, high] = around(rarer, rows / 2);
                let (below, above) = (self.of_two(stratum, low, rows, pause), self.of_two(stratum, high, rows, pause));
                if low == high { below } else { between((low, below), (high, above), rarer) }
            }
            label => {
                // Classes of the label in the order in which they occur are of no use to a stream: the sizes are.
                let what = 1 << 31 | label.rows() as u32;
                let x = &self.strata.parts[stratum];
                self.moments_of(&self.within(x, label, self.count, &mut self.random(stratum, what), pause))
            }
        }
    }

    /// Returns the moments for labels of two classes of which the `rarer` has this many of the stratum's rows.
    fn of_two(&mut self, stratum: usize, rarer: u32, rows: u32, pause: &impl Fn()) -> Moments {
        if rarer < 2 {
            return Moments::default();
        }
        if let Some(known) = self.of_two.get(&(stratum, rarer)) {
            return *known;
        }
        let label: Vec<i32> = (0..rows).map(|row| i32::from(row < rarer)).collect();
        let x = &self.strata.parts[stratum];
        let drawn = self.within(x, &Variable::discrete(&label), self.count, &mut self.random(stratum, rarer), pause);
        let moments = self.moments_of(&drawn);
        self.of_two.insert((stratum, rarer), moments);
        moments
    }

    /// Ross's estimator and the adjusted plug-in have mean 0 exactly, the others about 0 or more.
    fn moments_of(&self, drawn: &[f64]) -> Moments {
        let count = drawn.len() as f64;
        match self.strata.settings.kind {
            Kind::TieAware => Moments { mean: 0.0, variance: drawn.iter().map(|x| x * x).sum::<f64>() / count },
            Kind::Published => {
                let mean = drawn.iter().sum::<f64>() / count;
                let squares: f64 = drawn.iter().map(|x| (x - mean).powi(2)).sum();
                Moments { mean, variance: squares / (count - 1.0) }
            }
        }
    }

    /// The information of x about y in random order, within a stratum.
    fn within(&self, x: &Variable, y: &Variable, count: usize, random: &mut ChaCha8Rng, pause: &impl Fn()) -> Vec<f64> {
        let kept = self.kept(x, y);
        let value = |found: Option<Found>| found.map_or(0.0, |found| found.value(kept));
        let mut values = Vec::with_capacity(count);
        while values.len() < count {
            pause();
            match (x, y) {
                (Variable::Discrete(_), Variable::Discrete(label)) => {
                    values.push(value(self.strata.within(x, &Variable::Discrete(label.shuffled(random)))));
                }
                // The same law whichever of the two is shuffled.
                (continuous, Variable::Discrete(label)) | (Variable::Discrete(label), continuous) => {
                    let together = TOGETHER.min(count - values.len());
                    let labels: Vec<Discrete> = (0..together).map(|_| label.shuffled(random)).collect();
                    let found = self.strata.ross(continuous, &labels.iter().collect::<Vec<_>>());
                    values.extend(found.into_iter().map(value));
                }
                _ => {
                    let mut order: Vec<u32> = (0..y.rows() as u32).collect();
                    rand::seq::SliceRandom::shuffle(order.as_mut_slice(), random);
                    values.push(value(self.strata.within(x, &y.reordered(&order))));
                }
            }
        }
        values
    }
}

/// The numbers next to `size` at which moments are drawn: 2, 3, 4, 6, 8, 11, 16, 23, … and the most there are.
fn around(size: u32, most: u32) -> [u32; 2] {
    let mut low = 2;
    let mut power = 2.0_f64;
    while low < size {
        power *= std::f64::consts::SQRT_2;
        let next = (power.round() as u32).min(most);
        if next >= size {
            return if next == size { [size, size] } else { [low, next] };
        }
        low = next;
    }
    [size, size]
}

/// Moments between two sizes: powers of the size, or where one is 0 straight lines.
fn between((low, below): (u32, Moments), (high, above): (u32, Moments), size: u32) -> Moments {
    let [low, high, size] = [low, high, size].map(|size| f64::from(size).ln());
    let share = (size - low) / (high - low);
    let line = |a: f64, b: f64| (1.0 - share) * a + share * b;
    let variance = match below.variance.min(above.variance) > 0.0 {
        true => line(below.variance.ln(), above.variance.ln()).exp(),
        false => line(below.variance, above.variance),
    };
    Moments { mean: line(below.mean, above.mean), variance }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_between_their_neighbours() {
        for most in 1..200 {
            for size in 0..=most {
                let [low, high] = around(size, most);
                assert!(low <= size.max(low) && size <= high && high <= most.max(2), "{size} of {most}: {low}, {high}");
                assert!(size < 2 || (low <= size && f64::from(high) <= 1.6 * f64::from(low)), "{size} of {most}");
            }
        }
    }
}
