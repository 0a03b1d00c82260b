//! The terms of all rows, gathered stratum by stratum.

use crate::elementwise;
use crate::sum;
use crate::undefined::Undefined;
use crate::value::Estimate;

use super::shared::Shared;

/// An estimate of I(X;Y|C), and how many rows it could not use.
#[derive(Clone, Debug, PartialEq)]
pub struct Conditional {
    /// Never clipped. The influences of rows left out are 0.
    pub estimate: Estimate,
    /// Rows left out, ascending: those alone in their class and stratum.
    pub left_out: Vec<u32>,
    /// Factor by which the influences are widened for the variance that rows share with their neighbours.
    pub widened: f64,
}

/// The contribution of a stratum.
pub(super) struct Found {
    /// The term of each of its rows: their mean over the rows kept is the stratum's information.
    pub(super) terms: Vec<f64>,
    /// Variance of that mean over repeats.
    draw_variance: f64,
}

impl Found {
    /// The stratum's information, from the rows kept.
    pub(super) fn value(&self, kept: usize) -> f64 {
        sum::total(&self.terms) / kept.max(1) as f64
    }

    /// Builds the contribution from an estimate in which this many rows were left out.
    pub(super) fn of(estimate: Estimate, left_out: usize) -> Self {
        let mut terms = estimate.influence;
        let share = (terms.len() - left_out) as f64 / terms.len().max(1) as f64;
        terms.iter_mut().for_each(|term| *term = estimate.unclipped + share * *term);
        Self { terms, draw_variance: estimate.draw_variance }
    }

    /// The terms as those of some `rows` among this many.
    pub(super) fn among(self, rows: &[u32], all: usize) -> Self {
        let mut terms = vec![0.0; all];
        rows.iter().zip(&self.terms).for_each(|(&row, &term)| terms[row as usize] = term);
        Self { terms, ..self }
    }
}

/// The terms of all rows.
pub(super) struct Terms {
    terms: Vec<f64>,
    left_out: Vec<u32>,
    /// Σ (rows kept in a stratum)² · variance of its mean over repeats.
    draws: f64,
    shared: Shared,
}

impl Terms {
    pub(super) fn new(rows: usize) -> Self {
        let shared = Shared { of_square: vec![0.0; rows], beside: 0.0 };
        Self { terms: vec![0.0; rows], left_out: Vec::new(), draws: 0.0, shared }
    }

    /// Sets the term of a row.
    pub(super) fn set(&mut self, row: usize, term: f64) {
        self.terms[row] = term;
    }

    /// Leaves a row out.
    pub(super) fn leave_out(&mut self, row: usize) {
        self.left_out.push(row as u32);
    }

    /// Sets what the rows share with their neighbours.
    pub(super) fn share(&mut self, members: impl IntoIterator<Item = u32>, shared: Shared) {
        members.into_iter().zip(shared.of_square).for_each(|(row, share)| self.shared.of_square[row as usize] = share);
        self.shared.beside += shared.beside;
    }

    /// Adds a stratum of these `members`; `None` where its information is 0. The rows left out are numbered within it.
    pub(super) fn add(&mut self, members: &[u32], left_out: &[u32], found: Option<Found>) {
        if let Some(found) = found {
            members.iter().zip(&found.terms).for_each(|(&row, &term)| self.terms[row as usize] = term);
            let kept = (members.len() - left_out.len()) as f64;
            self.draws += kept * kept * found.draw_variance;
        }
        for &at in left_out {
            self.terms[members[at as usize] as usize] = 0.0;
            self.leave_out(members[at as usize] as usize);
        }
    }

    /// The mean over the rows kept; undefined where these are fewer than half.
    pub(super) fn finish(mut self) -> Result<Conditional, Undefined> {
        let (rows, left_out) = (self.terms.len(), self.left_out.len());
        if 2 * left_out > rows {
            return Err(Undefined::MostlyAlone { left_out, rows });
        }
        self.left_out.sort_unstable();
        let kept = (rows - left_out).max(1) as f64;
        let mut estimate = Estimate::from_terms(0.0, self.terms, &self.left_out);
        let squares = elementwise::sum_of_squares(&estimate.influence);
        let of_squares = estimate.influence.iter().zip(&self.shared.of_square).map(|(own, share)| share * own * own);
        let shared = of_squares.sum::<f64>() + self.shared.beside * (rows as f64 / kept).powi(2);
        let widened = if squares > 0.0 { (1.0 + shared / squares).sqrt() } else { 1.0 };
        elementwise::scale(&mut estimate.influence, widened);
        estimate.draw_variance = self.draws / (kept * kept);
        Ok(Conditional { estimate, left_out: self.left_out, widened })
    }
}
