//! One row of each group of copies, in a sample that is known to have copies.
//!
//! Rows are grouped among those with the same labels, in the order of their mean activation, which for copies differs by no
//! more than their distance. Of rows that are not distinctive, because most of their values are atoms, copies and others look
//! alike: of these the same share is kept as of the distinctive rows with the same labels, taken evenly from their order, in
//! which exact copies are adjacent.

use std::cmp::Ordering;

use super::evidence::Found;
use super::points::Points;

/// Fewer distinctive rows do not tell how often a row is repeated.
const ENOUGH: usize = 8;

/// The rows to keep, ascending.
pub fn distinct(points: &Points, found: &Found) -> Vec<usize> {
    let mut by_labels: Vec<usize> = (0..points.rows()).collect();
    by_labels.sort_by(|&a, &b| points.labels()[a].cmp(&points.labels()[b]));
    let mut groups: Vec<Group> = by_labels
        .chunk_by(|&a, &b| points.labels()[a] == points.labels()[b])
        .map(|rows| Group::new(points, rows, found))
        .collect();
    let total = |count: fn(&Group) -> usize| groups.iter().map(count).sum::<usize>();
    let overall = total(|group| group.distinctive) as f64 / total(|group| group.kept.len()).max(1) as f64;
    let mut kept = Vec::new();
    for group in &mut groups {
        let copies =
            if group.distinctive >= ENOUGH { group.distinctive as f64 / group.kept.len() as f64 } else { overall };
        kept.append(&mut group.kept);
        kept.extend(one_in(copies, &group.alike));
    }
    kept.sort_unstable();
    kept
}

/// Rows with the same labels.
struct Group {
    /// The number of distinctive rows.
    distinctive: usize,
    /// One row of each group of copies among the distinctive rows.
    kept: Vec<usize>,
    /// The other rows, in the order of their activations.
    alike: Vec<usize>,
}

impl Group {
    fn new(points: &Points, rows: &[usize], found: &Found) -> Self {
        let (distinctive, mut alike): (Vec<usize>, Vec<usize>) =
            rows.iter().partition(|&&row| points.is_distinctive(row));
        alike.sort_by(|&a, &b| compare(points.of(a), points.of(b)).then(a.cmp(&b)));
        Self { distinctive: distinctive.len(), kept: leaders(points, distinctive, found), alike }
    }
}

/// One row for each group of rows that are copies of it: the first in the order of mean activations.
fn leaders(points: &Points, rows: Vec<usize>, found: &Found) -> Vec<usize> {
    let mean = |row: usize| points.of(row).iter().map(|&value| f64::from(value)).sum::<f64>() / points.columns() as f64;
    let mut ordered: Vec<(f64, usize)> = rows.into_iter().map(|row| (mean(row), row)).collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let is_copy = |leader: usize, row: usize| match found.exact {
        true => points.of(leader) == points.of(row),
        false => points.distance(leader, row).is_of_copies(),
    };
    // Beyond this two means do not belong to copies, whatever the number of columns.
    const FARTHEST: f64 = 0.03;
    let mut leaders: Vec<(f64, usize)> = Vec::new();
    for (mean, row) in ordered {
        let near = leaders.iter().rev().take_while(|(of_leader, _)| mean - of_leader <= FARTHEST);
        if !near.into_iter().any(|&(_, leader)| is_copy(leader, row)) {
            leaders.push((mean, row));
        }
    }
    leaders.into_iter().map(|(_, row)| row).collect()
}

/// One row in `copies`, evenly.
fn one_in(copies: f64, rows: &[usize]) -> impl Iterator<Item = usize> + '_ {
    let of = move |at: usize| (at as f64 / copies).floor();
    rows.iter().enumerate().filter(move |(at, _)| *at == 0 || of(*at) != of(at - 1)).map(|(_, &row)| row)
}

fn compare(a: &[f32], b: &[f32]) -> Ordering {
    a.iter().zip(b).map(|(a, b)| a.total_cmp(b)).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}
