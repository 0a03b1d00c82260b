//! Two variables in units in which their spreads are alike: see [`spread`](crate::spread).

use std::borrow::Cow;

use crate::levels::Levels;
use crate::neighbours::rows::Block;
use crate::neighbours::sorted::Sorted;
use crate::spread::{exponent, nearest_exponent, power_of_two};
use crate::variable::{Continuous, Scalar};

/// Differences of numbers below 2 to this are far from the largest.
const LARGEST_EXPONENT: i32 = 1000;

/// A variable in units of its own times a power of two, at least 1.
#[derive(Clone, Copy)]
pub(super) struct Scaled<V> {
    variable: V,
    factor: f64,
}

/// Both in common units: the one of the smaller spread is multiplied, so that nothing is rounded to 0.
pub(super) fn in_common_units<'a>(x: Continuous<'a>, y: Continuous<'a>) -> [Scaled<Continuous<'a>>; 2] {
    let octaves = match [x.spread(), y.spread()] {
        [of_x, of_y] if of_x > 0.0 && of_y > 0.0 => nearest_exponent(of_x, of_y),
        _ => 0,
    };
    let scaled = |variable: Continuous<'a>, octaves: i32| {
        if octaves <= 0 {
            return Scaled { variable, factor: 1.0 };
        }
        let largest = variable.coordinates().flatten().fold(0.0, |largest: f64, value| largest.max(value.abs()));
        let octaves = octaves.min(LARGEST_EXPONENT - exponent(largest)).max(0);
        Scaled { variable, factor: power_of_two(octaves) }
    };
    [scaled(x, -octaves), scaled(y, octaves)]
}

impl<'a> Scaled<Continuous<'a>> {
    pub(super) fn scalar(self) -> Option<Scaled<&'a Scalar>> {
        match self.variable {
            Continuous::Scalar(variable) => Some(Scaled { variable, factor: self.factor }),
            Continuous::Vector(_) => None,
        }
    }

    pub(super) fn block(self) -> Cow<'a, Block> {
        match self.variable {
            Continuous::Vector(vector) if self.factor == 1.0 => Cow::Borrowed(vector.block()),
            variable => {
                let values = variable.coordinates().flatten().map(|value| value * self.factor);
                Cow::Owned(Block::new(values.collect(), variable.rows()))
            }
        }
    }
}

impl<'a> Scaled<&'a Scalar> {
    pub(super) fn sorted(self) -> Cow<'a, Sorted<f64>> {
        let sorted = self.variable.sorted();
        let scaled = if self.factor == 1.0 { None } else { sorted.scaled(self.factor) };
        scaled.map_or(Cow::Borrowed(sorted), Cow::Owned)
    }

    /// In float32, where that loses nothing.
    pub(super) fn compact(self) -> Option<Cow<'a, Sorted<f32>>> {
        let compact = self.variable.compact()?;
        if self.factor == 1.0 { Some(Cow::Borrowed(compact)) } else { compact.scaled(self.factor).map(Cow::Owned) }
    }

    /// The distinct values, where they are few.
    pub(super) fn levels(self) -> Option<Cow<'a, Levels>> {
        let levels = self.variable.levels()?;
        Some(if self.factor == 1.0 { Cow::Borrowed(levels) } else { Cow::Owned(levels.scaled(self.factor)) })
    }
}
