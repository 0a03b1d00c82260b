//! Rows of a sample with their arrivals, in ascending order of their ids, and the union of two sets of them.

use std::collections::BTreeMap;

use super::column::Column;
use super::priority::{Origin, priority};
use crate::tensor::TensorName;

/// Rows in ascending order of their ids. Every list and every column has one entry for each row; without rows there are no
/// columns.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub ids: Vec<u64>,
    /// The smallest origin of each row, whose values are kept.
    pub origins: Vec<Origin>,
    /// Arrivals of each row, at least 1.
    pub arrivals: Vec<u64>,
    pub columns: BTreeMap<TensorName, Column>,
}

/// A row of the union: where its values are, and what it arrived as.
struct Picked {
    priority: u64,
    id: u64,
    origin: Origin,
    arrivals: u64,
    from_second: bool,
    at: usize,
}

impl Rows {
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Sum of the arrivals of all rows.
    pub fn arrivals(&self) -> u64 {
        self.arrivals.iter().fold(0, |sum, &arrivals| sum.saturating_add(arrivals))
    }

    /// Arrivals beyond the first of each row.
    pub fn repeats(&self) -> u64 {
        self.arrivals.iter().fold(0, |sum, &arrivals| sum.saturating_add(arrivals.saturating_sub(1)))
    }

    /// The largest priority of a row.
    pub fn last(&self, seed: u64) -> Option<u64> {
        self.ids.iter().map(|&id| priority(seed, id)).max()
    }

    /// The rows of priority `cutoff` or below, and whether there were others.
    pub fn cut(self, seed: u64, cutoff: u64) -> (Rows, bool) {
        let kept: Vec<usize> = (0..self.len()).filter(|&row| priority(seed, self.ids[row]) <= cutoff).collect();
        if kept.len() == self.len() {
            return (self, false);
        }
        if kept.is_empty() {
            return (Rows::default(), true);
        }
        let rows = Rows {
            ids: kept.iter().map(|&row| self.ids[row]).collect(),
            origins: kept.iter().map(|&row| self.origins[row]).collect(),
            arrivals: kept.iter().map(|&row| self.arrivals[row]).collect(),
            columns: self.columns.iter().map(|(name, column)| (*name, column.gather(&kept))).collect(),
        };
        (rows, true)
    }

    /// The `most` rows of smallest priority of both; of a row that both hold, the values of the smaller origin. Arrivals
    /// add up, but the same arrival counts once, and with `second_is_known` all arrivals of the second are in the first.
    /// The columns of both must be of the same tensors and shapes.
    pub fn union(self, second: Rows, most: usize, seed: u64, second_is_known: bool) -> Rows {
        let first = self;
        if second.ids.is_empty() {
            return first;
        }
        let mut picked = Vec::with_capacity(first.len() + second.len());
        let (mut a, mut b) = (0, 0);
        while a < first.len() || b < second.len() {
            let in_first = first.ids.get(a).filter(|id| second.ids.get(b).is_none_or(|other| *id <= other));
            let in_second = second.ids.get(b).filter(|id| first.ids.get(a).is_none_or(|other| *id <= other));
            let (id, from_second) = match (in_first, in_second) {
                (Some(id), Some(_)) => (*id, second.origins[b] < first.origins[a]),
                (Some(id), None) => (*id, false),
                (None, Some(id)) => (*id, true),
                (None, None) => unreachable!("the smaller of two ids is in one of the lists"),
            };
            let arrivals = match (in_first.map(|_| first.arrivals[a]), in_second.map(|_| second.arrivals[b])) {
                (Some(known), Some(_)) if second_is_known => known,
                (Some(known), Some(more)) if first.origins[a] == second.origins[b] => known.saturating_add(more - 1),
                (known, more) => known.unwrap_or(0).saturating_add(more.unwrap_or(0)),
            };
            let (origin, at) = if from_second { (second.origins[b], b) } else { (first.origins[a], a) };
            picked.push(Picked { priority: priority(seed, id), id, origin, arrivals, from_second, at });
            a += usize::from(in_first.is_some());
            b += usize::from(in_second.is_some());
        }
        if picked.len() > most {
            picked.select_nth_unstable_by_key(most, |row| (row.priority, row.id));
            picked.truncate(most);
            picked.sort_unstable_by_key(|row| row.id);
        }
        let columns = match first.ids.is_empty() {
            true => second.columns.iter().map(|(name, of)| (*name, gathered(of, of, &picked))).collect(),
            false => {
                let both = first.columns.iter().filter_map(|(name, of)| Some((name, of, second.columns.get(name)?)));
                both.map(|(name, of, other)| (*name, gathered(of, other, &picked))).collect()
            }
        };
        Rows {
            ids: picked.iter().map(|row| row.id).collect(),
            origins: picked.iter().map(|row| row.origin).collect(),
            arrivals: picked.iter().map(|row| row.arrivals).collect(),
            columns,
        }
    }
}

fn gathered(first: &Column, second: &Column, picked: &[Picked]) -> Column {
    let mut column = first.empty_like();
    // Whatever rows are picked, the type is the one that holds the values of both.
    column.fit(second);
    column.grow(picked.len(), picked.len());
    picked.iter().for_each(|row| column.push_from(if row.from_second { second } else { first }, row.at));
    column
}
