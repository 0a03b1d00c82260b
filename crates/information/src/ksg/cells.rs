//! Pairs of columns of few distinct values, their levels: the terms of the tie-aware estimate from a table of cells.
//!
//! A cell is a pair of levels, and its points are duplicates. With the rows below every pair of levels summed up, the rows in
//! a rectangle of cells are four look-ups. The ball of a cell grows by one distance of its levels at a time until it holds
//! the k nearest; what is closer than the radius, and what is at it, by kind, are four rectangles. No point is compared.
//! Distances are those of f64, so none is in doubt, and the terms are those of [`Balls`](super::balls::Balls) to the last
//! bit.
//!
//! Cost: one step for each cell of the table, and for each cell with rows one step for each distance up to the radius.
//! Gain: row `Cells` of README.md (`cargo bench --bench shapes`).

use crate::digamma::Digamma;
use crate::levels::Levels;
use crate::ties;

use super::neighbourhood::{AT_ONCE, Neighbourhood};

/// The terms of the tie-aware estimate by row.
pub(super) fn tie_aware_terms(x: &Levels, y: &Levels, k: usize, digamma: &Digamma) -> Vec<f64> {
    let cells = Cells::new(x, y);
    let mut of_cells = Vec::with_capacity(cells.occupied.len());
    let (mut boundaries, mut expected) = (Vec::with_capacity(2 * AT_ONCE), Vec::new());
    for some in cells.occupied.chunks(AT_ONCE) {
        boundaries.clear();
        boundaries.extend(some.iter().flat_map(|&cell| cells.neighbourhood(cell, k).boundaries()));
        ties::expected_digammas(&boundaries, digamma, &mut expected);
        of_cells.extend(expected.chunks_exact(2).map(|psi| -(psi[0] + psi[1])));
    }
    cells.index.iter().map(|&index| of_cells[index as usize]).collect()
}

/// The cells of a pair.
struct Cells<'a> {
    x: &'a Levels,
    y: &'a Levels,
    /// The cells with rows, by their levels.
    occupied: Vec<[u32; 2]>,
    /// The index in `occupied` of each row's cell.
    index: Vec<u32>,
    /// Rows in the cells below a level of x and below one of y.
    below: Vec<u32>,
}

impl<'a> Cells<'a> {
    fn new(x: &'a Levels, y: &'a Levels) -> Self {
        let width = y.count() + 1;
        // One more than the number of the cell among those with rows.
        let mut numbers = vec![0_u32; width * x.count()];
        let mut below = vec![0_u32; width * (x.count() + 1)];
        let rows = x.of_rows().len();
        let (mut occupied, mut index) = (Vec::with_capacity(rows), Vec::with_capacity(rows));
        for (&at_x, &at_y) in x.of_rows().iter().zip(y.of_rows()) {
            let cell = at_x as usize * width + at_y as usize;
            below[cell + width + 1] += 1;
            let number = &mut numbers[cell];
            if *number == 0 {
                occupied.push([at_x, at_y]);
                *number = occupied.len() as u32;
            }
            index.push(*number - 1);
        }
        let (mut before, mut rest) = below.split_at_mut(width);
        while !rest.is_empty() {
            let (here, others) = rest.split_at_mut(width);
            let mut sum = 0;
            for (here, before) in here.iter_mut().zip(before.iter()) {
                sum += *here;
                *here = sum + before;
            }
            (before, rest) = (here, others);
        }
        Self { x, y, occupied, index, below }
    }

    /// Rows in a rectangle: levels from the first up to but without the second.
    #[inline(always)]
    fn rows(&self, [from_x, to_x]: [usize; 2], [from_y, to_y]: [usize; 2]) -> usize {
        let width = self.y.count() + 1;
        let below = |x: usize, y: usize| self.below[x * width + y];
        (below(to_x, to_y) + below(from_x, from_y) - below(from_x, to_y) - below(to_x, from_y)) as usize
    }

    /// Returns the neighbourhood of the points of a cell.
    fn neighbourhood(&self, [at_x, at_y]: [u32; 2], k: usize) -> Neighbourhood {
        let (at_x, at_y) = (at_x as usize, at_y as usize);
        let (values_x, values_y) = (self.x.padded(), self.y.padded());
        let (centre_x, centre_y) = (values_x[at_x + 1], values_y[at_y + 1]);
        // The levels that are closer than the radius and those that are not farther, from and up to.
        let (mut closer, mut near) = ([[at_x; 2], [at_y; 2]], [[at_x, at_x + 1], [at_y, at_y + 1]]);
        // The distances of the next on each side.
        let next = |[[from_x, to_x], [from_y, to_y]]: [[usize; 2]; 2]| {
            let in_x = [centre_x - values_x[from_x], values_x[to_x + 1] - centre_x];
            [in_x, [centre_y - values_y[from_y], values_y[to_y + 1] - centre_y]]
        };
        let mut beyond = next(near);
        let mut rows = self.rows(near[0], near[1]);
        let own = usize::from(rows > k);
        while rows <= k {
            closer = near;
            let least = |a: f64, b: f64| if a < b { a } else { b };
            let radius = least(least(beyond[0][0], beyond[0][1]), least(beyond[1][0], beyond[1][1]));
            // Once, unless rounding makes distances of several levels equal.
            loop {
                for (near, beyond) in near.iter_mut().zip(&beyond) {
                    near[0] -= usize::from(beyond[0] == radius);
                    near[1] += usize::from(beyond[1] == radius);
                }
                beyond = next(near);
                if !beyond.iter().flatten().fold(false, |any, &distance| any | (distance == radius)) {
                    break;
                }
            }
            rows = self.rows(near[0], near[1]);
        }
        // The point itself is closer, but where the radius is 0 among those at it.
        let closer_in_both = self.rows(closer[0], closer[1]);
        let [closer_x, closer_y] = [self.x.rows(closer[0]), self.y.rows(closer[1])];
        let only_x = self.rows(near[0], closer[1]) - closer_in_both;
        let only_y = self.rows(closer[0], near[1]) - closer_in_both;
        let both = rows - closer_in_both - only_x - only_y - own;
        let inside = closer_in_both + own - 1;
        Neighbourhood {
            closer: [closer_x + own - 1, closer_y + own - 1],
            closer_in_both: inside,
            only: [only_x, only_y],
            both,
            beyond: [
                self.x.rows(near[0]) - closer_x - only_x - both - own,
                self.y.rows(near[1]) - closer_y - only_y - both - own,
            ],
            missing: k - inside,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::{balls::Balls, terms};
    use super::*;
    use crate::neighbours::sorted::Sorted;

    /// Few values at unequal distances, some of which only rounding makes equal, each with any number of rows.
    fn levels() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![
            6 => (-6..6_i32).prop_map(|v| v as f32),
            3 => -3.0..3.0_f32,
            2 => (0..4_u32).prop_map(f32::from_bits),
            1 => prop_oneof![Just(1e38_f32), Just(-1e38), Just(-1e38_f32.next_up()), Just(1e30), Just(3e38), Just(-3e38)],
            1 => (-8..8_i32).prop_map(|exponent| 1.0 + 2_f32.powi(-3 * exponent.abs())),
        ];
        prop::collection::vec(value, 2..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn terms_have_the_bits_of_those_from_all_points(
            (levels_x, levels_y) in (levels(), levels()),
            rows in prop::collection::vec((0..1000_usize, 0..1000_usize, 0..4_u8), 12..700),
            k in 1..=10_usize,
        ) {
            // A quarter of the rows depend on each other.
            let of = |levels: &[f32], at: usize| levels[at * at / 1000 % levels.len()];
            let x: Vec<f32> = rows.iter().map(|row| of(&levels_x, row.0)).collect();
            let y: Vec<f32> = rows.iter().map(|row| of(&levels_y, if row.2 == 0 { row.0 } else { row.1 })).collect();
            let digamma = ties::digamma(rows.len());
            let [wide_x, wide_y] = [&x, &y].map(|column| column.iter().map(|&v| f64::from(v)).collect::<Vec<_>>());
            let [wide_x, wide_y] = [wide_x, wide_y].map(|column| Sorted::new(&column));
            let (x, y) = (Sorted::new(&x), Sorted::new(&y));
            let [of_x, of_y] = [&x, &y].map(|column| Levels::new(column).expect("few values"));
            let bits = |terms: Vec<f64>| terms.into_iter().map(f64::to_bits).collect::<Vec<_>>();
            let expected = bits(tie_aware_terms(&of_x, &of_y, k, &digamma));
            prop_assert_eq!(&expected, &bits(terms::tie_aware_terms(&Balls::new(&x, &y, k), &digamma)));
            prop_assert_eq!(&expected, &bits(terms::tie_aware_terms(&Balls::new(&wide_x, &wide_y, k), &digamma)));
            prop_assert_eq!(&expected, &bits(tie_aware_terms(&of_y, &of_x, k, &digamma)));
        }
    }
}
