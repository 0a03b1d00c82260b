//! The changes of all alert states: told to watchers, the log and the receivers of alerts, and kept for pages that are opened
//! later.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use leakage::alert::{Rules, State};
use leakage::lock::lock;

use super::events::Events;
use super::live::{AlertChange, AlertsStatus, Event};
use super::notify::Notifier;

/// Past changes that are kept.
const CHANGES: usize = 2000;

pub struct AlertLog {
    pub rules: Rules,
    events: Events,
    notifier: Notifier,
    /// Oldest first.
    changes: Mutex<VecDeque<Arc<AlertChange>>>,
}

impl AlertLog {
    pub fn new(rules: Rules, events: Events, notifier: Notifier) -> Self {
        Self { rules, events, notifier, changes: Mutex::default() }
    }

    /// Tells a change to everybody, and never waits for a recipient. It holds the lock to keep changes in order.
    pub fn tell(&self, change: AlertChange) {
        tracing::info!(
            rule = %change.rule, run = %change.run, state = change.state.name(), evidence = %change.evidence, "alert"
        );
        let change = Arc::new(change);
        let mut changes = lock(&self.changes);
        insert(&mut changes, Arc::clone(&change));
        self.events.send(Event::Alert(Arc::clone(&change)));
        self.notifier.tell(change);
    }

    /// Keeps a change that an earlier process has told.
    pub fn keep(&self, change: AlertChange) {
        insert(&mut lock(&self.changes), Arc::new(change));
    }

    /// Tells receivers of an alert that still fires, because they will be told of its resolution.
    pub fn tell_receivers(&self, firing: AlertChange) {
        self.notifier.tell(Arc::new(firing));
    }

    /// The alerts of a run that have fired at evaluations that it still has, each as when it fired last, by rule.
    pub fn fired(&self, run: &str, still_has: impl Fn(&AlertChange) -> bool) -> Vec<Arc<AlertChange>> {
        let changes = lock(&self.changes);
        let of_run = changes.iter().filter(|change| change.run == run && change.state == State::Firing);
        let of_run = of_run.filter(|change| still_has(change));
        let newest: BTreeMap<_, _> = of_run.map(|change| ((&change.rule, &change.split), change)).collect();
        newest.into_values().cloned().collect()
    }

    /// The rules, where they stand for each run, and the changes.
    pub fn status(&self, standings: Vec<AlertChange>) -> AlertsStatus {
        AlertsStatus {
            rules: self.rules.as_slice().to_vec(),
            standings,
            changes: lock(&self.changes).iter().cloned().collect(),
            last_known: Vec::new(),
        }
    }
}

/// In the order of time, because what is restored is older than what was told since.
fn insert(changes: &mut VecDeque<Arc<AlertChange>>, change: Arc<AlertChange>) {
    let at = changes.partition_point(|kept| kept.since <= change.since);
    changes.insert(at, change);
    if changes.len() > CHANGES {
        changes.pop_front();
    }
}
