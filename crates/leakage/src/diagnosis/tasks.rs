//! Several tasks: each is judged by its own scores, and the worst one decides, so that no mean hides a task that leaks.

use crate::point::{Point, of_task};
use crate::run::{Run, Task};
use crate::score::catalogue::find;
use crate::score::reads_task;

use super::findings::{Diagnosis, Line, State};
use super::verdict::{StopAdvised, Verdict, VerdictState, verdict_on};

/// The verdict on finished evaluations, oldest first. `whole`: no earlier ones exist. `None` without any.
pub fn verdict(
    run: &Run,
    points: &[Point],
    whole: bool,
    finished: bool,
    advised: Option<&StopAdvised>,
) -> Option<Verdict> {
    if run.tasks.len() < 2 {
        return verdict_on(run, points, whole, finished, advised);
    }
    let mut verdicts: Vec<(&Task, Verdict)> = Vec::new();
    for (at, task) in run.tasks.iter().enumerate() {
        let own: Vec<Point> = points.iter().map(|point| point.of_task(at, &task.name)).collect();
        let advised = advised.filter(|advised| is_about(advised, run, task));
        verdicts.push((task, verdict_on(run, &own, whole, finished, advised)?));
    }
    let differ = verdicts.windows(2).any(|pair| pair[0].1 != pair[1].1);
    // The first of equals.
    let worst = verdicts.into_iter().reduce(|worst, other| if harm(&other.1) > harm(&worst.1) { other } else { worst });
    worst.map(|(task, found)| {
        let decides = differ && found.deciding.as_ref().is_none_or(|deciding| is_of_task(&deciding.score));
        Verdict { task: decides.then(|| task.name.clone()), ..found }
    })
}

/// Whether the alert is of this task, or of none: that of a task names it first.
fn is_about(advised: &StopAdvised, run: &Run, task: &Task) -> bool {
    let names = |task: &Task| advised.evidence.starts_with(&of_task(&task.name));
    names(task) || !run.tasks.iter().any(names)
}

/// Whether a score, or the first of a difference of two, is one of the task.
fn is_of_task(score: &str) -> bool {
    score.split(' ').next().and_then(find).is_some_and(reads_task)
}

/// How bad a verdict is: its state, then how far the number that decides is beyond its limit.
fn harm(verdict: &Verdict) -> (u8, f64) {
    let state = match verdict.state {
        VerdictState::Leaking => 5,
        VerdictState::PossiblyLeaking => 4,
        VerdictState::CannotTell => 3,
        VerdictState::TooEarly => 2,
        VerdictState::NothingFound => 1,
        VerdictState::Sound => 0,
    };
    let deciding = verdict.deciding.as_ref();
    (state, deciding.and_then(|one| Some(one.value - one.limit?)).unwrap_or(f64::NEG_INFINITY))
}

/// Each line as it is for the task in which the rule finds most, else is unknown, else of the first.
pub fn diagnose(run: &Run, points: &[Point], of_one: impl Fn(&[Point]) -> Option<Diagnosis>) -> Option<Diagnosis> {
    if run.tasks.len() < 2 {
        return of_one(points);
    }
    let of_tasks = run.tasks.iter().enumerate().map(|(at, task)| {
        let own: Vec<Point> = points.iter().map(|point| point.of_task(at, &task.name)).collect();
        of_one(&own)
    });
    let of_tasks: Vec<Diagnosis> = of_tasks.collect::<Option<_>>()?;
    let rank = |line: &Line| match line.state {
        State::Found => 0,
        State::Unknown => 1,
        State::Absent => 2,
    };
    // How far the first number with a limit is beyond it.
    let beyond = |line: &Line| {
        let limited = line.evidence.iter().find_map(|one| Some((one.value - one.limit?).abs()));
        limited.filter(|_| line.state == State::Found).unwrap_or(0.0)
    };
    let line = |at: usize| {
        let lines = || of_tasks.iter().map(|diagnosis| &diagnosis.lines[at]);
        let of_tasks = run.tasks.iter().zip(lines());
        let (task, worst) =
            of_tasks.min_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)).then(beyond(b).total_cmp(&beyond(a))))?;
        let same = lines().all(|line| line == worst);
        let named = of_task(&task.name) + &worst.text;
        let text = match worst.state {
            _ if same => worst.text.clone(),
            State::Absent => format!("in all tasks; {named}"),
            State::Found | State::Unknown => named,
        };
        Some(Line { text, ..worst.clone() })
    };
    let lines = (0..of_tasks[0].lines.len()).filter_map(line).collect();
    Some(Diagnosis { lines, ..of_tasks.into_iter().next()? })
}
