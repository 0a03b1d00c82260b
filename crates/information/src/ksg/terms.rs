//! The terms of the tie-aware estimate of a pair of scalars: from the counts where no more than one distance equals the
//! radius, as mostly, and from the neighbourhood of a point where ties leave them open.

use crate::digamma::Digamma;
use crate::neighbours::boundary::{self, AtRadius, Side};
use crate::neighbours::count_within::{Count, Inside};
use crate::neighbours::lanes::Real;
use crate::neighbours::sorted::Sorted;
use crate::ties;

use super::balls::Balls;
use super::duplicates::Duplicates;
use super::neighbourhood::{AT_ONCE, Neighbourhood};
use super::rounded::Near;

/// The terms by row.
pub(super) fn tie_aware_terms<T: Real>(balls: &Balls<T>, digamma: &Digamma) -> Vec<f64> {
    let (x, y) = (balls.x, balls.y);
    let mut terms = vec![0.0; x.rows().len()];
    if !closed_terms((x, &balls.in_x), (y, &balls.in_y), digamma.from(1), &mut terms) {
        return terms;
    }
    let open = balls.open();
    let transposed = balls.plane.transposed();
    let Duplicates { distinct, index } = Duplicates::of_open(&balls.plane, &open);
    let distinct: Vec<u32> = distinct.into_iter().map(|(first, _)| first).collect();
    let side_x = Side { column: x, plane: &balls.plane, inside: &balls.in_x };
    let side_y = Side { column: y, plane: transposed, inside: &balls.in_y };
    let mut of_distinct = Vec::with_capacity(distinct.len());
    let (mut boundaries, mut expected, mut near) = (Vec::new(), Vec::new(), Near::default());
    for some in distinct.chunks(AT_ONCE) {
        boundaries.clear();
        for (&at, at_radius) in some.iter().zip(boundary::at_radius(side_x, side_y, &balls.found.radii, some)) {
            let at = at as usize;
            let neighbourhood = match at_radius {
                Some(at_radius) => balls.neighbourhood(at, at_radius),
                None => balls.neighbourhood_in_f64(at, transposed, &mut near),
            };
            boundaries.extend(neighbourhood.complete(balls.k).boundaries());
        }
        ties::expected_digammas(&boundaries, digamma, &mut expected);
        of_distinct.extend(expected.chunks_exact(2).map(|psi| -(psi[0] + psi[1])));
    }
    for (&at, index) in open.iter().zip(index) {
        terms[x.rows()[at as usize] as usize] = of_distinct[index as usize];
    }
    terms
}

/// −(ψ(n_x + 1) + ψ(n_y + 1)) of each row, and whether ties leave that open for any. A side is a column and the counts at
/// each of its positions; `digamma` is ψ(1), ψ(2), …
fn closed_terms<T>(x: (&Sorted<T>, &Inside), y: (&Sorted<T>, &Inside), digamma: &[f64], terms: &mut [f64]) -> bool
where
    T: Real,
{
    let rows = terms.len();
    let [(ranks_x, counts_x), (ranks_y, counts_y)] = [x, y].map(|(column, inside)| (column.ranks(), inside.counts()));
    assert!(ranks_x.len() == rows && ranks_y.len() == rows);
    assert!(counts_x.len() >= rows && counts_y.len() >= rows);
    let most = |counts: &[Count]| counts[..rows].iter().fold(0, |most, count| most.max(count.closer())) as usize;
    assert!(rows == 0 || most(counts_x).max(most(counts_y)) < digamma.len());
    let mut open = false;
    for row in 0..rows {
        // SAFETY: the ranks of a `Sorted` are a permutation of its positions, of which there are as many as rows and no more
        // than counts; and no count at those positions reaches the end of `digamma`.
        let (near_x, near_y, psi_x, psi_y) = unsafe {
            let near_x = *counts_x.get_unchecked(ranks_x[row] as usize);
            let near_y = *counts_y.get_unchecked(ranks_y[row] as usize);
            let psi = |near: Count| *digamma.get_unchecked(near.closer() as usize);
            (near_x, near_y, psi(near_x), psi(near_y))
        };
        open |= near_x.is_open(near_y);
        terms[row] = -(psi_x + psi_y);
    }
    open
}

impl<T: Real> Balls<'_, T> {
    /// Returns the neighbourhood of the point at position `at`, from the points at its radius in x and in y.
    fn neighbourhood(&self, at: usize, at_radius: [AtRadius; 2]) -> Neighbourhood {
        Neighbourhood {
            closer: [self.in_x.closer(at), self.in_y.closer(self.rank_y(at))],
            closer_in_both: self.k - self.found.at_radius[at] as usize,
            only: at_radius.map(|side| side.closer as usize),
            both: at_radius[0].both as usize,
            beyond: at_radius.map(|side| side.beyond as usize),
            missing: 0,
        }
    }
}
