//! Scores over pairs of concepts: k × k matrices, their means per concept and overall, and the error of the mean.

use crate::kept::{Cell, Numbers};
use crate::point::{Outcome, ScoreValue, Undefined};
use crate::prepare::Prepared;

use super::term::{Sum, oldest};
use super::units::Units;

/// Two k × k matrices and the error of their mean.
pub struct Pairs {
    pub clipped: Matrix,
    pub excess: Matrix,
    /// Of the mean over the pairs of this sample, before clipping.
    sum: Sum,
    /// Why the first pair without a value has none.
    undefined: Option<String>,
    /// k × k seconds since each pair was computed; `None` if all are of this sample.
    ages: Option<Vec<Vec<f64>>>,
}

pub type Matrix = Vec<Vec<Option<f64>>>;

#[derive(Clone, Copy, PartialEq)]
pub enum Symmetry {
    /// Only the pairs i < j are computed; the others mirror them.
    Symmetric,
    /// All pairs i ≠ j are computed.
    Ordered,
}

impl Pairs {
    /// `pairs` gives the pairs of a unit in the order of its cells; further cells of a unit belong to other scores.
    /// `sum` is that of the units of this sample.
    pub fn assemble<I: Iterator<Item = (usize, usize)>>(
        p: &Prepared,
        units: &Units,
        sum: &Sum,
        pairs: impl Fn(usize) -> I,
        symmetry: Symmetry,
    ) -> Result<Self, String> {
        let k = p.concepts();
        if k < 2 {
            return Err("there is one concept, pairs need at least two".into());
        }
        let diagonal = |i: usize| (0..k).map(|j| (i == j).then_some(0.0)).collect::<Vec<_>>();
        let mut clipped: Matrix = (0..k).map(diagonal).collect();
        let mut excess = clipped.clone();
        let mut ages = units.ages.as_ref().map(|_| vec![vec![0.0; k]; k]);
        let (mut undefined, mut fresh, mut draw_variance) = (None, 0, 0.0);
        for (unit, cells) in units.cells.iter().enumerate() {
            for ((i, j), cell) in pairs(unit).zip(cells) {
                let cells_of_pair = if symmetry == Symmetry::Symmetric { vec![(i, j), (j, i)] } else { vec![(i, j)] };
                match cell {
                    Ok(Numbers { value, excess: unclipped, draw_variance: of_pair }) => {
                        for (i, j) in &cells_of_pair {
                            clipped[*i][*j] = Some(*value);
                            excess[*i][*j] = Some(*unclipped);
                        }
                        if units.fresh[unit] {
                            draw_variance += of_pair;
                        }
                    }
                    Err(why) => undefined = undefined.or_else(|| Some(why.clone())),
                }
                if let (Some(ages), Some(of_units)) = (&mut ages, &units.ages) {
                    cells_of_pair.iter().for_each(|(i, j)| ages[*i][*j] = of_units[unit]);
                }
                fresh += usize::from(units.fresh[unit]);
            }
        }
        Ok(Self { clipped, excess, sum: sum.mean_over(fresh, draw_variance), undefined, ages })
    }
}

impl Pairs {
    /// The rows' influence on the mean excess; `None` if any pair is undefined or of an earlier sample.
    pub fn influence(&self) -> Option<&Sum> {
        (self.undefined.is_none() && self.ages.is_none()).then_some(&self.sum)
    }
}

/// The pairs (i, j) of concept i, in ascending j.
pub fn with_others(i: usize, k: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..k).filter(move |j| *j != i).map(move |j| (i, j))
}

/// Error of the mean of a unit's cells, whose terms are in `sum`; infinite if any has no value.
pub fn error_of_unit(sum: &Sum, cells: &[Cell]) -> f64 {
    if cells.iter().all(Result::is_ok) { sum.standard_error() / cells.len().max(1) as f64 } else { f64::INFINITY }
}

/// The score of the matrix that `matrix` picks; undefined if any pair is, with the pairs that have a value.
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
    let ages = pairs.ages.clone();
    let age = ages.as_ref().map(|ages| oldest(ages.iter().flatten()));
    match (total, &pairs.undefined) {
        (Some(total), None) => Outcome::Value(ScoreValue {
            value: total / k as f64,
            standard_error: Some(pairs.sum.standard_error()),
            per_concept,
            matrix,
            age,
            ages,
            ..ScoreValue::default()
        }),
        (_, why) => {
            let why = why.clone().unwrap_or_else(|| "a pair has no value".into());
            Outcome::Undefined(Undefined { why, per_concept, matrix, age, ages, ..Undefined::default() })
        }
    }
}
