//! A rule's memory of one run with several tasks: each task is watched by itself where the rule reads a score of the task, and
//! the worst one stands for the rule, so that no mean hides a task that leaks.

use crate::point::{Point, of_task};
use crate::score::catalogue::find;
use crate::score::reads_task;

use super::rule::Rule;
use super::state::State;
use super::watch::{Standing, Watch};

/// One watch, or one for each task.
#[derive(Clone, Debug)]
pub struct Watches {
    each: Vec<Watch>,
    worst: usize,
}

/// A point as the rules see it, and as it is for each of several tasks, with their names.
pub struct SeenPoint<'p> {
    pub point: &'p Point,
    pub of_tasks: Vec<(&'p str, Point)>,
}

impl<'p> SeenPoint<'p> {
    /// `tasks` are the names of several tasks; empty for one.
    pub fn new(point: &'p Point, tasks: &'p [String]) -> Self {
        let of_task = |(at, name): (usize, &'p String)| (name.as_str(), point.of_task(at, name));
        Self { point, of_tasks: tasks.iter().enumerate().map(of_task).collect() }
    }
}

impl Watches {
    pub fn new(rule: &Rule) -> Self {
        Self { each: vec![Watch::new(rule)], worst: 0 }
    }

    pub fn standing(&self) -> &Standing {
        &self.each[self.worst].standing
    }

    pub fn standing_mut(&mut self) -> &mut Standing {
        &mut self.each[self.worst].standing
    }

    /// As [`Watch::observe`].
    pub fn observe(&mut self, rule: &Rule, seen: &SeenPoint, concepts: &[String], doubt: bool) -> bool {
        self.change_each(rule, seen, |watch, point| {
            watch.observe(rule, point, concepts, doubt);
        })
    }

    /// As [`Watch::excuse`].
    pub fn excuse(&mut self, rule: &Rule, seen: &SeenPoint, late: &[&str]) -> bool {
        self.change_each(rule, seen, |watch, point| {
            watch.excuse(rule, point, late);
        })
    }

    /// Changes the watch of each task, or the only one, by the point as it is for that task.
    fn change_each(&mut self, rule: &Rule, seen: &SeenPoint, with: impl Fn(&mut Watch, &Point)) -> bool {
        if seen.of_tasks.is_empty() || !rule.judge.reads().into_iter().filter_map(find).any(reads_task) {
            return self.change(|each| with(&mut each[0], seen.point));
        }
        self.change(|each| {
            each.resize_with(seen.of_tasks.len(), || Watch::new(rule));
            for (watch, (name, point)) in each.iter_mut().zip(&seen.of_tasks) {
                with(watch, point);
                let (evidence, own) = (&mut watch.standing.evidence, of_task(name));
                if !evidence.is_empty() && !evidence.starts_with(&own) {
                    evidence.insert_str(0, &own);
                }
            }
        })
    }

    /// As [`Watch::turn`].
    pub fn turn(&mut self, rule: &Rule, state: State, time: f64, evidence: String) -> bool {
        self.change(|each| {
            each.iter_mut().for_each(|watch| {
                watch.turn(rule, state, time, evidence.clone());
            });
        })
    }

    /// As [`Watch::restart`].
    pub fn restart(&mut self, rule: &Rule, time: f64) -> bool {
        self.change(|each| {
            each.iter_mut().for_each(|watch| {
                watch.restart(rule, time);
            });
        })
    }

    /// Whether the state of the worst changes.
    fn change(&mut self, with: impl FnOnce(&mut Vec<Watch>)) -> bool {
        let before = self.standing().state;
        with(&mut self.each);
        let harm = |at: &usize| {
            let standing = &self.each[*at].standing;
            (standing.advises_stop, standing.state as u8)
        };
        // The first of equals; the task that stands for the rule does so until another is worse.
        let worst = (0..self.each.len()).rev().max_by_key(harm).unwrap_or_default();
        if harm(&worst) > harm(&self.worst) {
            self.worst = worst;
        }
        self.standing().state != before
    }
}
