//! A column in ascending order, which everything about it follows from: ranks, equal places, how far apart they stand.

use std::sync::OnceLock;

use super::lanes::Real;

/// Unused places at either end, infinitely far, so that a group of lanes may read beyond the column.
pub const MARGIN: usize = 64;

/// A column in ascending order.
#[derive(Clone, Debug)]
pub struct Sorted<T> {
    /// The places with [`MARGIN`] unused ones at either end.
    padded: Vec<T>,
    rows: Vec<u32>,
    ranks: Vec<u32>,
    runs: OnceLock<Box<Runs>>,
    gaps: OnceLock<Box<Gaps>>,
}

/// Equal places of a column.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Where those equal to the place at each position start and end.
    pub bounds: Vec<[u32; 2]>,
    /// How many ordered pairs of different rows are equal.
    pub equal_pairs: f64,
}

/// How far apart the places of a column stand, in about half octaves: two more is twice as far.
#[derive(Clone, Debug)]
pub struct Gaps {
    /// About each place.
    pub about: Vec<u16>,
    pub least: u16,
    pub most: u16,
}

/// Places on either side that a gap is the mean of.
const AROUND: usize = 16;

impl<T: Real> Sorted<T> {
    /// Equal values keep the order of their rows.
    pub fn new(column: &[T]) -> Self {
        let mut pairs: Vec<(T, u32)> = column.iter().copied().zip(0..).collect();
        pairs.sort_unstable_by(|a, b| a.0.order(&b.0).then(a.1.cmp(&b.1)));
        let mut ranks = vec![0; pairs.len()];
        for (&(_, row), rank) in pairs.iter().zip(0..) {
            ranks[row as usize] = rank;
        }
        let padded = with_margin(pairs.iter().map(|pair| pair.0));
        Self {
            padded,
            rows: pairs.iter().map(|pair| pair.1).collect(),
            ranks,
            runs: OnceLock::new(),
            gaps: OnceLock::new(),
        }
    }

    /// Ascending.
    pub fn places(&self) -> &[T] {
        &self.padded[MARGIN..MARGIN + self.rows.len()]
    }

    /// [`Self::places`] with −∞ and +∞ at either end, [`MARGIN`] times each.
    pub fn padded(&self) -> &[T] {
        &self.padded
    }

    /// The row at each position of [`Self::places`].
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Which places are equal. Worked out when first asked for.
    pub fn runs(&self) -> &Runs {
        self.runs.get_or_init(|| {
            let mut bounds = Vec::with_capacity(self.rows.len());
            let mut equal_pairs = 0.0;
            for equal in self.places().chunk_by(|a, b| a == b) {
                let (start, length) = (bounds.len() as u32, equal.len() as u32);
                bounds.resize(bounds.len() + equal.len(), [start, start + length]);
                equal_pairs += f64::from(length) * f64::from(length - 1);
            }
            Box::new(Runs { bounds, equal_pairs })
        })
    }

    /// How far apart places stand. Worked out when first asked for.
    pub fn gaps(&self) -> &Gaps {
        self.gaps.get_or_init(|| {
            let (places, last) = (self.places(), self.rows.len().saturating_sub(1));
            let about = |at: usize| {
                let (from, to) = (at.saturating_sub(AROUND), (at + AROUND).min(last));
                let gap = (places[to].widen() - places[from].widen()) / (to - from).max(1) as f64;
                // The exponent and the first digit behind it.
                (gap.to_bits() >> (f64::MANTISSA_DIGITS - 2)) as u16
            };
            let about: Vec<u16> = (0..places.len()).map(about).collect();
            let (least, most) = (about.iter().min(), about.iter().max());
            let (least, most) = (least.map_or(0, |&least| least), most.map_or(0, |&most| most));
            Box::new(Gaps { about, least, most })
        })
    }

    /// The position of each row in [`Self::places`].
    pub fn ranks(&self) -> &[u32] {
        &self.ranks
    }
}

/// Places with a margin at either end.
pub fn with_margin<T: Real>(places: impl Iterator<Item = T>) -> Vec<T> {
    let mut padded = Vec::with_capacity(places.size_hint().0 + 2 * MARGIN);
    padded.resize(MARGIN, T::LOWEST);
    padded.extend(places);
    padded.resize(padded.len() + MARGIN, T::INFINITY);
    padded
}
