//! P(p, e) of a shape, d aside, and what is remembered of shapes met before: a table of bounded size, and the numbers of
//! all shapes one after the other. Where there is no more room, all is forgotten. Working one out takes some 250 ns,
//! finding it about 2.
//!
//! Columns of some 25 levels have 7,000 shapes. In a table with one place for each shape, of 8,192, every seventh was worked
//! out anew, and its numbers stood anywhere: the sums as a whole took a third longer.

use super::{NEGLIGIBLE, Shape};

/// P(p, e) of a shape, d aside. `Of` is a list of numbers.
#[derive(Clone, Copy, Default)]
pub struct Chances<Of> {
    /// The least p and the least e that there are.
    pub first: usize,
    pub lowest: usize,
    /// How many e there are.
    pub width: usize,
    /// How many p there are.
    pub count: usize,
    /// P(first, lowest), P(first, lowest + 1), …, then those of the next p.
    pub of: Of,
}

impl Chances<Vec<f64>> {
    pub fn view(&self) -> Chances<&[f64]> {
        let &Self { first, lowest, width, count, ref of } = self;
        Chances { first, lowest, width, count, of }
    }

    /// Worked out from nothing.
    pub fn new(shape: Shape) -> Self {
        let Shape { missing, only_here, only_there, both, .. } = shape;
        let level = only_here + only_there + both;
        let behind = level - missing;
        // C(n, 0) … C(n, k'), in a unit that keeps the products of three, k' chosen in all, in the range of numbers.
        let unit = missing as f64 / (std::f64::consts::E * level as f64);
        let size = missing + 1;
        let mut choices = vec![1.0; 3 * size];
        for (choices, n) in choices.chunks_exact_mut(size).zip([only_here, only_there, both]) {
            for chosen in 0..missing {
                choices[chosen + 1] = choices[chosen] * (n.saturating_sub(chosen) as f64 / (chosen + 1) as f64 * unit);
            }
        }
        // The ways by g, the points of kind c up to the border, and by e. Then p = k' − 1 + g + δ, and the δ are of c
        // − g.
        let mut ways = vec![0.0; size * size];
        // The least g, and the least and the highest e, that there are ways for.
        let (mut least, mut lowest, mut highest) = (missing, missing, 0);
        for g in 0..=missing.min(both) {
            for beta in 0..=missing - g {
                // The border is any of the k' points, one of which is the last.
                let alpha = missing - g - beta;
                let all = choices[alpha] * choices[size + beta] * choices[2 * size + g];
                if all == 0.0 {
                    continue;
                }
                ways[g * size + beta + g] += (alpha + g) as f64 * all;
                least = least.min(g);
                if alpha + g > 0 {
                    (lowest, highest) = (lowest.min(beta + g), highest.max(beta + g));
                }
                if beta + g > 0 {
                    // One of kind c stands at its distance in this variable or, after that one, in the other.
                    ways[g * size + beta + g - 1] += (beta + g) as f64 * all;
                    (lowest, highest) = (lowest.min(beta + g - 1), highest.max(beta + g - 1));
                }
            }
        }
        let (first, width) = (missing - 1 + least, highest - lowest + 1);
        let mut of: Vec<f64> = Vec::with_capacity((both - least + 1).min(NUMBERS) * width);
        // ∫ tᵖ(1 − t)^q dt in a unit of its own, p = k' − 1 + g.
        let mut integral = 1.0;
        for (g, ways) in ways.chunks_exact(size).enumerate().take(missing.min(both) + 1).skip(least) {
            let (mut chance, mut sum) = (integral, 0.0);
            for delta in 0..=both - g {
                let p = missing - 1 + g + delta;
                let start = (p - first) * width;
                if of.len() == start {
                    of.resize(start + width, 0.0);
                }
                for (of, ways) in of[start..].iter_mut().zip(&ways[lowest..]) {
                    *of += chance * ways;
                }
                sum += chance;
                let ratio = (both - g - delta) as f64 / (delta + 1) as f64 * ((p + 1) as f64 / (p + behind + 2) as f64);
                chance *= ratio;
                if ratio < 1.0 && chance < NEGLIGIBLE * sum {
                    break;
                }
                if chance > LARGE {
                    of.iter_mut().for_each(|of| *of /= LARGE);
                    (chance, sum, integral) = (chance / LARGE, sum / LARGE, integral / LARGE);
                }
            }
            integral *= (missing + g) as f64 / (missing + g + behind + 1) as f64;
        }
        let total: f64 = of.iter().sum();
        of.iter_mut().for_each(|of| *of /= total);
        Self { first, lowest, width, count: of.len() / width, of }
    }
}

/// Chances of this size are made smaller before they grow out of the range of numbers.
const LARGE: f64 = 1e200;

/// Shapes, d aside, that are remembered at most, and where they are looked for: a quarter of that stays empty.
const SHAPES: usize = 3 << 12;
const SLOTS: usize = 1 << 14;
/// The most numbers of one of them, and of all.
pub const NUMBERS: usize = 1 << 7;
const ALL_NUMBERS: usize = 1 << 19;

/// What is remembered of shapes met before. What is found does not depend on it.
#[derive(Default)]
pub struct Memory {
    slots: Vec<Known>,
    shapes: usize,
    /// Of all shapes.
    numbers: Vec<f64>,
    /// The last of those that are not remembered.
    other: Chances<Vec<f64>>,
}

/// A shape that is remembered: what there is of its [`Chances`] but the numbers.
#[derive(Clone, Copy, Default)]
struct Known {
    /// What it is known by; 0 where there is none.
    key: u64,
    /// Where its numbers start.
    start: u32,
    first: u16,
    lowest: u16,
    width: u16,
    count: u16,
}

impl Memory {
    /// Of a shape, whatever its d.
    #[inline(always)]
    pub fn chances(&mut self, shape: Shape) -> Chances<&[f64]> {
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

    #[inline(always)]
    fn of(&self, known: Known) -> Chances<&[f64]> {
        let [first, lowest, width, count] = [known.first, known.lowest, known.width, known.count].map(usize::from);
        let of = &self.numbers[known.start as usize..][..count * width];
        Chances { first, lowest, width, count, of }
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, shape: Shape, key: Option<u64>) -> Chances<&[f64]> {
        self.other = Chances::new(shape);
        let Chances { first, lowest, width, count, ref of } = self.other;
        let Some(key) = key.filter(|_| of.len() <= NUMBERS) else { return self.other.view() };
        if self.slots.is_empty() || self.shapes == SHAPES || self.numbers.len() + of.len() > ALL_NUMBERS {
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
        self.numbers.extend(of);
        self.of(known)
    }
}

/// What a shape is known by, whatever its d: all of it, and never 0. `None` where it is too large to be remembered.
#[inline(always)]
fn key(shape: Shape) -> Option<u64> {
    let Shape { missing, only_here, only_there, both, .. } = shape;
    let parts = [missing, only_here, only_there, both];
    let short = parts.iter().all(|&part| part >> (KEY_BITS - 1) == 0);
    short.then(|| parts.iter().fold(0, |key, &part| key << KEY_BITS | part as u64))
}

/// Where a shape is looked for first.
#[inline(always)]
fn slot(key: u64) -> usize {
    (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SLOTS.ilog2())) as usize
}

/// Of each of four parts of a key.
const KEY_BITS: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_what_was_worked_out() {
        let mut memory = Memory::default();
        let mut least = usize::MAX;
        // More than there is room for, some of it too large to be remembered, and all of it twice.
        let numbers = || (0..30).flat_map(|a| (0..30).flat_map(move |b| (1..40).map(move |c| (a, b, c))));
        for (at, (only_here, only_there, both)) in numbers().chain(numbers()).enumerate() {
            let both = if both == 39 { 70_000 } else { both };
            let missing = 1 + at % 4;
            let shape = Shape { missing, only_here, only_there, both: both.max(missing), beyond: at };
            let expected = Chances::new(shape);
            let found = memory.chances(shape);
            assert_eq!((found.first, found.lowest), (expected.first, expected.lowest), "{shape:?}");
            assert_eq!((found.width, found.count), (expected.width, expected.count), "{shape:?}");
            assert_eq!(found.of, expected.of, "{shape:?}");
            let again = memory.chances(shape).of;
            assert_eq!(again, expected.of, "{shape:?}");
            if at > SHAPES {
                least = least.min(memory.shapes);
            }
        }
        assert!(least < 100, "nothing was forgotten: {least}");
    }
}
