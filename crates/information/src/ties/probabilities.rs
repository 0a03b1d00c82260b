//! P(p, e) of a shape, d aside, and a memory of shapes met before.
//!
//! P(p, e), where p distances are before the boundary and p − e of them count for n_x, is proportional to binomials times
//! ∫ tᵖ(1 − t)^q dt, t the position of the boundary as a number in [0, 1]. It depends on k', a, b and c alone, and e has
//! k' + 1 values at most.
//!
//! The memory is a table of bounded size, with the numbers of all shapes one after the other; when it is full, all is
//! forgotten.
//!
//! Cost: to compute, about k'² · c steps; to find, a look-up.
//! Gain: row `Memory` of README.md (`cargo bench --bench shapes`).

use crate::thresholds::FEW_PROBABILITIES;

use super::shape::Shape;
use super::sums::NEGLIGIBLE;

/// P(p, e) of a shape, d aside. `Of` is a list of numbers.
#[derive(Clone, Copy, Default)]
pub struct Probabilities<Of> {
    /// The least p and the least e that there are.
    pub first: usize,
    pub lowest: usize,
    /// How many e there are.
    pub width: usize,
    /// How many p there are.
    pub count: usize,
    /// P(first, lowest), P(first, lowest + 1), …, then those of the next p.
    pub values: Of,
}

impl Probabilities<Vec<f64>> {
    pub fn view(&self) -> Probabilities<&[f64]> {
        let &Self { first, lowest, width, count, ref values } = self;
        Probabilities { first, lowest, width, count, values }
    }

    /// Computed from the shape.
    pub fn new(shape: Shape) -> Self {
        let Shape { missing, only_here, only_there, both, .. } = shape;
        let all = only_here + only_there + both;
        let behind = all - missing;
        // C(n, 0) … C(n, k'), in a unit that keeps the products of three, k' chosen in all, in the range of numbers.
        let unit = missing as f64 / (std::f64::consts::E * all as f64);
        let size = missing + 1;
        let mut binomials = vec![1.0; 3 * size];
        for (binomials, n) in binomials.chunks_exact_mut(size).zip([only_here, only_there, both]) {
            for chosen in 0..missing {
                binomials[chosen + 1] =
                    binomials[chosen] * (n.saturating_sub(chosen) as f64 / (chosen + 1) as f64 * unit);
            }
        }
        // The ways by g, the points of kind c up to the boundary, and by e. Then p = k' − 1 + g + δ, and the δ are of c
        // − g.
        let mut ways = vec![0.0; size * size];
        // The least g, and the least and the highest e, that there are ways for.
        let (mut least, mut lowest, mut highest) = (missing, missing, 0);
        for g in 0..=missing.min(both) {
            for beta in 0..=missing - g {
                // The boundary is any of the k' points, one of which is the last.
                let alpha = missing - g - beta;
                let all = binomials[alpha] * binomials[size + beta] * binomials[2 * size + g];
                if all == 0.0 {
                    continue;
                }
                ways[g * size + beta + g] += (alpha + g) as f64 * all;
                least = least.min(g);
                if alpha + g > 0 {
                    (lowest, highest) = (lowest.min(beta + g), highest.max(beta + g));
                }
                if beta + g > 0 {
                    // One of kind c is at its distance in this variable or, after that one, in the other.
                    ways[g * size + beta + g - 1] += (beta + g) as f64 * all;
                    (lowest, highest) = (lowest.min(beta + g - 1), highest.max(beta + g - 1));
                }
            }
        }
        let (first, width) = (missing - 1 + least, highest - lowest + 1);
        let mut values: Vec<f64> = Vec::with_capacity((both - least + 1).min(FEW_PROBABILITIES) * width);
        // ∫ tᵖ(1 − t)^q dt in a unit of its own, p = k' − 1 + g.
        let mut integral = 1.0;
        for (g, ways) in ways.chunks_exact(size).enumerate().take(missing.min(both) + 1).skip(least) {
            let (mut probability, mut sum) = (integral, 0.0);
            for delta in 0..=both - g {
                let p = missing - 1 + g + delta;
                let start = (p - first) * width;
                if values.len() == start {
                    values.resize(start + width, 0.0);
                }
                for (value, ways) in values[start..].iter_mut().zip(&ways[lowest..]) {
                    *value += probability * ways;
                }
                sum += probability;
                let ratio = (both - g - delta) as f64 / (delta + 1) as f64 * ((p + 1) as f64 / (p + behind + 2) as f64);
                probability *= ratio;
                if ratio < 1.0 && probability < NEGLIGIBLE * sum {
                    break;
                }
                if probability > LARGE {
                    values.iter_mut().for_each(|value| *value /= LARGE);
                    (probability, sum, integral) = (probability / LARGE, sum / LARGE, integral / LARGE);
                }
            }
            integral *= (missing + g) as f64 / (missing + g + behind + 1) as f64;
        }
        let total: f64 = values.iter().sum();
        values.iter_mut().for_each(|value| *value /= total);
        Self { first, lowest, width, count: values.len() / width, values }
    }
}

/// Unnormalised probabilities of this size are made smaller before they leave the range of numbers.
const LARGE: f64 = 1e200;

/// Shapes, d aside, that are remembered at most, and slots to find them in: a quarter of those stays empty.
const SHAPES: usize = 3 << 12;
const SLOTS: usize = 1 << 14;
/// The most numbers of all shapes.
const ALL_NUMBERS: usize = 1 << 19;

/// A cache of the probabilities of shapes met before. Results do not depend on what it holds.
#[derive(Default)]
pub struct Memory {
    slots: Vec<Known>,
    shapes: usize,
    /// The numbers of all shapes.
    numbers: Vec<f64>,
    /// The last of those that are not remembered.
    other: Probabilities<Vec<f64>>,
}

/// A shape that is remembered: the fields of its [`Probabilities`] except the numbers.
#[derive(Clone, Copy, Default)]
struct Known {
    /// 0 where there is none.
    key: u64,
    /// Where its numbers start.
    start: u32,
    first: u16,
    lowest: u16,
    width: u16,
    count: u16,
}

impl Memory {
    /// Returns the probabilities of a shape, whatever its d.
    #[inline(always)]
    pub fn probabilities(&mut self, shape: Shape) -> Probabilities<&[f64]> {
        let key = key(shape);
        if let Some(key) = key {
            let mut slot = slot(key);
            while let Some(known) = self.slots.get(slot).filter(|known| known.key != 0) {
                if known.key == key {
                    return self.of(*known);
                }
                slot = (slot + 1) % SLOTS;
            }
        }
        self.learn(shape, key)
    }

    /// The same, computed whether it is known or not.
    #[cold]
    #[inline(never)]
    pub fn compute(&mut self, shape: Shape) -> Probabilities<&[f64]> {
        self.other = Probabilities::new(shape);
        self.other.view()
    }

    #[inline(always)]
    fn of(&self, known: Known) -> Probabilities<&[f64]> {
        let [first, lowest, width, count] = [known.first, known.lowest, known.width, known.count].map(usize::from);
        let values = &self.numbers[known.start as usize..][..count * width];
        Probabilities { first, lowest, width, count, values }
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, shape: Shape, key: Option<u64>) -> Probabilities<&[f64]> {
        self.other = Probabilities::new(shape);
        let Probabilities { first, lowest, width, count, ref values } = self.other;
        let Some(key) = key.filter(|_| values.len() <= FEW_PROBABILITIES) else { return self.other.view() };
        if self.slots.is_empty() || self.shapes == SHAPES || self.numbers.len() + values.len() > ALL_NUMBERS {
            self.slots.clear();
            self.slots.resize(SLOTS, Known::default());
            self.numbers.clear();
            self.shapes = 0;
        }
        let mut slot = slot(key);
        while self.slots[slot].key != 0 {
            slot = (slot + 1) % SLOTS;
        }
        // The parts of a key are as short.
        let [first, lowest, width, count] = [first, lowest, width, count].map(|number| number as u16);
        let known = Known { key, start: self.numbers.len() as u32, first, lowest, width, count };
        self.slots[slot] = known;
        self.shapes += 1;
        self.numbers.extend(values);
        self.of(known)
    }
}

/// The key of a shape, whatever its d: never 0. `None` where it is too large to be remembered.
#[inline(always)]
fn key(shape: Shape) -> Option<u64> {
    let Shape { missing, only_here, only_there, both, .. } = shape;
    let parts = [missing, only_here, only_there, both];
    let short = parts.iter().all(|&part| part >> (KEY_BITS - 1) == 0);
    short.then(|| parts.iter().fold(0, |key, &part| key << KEY_BITS | part as u64))
}

/// Where the search for a shape begins.
#[inline(always)]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// The bits of each of four parts of a key.
const KEY_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_computed() {
        let mut memory = Memory::default();
        let mut least = usize::MAX;
        // More than there is room for, some of it too large to be remembered, and all of it twice.
        let numbers = || (0..30).flat_map(|a| (0..30).flat_map(move |b| (1..40).map(move |c| (a, b, c))));
        for (at, (only_here, only_there, both)) in numbers().chain(numbers()).enumerate() {
            let both = if both == 39 { 70_000 } else { both };
            let missing = 1 + at % 4;
            let shape = Shape { missing, only_here, only_there, both: both.max(missing), beyond: at };
            let expected = Probabilities::new(shape);
            let found = memory.probabilities(shape);
            assert_eq!((found.first, found.lowest), (expected.first, expected.lowest), "{shape:?}");
            assert_eq!((found.width, found.count), (expected.width, expected.count), "{shape:?}");
            assert_eq!(found.values, expected.values, "{shape:?}");
            let again = memory.probabilities(shape).values;
            assert_eq!(again, expected.values, "{shape:?}");
            if at > SHAPES {
                least = least.min(memory.shapes);
            }
        }
        assert!(least < 100, "nothing was forgotten: {least}");
    }
}
