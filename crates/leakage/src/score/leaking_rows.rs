//! The rows that carry conditional concepts-task leakage (`ctl_conditional`), and its shares by class and group.
//!
//! The score is a mean of one term a row: how much likelier the row's activation makes its task label than its concept label
//! alone does, ln p(y | ĉ_i, c_i) / p(y | c_i), as three neighbours estimate it, over H(y). Sums over classes or groups of rows are
//! exact shares of the score. A single term, though, scatters as widely as a strong leak is large. Rows are therefore
//! ordered by a local mean: over the √n rows nearest in ĉ_i among the n rows with the same concept label and task label.
//! Rows that share an activation share its mean.
//!
//! On planted leaks `tests/scores/leaking_rows.rs` states which share of the first rows are leaking ones.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use information::Variable;

use crate::field_error::in_short;
use crate::parallel;
use crate::point::of_task;
use crate::prepare::Prepared;
use crate::tensor::TensorName;

use super::conditional::{OfRows, Terms, concepts_task_terms};
use super::guard::guarded;
use super::left_out::Over;
use super::tasks::with_task;
use super::term::Term;

/// The score that is divided among rows.
pub const SCORE: &str = "ctl_conditional";
/// Most bytes of the rows of several tasks: some 200 tasks of 112 concepts.
const MOST_BYTES: usize = 64 << 20;

/// The rows that contribute most to the score of a concept, or to the mean over concepts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeakingRows {
    /// The score.
    pub value: f64,
    /// Ordered by `local`, the largest first.
    pub rows: Vec<LeakingRow>,
    /// The shares of the classes of the task, which add up to the value; empty for a numeric task.
    pub by_class: Vec<Share>,
    /// The shares of the `groups` of rows, which add up to the value; empty without them.
    pub by_group: Vec<Share>,
}

/// One row, in the score's unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LeakingRow {
    pub id: u64,
    /// The mean of the terms of the rows around it: what it is ordered by.
    pub local: f64,
    /// Its own term. The mean over all rows is the score.
    pub term: f64,
    pub task_label: f64,
    /// The number of its group, where `groups` were logged.
    pub group: Option<i32>,
}

/// The part of the rows of one class or group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The number of the class or group.
    pub label: i32,
    pub rows: u64,
    /// Their part of the score: the sum of their terms over all rows.
    pub share: f64,
    /// The mean of their terms: the leakage among them.
    pub mean: f64,
}

/// The rows that contribute most to the score of each concept and to the mean over them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LeakingRowsOfAll {
    pub mean: LeakingRows,
    /// `None` for concepts without a value.
    pub concepts: Vec<Option<LeakingRows>>,
}

impl LeakingRowsOfAll {
    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        let of = |rows: &LeakingRows| {
            size_of_val(&*rows.rows) + size_of_val(&*rows.by_class) + size_of_val(&*rows.by_group) + size_of_val(rows)
        };
        of(&self.mean) + self.concepts.iter().flatten().map(of).sum::<usize>()
    }

    /// The first `top` rows of each, for a sample with one task whose labels are all known. Errors where the score is
    /// undefined.
    fn of(p: &Prepared, top: usize) -> Result<Self, String> {
        guarded(p, "the rows of ctl_conditional", || Self::found(p, top)).unwrap_or_else(Err)
    }

    fn found(p: &Prepared, top: usize) -> Result<Self, String> {
        /// Concepts whose rows are held at once.
        const TOGETHER: usize = 32;
        let found = concepts_task_terms(p)?;
        let Terms { terms, of_rows } = &*found;
        let whys = terms.iter().map(|term| term.as_ref().err());
        let (weights, over) = Over::concepts(p.concepts(), &p.concept_weights(), whys);
        if let Some(why) = over.undefined {
            return Err(why);
        }
        let task = Task::of(p)?;
        let (mut mean, mut concepts) = (Parts::new(p.rows()), Vec::with_capacity(terms.len()));
        let numbered: Vec<usize> = (0..terms.len()).collect();
        for together in numbered.chunks(TOGETHER) {
            let of_concept = |i: usize| Some(Parts::of(p, i, terms[i].as_ref().ok()?, of_rows[i].as_ref()?));
            let parts: Vec<Option<Parts>> = parallel::map(together.len(), &|at| of_concept(together[at]));
            for (parts, &i) in parts.into_iter().zip(together) {
                parts.iter().for_each(|parts| mean.add(weights[i], parts));
                concepts.push(parts.map(|parts| parts.leading(p, &task, top)));
            }
        }
        Ok(Self { mean: mean.leading(p, &task, top), concepts })
    }
}

/// The rows of each task, or why a task has none.
#[derive(Clone, Debug, PartialEq)]
pub struct LeakingRowsOfTasks {
    /// The tasks that the run names; empty for one without a name.
    names: Vec<String>,
    tasks: Vec<Result<LeakingRowsOfAll, String>>,
}

impl LeakingRowsOfTasks {
    /// The first `top` rows of each concept of each task. Cheap after the score itself where there is a single task, whose
    /// labels are all known.
    pub fn of(p: &Prepared, top: usize) -> Self {
        let mut tasks = Vec::with_capacity(p.run().task_count());
        for task in 0..p.run().task_count() {
            tasks.push(with_task(p, task, |p| LeakingRowsOfAll::of(p, top)));
            keep_within(&mut tasks, MOST_BYTES);
        }
        Self { names: p.run().tasks.iter().map(|task| task.name.clone()).collect(), tasks }
    }

    /// Bytes that it holds.
    pub fn bytes(&self) -> usize {
        bytes(&self.tasks)
    }

    /// The number of a task: by default of the one with the highest score, or of the first where none has a score.
    pub fn task(&self, name: Option<&str>) -> Result<usize, String> {
        match name {
            Some(name) => task_named(&self.names, name),
            None => Ok(by_score(&self.tasks).last().unwrap_or(0)),
        }
    }

    pub fn name(&self, task: usize) -> Option<&str> {
        self.names.get(task).map(String::as_str)
    }

    pub fn rows(&self, task: usize) -> Result<&LeakingRowsOfAll, String> {
        let named = || if self.names.len() > 1 { of_task(&self.names[task]) } else { String::new() };
        self.tasks[task].as_ref().map_err(|why| named() + why)
    }
}

/// The number of the task with this name.
pub fn task_named(names: &[String], name: &str) -> Result<usize, String> {
    let found = names.iter().position(|task| task == name);
    found.ok_or_else(|| match names {
        [] => format!("got '{}', but the only task has no name; leave it out", in_short(name)),
        _ => format!("got '{}', expected one of {}", in_short(name), in_short(&names.join(", "))),
    })
}

fn bytes(tasks: &[Result<LeakingRowsOfAll, String>]) -> usize {
    tasks.iter().flatten().map(LeakingRowsOfAll::bytes).sum()
}

/// The tasks that have a score, in ascending order of it; of equal ones the last comes first.
fn by_score(tasks: &[Result<LeakingRowsOfAll, String>]) -> impl Iterator<Item = usize> {
    let score = |task: usize| tasks[task].as_ref().ok().map(|rows| (task, rows.mean.value));
    let mut scores: Vec<(usize, f64)> = (0..tasks.len()).filter_map(score).collect();
    scores.sort_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)));
    scores.into_iter().map(|(task, _)| task)
}

/// Drops the rows of the tasks that leak least, until those of the others take at most `most` bytes or one is left.
fn keep_within(tasks: &mut [Result<LeakingRowsOfAll, String>], most: usize) {
    let mut held = bytes(tasks);
    let order: Vec<usize> = if held > most { by_score(tasks).collect() } else { Vec::new() };
    for &task in order.iter().take(order.len().saturating_sub(1)) {
        if held > most {
            let why = "its rows are not kept: those of the tasks that leak more take all memory for rows".to_owned();
            held -= std::mem::replace(&mut tasks[task], Err(why)).map_or(0, |rows| rows.bytes());
        }
    }
}

/// y as numbers, and the rows by their classes.
struct Task {
    numbers: Vec<f64>,
    /// The rows of each class, and of each of the `groups`.
    by_class: Members,
    by_group: Members,
    groups: Option<Vec<i32>>,
}

type Members = BTreeMap<i32, Vec<usize>>;

fn members(labels: Option<&[i32]>) -> Members {
    let mut members = Members::new();
    for (row, label) in labels.into_iter().flatten().enumerate() {
        members.entry(*label).or_default().push(row);
    }
    members
}

impl Task {
    fn of(p: &Prepared) -> Result<Self, String> {
        let column = p.column(TensorName::TaskLabels).ok_or("there are no task labels")?;
        let classes = column.integers(0);
        let groups = p.column(TensorName::Groups).and_then(|groups| groups.integers(0));
        let (by_class, by_group) = (members(classes.as_deref()), members(groups.as_deref()));
        Ok(Self { numbers: column.floats(0), by_class, by_group, groups })
    }
}

/// The parts of all rows; 0 for rows that have none.
struct Parts {
    own: Vec<f64>,
    local: Vec<f64>,
}

impl Parts {
    fn new(rows: usize) -> Self {
        Self { own: vec![0.0; rows], local: vec![0.0; rows] }
    }

    fn of(p: &Prepared, i: usize, term: &Term, of_rows: &OfRows) -> Self {
        let kept = of_rows.kept();
        let own = of_rows.parts(term, &kept);
        let mut parts = Self::new(p.rows());
        for (&row, local) in kept.iter().zip(local_means(p, i, &kept, &own)) {
            parts.local[row] = local;
        }
        kept.iter().zip(own).for_each(|(&row, own)| parts.own[row] = own);
        parts
    }

    fn add(&mut self, weight: f64, other: &Self) {
        for (sum, x) in self.own.iter_mut().zip(&other.own).chain(self.local.iter_mut().zip(&other.local)) {
            *sum += weight * x;
        }
    }

    fn leading(&self, p: &Prepared, task: &Task, top: usize) -> LeakingRows {
        let (ids, all) = (p.ids(), self.own.len());
        let before =
            |a: &usize, b: &usize| self.local[*b].total_cmp(&self.local[*a]).then_with(|| ids[*a].cmp(&ids[*b]));
        let mut order: Vec<usize> = (0..all).collect();
        if top < all {
            order.select_nth_unstable_by(top, before);
            order.truncate(top);
        }
        order.sort_unstable_by(before);
        let row = |&row: &usize| LeakingRow {
            id: ids[row],
            local: self.local[row],
            term: self.own[row],
            task_label: task.numbers[row],
            group: task.groups.as_ref().map(|groups| groups[row]),
        };
        let share = |(&label, rows): (&i32, &Vec<usize>)| {
            let sum: f64 = rows.iter().map(|&row| self.own[row]).sum();
            Share { label, rows: rows.len() as u64, share: sum / all as f64, mean: sum / rows.len() as f64 }
        };
        LeakingRows {
            value: self.own.iter().sum::<f64>() / all as f64,
            rows: order.iter().map(row).collect(),
            by_class: task.by_class.iter().map(share).collect(),
            by_group: task.by_group.iter().map(share).collect(),
        }
    }
}

/// The mean of the parts of the rows around each kept row.
fn local_means(p: &Prepared, i: usize, kept: &[usize], own: &[f64]) -> Vec<f64> {
    let Some(activations) = p.activations() else { return own.to_vec() };
    let mut means = vec![0.0; kept.len()];
    p.pause();
    match &activations[i] {
        Variable::Scalar(activation) => {
            let mut place_of = vec![None; p.rows()];
            kept.iter().enumerate().for_each(|(at, &row)| place_of[row] = Some(at));
            let ascending = activation.ascending().iter().filter_map(|&row| place_of[row as usize]).collect();
            let value = |at: usize| activation.values()[kept[at]];
            let mut sums = Vec::with_capacity(kept.len() + 1);
            for_each_group(p, i, kept, ascending, |rows| {
                sum_up(rows, own, &mut sums);
                let (width, mut before) = (width_of(rows.len()), 0);
                for equal in rows.chunk_by(|&a, &b| value(a) == value(b)) {
                    let around = (before..before + equal.len()).map(|at| window_mean(&sums, width, at));
                    let mean = around.sum::<f64>() / equal.len() as f64;
                    equal.iter().for_each(|&at| means[at] = mean);
                    before += equal.len();
                }
            });
        }
        // Terms of counted classes are equal in equal rows.
        Variable::Discrete(_) => means.copy_from_slice(own),
        Variable::Vector(_) => {
            let column = p.column(TensorName::ConceptActivations);
            let block = column.and_then(|column| {
                let block = p.run().activation_blocks(column.width())?.get(i)?.clone();
                Some((column.block(block.clone()), block.len()))
            });
            let Some((values, width)) = block else { return own.to_vec() };
            let value = |at: usize| &values[kept[at] * width..(kept[at] + 1) * width];
            for_each_group(p, i, kept, (0..kept.len()).collect(), |rows| {
                p.pause();
                for &at in rows {
                    means[at] = nearest_mean(rows, own, |other| squared_distance(value(at), value(other)));
                }
            });
        }
    }
    means
}

/// Visits the groups of kept rows with the same labels of task and concept, of which a number has none. The rows of a group
/// stay in their order.
fn for_each_group(p: &Prepared, i: usize, kept: &[usize], mut rows: Vec<usize>, visit: impl FnMut(&[usize])) {
    let labels = [p.task_labels(), p.concept_labels().and_then(|labels| labels.get(i))];
    let classes = labels.map(|label| match label {
        Some(Variable::Discrete(label)) => Some(label.classes()),
        _ => None,
    });
    for classes in classes.into_iter().flatten() {
        rows.sort_by_key(|&at| classes[kept[at]]);
    }
    let group = |at: usize| classes.map(|classes| classes.map(|classes| classes[kept[at]]));
    rows.chunk_by(|&a, &b| group(a) == group(b)).for_each(visit);
}

/// The number of rows of a local mean among n: odd, so that a row is in the middle.
fn width_of(n: usize) -> usize {
    ((n as f64).sqrt().ceil() as usize | 1).min(n)
}

/// Sets `sums` to those of the parts of the first 0, 1, … of `rows`.
fn sum_up(rows: &[usize], own: &[f64], sums: &mut Vec<f64>) {
    sums.clear();
    sums.push(0.0);
    sums.extend(rows.iter().scan(0.0, |sum, &at| {
        *sum += own[at];
        Some(*sum)
    }));
}

/// The mean over the `width` rows around the one at a place, of rows that were [summed up](sum_up); at either end over the
/// first or last rows.
fn window_mean(sums: &[f64], width: usize, at: usize) -> f64 {
    let start = at.saturating_sub(width / 2).min(sums.len() - 1 - width);
    (sums[start + width] - sums[start]) / width as f64
}

/// The mean over the rows at the least distances, and those as near as the last of them.
fn nearest_mean(rows: &[usize], own: &[f64], distance: impl Fn(usize) -> f64) -> f64 {
    let mut distances: Vec<(f64, f64)> = rows.iter().map(|&at| (distance(at), own[at])).collect();
    let last = width_of(rows.len()) - 1;
    let radius = distances.select_nth_unstable_by(last, |a, b| a.0.total_cmp(&b.0)).1.0;
    let near = || distances.iter().filter(|(distance, _)| *distance <= radius).map(|(_, own)| own);
    near().sum::<f64>() / near().count() as f64
}

fn squared_distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_tasks_whose_rows_take_too_much_memory_those_that_leak_most_keep_them() {
        let of = |value: f64| {
            let row = LeakingRow { id: 0, local: value, term: value, task_label: 0.0, group: None };
            Ok(LeakingRowsOfAll {
                mean: LeakingRows { value, rows: vec![row; 3], ..LeakingRows::default() },
                concepts: Vec::new(),
            })
        };
        let all = [of(0.2), of(0.5), Err("one class".to_owned()), of(0.1), of(0.3)];
        let one = bytes(&all[..1]);
        let kept = |most: usize| {
            let mut tasks = all.to_vec();
            keep_within(&mut tasks, most);
            by_score(&tasks).collect::<Vec<_>>()
        };
        assert_eq!(kept(4 * one), [3, 0, 4, 1]);
        assert_eq!(kept(3 * one), [0, 4, 1]);
        assert_eq!(kept(2 * one + 1), [4, 1]);
        assert_eq!(kept(0), [1]);
    }
}
