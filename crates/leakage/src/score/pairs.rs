//! Scores over pairs of concepts: k × k matrices, their means per concept and overall, and the error of the mean.

use crate::pair_cache::{Cell, Family, Kept, Numbers};
use crate::point::{Outcome, ScoreValue, Undefined};
use crate::prepare::Prepared;

pub use super::left_out::Matrix;
use super::left_out::{Over, mean_of_pairs, mean_of_row};
use super::term::{Sum, Term, oldest};
use super::units::{self, Computed, Shape, Units};

/// Two k × k matrices and the error of their mean.
pub struct Pairs {
    pub clipped: Matrix,
    pub excess: Matrix,
    /// The influences on the mean over the pairs of this sample that have a value, before clipping.
    sum: Sum,
    /// The set of pairs that the mean is over.
    over: Over,
    /// k × k seconds since each pair was computed; `None` if all are of this sample.
    ages: Option<Vec<Vec<f64>>>,
}

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
        let (mut first_why, mut fresh, mut draw_variance) = (None, 0, 0.0);
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
                            fresh += 1;
                        }
                    }
                    Err(why) => first_why = first_why.or(Some(why)),
                }
                if let (Some(ages), Some(of_units)) = (&mut ages, &units.ages) {
                    cells_of_pair.iter().for_each(|(i, j)| ages[*i][*j] = of_units[unit]);
                }
            }
        }
        let over = Over::pairs(&clipped, first_why.map(String::as_str));
        Ok(Self { clipped, excess, sum: sum.mean_over(fresh, draw_variance), over, ages })
    }
}

impl Pairs {
    /// Pairs in units of one concept with each other. `concept` prepares what the terms of a concept share, and gives the
    /// term of each other concept, in ascending order.
    pub fn of_each_with_others<T: FnMut(usize) -> Result<Term, String>>(
        p: &Prepared,
        family: fn(&mut Kept) -> &mut Family,
        concept: impl Fn(usize) -> T + Sync,
    ) -> Result<Self, String> {
        let k = p.concepts();
        let unit = |i: usize, sums: &mut [Sum]| {
            let mut term = concept(i);
            let mut sum = Sum::new(p.rows());
            let cell = |(_, j): (usize, usize)| {
                p.pause();
                units::add(&mut sum, term(j))
            };
            let cells: Box<[Cell]> = with_others(i, k).map(cell).collect();
            sums[0].add_sum(1.0, &sum);
            Computed { error: error_of_unit(&sum, &cells), cells }
        };
        let others = k.saturating_sub(1);
        let shape = Shape { family, units: k, cells: others, pairs: others, sums: 1 };
        let units = units::compute(p, &shape, unit);
        Self::assemble(p, &units, &units.sums[0], |i| with_others(i, k), Symmetry::Ordered)
    }

    /// The rows' influence on the mean excess, and what that is over; `None` if it has no value, or any pair is of an
    /// earlier sample.
    pub fn influence(&self) -> Option<(Sum, Over)> {
        (self.over.undefined.is_none() && self.ages.is_none()).then(|| (self.sum.clone(), self.over.clone()))
    }
}

/// The pairs (i, j) of concept i, in ascending j.
pub fn with_others(i: usize, k: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..k).filter(move |j| *j != i).map(move |j| (i, j))
}

/// Error of the mean of those of a unit's cells that have a value, whose terms are in `sum`; infinite if none has.
pub fn error_of_unit(sum: &Sum, cells: &[Cell]) -> f64 {
    let with_value = cells.iter().flatten().count();
    if with_value > 0 || cells.is_empty() { sum.standard_error() / with_value.max(1) as f64 } else { f64::INFINITY }
}

/// The score of the matrix that `matrix` picks: the mean over the pairs that have a value, see
/// [`left_out`](super::left_out).
pub fn outcome(pairs: &Pairs, matrix: impl Fn(&Pairs) -> &Matrix) -> Outcome {
    let ages = pairs.ages.clone();
    let age = ages.as_ref().map(|ages| oldest(ages.iter().flatten()));
    match mean(matrix(pairs).clone(), pairs.over.clone(), || pairs.sum.standard_error()) {
        Outcome::Value(value) => Outcome::Value(ScoreValue { age, ages, ..value }),
        Outcome::Undefined(undefined) => Outcome::Undefined(Undefined { age, ages, ..undefined }),
    }
}

/// The mean over the pairs i ≠ j of a matrix that have a value, with its means per concept.
pub fn mean(matrix: Matrix, over: Over, standard_error: impl FnOnce() -> f64) -> Outcome {
    let per_concept: Vec<Option<f64>> = matrix.iter().enumerate().map(|(i, row)| mean_of_row(i, row)).collect();
    let Over { left_out, undefined } = over;
    let (value, standard_error) = match undefined {
        None => (mean_of_pairs(&matrix, &per_concept), Some(standard_error())),
        Some(_) => Default::default(),
    };
    let value = ScoreValue {
        value,
        standard_error,
        per_concept: Some(per_concept),
        matrix: Some(matrix),
        left_out,
        ..ScoreValue::default()
    };
    Outcome::of(undefined, value)
}
