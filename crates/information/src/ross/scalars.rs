//! Ross's estimator for scalars: the k_i-th neighbour of the class is among the k_i before and the k_i behind in the order
//! of the class, and the others are counted in the order of all.

use std::ops::Range;

use rustc_hash::FxHashMap;

use crate::neighbours::by_class;
use crate::neighbours::count_within::{Count, boundary, inside};
use crate::neighbours::lanes::{Real, far};
use crate::neighbours::padded::Padded;
use crate::neighbours::sorted::Sorted;
use crate::value::Estimate;

use super::boundary::Boundary;
use super::classes::Classes;
use super::terms::Terms;

impl Terms<'_> {
    /// I(x; label).
    pub fn of_column<T: Real>(self, x: &Sorted<T>, classes: &Classes) -> Estimate {
        let included;
        let column = match classes.left_out.is_empty() {
            true => Included { padded: x.padded(), rows: x.rows() },
            false => {
                let in_order = x.rows().iter().zip(x.values());
                let pairs = in_order.filter(|&(&row, _)| classes.neighbours_of(row as usize).is_some());
                let (rows, values): (Vec<u32>, Vec<T>) = pairs.map(|(&row, &value)| (row, value)).unzip();
                included = (rows, Padded::new(values.into_iter()));
                Included { padded: &included.1, rows: &included.0 }
            }
        };
        let of: Vec<u32> = column.rows.iter().map(|&row| classes.label.classes()[row as usize]).collect();
        let radii = by_class::radii(column.padded.values(), &of, classes.label.sizes(), &classes.neighbours);
        let inside = inside(column.padded, &radii);
        let of_class: Vec<f64> = (0..classes.neighbours.len()).map(|class| self.of_class(classes, class)).collect();
        let mut terms = vec![0.0; x.rows().len()];
        let digamma = self.digamma.from(1);
        let is_tied = |count: Count, radius: T| (count.edges() != 1) | (radius.widen() == 0.0);
        let mut any_tied = false;
        // First every term as if one distance alone equalled its radius: where more do is unpredictable, so no branch
        // depends on it.
        for ((&row, &class), (&count, &radius)) in column.rows.iter().zip(&of).zip(inside.counts().iter().zip(&radii)) {
            terms[row as usize] = of_class[class as usize] - digamma[count.closer() as usize];
            any_tied |= is_tied(count, radius);
        }
        if any_tied {
            let mut of_duplicates: FxHashMap<(u64, u32), f64> = FxHashMap::default();
            let tied = (0..of.len()).filter(|&at| is_tied(inside.counts()[at], radii[at]));
            for at in tied {
                let class = of[at];
                let boundary = || {
                    let k = classes.neighbours[class as usize];
                    column.boundary(at, radii[at], inside.range(at), &of, k)
                };
                terms[column.rows[at] as usize] = if radii[at].widen() == 0.0 {
                    // Duplicates of one class have the same term.
                    let value = (column.padded.values()[at].widen().to_bits(), class);
                    *of_duplicates.entry(value).or_insert_with(|| self.term(classes, class as usize, boundary()))
                } else {
                    self.term(classes, class as usize, boundary())
                };
            }
        }
        self.estimate(classes, terms)
    }
}

/// A sorted column without the rows that are left out.
struct Included<'a, T> {
    padded: &'a Padded<T>,
    rows: &'a [u32],
}

impl<T: Real> Included<'_, T> {
    /// Returns the boundary about position `at`, whose class is `of[at]`, out to the `k`-th of that class. `closer` are
    /// the positions closer than `radius`.
    fn boundary(&self, at: usize, radius: T, closer: Range<usize>, of: &[u32], k: usize) -> Boundary {
        let values = self.padded.values();
        let (before, behind) = boundary(values, at, radius, closer.clone());
        let is_own = |other: &usize| of[*other] == of[at];
        let wide = |other: usize| far(values[other], values[at]);
        let missing = k + 1 - closer.clone().filter(is_own).count();
        // Rounded to f32, distances may seem equal that are not: the radius is the one in f64 that has its position.
        let mut own: Vec<f64> = before.clone().chain(behind.clone()).filter(is_own).map(wide).collect();
        let exact = *own.select_nth_unstable_by(missing - 1, f64::total_cmp).1;
        let at_radius = |distance: f64| usize::from(distance == exact);
        let near = |distance: f64| usize::from(distance < exact);
        let others = || before.clone().chain(behind.clone()).map(wide);
        Boundary {
            closer: closer.len() - 1 + others().map(near).sum::<usize>(),
            at_radius: others().map(at_radius).sum(),
            own: own.iter().map(|&distance| at_radius(distance)).sum(),
            missing: missing - own.iter().map(|&distance| near(distance)).sum::<usize>(),
            is_zero: exact == 0.0,
        }
    }
}
