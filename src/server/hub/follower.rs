//! Learns from the database what has changed, whichever hub or worker changed it, and passes it on: to the board, the alert
//! rules and the watchers.
//!
//! Every hub reads the same changes in the same order, so all of them judge alike. A hub that starts later reads what is
//! stored of the runs that it shows, and then follows. It shows runs that jobs may send to, and for a day those that have
//! ended or fallen silent; any other is read when it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::board::{Board, News};
use crate::history::{ChangeCursor, Changed, Heard, HistoryError, Postgres, Store, StoredRun, StoredSplit};
use crate::point::Point;
use crate::sample::Attempt;
use crate::server::advice::Advice;
use crate::server::events::Events;
use crate::server::live::Event;
use crate::server::metrics::{HubMetrics, Metrics};

/// Interval of looking for changes that others made.
const LOOK: Duration = Duration::from_secs(1);
/// Newest evaluations of each split that the rules judge again at the start.
const RESTORED: usize = 200;
/// How long a run keeps its alerts after its end, or without a word of any job.
const KEPT: Duration = Duration::from_secs(86_400);
/// Interval of looking for runs that have fallen silent.
const SWEEP: Duration = Duration::from_secs(10);
/// How long after its newest evaluation the alerts of a run that has finished end. A sidecar finishes a run before the
/// last evaluations of it are scored, and says so in that order.
const QUIET: Duration = Duration::from_secs(10);
/// Runs and changes that are read at once.
const PAGE: usize = 500;
const CHANGES: usize = 1000;
/// Runs that are read between two looks.
const AT_ONCE: usize = 20;
/// Changes are kept for an hour: a follower that could not read for this long reads everything again.
const AWAY: Duration = Duration::from_secs(3000);

/// Where a follower is.
#[derive(Clone, Debug)]
pub struct Place {
    cursor: ChangeCursor,
    /// Runs of the database that were not read, since nobody has sent to them of late.
    unread: BTreeSet<String>,
    /// Those of them that are read in between, the newest last.
    later: Vec<String>,
    /// When it last looked for runs that have fallen silent.
    swept: Instant,
    /// Runs that have finished while it followed and whose evaluations may still come: when they finished, in seconds since
    /// 1970-01-01 UTC, and when they were last heard of.
    ending: BTreeMap<Arc<str>, (f64, Instant)>,
}

/// The recipients of what has changed.
#[derive(Clone)]
pub struct Follower {
    pub store: Arc<Postgres>,
    pub board: Arc<Board>,
    pub advice: Arc<Advice>,
    pub events: Events,
    pub metrics: HubMetrics,
    pub own: Metrics,
    /// This process has changed something.
    pub look: Arc<Notify>,
}

impl Follower {
    /// Reads what is stored of the runs that jobs may send to, and returns from where on to follow. Blocks.
    pub fn begin(&self) -> Result<Place, HistoryError> {
        // What changes while this reads is read again.
        let cursor = self.store.newest_change()?;
        self.board.clock.set(self.store.look(cursor)?.time);
        let (mut open, mut unread, mut later) = (Vec::new(), BTreeSet::new(), Vec::new());
        for (run, heard) in self.store.heard(KEPT)? {
            match heard {
                Heard::Open => open.push(run),
                _ if self.board.knows(&run) => {}
                Heard::Lately => {
                    unread.insert(run.clone());
                    later.push(run);
                }
                Heard::LongAgo => {
                    unread.insert(run);
                }
            }
        }
        for runs in open.chunks(PAGE) {
            let runs: Vec<&str> = runs.iter().map(String::as_str).collect();
            for (stored, splits) in self.store.listed_of(&runs)? {
                self.restore(&stored, &splits)?;
            }
        }
        Ok(Place { cursor, unread, later, swept: Instant::now(), ending: BTreeMap::new() })
    }

    /// Follows until `stop` is cancelled.
    pub async fn run(self, mut place: Place, stop: CancellationToken) {
        let mut read = Instant::now();
        loop {
            // Runs that nobody sends to are read in between, so that no other waits for thousands of them.
            let pause = if place.later.is_empty() { LOOK } else { Duration::from_millis(1) };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.look.notified() => {}
                () = stop.cancelled() => return,
            }
            let (follower, away) = (self.clone(), read.elapsed() > AWAY);
            let mut from = place.clone();
            let look = move || {
                if away {
                    let ending = std::mem::take(&mut from.ending);
                    return follower.begin().map(|place| Place { ending, ..place });
                }
                let looked = follower.store.look(from.cursor)?;
                follower.board.clock.set(looked.time);
                if looked.is_restored {
                    tracing::warn!(
                        "the database was restored, or another has taken its place: reading everything again"
                    );
                    follower.board.known().iter().for_each(|run| follower.forget(run));
                    return follower.begin();
                }
                follower.follow(&mut from)?;
                for _ in 0..AT_ONCE {
                    let Some(run) = from.later.pop() else { break };
                    follower.read_later(&run, &mut from)?;
                }
                Ok(from)
            };
            // Fails only if it panics, and then the next look tries again.
            let Ok(followed) = tokio::task::spawn_blocking(look).await else { continue };
            match followed {
                Ok(to) => (place, read) = (to, Instant::now()),
                Err(error) => {
                    self.own.history_errors.inc();
                    tracing::warn!(%error, "the changes of the database could not be read");
                    tokio::time::sleep(LOOK).await;
                }
            }
            self.own.staleness.set(self.board.staleness());
            self.advice.look(self.board.clock.now());
        }
    }

    /// Passes on what has changed after a place, which moves on. Blocks.
    fn follow(&self, place: &mut Place) -> Result<(), HistoryError> {
        loop {
            let (changes, next) = self.store.changes_after(place.cursor, CHANGES)?;
            // Several changes of a run in a row are one.
            let mut said = BTreeSet::new();
            for change in &changes {
                let pass = change.split.as_deref().zip(change.step);
                match (change.kind, pass) {
                    (Changed::Declared | Changed::Finished | Changed::Remarked, _) => {
                        if said.insert(change.run.as_str()) {
                            self.run_changed(&change.run, place)?;
                        }
                    }
                    (Changed::Removed, _) => {
                        place.ending.remove(&*change.run);
                        place.unread.remove(&change.run);
                        self.forget(&change.run);
                        said.clear();
                    }
                    (Changed::Point, Some((split, step))) => {
                        self.point_changed(&change.run, split, step, place)?;
                        said.clear();
                    }
                    (Changed::Unscored, Some((split, step))) => self.pass_ended(&change.run, split, step)?,
                    (Changed::Point | Changed::Unscored, None) => {}
                }
            }
            self.metrics.changes_followed.inc_by(changes.len() as u64);
            let all = changes.len() < CHANGES;
            place.cursor = next;
            if all {
                break;
            }
        }
        place.ending.retain(|run, (finished, heard)| {
            let quiet = heard.elapsed() > QUIET;
            if quiet {
                self.end(run, *finished);
            }
            !quiet
        });
        for run in self.board.finished_before(self.board.clock.now() - KEPT.as_secs_f64()) {
            self.board.forget(&run);
            self.advice.forget(&run, self.board.clock.now());
            place.unread.insert(run.to_string());
        }
        if place.swept.elapsed() >= SWEEP {
            place.swept = Instant::now();
            let open = self.board.open();
            let open: Vec<&str> = open.iter().map(|run| &**run).collect();
            for run in self.store.silent(&open, KEPT)? {
                self.forget(&run);
                place.unread.insert(run);
            }
        }
        Ok(())
    }

    /// Returns whether the run was not read before, and now is with all its evaluations.
    fn run_changed(&self, name: &str, place: &mut Place) -> Result<bool, HistoryError> {
        let (stored, splits) = match self.store.listed(name) {
            Ok(listed) => listed,
            // Removed since.
            Err(HistoryError::Unknown { .. }) => return Ok(false),
            Err(error) => return Err(error),
        };
        let since = self.board.clock.now() - KEPT.as_secs_f64();
        let is_shown = stored.finished.is_none_or(|finished| finished >= since);
        let is_read = is_shown && place.unread.remove(name);
        if is_read {
            self.restore(&stored, &splits)?;
        }
        let run = self.note(&stored);
        match stored.finished {
            Some(finished) => {
                place.ending.entry(Arc::clone(&run)).or_insert_with(|| (finished, Instant::now()));
            }
            None => {
                place.ending.remove(&run);
            }
        }
        self.events.send(Event::Run(run));
        Ok(is_read)
    }

    /// Tells the board and the rules of a run.
    fn note(&self, stored: &StoredRun) -> Arc<str> {
        let run: Arc<str> = stored.run.name.as_str().into();
        let concepts: Arc<[String]> = stored.run.concepts.iter().map(|concept| concept.name.clone()).collect();
        self.board.set(&run, Arc::clone(&concepts), stored.finished);
        // Also of a run that has finished: its evaluations may come after.
        self.advice.start(&run, concepts, stored.started);
        run
    }

    fn point_changed(&self, run: &str, split: &str, step: u64, place: &mut Place) -> Result<(), HistoryError> {
        let is_read = !self.board.knows(run) && self.run_changed(run, place)?;
        if let Some((_, heard)) = place.ending.get_mut(run) {
            *heard = Instant::now();
        }
        // One that was removed since, or replaced, tells nothing or the newer.
        let Some((point, attempt)) = self.point(run, split, step)? else { return Ok(()) };
        match self.board.take(&point, attempt) {
            // Judged with those before it.
            News::None if is_read => {}
            News::None => return Ok(()),
            News::Evaluation => self.advice.observe(&point),
            News::Late(late) => self.advice.observe_late(&late),
        }
        // Advice that waits for this evaluation is given from here on.
        self.board.settle(run, split, step, attempt);
        if self.events.are_watched() {
            self.events.send(Event::Point(Arc::new(point)));
        }
        Ok(())
    }

    fn pass_ended(&self, run: &str, split: &str, step: u64) -> Result<(), HistoryError> {
        let record = match self.store.unscored_at(run, split, step) {
            Err(HistoryError::Unknown { .. }) => None,
            record => record?,
        };
        if let Some(record) = record {
            self.board.settle(run, split, step, record.attempt);
        }
        Ok(())
    }

    /// A point without matrices.
    fn point(&self, run: &str, split: &str, step: u64) -> Result<Option<(Point, Option<Attempt>)>, HistoryError> {
        let found = match self.store.whole_points(run, split, step, 1, false) {
            Err(HistoryError::Unknown { .. }) => return Ok(None),
            found => found?,
        };
        let whole = found.0.into_iter().next().filter(|whole| whole.point.step == step);
        Ok(whole.map(|whole| (whole.point, whole.attempt)))
    }

    /// Reads a run that nobody sends to, unless it was read, or is gone.
    fn read_later(&self, run: &str, place: &mut Place) -> Result<(), HistoryError> {
        if !place.unread.contains(run) {
            return Ok(());
        }
        match self.store.listed(run) {
            Ok((stored, splits)) => self.restore(&stored, &splits)?,
            Err(HistoryError::Unknown { .. }) => {}
            Err(error) => return Err(error),
        }
        place.unread.remove(run);
        Ok(())
    }

    fn restore(&self, stored: &StoredRun, splits: &[StoredSplit]) -> Result<(), HistoryError> {
        let name = stored.run.name.as_str();
        let run = self.note(&StoredRun { finished: None, ..stored.clone() });
        let judged = self.advice.judged_splits();
        let mut points = Vec::new();
        for split in splits.iter().map(|split| split.split.as_str()) {
            // The rules need what led to now, the board the newest alone.
            let most = if judged.iter().any(|one| one == split) { RESTORED } else { 1 };
            let Some(first) = self.store.newest_steps(name, split, most)?.first().copied() else { continue };
            let mut next = Some(first);
            while let Some(step) = next {
                let (found, further) = self.store.whole_points(name, split, step, RESTORED, false)?;
                for whole in found {
                    self.board.take(&whole.point, whole.attempt);
                    self.board.settle(name, split, whole.point.step, whole.attempt);
                    points.push(whole.point);
                }
                next = further;
            }
        }
        points.retain(|point| self.board.admits(point));
        points.sort_by(|a, b| a.time.total_cmp(&b.time));
        self.advice.restore(&run, &points);
        if let Some(finished) = stored.finished {
            self.note(stored);
            self.end(&run, finished);
        }
        Ok(())
    }

    /// Ends the alerts of a run. What it has fired is kept, and where each rule stands only while it is open: lists of
    /// thousands of runs would hold little else.
    fn end(&self, run: &Arc<str>, finished: f64) {
        self.advice.finish(run, finished);
        self.advice.forget(run, finished);
    }

    fn forget(&self, run: &str) {
        self.board.forget(run);
        self.advice.forget(run, self.board.clock.now());
        self.events.send(Event::Run(run.into()));
    }
}
