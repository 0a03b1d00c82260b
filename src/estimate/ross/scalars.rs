//! Ross's estimator for scalars: the k_i-th neighbour of the class is among the k_i before and the k_i behind in the order
//! of the class, and the others are counted in the order of all.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::{Border, Classes, Terms};
use crate::estimate::Estimate;
use crate::estimate::neighbours::by_class;
use crate::estimate::neighbours::inside::{Count, border, inside};
use crate::estimate::neighbours::lanes::{Real, far};
use crate::estimate::neighbours::sorted::{MARGIN, Sorted, with_margin};

impl Terms<'_> {
    /// I(x; label).
    pub fn of_column<T: Real>(self, x: &Sorted<T>, classes: &Classes) -> Estimate {
        let kept;
        let column = match classes.left_out.is_empty() {
            true => Kept { padded: x.padded(), rows: x.rows() },
            false => {
                let in_order = x.rows().iter().zip(x.places());
                let pairs = in_order.filter(|&(&row, _)| classes.neighbours_of(row as usize).is_some());
                let (rows, places): (Vec<u32>, Vec<T>) = pairs.map(|(&row, &place)| (row, place)).unzip();
                kept = (rows, with_margin(places.into_iter()));
                Kept { padded: &kept.1, rows: &kept.0 }
            }
        };
        let of: Vec<u32> = column.rows.iter().map(|&row| classes.label.classes()[row as usize]).collect();
        let radii = by_class::radii(column.places(), &of, classes.label.sizes(), &classes.neighbours);
        let inside = inside(column.padded, &radii);
        let of_class: Vec<f64> = (0..classes.neighbours.len()).map(|class| self.of_class(classes, class)).collect();
        let mut terms = vec![0.0; x.rows().len()];
        let digamma = self.digamma.from(1);
        let is_tied = |count: Count, radius: T| (count.edges() != 1) | (radius.widen() == 0.0);
        let mut any_tied = false;
        // First every term as if one distance alone equalled its radius: where more do is up to chance, so no branch
        // depends on it.
        for ((&row, &class), (&count, &radius)) in column.rows.iter().zip(&of).zip(inside.counts().iter().zip(&radii)) {
            terms[row as usize] = of_class[class as usize] - digamma[count.closer() as usize];
            any_tied |= is_tied(count, radius);
        }
        if any_tied {
            let mut of_points: FxHashMap<(u64, u32), f64> = FxHashMap::default();
            let tied = (0..of.len()).filter(|&at| is_tied(inside.counts()[at], radii[at]));
            for at in tied {
                let class = of[at];
                let border = || {
                    let k = classes.neighbours[class as usize];
                    column.border(at, radii[at], inside.range(at), &of, k)
                };
                terms[column.rows[at] as usize] = if radii[at].widen() == 0.0 {
                    // Identical points of a class have identical terms.
                    let point = (column.places()[at].widen().to_bits(), class);
                    *of_points.entry(point).or_insert_with(|| self.term(classes, class as usize, border()))
                } else {
                    self.term(classes, class as usize, border())
                };
            }
        }
        self.estimate(classes, terms)
    }
}

/// A sorted column without the rows that are left out.
struct Kept<'a, T> {
    padded: &'a [T],
    rows: &'a [u32],
}

impl<T: Real> Kept<'_, T> {
    fn places(&self) -> &[T] {
        &self.padded[MARGIN..MARGIN + self.rows.len()]
    }

    /// What lies about position `at`, whose class is `of[at]`, out to the `k`-th of that class. `closer` are the
    /// positions closer than `radius`.
    fn border(&self, at: usize, radius: T, closer: Range<usize>, of: &[u32], k: usize) -> Border {
        let places = self.places();
        let (before, behind) = border(places, at, radius, closer.clone());
        let own = |other: &usize| of[*other] == of[at];
        let wide = |other: usize| far(places[other], places[at]);
        let missing = k + 1 - closer.clone().filter(own).count();
        // Rounded to f32, distances may seem equal that are not: the radius is the one in f64 that has its place.
        let mut same: Vec<f64> = before.clone().chain(behind.clone()).filter(own).map(wide).collect();
        let exact = *same.select_nth_unstable_by(missing - 1, f64::total_cmp).1;
        let level = |distance: f64| usize::from(distance == exact);
        let near = |distance: f64| usize::from(distance < exact);
        let others = || before.clone().chain(behind.clone()).map(wide);
        Border {
            closer: closer.len() - 1 + others().map(near).sum::<usize>(),
            level: others().map(level).sum(),
            same: same.iter().map(|&distance| level(distance)).sum(),
            missing: missing - same.iter().map(|&distance| near(distance)).sum::<usize>(),
            point: exact == 0.0,
        }
    }
}
