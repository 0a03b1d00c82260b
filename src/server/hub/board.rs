//! The newest points of each split, as the database has them. Every hub builds the same from the same changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::clock::DatabaseClock;
use crate::lock::lock;
use crate::point::Point;
use crate::sample::Attempt;
use crate::score::catalogue::{self, Cost};
use crate::server::curves::{Curves, Shown};
use crate::server::live::Latest;

/// Evaluations of a split whose scores are remembered, to tell late ones from those of a new evaluation.
const REMEMBERED: usize = 256;

/// All curves of runs that are shown as current.
pub struct SharedBoard {
    /// How long the curves of a finished run are listed.
    linger: Duration,
    pub clock: DatabaseClock,
    /// The time at which a run finished is in seconds since 1970-01-01 UTC.
    curves: Curves<f64, Curve>,
    /// Runs of the database whose curves were not read, or are not kept: nobody has sent to them of late.
    aside: Mutex<BTreeSet<String>>,
}

#[derive(Default)]
struct Curve {
    shown: Shown,
    /// The newest attempt, its first step, and the time of the evaluation that began it.
    attempt: Option<(Attempt, u64, f64)>,
    /// For each step, the time of its evaluation and the scores it has.
    known: BTreeMap<u64, (f64, Vec<String>)>,
}

impl AsRef<Shown> for Curve {
    fn as_ref(&self) -> &Shown {
        &self.shown
    }
}

/// How a newly read point relates to the points already shown.
#[derive(Debug, PartialEq)]
pub enum News {
    /// Nothing new.
    None,
    Evaluation,
    /// Scores, by catalogue id, that join an evaluation which is known.
    Late(Vec<String>),
}

impl SharedBoard {
    pub fn new(linger: Duration) -> Self {
        Self { linger, clock: DatabaseClock::default(), curves: Curves::default(), aside: Mutex::default() }
    }

    /// Notes a run; its curves stay.
    pub fn set(&self, run: &Arc<str>, concepts: Arc<[String]>, finished: Option<f64>) {
        let mut runs = self.curves.lock();
        let curves = runs.entry(Arc::clone(run)).or_default();
        (curves.concepts, curves.finished) = (concepts, finished);
    }

    /// Takes a point of a run that is known.
    pub fn take(&self, point: &Point, attempt: Option<Attempt>) -> News {
        let mut runs = self.curves.lock();
        let Some(curves) = runs.get_mut(&point.run) else { return News::None };
        let curve = curves.splits.entry(Arc::clone(&point.split)).or_default();
        if !curve.begin(point, attempt) {
            return News::None;
        }
        curve.shown.filling = point.provisional;
        if point.provisional {
            return News::Evaluation;
        }
        let ids: Vec<String> = point.scores.iter().map(|(id, _)| id.clone()).collect();
        let before = curve.known.insert(point.step, (point.time, ids));
        if curve.known.len() > REMEMBERED {
            curve.known.pop_first();
        }
        let newer = curve.shown.newest.as_ref().is_none_or(|newest| {
            // A run that went back to an earlier step goes on from there.
            point.step >= newest.step || point.time > newest.time
        });
        if newer {
            curve.shown.newest = Some(Arc::new(point.clone()));
        }
        for cost in [Cost::Fast, Cost::Slow] {
            if let Some(late) = scores_of(point, cost)
                && (newer || curve.shown.late.get(&cost).is_none_or(|known| point.step >= known.step))
            {
                curve.shown.late.insert(cost, Arc::new(late));
            }
        }
        match before.filter(|(time, _)| *time == point.time) {
            None => News::Evaluation,
            Some((_, known)) => {
                let late = point.scores.iter().map(|(id, _)| id).filter(|id| !known.contains(id));
                let late: Vec<String> = late.cloned().collect();
                if late.is_empty() { News::None } else { News::Late(late) }
            }
        }
    }

    /// Names of all runs.
    pub fn known(&self) -> Vec<Arc<str>> {
        self.curves.lock().keys().cloned().collect()
    }

    /// Whether the curves of a run are here.
    pub fn knows(&self, run: &str) -> bool {
        self.curves.lock().contains_key(run) && !self.is_aside(run)
    }

    /// Returns the names of runs that finished before `time`.
    pub fn finished_before(&self, time: f64) -> Vec<Arc<str>> {
        let runs = self.curves.lock();
        let over = runs.iter().filter(|(_, curves)| curves.finished.is_some_and(|finished| finished < time));
        over.map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Runs that have not finished.
    pub fn open(&self) -> Vec<Arc<str>> {
        let runs = self.curves.lock();
        runs.iter().filter(|(_, curves)| curves.finished.is_none()).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Whether a stored point belongs to the newest attempt of its split, or precedes it.
    pub fn admits(&self, point: &Point) -> bool {
        let attempt = self.curves.read(&point.run, &point.split, |curve| curve.attempt).flatten();
        attempt.is_none_or(|(_, first_step, since)| point.time >= since || point.step < first_step)
    }

    pub fn forget(&self, run: &str) {
        self.curves.forget(run);
        lock(&self.aside).remove(run);
    }

    /// Forgets the curves of a run, but keeps its name.
    pub fn put_aside(&self, run: &str) {
        self.curves.forget(run);
        lock(&self.aside).insert(run.to_owned());
    }

    pub fn is_aside(&self, run: &str) -> bool {
        lock(&self.aside).contains(run)
    }

    /// The curves of a run that was put aside have been read.
    pub fn was_read(&self, run: &str) {
        lock(&self.aside).remove(run);
    }

    /// The state of all curves, newest point first, without runs that finished more than `linger` ago.
    pub fn latest(&self) -> Vec<Latest> {
        let since = self.clock.now() - self.linger.as_secs_f64();
        self.curves.latest(|finished| *finished >= since)
    }

    /// The highest age, in seconds, of a newest point over the splits of unfinished runs; 0 if there is none.
    pub fn staleness(&self) -> f64 {
        self.curves.staleness(self.clock.now())
    }
}

impl Curve {
    /// Notes the attempt of a point. A newer attempt takes older points at its step or later off the curve. Returns
    /// whether the point is of the newest attempt.
    fn begin(&mut self, point: &Point, attempt: Option<Attempt>) -> bool {
        let Some(attempt) = attempt else { return true };
        match &mut self.attempt {
            Some((known, first_step, since)) if *known == attempt => {
                *first_step = point.step.min(*first_step);
                *since = point.time.min(*since);
            }
            Some((known, ..)) if *known > attempt => return false,
            _ => {
                self.attempt = Some((attempt, point.step, point.time));
                let gone = |known: &Arc<Point>| known.step >= point.step && known.time < point.time;
                self.shown.newest = self.shown.newest.take().filter(|known| !gone(known));
                self.shown.late.retain(|_, known| !gone(known));
            }
        }
        true
    }
}

/// The scores of a point that have this cost, if it has any.
fn scores_of(point: &Point, cost: Cost) -> Option<Point> {
    let wanted = |id: &str| catalogue::find(id).is_some_and(|score| score.cost == cost);
    let scores: Vec<_> = point.scores.iter().filter(|(id, _)| wanted(id)).cloned().collect();
    (!scores.is_empty()).then(|| Point { scores, ..point.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{Outcome, ScoreValue};

    fn point(step: u64, time: f64, scores: &[&str]) -> Point {
        let value = || Outcome::Value(ScoreValue { value: 0.5, ..ScoreValue::default() });
        let scores = scores.iter().map(|id| ((*id).to_owned(), value())).collect();
        Point { run: "r".into(), split: "val".into(), step, time, scores, ..Point::default() }
    }

    fn board() -> SharedBoard {
        let board = SharedBoard::new(Duration::from_secs(300));
        board.set(&"r".into(), Arc::default(), None);
        board
    }

    #[test]
    fn scores_that_join_an_evaluation_are_told_from_a_new_one() {
        let board = board();
        assert_eq!(board.take(&point(1, 10.0, &["ctl"]), None), News::Evaluation);
        assert_eq!(board.take(&point(1, 10.0, &["ctl"]), None), News::None);
        assert_eq!(board.take(&point(2, 20.0, &["ctl"]), None), News::Evaluation);
        let News::Late(late) = board.take(&point(1, 10.0, &["ctl", "ois"]), None) else { panic!() };
        assert_eq!(late, ["ois"]);
        let latest = &board.latest()[0];
        assert_eq!(latest.point.as_ref().map(|point| point.step), Some(2));
        let steps: Vec<u64> = latest.late.iter().map(|point| point.step).collect();
        assert_eq!(steps, [2, 1], "fast and slow");
        // Another evaluation of the same step.
        assert_eq!(board.take(&point(2, 21.0, &["ctl"]), None), News::Evaluation);
    }

    #[test]
    fn what_an_older_attempt_left_at_later_steps_is_not_admitted() {
        let board = board();
        let attempt = |launch| Some(Attempt { launch, restart: 0 });
        for step in 1..=5 {
            board.take(&point(step, step as f64, &["ctl"]), attempt(0));
        }
        board.take(&point(3, 10.0, &["ctl"]), attempt(1));
        assert_eq!(board.latest()[0].point.as_ref().map(|newest| newest.step), Some(3));
        let admitted = |step, time| board.admits(&point(step, time, &[]));
        assert!(admitted(2, 2.0) && admitted(3, 10.0));
        assert!(!admitted(3, 3.0) && !admitted(5, 5.0));
        // A late point of the older attempt changes nothing.
        assert_eq!(board.take(&point(9, 9.0, &["ctl"]), attempt(0)), News::None);
        assert!(!admitted(9, 9.0));
        assert_eq!(board.latest()[0].point.as_ref().map(|newest| newest.step), Some(3));
    }

    #[test]
    fn a_run_that_has_finished_lingers() {
        let board = board();
        board.take(&point(1, 10.0, &["ctl"]), None);
        board.set(&"r".into(), Arc::default(), Some(board.clock.now() - 100.0));
        assert_eq!(board.latest().len(), 1);
        board.set(&"r".into(), Arc::default(), Some(board.clock.now() - 1000.0));
        assert!(board.latest().is_empty());
        assert_eq!(board.finished_before(board.clock.now()).len(), 1);
    }
}
