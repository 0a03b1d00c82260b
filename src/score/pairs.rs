//! Scores over pairs of concepts: k × k matrices, their mean per concept and in all, and its error.

use crate::point::{Outcome, ScoreValue, Undefined};
use crate::prepare::Prepared;

use super::term::{Sum, Term};

/// Two k × k matrices and the error of their mean.
pub struct Pairs {
    pub clipped: Matrix,
    pub excess: Matrix,
    /// Of the mean over pairs, before clipping.
    sum: Sum,
    /// The first thing that has no value, and why.
    undefined: Option<String>,
}

pub type Matrix = Vec<Vec<Option<f64>>>;

/// Clipped and excess value of a pair.
type Cell = (f64, f64);

/// Row i of the matrices, as far as one concept's work goes.
pub struct Row {
    /// (column, clipped and excess, or why there are none).
    cells: Vec<(usize, Result<Cell, String>)>,
    sum: Sum,
}

impl Row {
    /// Sums the terms of `n` rows each as they come, so that one at a time is in memory.
    pub fn collect(n: usize, cells: impl Iterator<Item = (usize, Result<Term, String>)>) -> Self {
        let mut row = Row { cells: Vec::new(), sum: Sum::new(n) };
        for (j, term) in cells {
            if let Ok(term) = &term {
                row.sum.add(1.0, term);
            }
            row.cells.push((j, term.map(|term| (term.value, term.excess))));
        }
        row
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Symmetry {
    /// Rows hold the pairs i < j; the others mirror them.
    Symmetric,
    /// Rows hold all pairs i ≠ j.
    Ordered,
}

impl Pairs {
    pub fn assemble(p: &Prepared, rows: Vec<Row>, symmetry: Symmetry) -> Result<Self, String> {
        let k = p.concepts();
        if k < 2 {
            return Err("there is one concept, pairs need at least two".into());
        }
        let diagonal = |i: usize| (0..k).map(|j| (i == j).then_some(0.0)).collect::<Vec<_>>();
        let mut clipped: Matrix = (0..k).map(diagonal).collect();
        let mut excess = clipped.clone();
        let mut undefined = None;
        let mut sum = Sum::new(p.rows());
        for (i, row) in rows.iter().enumerate() {
            sum.add_sum(if symmetry == Symmetry::Symmetric { 2.0 } else { 1.0 }, &row.sum);
            for (j, cell) in &row.cells {
                match cell {
                    Ok((value, unclipped)) => {
                        clipped[i][*j] = Some(*value);
                        excess[i][*j] = Some(*unclipped);
                        if symmetry == Symmetry::Symmetric {
                            clipped[*j][i] = Some(*value);
                            excess[*j][i] = Some(*unclipped);
                        }
                    }
                    Err(why) => undefined = undefined.or_else(|| Some(why.clone())),
                }
            }
        }
        let mut mean = Sum::new(p.rows());
        mean.add_sum(1.0 / (k * (k - 1)) as f64, &sum);
        Ok(Self { clipped, excess, sum: mean, undefined })
    }
}

impl Pairs {
    /// The rows' influence on the mean excess; `None` as soon as one pair is undefined.
    pub fn influence(&self) -> Option<&Sum> {
        self.undefined.is_none().then_some(&self.sum)
    }
}

/// The score whose matrix `matrix` picks; undefined as soon as one pair is, with the pairs that have a value.
pub fn outcome(p: &Prepared, pairs: &Result<Pairs, String>, matrix: impl Fn(&Pairs) -> &Matrix) -> Outcome {
    let pairs = match pairs {
        Ok(pairs) => pairs,
        Err(why) => return Outcome::undefined(why),
    };
    let matrix = matrix(pairs).clone();
    let k = p.concepts();
    // The mean over the other concepts; a pair without a value leaves its concept without one.
    let mean_of_row = |(i, row): (usize, &Vec<Option<f64>>)| {
        let others = row.iter().enumerate().filter(|(j, _)| *j != i);
        others.map(|(_, cell)| *cell).sum::<Option<f64>>().map(|sum| sum / (k - 1) as f64)
    };
    let per_concept: Vec<Option<f64>> = matrix.iter().enumerate().map(mean_of_row).collect();
    let total: Option<f64> = per_concept.iter().copied().sum();
    let (per_concept, matrix) = (Some(per_concept), Some(matrix));
    match (total, &pairs.undefined) {
        (Some(total), None) => Outcome::Value(ScoreValue {
            value: total / k as f64,
            standard_error: Some(pairs.sum.standard_error()),
            per_concept,
            matrix,
            curve: None,
        }),
        (_, why) => {
            let why = why.clone().unwrap_or_else(|| "a pair has no value".into());
            Outcome::Undefined(Undefined { why, per_concept, matrix })
        }
    }
}
