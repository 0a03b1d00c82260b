//! The runs in memory, by name.
//!
//! Its lock is held for a look-up or a copy of the list, and never while another is taken: readers wait for no one.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leakage::lock::lock;
use leakage::point::Point;
use leakage::run::Run;
use leakage::sample::Now;

use crate::server::alert_log::AlertLog;
use crate::server::clock::unix_time;
use crate::server::live::{AlertsStatus, Latest};
use crate::server::refusal::Refusal;

use super::run::Running;

/// Names of forgotten runs that are remembered, so that a client that goes on is asked to declare its run again.
const MAX_FORGOTTEN: usize = 1 << 16;

pub struct Registry {
    /// How long the curves of a finished run are still listed.
    linger: Duration,
    pub log: Arc<AlertLog>,
    runs: Mutex<BTreeMap<Arc<str>, Arc<Running>>>,
    removed: Mutex<Removed>,
}

#[derive(Default)]
struct Removed {
    /// Names of runs that were removed before they finished.
    forgotten: HashSet<Arc<str>>,
    /// Names of runs that were removed since the last look.
    fresh: Vec<Arc<str>>,
}

/// A declared run.
pub(super) struct Entered {
    pub running: Arc<Running>,
    /// The run of this name before, which was declared differently.
    pub replaced: Option<Arc<Running>>,
}

impl Registry {
    /// Alerts of the runs go to `log`.
    pub fn new(linger: Duration, log: Arc<AlertLog>) -> Self {
        let (runs, removed) = Default::default();
        Self { linger, log, runs, removed }
    }

    pub fn get(&self, name: &str) -> Option<Arc<Running>> {
        lock(&self.runs).get(name).cloned()
    }

    /// As [`get`](Self::get), for a client: a run that was forgotten is to be declared again.
    pub fn find(&self, name: &str) -> Result<Arc<Running>, Refusal> {
        self.get(name).ok_or_else(|| match lock(&self.removed).forgotten.contains(name) {
            true => Refusal::Forgotten(name.to_owned()),
            false => Refusal::unknown("run", name),
        })
    }

    pub fn knows(&self, name: &str) -> bool {
        lock(&self.runs).contains_key(name)
    }

    /// All runs, by name.
    pub fn all(&self) -> Vec<Arc<Running>> {
        lock(&self.runs).values().cloned().collect()
    }

    /// Enters a run, unless the one of its name was declared in the same way.
    pub(super) fn enter(&self, run: Run, now: Now, held: Option<Duration>) -> Entered {
        lock(&self.removed).forgotten.remove(run.name.as_str());
        let mut runs = lock(&self.runs);
        if let Some(running) = runs.get(run.name.as_str()).filter(|running| running.run.is_continued_by(&run)) {
            return Entered { running: Arc::clone(running), replaced: None };
        }
        let running = Arc::new(Running::new(run, now, held, Arc::clone(&self.log)));
        let replaced = runs.insert(Arc::clone(&running.name), Arc::clone(&running));
        Entered { running, replaced }
    }

    /// Removes a run. Returns whether it was still there. If it `is_forgotten`, clients that go on are asked to declare it
    /// again.
    pub(super) fn remove(&self, running: &Arc<Running>, is_forgotten: bool) -> bool {
        let mut runs = lock(&self.runs);
        let is_there = runs.get(&running.name).is_some_and(|known| Arc::ptr_eq(known, running));
        if !is_there {
            return false;
        }
        runs.remove(&running.name);
        drop(runs);
        let mut removed = lock(&self.removed);
        removed.fresh.push(Arc::clone(&running.name));
        if is_forgotten {
            if removed.forgotten.len() >= MAX_FORGOTTEN {
                removed.forgotten.clear();
            }
            removed.forgotten.insert(Arc::clone(&running.name));
        }
        true
    }

    /// Notes that the history has removed a run, which may be in memory no more.
    pub(super) fn note_removed(&self, name: &str) {
        let mut removed = lock(&self.removed);
        removed.forgotten.remove(name);
        removed.fresh.push(name.into());
    }

    /// Names of the runs that were removed since the last call, and not declared again.
    pub fn take_removed(&self) -> Vec<Arc<str>> {
        let mut fresh = std::mem::take(&mut lock(&self.removed).fresh);
        fresh.retain(|name| !self.knows(name));
        fresh
    }

    /// The state of all curves, newest point first, without runs that finished more than `linger` ago.
    pub fn latest(&self) -> Vec<Latest> {
        let of = |run: Arc<Running>| run.board.latest(&run.name, [&run.concepts, &run.tasks], self.linger);
        let mut latest: Vec<Latest> = self.all().into_iter().flat_map(of).collect();
        Latest::newest_first(&mut latest);
        latest
    }

    /// The rules, their state for each run, and recent changes.
    pub fn alerts(&self) -> AlertsStatus {
        self.log.status(self.all().iter().flat_map(|run| run.advice.standings()).collect())
    }

    /// Whether a stored point belongs to the current attempt of its split or precedes it.
    pub fn admits(&self, point: &Point) -> bool {
        self.get(&point.run).is_none_or(|run| run.board.admits(point))
    }

    /// The highest age, in seconds, of a newest point over the splits of unfinished runs; 0 if there is none.
    pub fn staleness(&self) -> f64 {
        let oldest = self.all().iter().map(|run| run.board.oldest()).fold(f64::INFINITY, f64::min);
        (unix_time() - oldest).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::board::Beginning;
    use crate::server::events::{Bounds, Events};
    use crate::server::metrics::Metrics;
    use crate::server::notify::Notifier;
    use leakage::alert::default_rules;
    use leakage::run::{Concept, RunFields};
    use leakage::sample::Attempt;
    use leakage::step::Step;

    #[tokio::test]
    async fn a_removed_run_is_dropped_and_its_files_are_kept_if_it_is_declared_again() {
        let metrics = Metrics::register(&prometheus::Registry::new(), "", 0).unwrap();
        let notifier = Notifier::start(crate::server::NotifyOptions::default(), String::new(), metrics);
        let log = AlertLog::new(default_rules(), Events::new(Bounds::default()), notifier);
        let registry = Registry::new(Duration::ZERO, Arc::new(log));
        let enter = |cardinality| {
            let concepts = vec![Concept { name: "c".into(), cardinality, ..Concept::default() }];
            let run = Run::try_from(RunFields { name: "r".into(), concepts, ..Default::default() }).unwrap();
            registry.enter(run, Now { elapsed: Duration::ZERO, unix: 0.0 }, None)
        };
        let first = enter(2);
        assert!(first.replaced.is_none() && Arc::ptr_eq(&first.running, &enter(2).running));
        let (attempt, first_step) = (Attempt::default(), Step::new(0).unwrap());
        let beginning = Beginning { attempt, since: 0.0, first_step, rolling: false };
        first.running.board.begin(&"val".into(), beginning);
        assert_eq!((registry.latest().len(), registry.all().len()), (1, 1));
        let held = Arc::downgrade(&first.running);
        assert!(registry.remove(&first.running, true) && !registry.remove(&first.running, true));
        drop(first);
        assert!(held.upgrade().is_none() && registry.latest().is_empty());
        assert!(matches!(registry.find("r"), Err(Refusal::Forgotten(_))));
        assert_eq!(registry.take_removed(), [Arc::<str>::from("r")]);
        let again = enter(2).running;
        registry.remove(&again, true);
        let other = enter(3);
        assert!(other.replaced.is_none() && registry.take_removed().is_empty());
        assert!(registry.find("r").is_ok() && !registry.remove(&again, true), "it is of another declaration");
        assert!(enter(2).replaced.is_some_and(|replaced| Arc::ptr_eq(&replaced, &other.running)));
    }
}
