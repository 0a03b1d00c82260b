//! One row of each group of copies, in a sample that is known to have copies.
//!
//! Rows with equal activations are one group, of which a row is kept by chance, so that labels that differ within it, as
//! those of several annotators, stay as frequent as they are. Rows that are nearly equal are grouped among those with the
//! same labels, in the order of their mean activation, which for copies differs by no more than their distance. Of rows
//! that are not distinctive, because most of their values are atoms, copies and others look alike: of these the same share
//! is kept as of the distinctive rows with the same labels, taken evenly from their order, in which exact copies are
//! adjacent.

use std::cmp::Ordering;
use std::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::evidence::Found;
use super::points::Points;

/// Fewer distinctive rows do not tell how often a row is repeated.
const ENOUGH: usize = 8;

/// The rows to keep, ascending.
pub fn distinct(points: &Points, found: &Found) -> Vec<usize> {
    let by_chance = found.exact.then(|| one_of_each(points));
    let mut by_labels: Vec<usize> = (0..points.rows()).collect();
    by_labels.sort_by(|&a, &b| points.labels()[a].cmp(&points.labels()[b]));
    let mut groups: Vec<Group> = by_labels
        .chunk_by(|&a, &b| points.labels()[a] == points.labels()[b])
        .map(|rows| Group::new(points, rows, by_chance.as_deref()))
        .collect();
    let total = |count: fn(&Group) -> usize| groups.iter().map(count).sum::<usize>();
    let share = |distinctive: usize, kept: usize| distinctive as f64 / kept.max(1) as f64;
    let overall = share(total(|group| group.distinctive), total(|group| group.kept.len()));
    let mut kept = Vec::new();
    for group in &mut groups {
        let is_enough = group.distinctive >= ENOUGH;
        let copies = if is_enough { share(group.distinctive, group.kept.len()) } else { overall };
        kept.append(&mut group.kept);
        kept.extend(one_in(copies, &group.alike));
    }
    kept.sort_unstable();
    kept
}

/// A row of each group of equal ones, by chance; the row for each number of activations.
fn one_of_each(points: &Points) -> Vec<usize> {
    let chance = |row: usize| {
        let mut hash = SipHasher13::new();
        hash.write_u64(row as u64);
        hash.finish()
    };
    let mut chosen = points.first().to_vec();
    for row in 0..points.rows() {
        let chosen = &mut chosen[points.vector(row)];
        if chance(row) < chance(*chosen) {
            *chosen = row;
        }
    }
    chosen
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
    /// `chosen`: the row that is kept for each number of activations; `None` where copies are only nearly equal.
    fn new(points: &Points, rows: &[usize], chosen: Option<&[usize]>) -> Self {
        let (distinctive, mut alike): (Vec<usize>, Vec<usize>) =
            rows.iter().partition(|&&row| points.is_distinctive(row));
        alike.sort_by(|&a, &b| compare(points.of(a), points.of(b)).then(a.cmp(&b)));
        let kept = match chosen {
            Some(chosen) => distinctive.iter().copied().filter(|&row| chosen[points.vector(row)] == row).collect(),
            None => leaders(points, &distinctive),
        };
        Self { distinctive: distinctive.len(), kept, alike }
    }
}

/// One row for each group of rows that are copies of it: the first in the order of mean activations.
fn leaders(points: &Points, rows: &[usize]) -> Vec<usize> {
    let mean = |row: usize| points.of(row).iter().map(|&value| f64::from(value)).sum::<f64>() / points.columns() as f64;
    let mut ordered: Vec<(f64, usize)> = rows.iter().map(|&row| (mean(row), row)).collect();
    ordered.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    // Beyond this two means do not belong to copies, whatever the number of columns.
    const FARTHEST: f64 = 0.03;
    let mut leaders: Vec<(f64, usize)> = Vec::new();
    for (mean, row) in ordered {
        let near = leaders.iter().rev().take_while(|(of_leader, _)| mean - of_leader <= FARTHEST);
        if !near.into_iter().any(|&(_, leader)| points.distance(leader, row).is_of_copies()) {
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
