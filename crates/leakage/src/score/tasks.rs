//! Several tasks, and tasks whose labels are not all known: a score of the task is computed for one task at a time, on its
//! columns and the rows in which its label is known, as if there were nothing else. The score of the run is the mean over
//! the tasks.

use std::ops::ControlFlow;

use crate::point::{LeftOut, Outcome, ScoreValue, Significance, Undefined, of_task};
use crate::prepare::{LEAST_KNOWN, Prepared};
use crate::run::Run;
use crate::sample::Sample;

use super::catalogue::{Input, Score};
use super::compute::{compute, test_of};

/// Whether a score reads a tensor of the task.
pub fn reads_task(score: &Score) -> bool {
    score.inputs.iter().any(|input| match input {
        Input::Tensor(name) | Input::Numbers(name) => name.is_of_task(),
        Input::EitherTensor(a, b) => a.is_of_task() || b.is_of_task(),
        Input::ReferenceTaskAccuracy => true,
        Input::HeadWeights | Input::Latents | Input::ConceptParts => false,
    })
}

/// One task of a sample.
struct View {
    sample: Sample,
    run: Run,
    /// Why too few of its labels are known.
    unknown: Option<String>,
}

impl View {
    fn new(p: &Prepared, task: usize) -> Self {
        let (all, sample) = (p.rows(), p.sample().of_task(task, p.run()));
        let known = sample.rows();
        let unknown = (known < all && known < LEAST_KNOWN)
            .then(|| format!("its label is known in {known} of {all} rows, expected at least {LEAST_KNOWN}"));
        Self { sample, run: p.run().of_one_task(task), unknown }
    }
}

/// Calls `with` for one task, on the rows in which its label is known; errors where they are too few.
pub fn with_task<T>(p: &Prepared, task: usize, with: impl FnOnce(&Prepared) -> Result<T, String>) -> Result<T, String> {
    if !p.has_task_views() {
        return with(p);
    }
    let View { sample, run, unknown } = View::new(p, task);
    unknown.map_or(Ok(()), Err)?;
    with(&p.of_task(&sample, &run))
}

/// Calls `with` for each task in turn, so that only one of them is in memory. Remarks of its scores are passed on.
fn each_task<T>(p: &Prepared, mut with: impl FnMut(usize, Result<&Prepared, &str>) -> Option<T>) -> Option<Vec<T>> {
    let mut remarks = Vec::new();
    let mut of_task = |task: usize| {
        let view = View::new(p, task);
        if let Some(why) = &view.unknown {
            remarks.push(Vec::new());
            return with(task, Err(why));
        }
        let of_view = p.of_task(&view.sample, &view.run);
        let found = with(task, Ok(&of_view));
        p.note_peak(of_view.peak() + view.sample.bytes());
        remarks.push(of_view.remarks());
        found
    };
    let found = (0..p.run().task_count()).map(&mut of_task).collect();
    pass_on(p, &remarks);
    found
}

/// A remark on all tasks names none of them.
fn pass_on(p: &Prepared, remarks: &[Vec<String>]) {
    for (task, of_task) in remarks.iter().enumerate() {
        for remark in of_task {
            match remarks.iter().all(|others| others.contains(remark)) {
                true if task == 0 => p.remark(remark.clone()),
                true => {}
                false => p.remark(of_task_named(p.run(), task) + remark),
            }
        }
    }
}

fn of_task_named(run: &Run, task: usize) -> String {
    run.tasks.get(task).map_or(String::new(), |task| of_task(&task.name))
}

/// Evaluates scores of the task; `before_each` as in [`super::evaluate`], with the number of scores computed before.
pub fn evaluate(
    p: &Prepared,
    scores: &[&'static Score],
    mut before_each: impl FnMut(usize, &Score) -> ControlFlow<()>,
) -> Option<Vec<(&'static Score, Outcome)>> {
    let of_tasks = each_task(p, |task, view| match view {
        Ok(view) => {
            let computed = compute(view, scores, |at, score| before_each(task * scores.len() + at, score))?;
            Some(computed.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>())
        }
        Err(why) => Some(vec![Outcome::undefined(why); scores.len()]),
    })?;
    let of_score = |at: usize| mean(p.run(), of_tasks.iter().map(|outcomes| outcomes[at].clone()).collect());
    Some(scores.iter().enumerate().map(|(at, score)| (*score, of_score(at))).collect())
}

/// Tests scores of the task. Of several tasks the p-value is the lowest one times their number.
pub fn test(
    p: &Prepared,
    scores: &[&'static Score],
    mut before_each: impl FnMut(usize, &Score) -> ControlFlow<()>,
) -> Option<Vec<(&'static Score, Significance)>> {
    let of_tasks = each_task(p, |task, view| {
        let mut found = Vec::new();
        for (at, score) in scores.iter().enumerate() {
            if before_each(task * scores.len() + at, score).is_break() {
                return None;
            }
            found.push(view.ok().and_then(|view| test_of(view, score)).unwrap_or_default());
        }
        Some(found)
    })?;
    let of_score = |at: usize| {
        let mut per_task: Vec<Significance> = of_tasks.iter().map(|found| found[at].clone()).collect();
        if p.run().tasks.len() < 2 {
            return per_task.pop().unwrap_or_default();
        }
        let lowest = per_task.iter().filter_map(|found| found.p_value).min_by(f64::total_cmp);
        let p_value = lowest.map(|lowest| (lowest * per_task.len() as f64).min(1.0));
        Significance { p_value, per_task, ..Significance::default() }
    };
    Some(scores.iter().enumerate().map(|(at, score)| (*score, of_score(at))).collect())
}

/// The mean over the tasks that have a value, and its error at most, as tasks share rows.
fn mean(run: &Run, mut of_tasks: Vec<Outcome>) -> Outcome {
    if run.tasks.len() < 2 {
        return of_tasks.pop().expect("a run has a task");
    }
    let per_concept = means(&of_tasks.iter().filter_map(|one| Some(one.per_concept()?.to_vec())).collect::<Vec<_>>());
    let values: Vec<&ScoreValue> = of_tasks.iter().filter_map(Outcome::value).collect();
    let count = values.len() as f64;
    if values.is_empty() {
        let why = format!("{}{}", of_task_named(run, 0), of_tasks[0].why().unwrap_or_default());
        return Outcome::Undefined(Undefined { why, per_concept, per_task: Some(of_tasks), ..Undefined::default() });
    }
    let errors: Option<Vec<f64>> = values.iter().map(|value| value.standard_error).collect();
    let curves: Option<Vec<_>> = values.iter().map(|value| value.curve.as_deref()).collect();
    let left_out = per_concept.as_ref().and_then(|means| left_out(means, &values));
    Outcome::Value(ScoreValue {
        value: values.iter().map(|value| value.value).sum::<f64>() / count,
        standard_error: errors.map(|errors| errors.iter().sum::<f64>() / count),
        curve: curves.and_then(|curves| mean_curve(&curves)),
        per_concept,
        left_out,
        per_task: Some(of_tasks),
        ..ScoreValue::default()
    })
}

/// The mean of each place over the lists that have a number there; `None` without lists.
fn means(lists: &[Vec<Option<f64>>]) -> Option<Vec<Option<f64>>> {
    let length = lists.iter().map(Vec::len).max()?;
    let at = |at: usize| {
        let numbers: Vec<f64> = lists.iter().filter_map(|list| *list.get(at)?).collect();
        (!numbers.is_empty()).then(|| numbers.iter().sum::<f64>() / numbers.len() as f64)
    };
    Some((0..length).map(at).collect())
}

/// `None` where curves are not over the same x.
fn mean_curve(curves: &[&[(f64, Option<f64>)]]) -> Option<Vec<(f64, Option<f64>)>> {
    let x = |curve: &[(f64, Option<f64>)]| curve.iter().map(|(x, _)| *x).collect::<Vec<_>>();
    let first = x(curves.first()?);
    if curves.iter().any(|curve| x(curve) != first) {
        return None;
    }
    let heights: Vec<_> = curves.iter().map(|curve| curve.iter().map(|(_, y)| *y).collect()).collect();
    Some(first.into_iter().zip(means(&heights)?).collect())
}

/// The concepts that have a value for no task.
fn left_out(means: &[Option<f64>], values: &[&ScoreValue]) -> Option<LeftOut> {
    let concepts: Vec<u32> = (0..).zip(means).filter(|(_, mean)| mean.is_none()).map(|(i, _)| i).collect();
    let first = values.iter().find_map(|value| value.left_out.as_ref())?;
    (!concepts.is_empty()).then(|| LeftOut { concepts, pairs: 0, ..first.clone() })
}
