//! P(p, e) of a shape, d aside, and what is remembered of shapes met before: a table of bounded size, in which a shape has
//! one place. Working one out takes some 250 ns, finding it about 2.

use super::{NEGLIGIBLE, Shape};

/// P(p, e) of a shape, d aside.
#[derive(Default)]
pub struct Chances {
    /// The least p and the least e that there are.
    pub first: usize,
    pub lowest: usize,
    /// How many e there are.
    pub width: usize,
    /// How many p there are.
    pub count: usize,
    /// P(first, lowest), P(first, lowest + 1), …, then those of the next p.
    pub of: Vec<f64>,
}

impl Chances {
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

/// Shapes, d aside, that are remembered at most, and the most numbers of one of them.
const SHAPES: usize = 1 << 13;
pub const NUMBERS: usize = 1 << 7;

/// What is remembered of shapes met before. What is found does not depend on it.
#[derive(Default)]
pub struct Memory {
    /// What a shape is known by; 0 where there is none.
    keys: Vec<u64>,
    known: Vec<Chances>,
    /// The last of those that are not remembered.
    other: Chances,
}

impl Memory {
    /// Of a shape, whatever its d.
    #[inline(always)]
    pub fn chances(&mut self, shape: Shape) -> &Chances {
        let Shape { missing, only_here, only_there, both, .. } = shape;
        let parts = [missing, only_here, only_there, both];
        let key = parts.iter().fold(0, |key, &part| key << KEY_BITS | part as u64);
        let slot = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - SHAPES.ilog2())) as usize;
        if self.keys.get(slot) == Some(&key) && parts.iter().all(|&part| part >> KEY_BITS == 0) {
            return &self.known[slot];
        }
        self.learn(shape, key, slot)
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, shape: Shape, key: u64, slot: usize) -> &Chances {
        if self.keys.is_empty() {
            self.keys.resize(SHAPES, 0);
            self.known.resize_with(SHAPES, Chances::default);
        }
        let chances = Chances::new(shape);
        let Shape { missing, only_here, only_there, both, .. } = shape;
        let short = [missing, only_here, only_there, both].iter().all(|&part| part >> KEY_BITS == 0);
        if short && chances.of.len() <= NUMBERS {
            self.keys[slot] = key;
            self.known[slot] = chances;
            return &self.known[slot];
        }
        self.other = chances;
        &self.other
    }
}

/// Of each of four parts of a key.
const KEY_BITS: u32 = 16;
