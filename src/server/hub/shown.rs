//! The view of a hub: the tables as they were at most a second ago. Nothing is judged but which sidecars are silent.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use crate::VERSION;
use crate::history::{CurveState, HistoryError, Postgres, Store, StoredAlert, Tables};
use crate::server::events::Events;
use crate::server::live::{
    AlertChange, AlertsStatus, CurveVerdict, Event, Latest, Live, RunIdentity, RunStatus, Status, UnwritableStatus,
};
use crate::server::metrics::{Metrics, SERIES_PER_FAMILY};
use leakage::diagnosis::Verdict;
use leakage::lock::lock;
use leakage::point::Point;
use leakage::score::catalogue::{CATALOGUE, CATALOGUE_VERSION, Cost};

/// How old an answer may be.
const FRESH: Duration = Duration::from_secs(1);
/// A sidecar that is silent for this long is lost: it asks every 15 s.
const LOST: f64 = 60.0;
/// Watchers are told of the changes since a view of at most this age.
const TOLD: Duration = Duration::from_secs(10);

/// The tables as a hub shows them.
pub struct Shown {
    pub store: Arc<Postgres>,
    pub events: Events,
    pub metrics: Metrics,
    pub linger: Duration,
    pub started: Instant,
    view: Mutex<(Option<Instant>, Arc<View>)>,
}

/// The tables, read once.
#[derive(Clone, Default)]
struct View {
    curves: BTreeMap<Key, Curve>,
    /// The newest evaluation first.
    latest: Vec<Latest>,
    curves_left_out: u64,
    alerts: AlertsStatus,
    /// The numbers of the changes in `alerts`.
    told: HashSet<i64>,
    runs: HashMap<String, SystemTime>,
    /// Unfinished runs and how long ago their sidecars were heard, in seconds.
    heard: Vec<(String, f64)>,
    staleness: f64,
}

/// Run and split.
type Key = (Arc<str>, Arc<str>);

#[derive(Clone)]
struct Curve {
    changed: SystemTime,
    is_open: bool,
    latest: Latest,
    identity: RunIdentity,
    verdict: Option<Verdict>,
}

impl Shown {
    pub fn new(store: Arc<Postgres>, events: Events, metrics: Metrics, linger: Duration) -> Self {
        Self { store, events, metrics, linger, started: Instant::now(), view: Mutex::default() }
    }

    /// Reads the tables again, unless that was done within a second, and tells those who watch what changed. While the
    /// database cannot be read, the view stays as it was.
    fn current(&self) -> Arc<View> {
        // Locked while reading, so that calls at the same time get the same view.
        let mut view = lock(&self.view);
        let (read, known) = &*view;
        if read.is_some_and(|read| read.elapsed() < FRESH) {
            return Arc::clone(known);
        }
        let is_recent = read.is_some_and(|read| read.elapsed() < TOLD);
        let next = match self.read(known) {
            Ok(next) => Arc::new(next),
            Err(error) => {
                self.metrics.history_errors.inc();
                tracing::warn!(%error, "the database could not be read");
                Arc::clone(known)
            }
        };
        if is_recent && self.events.are_watched() {
            for event in next.changes_since(known) {
                self.events.send(event);
            }
        }
        self.metrics.staleness.set(next.staleness);
        *view = (Some(Instant::now()), Arc::clone(&next));
        next
    }

    /// Tells those who watch what changed. Blocks.
    pub fn tell(&self) {
        if self.events.are_watched() {
            self.current();
        }
    }

    fn read(&self, known: &View) -> Result<View, HistoryError> {
        let tables = self.store.tables(self.linger, SERIES_PER_FAMILY)?;
        let Tables { time, heard, curves_left_out, .. } = tables;
        let curves = self.curves(tables.curves, known)?;
        let open = curves.values().filter(|curve| curve.is_open);
        let newest = open.filter_map(|curve| curve.latest.point.as_ref());
        let staleness = newest.map(|point| time - point.time).fold(0.0, f64::max);
        let mut latest: Vec<Latest> = curves.values().map(|curve| curve.latest.clone()).collect();
        Latest::newest_first(&mut latest);
        let lost: HashSet<&str> = heard.iter().filter(|(_, age)| *age > LOST).map(|(run, _)| run.as_str()).collect();
        let (last_known, standings) =
            tables.alerts.iter().filter_map(alert).partition(|alert| lost.contains(alert.run.as_str()));
        let told = tables.alert_changes.iter().map(|change| change.id).collect();
        let changes = tables.alert_changes.iter().filter_map(alert).map(Arc::new).collect();
        let alerts = AlertsStatus { rules: Vec::new(), standings, changes, last_known };
        let runs = tables.run_changes.into_iter().collect();
        Ok(View { curves, latest, curves_left_out, alerts, told, runs, heard, staleness })
    }

    /// Reads the points of curves that changed.
    fn curves(&self, states: Vec<CurveState>, known: &View) -> Result<BTreeMap<Key, Curve>, HistoryError> {
        let (mut curves, mut changed) = (BTreeMap::new(), Vec::new());
        for state in states {
            let key = (Arc::clone(&state.run), Arc::clone(&state.split));
            match known.curves.get(&key).filter(|curve| curve.changed == state.changed) {
                Some(curve) => drop(curves.insert(key, Curve { is_open: state.is_open, ..curve.clone() })),
                None => changed.push(state),
            }
        }
        let late = CATALOGUE.iter().filter(|score| matches!(score.cost, Cost::Fast | Cost::Slow));
        let late: Vec<&str> = late.map(|score| score.id).collect();
        for states in changed.chunks(AT_ONCE) {
            let keys: Vec<(&str, &str)> = states.iter().map(|state| (&*state.run, &*state.split)).collect();
            let found = self.store.newest_points(&keys, &late)?;
            let mut found: HashMap<Key, (Point, Option<Point>)> =
                found.into_iter().map(|both| ((Arc::clone(&both.0.run), Arc::clone(&both.0.split)), both)).collect();
            let runs: HashSet<&str> = states.iter().map(|state| &*state.run).collect();
            let declared = self.store.listed_of(&runs.into_iter().collect::<Vec<_>>())?;
            type Declared = ([Arc<[String]>; 2], BTreeMap<String, String>);
            let declared: HashMap<String, Declared> = declared
                .into_iter()
                .map(|(stored, _)| {
                    let concepts = stored.run.concepts.iter().map(|concept| concept.name.clone()).collect();
                    let tasks = stored.run.tasks.iter().map(|task| task.name.clone()).collect();
                    (stored.run.name.clone(), ([concepts, tasks], stored.run.labels.clone()))
                })
                .collect();
            for state in states {
                let key = (Arc::clone(&state.run), Arc::clone(&state.split));
                let (point, late) = found.remove(&key).map_or((None, None), |(point, late)| (Some(point), late));
                let ([concepts, tasks], labels) = declared.get(&*state.run).cloned().unwrap_or_default();
                let latest = Latest {
                    run: Arc::clone(&state.run),
                    split: Arc::clone(&state.split),
                    concepts,
                    tasks,
                    point: point.map(Arc::new),
                    late: late.into_iter().map(Arc::new).collect(),
                    rolling: false,
                    filling: state.filling,
                };
                let verdict = state.verdict.as_deref().and_then(|json| serde_json::from_str(json).ok());
                let identity = RunIdentity {
                    run: Arc::clone(&state.run),
                    job: state.job.clone(),
                    host: state.host.clone(),
                    labels,
                };
                curves.insert(key, Curve { changed: state.changed, is_open: state.is_open, latest, identity, verdict });
            }
        }
        Ok(curves)
    }
}

/// Curves whose points are read at once.
const AT_ONCE: usize = 100;

/// The alert under the name that its run has here.
fn alert(stored: &StoredAlert) -> Option<AlertChange> {
    let alert: AlertChange = serde_json::from_str(&stored.body).ok()?;
    Some(AlertChange { run: stored.run.clone(), ..alert })
}

impl View {
    /// The events that lead here from an earlier view.
    fn changes_since(&self, earlier: &Self) -> Vec<Event> {
        let new_runs = self.runs.iter().filter(|(run, changed)| earlier.runs.get(*run) != Some(changed));
        let mut events: Vec<Event> = new_runs.map(|(run, _)| Event::Run(run.as_str().into())).collect();
        let is_news = |point: &Point, key: &Key| {
            let before = earlier.curves.get(key).and_then(|curve| curve.latest.point.as_ref());
            before.is_none_or(|before| (before.time, before.seconds) != (point.time, point.seconds))
        };
        for (key, curve) in &self.curves {
            events.extend(curve.latest.point.iter().filter(|point| is_news(point, key)).cloned().map(Event::Point));
        }
        if self.told != earlier.told {
            let known: HashSet<_> = earlier.alerts.changes.iter().map(|change| identity(change)).collect();
            let new = self.alerts.changes.iter().filter(|change| !known.contains(&identity(change)));
            events.extend(new.cloned().map(Event::Alert));
        }
        events
    }
}

/// Tells changes of alerts apart.
fn identity(change: &AlertChange) -> (&str, &str, &str, u64, &'static str) {
    (&change.run, &change.split, &change.rule, change.since.to_bits(), change.state.name())
}

impl Live for Shown {
    fn runs(&self) -> Vec<RunStatus> {
        let status = |(run, age): &(String, f64)| RunStatus {
            name: run.clone(),
            splits: Vec::new(),
            lost: (*age > LOST).then_some("its sidecar has been silent for more than a minute"),
            heard: None,
        };
        self.current().heard.iter().map(status).collect()
    }

    fn latest(&self) -> Vec<Latest> {
        self.current().latest.clone()
    }

    fn curves_left_out(&self) -> u64 {
        self.current().curves_left_out
    }

    fn push_ages(&self) -> Vec<(String, f64)> {
        self.current().heard.clone()
    }

    fn identities(&self) -> Vec<RunIdentity> {
        let view = self.current();
        let of_runs: BTreeMap<&Arc<str>, &Curve> = view.curves.iter().map(|((run, _), curve)| (run, curve)).collect();
        of_runs.into_values().map(|curve| curve.identity.clone()).collect()
    }

    fn verdicts(&self) -> Option<Vec<CurveVerdict>> {
        let judged =
            |((run, split), curve): (&Key, &Curve)| Some((Arc::clone(run), Arc::clone(split), curve.verdict.clone()?));
        Some(self.current().curves.iter().filter_map(judged).collect())
    }

    fn judges(&self) -> bool {
        false
    }

    fn alerts(&self) -> AlertsStatus {
        self.current().alerts.clone()
    }

    fn status(&self) -> Status {
        Status {
            version: VERSION,
            catalogue_version: CATALOGUE_VERSION,
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            staleness_seconds: self.current().staleness,
            unwritable: UnwritableStatus::of(self.store.waiting()),
            ..Status::default()
        }
    }

    fn ready(&self) -> Result<(), String> {
        match UnwritableStatus::of(self.store.waiting()) {
            Some(UnwritableStatus { reason, why }) => Err(format!("{}: {why}", reason.as_ref())),
            None => Ok(()),
        }
    }
}
