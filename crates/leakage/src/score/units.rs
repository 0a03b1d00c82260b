//! Computes the units of a family of scores: all of them, or in a budgeted evaluation those that are due, with the others
//! as kept.
//!
//! A result depends on which units are of this sample and on nothing else: not on the order they were done in, on the
//! batches or on threads. Their numbers are read in unit order, and the rows' influences are summed exactly.

use rayon::prelude::*;

use crate::lock::lock;
use crate::pair_cache::{Cell, Family, Kept, Numbers, Unit};
use crate::prepare::Prepared;

use super::term::{Concepts, Sum, Term};

/// A family and the shape of its units.
pub struct Shape {
    pub family: fn(&mut Kept) -> &mut Family,
    pub units: usize,
    /// The number of cells of each unit.
    pub cells: usize,
    /// The number of pairs of each unit.
    pub pairs: usize,
    /// Sums of influences that the units add to.
    pub sums: usize,
}

/// A unit on this sample.
pub struct Computed {
    pub cells: Box<[Cell]>,
    /// See [`Unit`].
    pub error: f64,
}

/// All units of a family, in their order.
pub struct Units {
    pub cells: Vec<Box<[Cell]>>,
    /// Seconds since each was computed, 0 for those of this sample; `None` where all are.
    pub ages: Option<Vec<f64>>,
    /// Whether each is of this sample.
    pub fresh: Vec<bool>,
    /// The influences of the units of this sample, without their draw variances.
    pub sums: Vec<Sum>,
}

impl Units {
    /// One cell of each unit, where each unit is a concept: the one that `cell` picks, whose influences are in the sum of
    /// that number.
    pub fn concepts(&self, sum: usize, cell: impl Fn(&[Cell]) -> Cell) -> Concepts {
        let cells = self.cells.iter().map(|cells| cell(cells)).collect();
        Concepts::new(cells, &self.sums[sum], &self.fresh, self.ages.clone())
    }
}

/// Adds the influences of a term to a sum. Returns what the term is kept by.
pub fn add(sum: &mut Sum, term: Result<Term, String>) -> Cell {
    let term = term?;
    sum.add_in_any_order(&term);
    Ok(Numbers { value: term.value, excess: term.excess, draw_variance: term.draw_variance })
}

/// `compute` gives a unit, and adds its influences to the sums with [`add`].
pub fn compute(p: &Prepared, shape: &Shape, compute: impl Fn(usize, &mut [Sum]) -> Computed + Sync) -> Units {
    let batch = |units: &[usize]| in_parallel(p, shape, units, &compute);
    match p.budgeted() {
        Some(_) => refresh(p, shape, batch),
        None => {
            let (computed, sums) = batch(&(0..shape.units).collect::<Vec<_>>());
            let cells = computed.into_iter().map(|computed| computed.cells).collect();
            Units { cells, ages: None, fresh: vec![true; shape.units], sums }
        }
    }
}

/// The units in the order that is due: some in any case, and then more, batch by batch, while there is CPU time.
fn refresh(p: &Prepared, shape: &Shape, batch: impl Fn(&[usize]) -> (Vec<Computed>, Vec<Sum>)) -> Units {
    let budgeted = p.budgeted().expect("only budgeted evaluations refresh");
    // A score that panics while it holds the lock leaves what it has put.
    let mut kept = lock(budgeted.kept);
    let evaluation = kept.evaluation();
    (shape.family)(&mut kept).fit(shape.units, shape.cells);
    let cost = (shape.family)(&mut kept).cost();
    let started = (budgeted.spent)();
    let part = kept.part(cost, budgeted.allowance, started);
    let family = (shape.family)(&mut kept);
    let (order, least) = family.order(evaluation);
    let more = (least / 4).max(rayon::current_num_threads());
    // A batch that would end closer to the part than it begins.
    let half_a_batch = 0.5 * more as f64 * cost / shape.units.max(1) as f64;
    let time_is_left = || (budgeted.spent)() - started + half_a_batch < part;

    let mut sums: Vec<Sum> = (0..shape.sums).map(|_| Sum::new(p.rows())).collect();
    let mut done = 0;
    while done < least || (done < order.len() && time_is_left()) {
        let next = if done < least { least } else { (done + more).min(order.len()) };
        let units = &order[done..next];
        let (computed, added) = batch(units);
        for (&at, Computed { cells, error }) in units.iter().zip(computed) {
            family.put(at, Unit { cells, error, evaluation, time: budgeted.time });
        }
        sums.iter_mut().zip(&added).for_each(|(sum, added)| sum.add_sum(1.0, added));
        done = next;
    }
    family.worked(evaluation, done, (budgeted.spent)() - started);
    let fresh: Vec<bool> = family.units().map(|unit| unit.evaluation == evaluation).collect();
    let age = |unit: &Unit| if unit.evaluation == evaluation { 0.0 } else { (budgeted.time - unit.time).max(0.0) };
    let ages = (done < order.len()).then(|| family.units().map(age).collect());
    let cells = family.units().map(|unit| unit.cells.clone()).collect();
    kept.leave(((order.len() - done) * shape.pairs) as u64);
    Units { cells, ages, fresh, sums }
}

/// Units in the order given, and the sums of their influences.
fn in_parallel(
    p: &Prepared,
    shape: &Shape,
    units: &[usize],
    compute: &(impl Fn(usize, &mut [Sum]) -> Computed + Sync),
) -> (Vec<Computed>, Vec<Sum>) {
    let none = || (Vec::new(), (0..shape.sums).map(|_| Sum::new(p.rows())).collect::<Vec<_>>());
    let add = |(mut computed, mut sums): (Vec<Computed>, Vec<Sum>), &unit: &usize| {
        computed.push(compute(unit, &mut sums));
        (computed, sums)
    };
    let join = |(mut computed, mut sums): (Vec<Computed>, Vec<Sum>), (more, others): (Vec<Computed>, Vec<Sum>)| {
        computed.extend(more);
        sums.iter_mut().zip(&others).for_each(|(sum, other)| sum.add_sum(1.0, other));
        (computed, sums)
    };
    units.par_iter().fold(none, add).reduce(none, join)
}
