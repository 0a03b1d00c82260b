//! The purity matrices of learnt and of true concepts, from their rows.

use std::sync::Arc;

use super::super::holdout::Holdout;
use super::super::left_out::Over;
use super::super::matching::{greedy, of_latents};
use super::super::pairs::Matrix;
use super::super::representation::Representation;
use super::super::term::{Sum, Term};
use super::row::{ARE_NUMBERS, Row, Side, as_input, inputs};
use crate::parallel;
use crate::point::{Outcome, ScoreValue};
use crate::prepare::Prepared;

/// Both purity matrices, and what the errors of the scores follow from.
pub struct Purity {
    /// π(ĉ): AUC of predicting c_j from ĉ_i; of the latents that are matched to the concepts.
    pub learnt: Vec<Vec<Result<f64, String>>>,
    /// The latent of each row of `learnt`, where activations are latents; `None` for a concept whose labels do not vary.
    pub latents: Option<Vec<Option<usize>>>,
    /// π(c).
    pub oracle: Vec<Vec<Result<f64, String>>>,
    /// π_ii(ĉ).
    pub own: Vec<Result<Term, String>>,
    /// Σ D_ij · dD_ij with D = π(ĉ) − π(c).
    pub deviation: Sum,
    /// Σ over i ≠ j of dπ_ij(c).
    pub between: Sum,
    /// Number of concepts that have classes.
    of_classes: usize,
}

impl Purity {
    fn of(p: &Prepared, rows: Vec<Row>, latents: Option<Vec<Option<usize>>>) -> Self {
        let mut purity = Self {
            learnt: Vec::new(),
            latents,
            oracle: Vec::new(),
            own: Vec::new(),
            deviation: Sum::new(p.rows()),
            between: Sum::new(p.rows()),
            of_classes: (0..p.concepts()).filter(|&i| !p.run().is_continuous(i)).count(),
        };
        for row in rows {
            purity.learnt.push(row.learnt);
            purity.oracle.push(row.oracle);
            purity.own.push(row.own);
            purity.deviation.add_sum(1.0, &row.deviation);
            purity.between.add_sum(1.0, &row.between);
        }
        purity
    }

    /// OIS with row `order[j]` of π(ĉ) in place of row j. The error is that of the test rows, for trained networks.
    pub fn impurity(&self, order: &[Option<usize>], with_error: bool) -> Outcome {
        let k = order.len();
        let difference = |j: usize, at: usize| match (&self.learnt[order[j]?][at], &self.oracle[j][at]) {
            (Ok(learnt), Ok(oracle)) => Some(learnt - oracle),
            _ => None,
        };
        let matrix: Matrix = (0..k).map(|j| (0..k).map(|at| difference(j, at)).collect()).collect();
        // Sum of squares and number of entries of each row.
        let sums: Vec<(f64, usize)> = matrix
            .iter()
            .map(|row| (row.iter().flatten().map(|d| d * d).sum(), row.iter().flatten().count()))
            .collect();
        let of_row = |&(square, count): &(f64, usize)| (count > 0).then(|| 2.0 * (square / count as f64).sqrt());
        let per_concept = Some(sums.iter().map(of_row).collect());
        let why = [&self.learnt, &self.oracle].into_iter().find_map(|matrix| first_error(matrix));
        let Over { left_out, mut undefined } = self.over_pairs(&matrix, why);
        let norm = sums.iter().map(|sum| sum.0).sum::<f64>().sqrt();
        let count: usize = sums.iter().map(|sum| sum.1).sum();
        if count == 0 {
            undefined = Some(why.unwrap_or_default().to_owned());
        }
        // k where no entry is left out.
        let size = f64::from(count as u32).sqrt();
        // Where no entry deviates, no row moves one.
        let slope = if norm > 0.0 { 2.0 / (size * norm) } else { 0.0 };
        let standard_error = with_error.then(|| slope * self.deviation.standard_error());
        let (value, matrix) = (2.0 / size * norm, Some(matrix));
        let value = ScoreValue { value, standard_error, per_concept, matrix, left_out, ..ScoreValue::default() };
        Outcome::of(undefined, value)
    }

    /// The set that a score over the pairs of a matrix is a mean over; pairs with continuous concepts have no meaning.
    pub fn over_pairs(&self, matrix: &Matrix, why: Option<&str>) -> Over {
        Over::pairs_among(matrix, self.of_classes, why)
    }

    /// The row of `learnt` matched to each true concept; `None` for those that no network could be tested on. Latents are
    /// matched before networks are trained.
    pub fn matching(&self) -> Result<Vec<Option<usize>>, String> {
        let k = self.learnt.len();
        let mut pairs = Vec::with_capacity(k * k);
        for (i, row) in self.learnt.iter().enumerate() {
            pairs.extend(row.iter().enumerate().filter_map(|(j, auc)| Some((*auc.as_ref().ok()?, i, j))));
        }
        if pairs.is_empty() {
            return Err(first_error(&self.learnt).unwrap_or_default().to_owned());
        }
        if let Some(latents) = &self.latents {
            return Ok(latents.iter().enumerate().map(|(j, latent)| latent.map(|_| j)).collect());
        }
        Ok(greedy(pairs, k))
    }
}

pub fn purity_of(p: &Prepared, representation: Representation) -> Result<Arc<Purity>, String> {
    p.try_shared(representation.matrices(), || compute(p, representation))
}

fn compute(p: &Prepared, representation: Representation) -> Result<Purity, String> {
    // Each matrix has a split of its own, as in the authors' code: on shared rows their errors partly cancel, and
    // the score comes out lower than the published ones (3.2 where they have 4.7 %).
    let sides = [Side::new(p, 0)?, Side::new(p, 1)?];
    let latents = matched_latents(p, representation, &sides[0]);
    let row = |i: usize| -> Result<Row, String> {
        if p.run().is_continuous(i) {
            return Ok(Row::without_value(p, i, ARE_NUMBERS));
        }
        let learnt = |holdout: &Holdout| match (&latents, representation.latents(p)) {
            (Some(latents), Some(column)) => match latents[i] {
                Some(latent) => Ok(Some(inputs(column, latent..latent + 1, holdout))),
                None => Ok(None),
            },
            _ => {
                let (column, block) = representation.columns(p, i)?;
                Ok(Some(inputs(column, block, holdout)))
            }
        };
        if p.has_unknown_labels() {
            return Ok(Row::of_known(p, i, learnt));
        }
        // To a concept whose labels do not vary no latent is matched.
        let Some(learnt) = learnt(&sides[0].holdout)? else {
            return Ok(Row::without_value(p, i, "there is one class only"));
        };
        let oracle = as_input(&sides[1].targets[&i]);
        Ok(Row::new(p, &sides, i, [&learnt, &oracle]))
    };
    let rows = parallel::map(p.concepts(), &row).into_iter().collect::<Result<_, _>>()?;
    Ok(Purity::of(p, rows, latents))
}

/// The latent that stands for each concept, on the rows that networks train on; `None` where activations belong to
/// concepts.
fn matched_latents(p: &Prepared, representation: Representation, side: &Side) -> Option<Vec<Option<usize>>> {
    let column = representation.latents(p)?;
    let labels: Vec<&[i32]> = side.targets.values().map(|target| &target.train[..]).collect();
    Some(of_latents(p, column, &side.holdout.train, &labels))
}

pub fn cells(matrix: &[Vec<Result<f64, String>>]) -> Matrix {
    matrix.iter().map(|row| row.iter().map(|cell| cell.as_ref().ok().copied()).collect()).collect()
}

pub fn first_error(matrix: &[Vec<Result<f64, String>>]) -> Option<&str> {
    matrix.iter().flatten().find_map(|cell| cell.as_ref().err().map(String::as_str))
}
