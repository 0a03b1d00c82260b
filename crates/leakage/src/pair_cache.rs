//! Values that a rolling split keeps between evaluations, so that an evaluation with little CPU time can refresh some
//! of its pairs and publish the others with their age.
//!
//! Scores over pairs form families, each computed in units: a pair of concepts, or all pairs of one concept where one
//! neighbour search serves them together. A family keeps the values of each unit, their error, and the time of
//! computation. [`refresh`] decides which units are refreshed first.

pub mod refresh;

use std::sync::Mutex;

use refresh::Visited;

/// The value of one pair or concept, or the reason why it has none. 24 bytes, plus the text.
pub type Cell = Result<Numbers, String>;

/// The numbers kept for a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Numbers {
    /// As published: clipped where the definition clips.
    pub value: f64,
    /// `value` before clipping.
    pub excess: f64,
    /// Variance of `excess` over draws or repeats.
    pub draw_variance: f64,
}

/// The latest result of one unit. A unit of one pair takes 80 bytes, any other 56 plus 24 for each pair.
#[derive(Clone, Debug)]
pub struct Unit {
    pub cells: Box<[Cell]>,
    /// Standard error of the mean over its cells; infinite if a cell has no value.
    pub error: f64,
    /// Number of the evaluation that computed it, and the time of that sample in seconds.
    pub evaluation: u64,
    pub time: f64,
}

/// The units of scores that are computed together.
#[derive(Debug, Default)]
pub struct Family {
    units: Vec<Option<Unit>>,
    /// The evaluation that last computed any unit, and the CPU-seconds per unit.
    evaluation: u64,
    unit_cost: f64,
    /// CPU-seconds of the family in that evaluation.
    spent: f64,
}

/// The kept values of one rolling split, all from samples with the same number of rows.
#[derive(Debug, Default)]
pub struct Kept {
    pub interconcept: Family,
    pub against_labels: Family,
    pub embeddings: Family,
    pub positive_embeddings: Family,
    pub negative_embeddings: Family,
    pub conditional: Family,
    pub conditional_embeddings: Family,
    rows: usize,
    evaluation: u64,
    /// CPU-seconds of everything else in the last evaluation.
    rest: f64,
    pairs_left: u64,
}

/// An evaluation that may refresh a part of the kept values.
#[derive(Clone, Copy)]
pub struct Budgeted<'a> {
    /// The kept values, after [`Kept::begin`] for this evaluation.
    pub kept: &'a Mutex<Kept>,
    /// Time of the sample, in seconds since a fixed origin.
    pub time: f64,
    /// CPU-seconds that the evaluation may take.
    pub allowance: f64,
    /// CPU-seconds that it has taken so far.
    pub spent: &'a (dyn Fn() -> f64 + Sync),
}

impl Kept {
    /// Begins an evaluation of a sample of `rows` rows. A different number of rows discards everything: estimates of
    /// different N are not comparable.
    pub fn begin(&mut self, rows: usize) {
        if rows != self.rows {
            *self = Self { rows, ..Self::default() };
        }
        self.evaluation += 1;
        self.pairs_left = 0;
    }

    /// Ends an evaluation that took `spent` CPU-seconds.
    pub fn end(&mut self, spent: f64) {
        self.rest = (spent - self.spent_on_families()).max(0.0);
    }

    /// Number of the current evaluation.
    pub fn evaluation(&self) -> u64 {
        self.evaluation
    }

    /// Pairs that the last evaluation left for a later one.
    pub fn pairs_left(&self) -> u64 {
        self.pairs_left
    }

    pub fn leave(&mut self, pairs: u64) {
        self.pairs_left += pairs;
    }

    /// CPU-seconds for the next family, whose units cost `cost`, in an evaluation that may take `allowance` and has
    /// taken `spent`. The time of the scores without pairs in the last evaluation is reserved; the remainder is divided
    /// among this family and the later ones in proportion to their cost.
    pub fn part(&self, cost: f64, allowance: f64, spent: f64) -> f64 {
        let on_families = self.spent_on_families();
        let left = (allowance - on_families - self.rest.max(spent - on_families)).max(0.0);
        let to_come = self.families().into_iter().filter(|family| family.evaluation < self.evaluation);
        let all: f64 = to_come.map(Family::cost).sum();
        if all > 0.0 { left * (cost / all) } else { left }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.families().into_iter().map(Family::bytes).sum::<usize>()
    }

    fn families(&self) -> [&Family; 7] {
        [
            &self.interconcept,
            &self.against_labels,
            &self.embeddings,
            &self.positive_embeddings,
            &self.negative_embeddings,
            &self.conditional,
            &self.conditional_embeddings,
        ]
    }

    /// In the current evaluation.
    fn spent_on_families(&self) -> f64 {
        let worked_on = self.families().into_iter().filter(|family| family.evaluation == self.evaluation);
        worked_on.map(|family| family.spent).sum()
    }
}

impl Family {
    /// Sizes the family for `units` units of `cells` cells each. Units of another shape come from other inputs and are
    /// discarded.
    pub fn fit(&mut self, units: usize, cells: usize) {
        let fits = |unit: &Option<Unit>| unit.as_ref().is_none_or(|unit| unit.cells.len() == cells);
        if self.units.len() != units || !self.units.iter().all(fits) {
            *self = Self { units: vec![None; units], ..Self::default() };
        }
    }

    /// The order in which to refresh the units in an evaluation, and the minimum number to refresh: all while any has
    /// never been computed.
    pub fn order(&self, evaluation: u64) -> (Vec<usize>, usize) {
        let visited =
            |unit: &Option<Unit>| unit.as_ref().map(|unit| Visited { evaluation: unit.evaluation, error: unit.error });
        match self.units.iter().map(visited).collect::<Option<Vec<Visited>>>() {
            Some(visited) => (refresh::order(&visited, evaluation), refresh::least(visited.len())),
            None => ((0..self.units.len()).collect(), self.units.len()),
        }
    }

    pub fn put(&mut self, at: usize, unit: Unit) {
        self.units[at] = Some(unit);
    }

    /// Returns the units computed so far, in order.
    pub fn units(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().flatten()
    }

    /// Records that an evaluation computed `done` units in `spent` CPU-seconds.
    pub fn worked(&mut self, evaluation: u64, done: usize, spent: f64) {
        (self.evaluation, self.spent) = (evaluation, spent);
        if done > 0 {
            self.unit_cost = spent / done as f64;
        }
    }

    /// Estimated CPU-seconds for all its units, above 0 if there are any.
    pub fn cost(&self) -> f64 {
        const LEAST: f64 = 1e-6;
        self.unit_cost.max(LEAST) * self.units.len() as f64
    }

    fn bytes(&self) -> usize {
        let text = |cell: &Cell| cell.as_ref().err().map_or(0, String::capacity);
        let heap = |unit: &Unit| size_of_val(&*unit.cells) + unit.cells.iter().map(text).sum::<usize>();
        self.units.capacity() * size_of::<Option<Unit>>() + self.units().map(heap).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn computed(evaluation: u64) -> Unit {
        let numbers = Numbers { value: 0.5, excess: 0.5, draw_variance: 0.0 };
        Unit { cells: Box::new([Ok(numbers)]), error: 0.1, evaluation, time: 0.0 }
    }

    /// Computes all units of a family at this cost each.
    fn work(family: &mut Family, units: usize, evaluation: u64, cost: f64) {
        family.fit(units, 1);
        (0..units).for_each(|at| family.put(at, computed(evaluation)));
        family.worked(evaluation, units, cost * units as f64);
    }

    #[test]
    fn remaining_time_is_divided_by_cost_among_later_families() {
        let mut kept = Kept::default();
        kept.begin(100);
        work(&mut kept.interconcept, 60, 1, 0.1);
        work(&mut kept.against_labels, 10, 1, 0.2);
        work(&mut kept.embeddings, 10, 1, 0.2);
        // 10 s on pairs and 3 s on the remaining scores.
        kept.end(13.0);
        kept.begin(100);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a}, not {b}");
        near(kept.part(kept.interconcept.cost(), 8.0, 0.5), 5.0 * 0.6);
        // The first family took slightly more than its part; the remaining scores have taken 1 s of their 3 s.
        kept.interconcept.worked(2, 30, 3.2);
        near(kept.part(kept.against_labels.cost(), 8.0, 4.2), 1.8 * 0.5);
        // The remaining scores take more than last time, until nothing is left.
        kept.against_labels.worked(2, 5, 1.0);
        near(kept.part(kept.embeddings.cost(), 8.0, 7.9), 0.1);
        near(kept.part(kept.embeddings.cost(), 8.0, 8.5), 0.0);
        assert_eq!(kept.part(kept.embeddings.cost(), f64::INFINITY, 8.5), f64::INFINITY);
    }

    #[test]
    fn kept_values_are_counted_in_bytes_and_discarded_for_another_number_of_rows() {
        let mut kept = Kept::default();
        kept.begin(100);
        let empty = kept.bytes();
        work(&mut kept.interconcept, 1000, 1, 0.1);
        let bytes = kept.bytes() - empty;
        assert!((60_000..=100_000).contains(&bytes), "{bytes} bytes for 1000 pairs");
        kept.begin(100);
        assert_eq!((kept.interconcept.units().count(), kept.evaluation()), (1000, 2));
        kept.begin(101);
        assert_eq!((kept.bytes(), kept.evaluation()), (empty, 1));
    }

    #[test]
    fn units_of_another_shape_are_discarded() {
        let mut family = Family::default();
        work(&mut family, 20, 1, 0.1);
        assert_eq!(family.order(2).1, 2);
        family.fit(20, 1);
        assert_eq!(family.units().count(), 20);
        for (units, cells) in [(20, 2), (21, 1)] {
            family.fit(units, cells);
            assert_eq!((family.units().count(), family.order(2).1), (0, units), "all are to be computed");
            work(&mut family, 20, 1, 0.1);
        }
    }
}
