//! Pairs of scalars as points of a plane, in the order of one coordinate.

use std::cell::OnceCell;

use super::lanes::Real;
use super::padded::MARGIN;
use super::sorted::Sorted;

/// Points of the plane in the order of x.
pub struct Plane<'a, T> {
    x: &'a Sorted<T>,
    y: &'a Sorted<T>,
    /// The position in y's order of the point at each position in x's.
    rank_y: Vec<u32>,
    /// y of each point, with [`MARGIN`] unused ones at either end.
    across: Vec<T>,
    transposed: OnceCell<Box<Self>>,
}

impl<'a, T: Real> Plane<'a, T> {
    /// `x` and `y` are columns of the same rows.
    pub fn new(x: &'a Sorted<T>, y: &'a Sorted<T>) -> Self {
        let (rows, ranks, values) = (x.rows(), y.ranks(), y.values());
        assert_eq!(rows.len(), ranks.len(), "the columns are of the same rows");
        let mut rank_y = vec![0; rows.len()];
        let mut across = vec![T::default(); x.padded().with_margins().len()];
        for ((&row, rank_y), across) in rows.iter().zip(&mut rank_y).zip(&mut across[MARGIN..]) {
            // SAFETY: rows and ranks of a `Sorted` are permutations of its positions, and both columns have as many.
            (*rank_y, *across) = unsafe {
                let rank = *ranks.get_unchecked(row as usize);
                (rank, *values.get_unchecked(rank as usize))
            };
        }
        Self { x, y, rank_y, across, transposed: OnceCell::new() }
    }

    /// The same points in the order of y, computed on first use.
    pub fn transposed(&self) -> &Self {
        self.transposed.get_or_init(|| Box::new(Self::new(self.y, self.x)))
    }

    pub fn sorted_x(&self) -> &'a Sorted<T> {
        self.x
    }

    pub fn sorted_y(&self) -> &'a Sorted<T> {
        self.y
    }

    /// The position in y's order of each point.
    pub fn rank_y(&self) -> &[u32] {
        &self.rank_y
    }

    /// x of each point, ascending.
    pub fn x(&self) -> &[T] {
        self.x.values()
    }

    /// y of each point.
    pub fn across(&self) -> &[T] {
        &self.across[MARGIN..MARGIN + self.rank_y.len()]
    }

    /// y of each point, with [`MARGIN`] unused ones at either end.
    pub fn across_with_margins(&self) -> &[T] {
        &self.across
    }

    /// The radii that belong to the positions in x's order, in y's; as long as what is given.
    pub fn radii_in_y(&self, radii: &[T]) -> Vec<T> {
        let mut in_y = vec![T::default(); radii.len()];
        for (&rank, &radius) in self.rank_y.iter().zip(radii) {
            in_y[rank as usize] = radius;
        }
        in_y
    }

    /// Positions in y's order, ascending, of the points at those in x's order.
    pub fn positions_in_y(&self, positions: &[u32]) -> Vec<u32> {
        let mut in_y: Vec<u32> = positions.iter().map(|&at| self.rank_y[at as usize]).collect();
        in_y.sort_unstable();
        in_y
    }
}
